"""Offset index and time index of a segment: sparse, sorted, rebuilt from the log when in doubt.

`<base offset>.index`, 8 bytes per entry, big-endian, ascending:

    offset  size
         0     4  relativeOffset   last offset of an indexed batch, minus the segment's base offset
         4     4  position         start of that batch in the `.log` file

`<base offset>.timeindex`, 12 bytes per entry, ascending in both fields:

    offset  size
         0     8  timestamp        the largest timestamp in the segment so far, ms
         8     4  relativeOffset   last offset of the batch with that timestamp

An entry is added with the first batch that starts more than `index.interval.bytes` after the last
indexed one. The time index gets a last entry when its segment stops being the active one.

In memory an index has the format of its file: a `bytearray` of entries, searched by bisection. The
active segment's entries are appended there and written to the file later (by a checkpoint, a roll
or a close). Only speed depends on the file, so an append neither waits for it nor fails with it,
and there is no mmap. The indexes of older segments are loaded on first use and kept by an
`IndexCache` of bounded size.

Kafka's formats have no room for a checksum. Instead an entry is used only after the batch it points
to was read and has the last offset (and largest timestamp) of the entry: see `segment`.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain, pairwise
from struct import Struct

from odradek.model.env import Disk, File

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
OFFSET_AT = Struct(">i")
TIMESTAMP_AT = Struct(">q")
DEFAULT_LOADED_BYTES = 64 << 20


class IndexCache:
    """Keeps the most recently used indexes of inactive segments in memory, up to a limit."""

    def __init__(self, limit_bytes: int = DEFAULT_LOADED_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._indexes: dict[SparseIndex, int] = {}

    def add(self, index: SparseIndex) -> None:
        """Note that `index` was loaded or used; unload the least recently used above the limit."""
        self.remove(index)
        size = len(index.entries)
        self._indexes[index] = size
        self.bytes += size
        while self.bytes > self.limit_bytes and len(self._indexes) > 1:
            oldest = next(iter(self._indexes))
            self.remove(oldest)
            oldest.unload()

    def remove(self, index: SparseIndex) -> None:
        """Stop counting `index`."""
        self.bytes -= self._indexes.pop(index, 0)


class SparseIndex:
    """The base of both indexes: entries in file format and a file that is opened when needed."""

    __slots__ = ("_disk", "_file", "base_offset", "entries", "entry", "loaded", "path", "written")

    def __init__(self, disk: Disk, path: str, base_offset: int, entry: Struct) -> None:
        """Make an empty index in memory. `load` replaces it by the contents of the file."""
        self._disk = disk
        self._file: File | None = None
        self.path = path
        self.base_offset = base_offset
        self.entry = entry
        self.entries = bytearray()
        self.written = 0
        self.loaded = True

    def __len__(self) -> int:
        return len(self.entries) // self.entry.size

    @property
    def size(self) -> int:
        """Bytes of the index."""
        return len(self.entries) if self.loaded or self._file is None else self._file.size()

    def load(self) -> bool:
        """Read the file. False, with an empty index, if it is missing or has a partial entry."""
        self.entries = bytearray()
        self.written = 0
        self.loaded = False
        data, there = b"", True
        try:
            data = self._disk.read_file(self.path)
        except FileNotFoundError:
            there = False
        self.loaded = True
        if not there or len(data) % self.entry.size != 0:
            return False
        self.entries += data
        self.written = len(data)
        return True

    def is_ascending(self) -> bool:
        """True if every entry is above the one before it, in both fields, and none is below 0."""
        entries = self.entry.iter_unpack(self.entries)
        return all(
            before[0] < after[0] and before[1] < after[1]
            for before, after in pairwise(chain(((-1, -1),), entries))
        )

    def unload(self) -> None:
        """Drop the entries from memory; all of them must be in the file."""
        assert self.written == len(self.entries), self.path
        self.entries = bytearray()
        self.loaded = False

    def discard(self) -> None:
        """Drop the entries from memory, written or not: the next use reads the file."""
        self.entries = bytearray()
        self.written = 0
        self.loaded = False

    def truncate(self, count: int) -> None:
        """Keep only the first `count` entries."""
        del self.entries[count * self.entry.size :]
        if self.written > len(self.entries):
            self.write_out()

    def file(self) -> File:
        """Return the file, created if it does not exist."""
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def needs_file(self) -> bool:
        """True if the index has entries, or a file that may have them."""
        return len(self.entries) > 0 or self._file is not None or self._disk.exists(self.path)

    def write_out(self) -> None:
        """Write the entries in memory to the file. Not synced."""
        file = self.file()
        file.pin()  # recovery does this on a worker
        try:
            self.written = min(self.written, len(self.entries))
            if file.size() > self.written:
                file.truncate(self.written)
            if self.written < len(self.entries):
                file.append([bytes(self.entries[self.written :])])
                self.written = len(self.entries)
        finally:
            file.unpin()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class OffsetIndex(SparseIndex):
    """Maps an offset to the position of a batch at or before it."""

    __slots__ = ()

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset, OFFSET_ENTRY)

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry for the batch at `position` whose last offset is `last_offset`."""
        self.entries += OFFSET_ENTRY.pack(last_offset - self.base_offset, position)

    def at(self, slot: int) -> tuple[int, int]:
        """Return an entry: (last offset of the batch, its position)."""
        relative, position = OFFSET_ENTRY.unpack_from(self.entries, slot * 8)
        return self.base_offset + relative, position

    def lookup(self, offset: int) -> int:
        """Slot of the last entry whose batch ends at or before `offset`, or -1."""
        entries, read = self.entries, OFFSET_AT.unpack_from
        slots = range(len(entries) // 8)
        relative = offset - self.base_offset
        return bisect_right(slots, relative, key=lambda slot: read(entries, slot * 8)[0]) - 1

    def slot_at(self, position: int) -> int:
        """Slot of the last entry whose batch starts at or before `position`, or -1."""
        entries, read = self.entries, OFFSET_AT.unpack_from
        slots = range(len(entries) // 8)
        return bisect_right(slots, position, key=lambda slot: read(entries, slot * 8 + 4)[0]) - 1

    def floor(self, position: int) -> int:
        """Position of the last indexed batch that starts at or before `position`, or 0."""
        slot = self.slot_at(position)
        return self.at(slot)[1] if slot >= 0 else 0

    def truncate_from(self, position: int) -> None:
        """Remove the entries of batches that start at or after `position`."""
        entries, read = self.entries, OFFSET_AT.unpack_from
        slots = range(len(entries) // 8)
        self.truncate(
            bisect_right(slots, position - 1, key=lambda slot: read(entries, slot * 8 + 4)[0])
        )


class TimeIndex(SparseIndex):
    """Maps a timestamp to an offset at or before the first record that is as late."""

    __slots__ = ()

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset, TIME_ENTRY)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry for the largest timestamp so far, if it is later than the last entry's."""
        if timestamp >= 0 and timestamp > self.last()[0]:
            self.entries += TIME_ENTRY.pack(timestamp, offset - self.base_offset)

    def at(self, slot: int) -> tuple[int, int]:
        """Return an entry: (timestamp, offset)."""
        timestamp, relative = TIME_ENTRY.unpack_from(self.entries, slot * 12)
        return timestamp, self.base_offset + relative

    def last(self) -> tuple[int, int]:
        """Return the last entry: (timestamp, offset); (-1, base offset) if there is none."""
        size = len(self.entries)
        return self.at(size // 12 - 1) if size else (-1, self.base_offset)

    def read_last(self) -> tuple[int, int]:
        """Read the last entry from the end of a file that is not loaded; (-1, base offset) if there
        is none.
        """
        if not self._disk.exists(self.path):
            return -1, self.base_offset
        file = self.file()
        if file.size() < 12:
            return -1, self.base_offset
        timestamp, relative = TIME_ENTRY.unpack(file.read(file.size() // 12 * 12 - 12, 12))
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> int:
        """Slot of the last entry that is earlier than `timestamp`, or -1."""
        entries, read = self.entries, TIMESTAMP_AT.unpack_from
        slots = range(len(entries) // 12)
        return bisect_right(slots, timestamp - 1, key=lambda slot: read(entries, slot * 12)[0]) - 1

    def slot_before(self, offset: int) -> int:
        """Slot of the last entry of an offset below `offset`, or -1."""
        entries, read = self.entries, OFFSET_AT.unpack_from
        slots = range(len(entries) // 12)
        relative = offset - self.base_offset - 1
        return bisect_right(slots, relative, key=lambda slot: read(entries, slot * 12 + 8)[0]) - 1

    def truncate_from(self, offset: int) -> None:
        """Remove the entries of offsets at or after `offset`."""
        self.truncate(self.slot_before(offset) + 1)
