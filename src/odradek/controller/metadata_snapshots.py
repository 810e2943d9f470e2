"""Snapshots that keep the metadata log short: when one is due, and what may go once it is written.

    begin     the committed image, copied, goes to a worker
    written   by the worker: the file (see `snapshot`); all but the two newest removed
    shorten   the log starts at the older of the two from now on: it is rolled, and segments before
              that are renamed, then removed, on a worker

The two newest snapshots stay, and the log reaches back to the older of them: if the newest turns
out to be damaged, a start takes the one before and loses nothing.

Nothing here is needed for an acknowledgement. If the disk fails, or has no room, `put_off` is told
why and the next snapshot that is due tries again. Owner thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.controller.image import MetadataImage
from odradek.controller.snapshot import SnapshotId, encode, snapshots
from odradek.log.log import Log
from odradek.log.retention import Deletion, delete_old_segments
from odradek.model.env import Env

SNAPSHOTS_KEPT = 2


class MetadataSnapshots:
    """Of one metadata log. At most one is being written."""

    def __init__(
        self,
        env: Env,
        log: Log,
        epoch: int,
        last: SnapshotId,
        *,
        max_bytes_between: int,
        max_interval_ms: int,
        in_service: Callable[[], bool],
        log_rolled: Callable[[], None],
        put_off: Callable[[str, BaseException], None],
    ) -> None:
        """`in_service`: whether the log may still be changed; `log_rolled`: it wants a flush;
        `put_off`: what did not succeed, and why.
        """
        self._env = env
        self._log = log
        self._epoch = epoch
        self._last = last
        self._max_bytes = max_bytes_between
        self._max_interval_ms = max_interval_ms
        self._in_service = in_service
        self._log_rolled = log_rolled
        self._put_off = put_off
        self._begun_ms = env.clock.monotonic_ms()
        self._bytes_since = log.size
        self._writing = False
        self._removing = False

    @property
    def idle(self) -> bool:
        """Nothing is on a worker."""
        return not (self._writing or self._removing)

    def appended(self, count: int) -> None:
        """The log has grown by this many bytes."""
        self._bytes_since += count

    def begin_if_due(self, committed: MetadataImage, end_offset: int) -> bool:
        """Begin one if enough was committed, or enough time went by, since the last."""
        if self._writing or end_offset == self._last.end_offset:
            return False
        waited_ms = self._env.clock.monotonic_ms() - self._begun_ms
        late = 0 < self._max_interval_ms <= waited_ms
        if not late and self._bytes_since < self._max_bytes:
            return False
        self.begin(committed, end_offset)
        return True

    def begin(self, committed: MetadataImage, end_offset: int) -> None:
        """Write the committed image on a worker; then forget the log before the one before it."""
        assert not self._writing, "one snapshot at a time"
        identity = SnapshotId(end_offset, self._epoch)
        path = f"{self._log.directory}/{identity.file_name}"
        image = committed.copy()
        now_ms = self._env.clock.wall_ms()
        covered = self._bytes_since
        self._writing = True
        self._begun_ms = self._env.clock.monotonic_ms()
        self._bytes_since = 0

        def work() -> list[SnapshotId]:
            disk = self._env.disk
            disk.replace_file(path, encode(image, now_ms))
            found = snapshots(disk, self._log.directory)
            for old in found[:-SNAPSHOTS_KEPT]:
                disk.remove(f"{self._log.directory}/{old.file_name}")
            return found[-SNAPSHOTS_KEPT:]

        def failed(error: BaseException) -> None:
            self._writing = False
            self._bytes_since += covered
            self._put_off("snapshot", error)

        self._env.offload.submit(work, lambda kept: self._written(identity, kept), failed)

    def _written(self, identity: SnapshotId, kept: Sequence[SnapshotId]) -> None:
        self._writing = False
        self._last = identity
        if not self._in_service() or len(kept) < SNAPSHOTS_KEPT:
            return
        self._log.raise_log_start(kept[0].end_offset)
        now_ms = self._env.clock.wall_ms()
        try:
            self._log.roll(now_ms)
        except OSError as error:
            self._put_off("roll", error)
            return
        self._log_rolled()
        deletion = delete_old_segments(self._log, now_ms)
        if deletion is not None:
            self._remove(deletion)

    def _remove(self, deletion: Deletion) -> None:
        self._removing = True

        def renamed(_: None) -> None:
            deletion.close()
            self._env.offload.submit(deletion.remove, removed, failed)

        def removed(_: None) -> None:
            self._removing = False

        def failed(error: BaseException) -> None:
            self._removing = False
            self._put_off("removing segments", error)

        self._env.offload.submit(deletion.rename, renamed, failed)
