"""A replica's files on a simulated disk: election state, log, snapshot.

    quorum-state    ElectionState; replaced as a whole, synced before anything after it is done
    log             one line per batch: a CRC, and the batch as JSON
    snapshot        the records before its end, and the voters as of there; replaced as a whole

A start reads the log up to the first line that is torn, cuts the rest off, and writes what it read
again: a kill leaves bytes in the cache that no sync may have reached, and after a failed sync never
will. A log that does not go on from the snapshot was meant to be emptied for it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.model.env import Disk, File
from odradek.raft.effects import ElectionState
from odradek.raft.log_state import LogState, OffsetAndEpoch, RaftBatch
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet

STATE, LOG, SNAPSHOT = "quorum-state", "log", "snapshot"
META = "meta"


def encode_voters(voters: VoterSet) -> list[Any]:
    return [[v.key.id, v.key.directory_id.hex, [list(e) for e in v.endpoints]] for v in voters]


def decode_voters(rows: list[Any]) -> VoterSet:
    return VoterSet(
        Voter(ReplicaKey(i, UUID(hex=d)), tuple(QuorumEndpoint(*e) for e in endpoints))
        for i, d, endpoints in rows
    )


def encode_batch(batch: RaftBatch) -> bytes:
    """Return the line of a batch."""
    voters = None if batch.voters is None else encode_voters(batch.voters)
    row = [batch.base_offset, batch.record_count, batch.epoch, batch.payload, voters]
    text = json.dumps(row).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode_batches(data: bytes) -> tuple[list[RaftBatch], int]:
    """Return the batches before the first torn line, and the bytes that they take."""
    batches: list[RaftBatch] = []
    position = 0
    while (end := data.find(b"\n", position)) >= 0:
        crc, _, text = data[position:end].partition(b" ")
        if crc != b"%08x" % zlib.crc32(text):
            break
        base, count, epoch, payload, voters = json.loads(text)
        if batches and base != batches[-1].end_offset:
            break
        batches.append(
            RaftBatch(
                base, count, epoch, payload, None if voters is None else decode_voters(voters)
            )
        )
        position = end + 1
    return batches, position


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot: the records before `end`, as (offset, epoch, payload), and the voters there."""

    end: OffsetAndEpoch
    voters: VoterSet
    records: tuple[tuple[int, int, object], ...]

    def encode(self) -> bytes:
        row = [list(self.end), encode_voters(self.voters), [list(r) for r in self.records]]
        return json.dumps(row).encode()

    @staticmethod
    def decode(data: bytes) -> SnapshotFile:
        end, voters, records = json.loads(data)
        kept = tuple((offset, epoch, payload) for offset, epoch, payload in records)
        return SnapshotFile(OffsetAndEpoch(*end), decode_voters(voters), kept)


@dataclass(slots=True, eq=False)
class QuorumStorage:
    """The files of one replica, in `directory`. Every method may raise `OSError`."""

    disk: Disk
    directory: str
    first_voters: VoterSet
    torn: Callable[[], None] = lambda: None
    """Called when a start cuts off a torn tail."""
    election: ElectionState = field(default_factory=ElectionState)
    snapshot: SnapshotFile = field(init=False)
    batches: list[RaftBatch] = field(default_factory=list)
    directory_id: UUID = field(init=False)
    _positions: list[int] = field(default_factory=list)
    _file: File = field(init=False)

    def load(self, new_directory_id: UUID) -> LogState:
        """Read everything, and return the state of the log for the core."""
        disk = self.disk
        if not disk.exists(self.directory):
            disk.make_directory(self.directory)
            disk.sync_directory(self.directory.rpartition("/")[0])
        if not disk.exists(self._path(META)):
            disk.replace_file(self._path(META), new_directory_id.hex.encode())
        self.directory_id = UUID(hex=disk.read_file(self._path(META)).decode())
        self.snapshot = SnapshotFile(OffsetAndEpoch(0, 0), self.first_voters, ())
        if disk.exists(self._path(SNAPSHOT)):
            self.snapshot = SnapshotFile.decode(disk.read_file(self._path(SNAPSHOT)))
        if disk.exists(self._path(STATE)):
            epoch, leader, voted, directory = json.loads(disk.read_file(self._path(STATE)))
            key = None if voted is None else ReplicaKey(voted, UUID(hex=directory))
            self.election = ElectionState(epoch, leader, key)
        self._load_log()
        state = LogState(self.snapshot.voters, self.snapshot.end)
        state.load(self.batches)
        return state

    def _load_log(self) -> None:
        data = self.disk.read_file(self._path(LOG)) if self.disk.exists(self._path(LOG)) else b""
        found, size = decode_batches(data)
        if size < len(data):
            self.torn()
        start = self.snapshot.end
        before = [batch for batch in found if batch.end_offset <= start.offset]
        after = found[len(before) :]
        if before and (before[-1].end_offset, before[-1].epoch) != start:
            after = []  # The log differs from the snapshot, or ends before it.
        if after and after[0].base_offset != start.offset:
            after = []
        self.batches = after
        self._write_log()

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _write_log(self) -> None:
        lines = [encode_batch(batch) for batch in self.batches]
        self.disk.replace_file(self._path(LOG), b"".join(lines))
        self._positions = []
        position = 0
        for line in lines:
            self._positions.append(position)
            position += len(line)
        self._file = self.disk.open(self._path(LOG))

    @property
    def end(self) -> int:
        """The log's end offset."""
        return self.batches[-1].end_offset if self.batches else self.snapshot.end.offset

    def save_election(self, state: ElectionState) -> None:
        """Write the election state; it is on disk when this returns."""
        voted = state.voted
        row = [
            state.epoch,
            state.leader_id,
            None if voted is None else voted.id,
            "" if voted is None else voted.directory_id.hex,
        ]
        self.disk.replace_file(self._path(STATE), json.dumps(row).encode())
        self.election = state

    def append(self, batches: Sequence[RaftBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end, f"{batch} after {self.end}"
            self._positions.append(self._file.size())
            self._file.append([encode_batch(batch)])
            self.batches.append(batch)

    def sync_task(self) -> Callable[[], None]:
        """Return what syncs the log as it is now, for a worker."""
        return self._file.sync

    def truncate(self, offset: int) -> None:
        """Remove the batches from `offset` on, durably."""
        keep = [batch for batch in self.batches if batch.end_offset <= offset]
        if len(keep) < len(self.batches):
            self._file.truncate(self._positions[len(keep)])
            self._file.sync()
            del self.batches[len(keep) :], self._positions[len(keep) :]

    def take_snapshot(self, taken: SnapshotFile) -> None:
        """Write a snapshot, and remove the batches before its end."""
        self.disk.replace_file(self._path(SNAPSHOT), taken.encode())
        self.snapshot = taken
        self.batches = [batch for batch in self.batches if batch.base_offset >= taken.end.offset]
        self._write_log()

    def install_snapshot(self) -> None:
        """Empty the log, so that it begins after the snapshot that was fetched."""
        self.batches = []
        self._write_log()

    def save_fetched(self, fetched: SnapshotFile) -> None:
        """Write a snapshot that was fetched; `install_snapshot` makes it the log's start."""
        self.disk.replace_file(self._path(SNAPSHOT), fetched.encode())
        self.snapshot = fetched
