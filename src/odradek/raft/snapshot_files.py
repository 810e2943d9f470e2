"""The snapshot files of the metadata log: their names, their voters, and fetched pieces of them.

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint          a snapshot
    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint.part     one that is being fetched

A snapshot begins with a control batch: SNAPSHOT_HEADER, and if the log has recorded voters
KRAFT_VERSION and KRAFT_VOTERS. What else is in it, its reader knows.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple

from odradek.model.env import Disk, File
from odradek.model.errors import ProtocolError
from odradek.protocol.quorum_records import VotersRecord, quorum_records_in
from odradek.protocol.record_batch import UNREADABLE, batches
from odradek.raft.log_state import OffsetAndEpoch
from odradek.raft.raft_records import voter_set
from odradek.raft.replicas import VoterSet

NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
PART_SUFFIX = ".part"


class SnapshotId(NamedTuple):
    """A snapshot of the log's records before `end_offset`, the last of which is of `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    @property
    def end(self) -> OffsetAndEpoch:
        """The same as the quorum's core names it."""
        return OffsetAndEpoch(self.end_offset, self.epoch)


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """Return the snapshots in a directory, oldest first."""
    found = (NAME.fullmatch(name) for name in disk.list(directory))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


def remove_parts(disk: Disk, directory: str) -> None:
    """Remove what a fetch of an earlier process has left."""
    for name in disk.list(directory):
        if name.endswith(f".checkpoint{PART_SUFFIX}"):
            disk.remove(f"{directory}/{name}")


def recorded_voters(data: bytes) -> VoterSet | None:
    """Return the voters in a snapshot, None if it has none or cannot be read."""
    try:
        for header in batches(data):
            if not header.is_control:
                return None
            for _, record in quorum_records_in(data, header):
                if isinstance(record, VotersRecord):
                    return voter_set(record)
    except (*UNREADABLE, ProtocolError):
        return None
    return None


class SnapshotPiece(NamedTuple):
    """Bytes of a snapshot file from a position on, and the size of the whole file."""

    size: int
    data: bytes


def read_piece(path: str, disk: Disk, position: int, count: int) -> SnapshotPiece | None:
    """Read a piece, None if the file is gone. For a worker. Raises `OSError`."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        size = file.size()
        return SnapshotPiece(size, file.read(position, max(0, min(count, size - position))))
    finally:
        file.close()


class FetchedSnapshot:
    """A snapshot that arrives in pieces. Its methods block: for a worker, one at a time."""

    def __init__(self, disk: Disk, directory: str, snapshot: SnapshotId) -> None:
        self.id = snapshot
        self._disk = disk
        self._path = f"{directory}/{snapshot.file_name}"
        self._directory = directory
        self._file: File | None = None

    def write(self, position: int, data: bytes) -> None:
        """Write the next piece; a piece at 0 begins anew."""
        if position == 0:
            self.discard()
            self._file = self._disk.open(self._path + PART_SUFFIX, create=True)
        if self._file is None or self._file.size() != position:
            raise ValueError(f"a piece of {self._path} at {position} does not follow the last one")
        self._file.append([data])

    def complete(self) -> bytes:
        """Make the file durable under its name and return its contents."""
        assert self._file is not None, "no piece was written"
        self._file.sync()
        self._file.close()
        self._file = None
        self._disk.rename(self._path + PART_SUFFIX, self._path)
        self._disk.sync_directory(self._directory)
        return self._disk.read_file(self._path)

    def remove(self) -> None:
        """Remove the complete file, which was found to be damaged."""
        self._disk.remove(self._path)

    def discard(self) -> None:
        """Remove what was written, if anything was."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with suppress(FileNotFoundError):
            self._disk.remove(self._path + PART_SUFFIX)
