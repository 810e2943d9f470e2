"""Snapshots of the metadata image, which keep the metadata log short.

A snapshot is a file in KRaft's format:

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint

    control batch   SNAPSHOT_HEADER   version i16 0, timestamp of the last record i64, tags
    batches         the records of `MetadataImage.records`, with offsets from 1 on
    control batch   SNAPSHOT_FOOTER   version i16 0, tags

It contains the records of the log before the end offset. It is valid only if every batch has a
correct checksum and it ends with the footer. It is written under another name and renamed, so a
crash leaves no partial one. Later damage is found when it is read, and the one before it is used.

`MetadataSnapshots` writes one when it is due:

    begin     a copy of the committed image goes to a worker
    work      the worker writes the file and removes all but the two newest
    written   the log starts at the older of the two from now on: it is rolled, and the segments
              before that are renamed, then removed, on a worker

The two newest snapshots are kept, and the log reaches back to the older one: if the newest is
damaged, a start uses the one before it and loses nothing.

No acknowledgement waits for a snapshot. If the disk fails or is full, `postponed` is called with
the error, and the next snapshot that is due tries again. Owner thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from odradek.controller.image import MetadataImage, ReplayError
from odradek.controller.records import batch_of, records_in
from odradek.log.log import Log
from odradek.log.retention import Deletion, delete_old_segments
from odradek.model.env import Disk, Env
from odradek.model.errors import ProtocolError
from odradek.protocol.control_records import ControlRecordType, marker_key, read_control_record
from odradek.protocol.record_batch import UNREADABLE, batches, is_intact
from odradek.protocol.record_batch_builder import RecordBatchBuilder

NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
RECORDS_PER_BATCH = 2_000
NO_TAGS = b"\x00"
VERSION = b"\x00\x00"


class BadSnapshot(Exception):
    """The snapshot file is damaged."""


class SnapshotId(NamedTuple):
    """A snapshot of the log's records before `end_offset`, the last of which is of `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """Return the snapshots in a directory, oldest first."""
    found = (NAME.fullmatch(name) for name in disk.list(directory))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


def encode(image: MetadataImage, timestamp_ms: int) -> bytes:
    """Return the contents of the file. `timestamp_ms`: of the last record in it."""
    header = VERSION + timestamp_ms.to_bytes(8, "big", signed=True) + NO_TAGS
    parts = [_control(ControlRecordType.SNAPSHOT_HEADER, header, 0, timestamp_ms)]
    offset = 1
    records = image.records()
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        parts.append(batch_of(chunk, timestamp_ms, base_offset=offset, leader_epoch=0))
        offset += len(chunk)
    footer = VERSION + NO_TAGS
    parts.append(_control(ControlRecordType.SNAPSHOT_FOOTER, footer, offset, timestamp_ms))
    return b"".join(parts)


def _control(kind: ControlRecordType, value: bytes, offset: int, timestamp_ms: int) -> bytes:
    builder = RecordBatchBuilder(base_offset=offset, leader_epoch=0, control=True)
    builder.append(marker_key(kind), value, timestamp=timestamp_ms)
    return builder.build()


def decode(data: bytes, cluster_id: str) -> MetadataImage:
    """Return the image in a file. Raises `BadSnapshot`."""
    image = MetadataImage(cluster_id)
    try:
        for record in _records(data):
            image.replay(record)
    except (*UNREADABLE, ProtocolError, ReplayError) as error:
        raise BadSnapshot(str(error)) from error
    return image


def _records(data: bytes) -> Iterator[object]:
    kinds: list[ControlRecordType] = []
    for header in batches(data):
        if not is_intact(data, header):
            raise BadSnapshot(f"the batch at byte {header.position} fails its checksum")
        if header.is_control:
            kinds.append(read_control_record(data, header).type)
            continue
        if kinds != [ControlRecordType.SNAPSHOT_HEADER]:
            raise BadSnapshot(
                f"records at byte {header.position} are not between header and footer"
            )
        yield from records_in(data, header)
    if kinds != [ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER]:
        raise BadSnapshot("it does not begin with a header and end with a footer")


class LoadedSnapshot(NamedTuple):
    """The newest sound snapshot or an empty image, and the problems with newer ones."""

    image: MetadataImage
    id: SnapshotId
    problems: list[str]


def load_newest(disk: Disk, directory: str, cluster_id: str) -> LoadedSnapshot:
    """Load the newest sound snapshot. Raises `OSError` if the disk does."""
    problems: list[str] = []
    for snapshot in reversed(list_snapshots(disk, directory)):
        path = f"{directory}/{snapshot.file_name}"
        try:
            return LoadedSnapshot(decode(disk.read_file(path), cluster_id), snapshot, problems)
        except BadSnapshot as error:
            problems.append(f"{path}: {error}")
    return LoadedSnapshot(MetadataImage(cluster_id), SnapshotId(0, -1), problems)


SNAPSHOTS_KEPT = 2


class MetadataSnapshots:
    """Writes the snapshots of one metadata log, one at a time."""

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
        postponed: Callable[[str, BaseException], None],
    ) -> None:
        """`in_service`: returns True while the log may be changed; `log_rolled`: called when the
        log needs a flush; `postponed`: called with a failed step and its error.
        """
        self._env = env
        self._log = log
        self._epoch = epoch
        self._last = last
        self._max_bytes = max_bytes_between
        self._max_interval_ms = max_interval_ms
        self._in_service = in_service
        self._log_rolled = log_rolled
        self._postpone = postponed
        self._begun_ms = env.clock.monotonic_ms()
        self._bytes_since = log.size
        self._writing = False
        self._removing = False

    @property
    def idle(self) -> bool:
        """True if no work is on a worker."""
        return not (self._writing or self._removing)

    def appended(self, count: int) -> None:
        """Count bytes that were appended to the log."""
        self._bytes_since += count

    def begin_if_due(self, committed: MetadataImage, end_offset: int) -> bool:
        """Begin a snapshot if enough was committed, or enough time has passed, since the last."""
        if self._writing or end_offset == self._last.end_offset:
            return False
        waited_ms = self._env.clock.monotonic_ms() - self._begun_ms
        late = 0 < self._max_interval_ms <= waited_ms
        if not late and self._bytes_since < self._max_bytes:
            return False
        self.begin(committed, end_offset)
        return True

    def begin(self, committed: MetadataImage, end_offset: int) -> None:
        """Write the committed image on a worker, then shorten the log."""
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
            found = list_snapshots(disk, self._log.directory)
            for old in found[:-SNAPSHOTS_KEPT]:
                disk.remove(f"{self._log.directory}/{old.file_name}")
            return found[-SNAPSHOTS_KEPT:]

        def failed(error: BaseException) -> None:
            self._writing = False
            self._bytes_since += covered
            self._postpone("snapshot", error)

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
            self._postpone("roll", error)
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
            self._postpone("removing segments", error)

        self._env.offload.submit(deletion.rename, renamed, failed)
