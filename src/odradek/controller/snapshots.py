"""Snapshots of the metadata image, which keep the metadata log short.

A snapshot is a file in KRaft's format (see `raft.snapshot_files` for its name):

    control batch   SNAPSHOT_HEADER, and the voters if the log has records of them
    batches         the records of `MetadataImage.records`, with the offsets after that
    control batch   SNAPSHOT_FOOTER

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

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from odradek.controller.image import MetadataImage, ReplayError
from odradek.controller.records import batch_of, records_in
from odradek.log.log import Log
from odradek.log.retention import delete_old_segments
from odradek.model.env import Disk, Env
from odradek.model.errors import ProtocolError
from odradek.protocol.quorum_records import (
    KRaftVersionRecord,
    QuorumRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_batch,
    quorum_records_in,
)
from odradek.protocol.record_batch import UNREADABLE, batches, is_intact
from odradek.raft.raft_client import RaftClient
from odradek.raft.raft_records import voters_record
from odradek.raft.replicas import VoterSet
from odradek.raft.snapshot_files import SnapshotId, list_snapshots

RECORDS_PER_BATCH = 2_000


class BadSnapshot(Exception):
    """The snapshot file is damaged."""


def encode(image: MetadataImage, timestamp_ms: int, voters: VoterSet | None = None) -> bytes:
    """Return the contents of the file. `timestamp_ms`: of the last record in it. `voters`: those in
    the log's records, None if there are none.
    """
    head: list[QuorumRecord] = [SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)]
    if voters is not None:
        head += [KRaftVersionRecord(k_raft_version=1), voters_record(voters)]
    parts = [control_batch(head, timestamp_ms)]
    offset = len(head)
    records = image.records()
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        parts.append(batch_of(chunk, timestamp_ms, base_offset=offset, leader_epoch=0))
        offset += len(chunk)
    parts.append(control_batch([SnapshotFooterRecord()], timestamp_ms, base_offset=offset))
    return b"".join(parts)


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
    has_begun = has_ended = False
    for header in batches(data):
        if not is_intact(data, header):
            raise BadSnapshot(f"the batch at byte {header.position} fails its checksum")
        if header.is_control:
            for _, record in quorum_records_in(data, header):
                has_begun = has_begun or isinstance(record, SnapshotHeaderRecord)
                has_ended = has_ended or isinstance(record, SnapshotFooterRecord)
            continue
        if not has_begun or has_ended:
            raise BadSnapshot(
                f"records at byte {header.position} are not between header and footer"
            )
        yield from records_in(data, header)
    if not (has_begun and has_ended):
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
        raft: RaftClient,
        last: SnapshotId,
        *,
        max_bytes_between: int,
        max_interval_ms: int,
        postponed: Callable[[str, BaseException], None],
    ) -> None:
        """`postponed`: called with a failed step and its error."""
        self._env = env
        self._raft = raft
        self._log: Log = raft.log
        self._last = last
        self._max_bytes = max_bytes_between
        self._max_interval_ms = max_interval_ms
        self._postpone = postponed
        self._begun_ms = env.clock.monotonic_ms()
        self._bytes_since = raft.log.size
        self._writing = False
        self._removing = False

    def installed(self, snapshot: SnapshotId) -> None:
        """Go on from a snapshot that was fetched."""
        self._last = snapshot
        self._bytes_since = 0

    @property
    def idle(self) -> bool:
        """True if no work is on a worker."""
        return not (self._writing or self._removing)

    def committed(self, count: int) -> None:
        """Count bytes of the log that were committed."""
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
        state = self._raft.core.log
        identity = SnapshotId(end_offset, state.epoch_before(end_offset))
        voters = self._raft.recorded_voters_at(end_offset)
        path = f"{self._log.directory}/{identity.file_name}"
        image = committed.copy()
        now_ms = self._env.clock.wall_ms()
        covered = self._bytes_since
        self._writing = True
        self._begun_ms = self._env.clock.monotonic_ms()
        self._bytes_since = 0

        def work() -> list[SnapshotId]:
            disk = self._env.disk
            disk.replace_file(path, encode(image, now_ms, voters))
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
        self._last = max(self._last, identity)
        log, oldest = self._log, kept[0].end_offset
        shortens = log.log_start_offset < oldest <= log.high_watermark and not log.truncating
        if self._raft.failure is not None or len(kept) < SNAPSHOTS_KEPT or not shortens:
            return
        self._raft.snapshot_taken(kept[0])
        try:
            log.delete_records(oldest)
            log.roll(self._env.clock.wall_ms())
        except OSError as error:
            self._postpone("roll", error)
            return
        self._raft.flush_soon()
        self._remove_old_segments()

    def _remove_old_segments(self) -> None:
        """Remove the segments below the log start, a removal at a time.

        The new start is durable first: a power loss may bring back a segment, but not the one after
        it, and such a gap is damage above the log start.
        """
        if self._removing:
            return
        deletion = delete_old_segments(self._log, self._env.clock.wall_ms())
        if deletion is None:
            return
        self._removing = True

        def rename() -> None:
            self._log.sync_log_start()
            deletion.rename()

        def renamed(_: None) -> None:
            deletion.close()
            self._env.offload.submit(deletion.remove, removed, failed)

        def removed(_: None) -> None:
            self._removing = False
            self._remove_old_segments()

        def failed(error: BaseException) -> None:
            self._removing = False
            self._postpone("removing segments", error)

        self._env.offload.submit(rename, renamed, failed)
