"""The aborted transactions of a segment: `<base offset>.txnindex`, in Kafka's format.

34 bytes per transaction, big-endian, in the order of the ABORT markers, which are in the segment:

    offset  size
         0     2  version            0
         2     8  producerId
        10     8  firstOffset        may be in an earlier segment
        18     8  lastOffset         of the marker
        26     8  lastStableOffset   first offset that was undecided after the marker; ascends

A read_committed fetch of the offsets `start..end` must be told the transactions with

    lastOffset >= start  and  firstOffset < end

They begin at the first entry whose marker is at `start` or later. Bisection finds it, first among
samples, which need no unpacking, then among `SAMPLED` entries, however many there are. They end
before the first entry whose last stable offset is at `end` or later: all transactions that begin
before `end` have ended by then. If one transaction stays open for long, many others may lie between
the two that begin after `end`. A tree of the least first offsets leads past those: each node has
the least of `FAN_OUT` nodes below it.

There is a file only if there is an entry. Kafka's format has no room for a checksum, and without an
entry readers would see too much. So there is a file `<base offset>.txnsum`, big-endian:

    offset  size
         0     4  count              of the first entries of the index
         4     4  crc                CRC-32C of these entries

It is replaced as a whole before the recovery point moves, when the index is synced, and removed
before one of these entries is. So it never says more than the index has, and all entries below the
recovery point are under it; what is above is made again from the log. An index of an older version
gets one when the recovery point moves in its segment.

An index that is missing beside its checksum, has another one, or has entries that cannot be
(`is_sound`) is made again from the log when that is opened, see `recovery`. In memory it is like
the other indexes of a segment (`index`), but what `may_overlap` needs stays there when it is
unloaded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from odradek.log.index import SparseIndex
from odradek.log.open_transactions import NO_OFFSET, CompletedTransaction
from odradek.model.env import Disk

VERSION: Final = 0
ENTRY = Struct(">hqqqq")
ENTRY_BYTES: Final = 34
FIRST_OFFSET_AT: Final = 10
LAST_OFFSET_AT: Final = 18
OFFSET = Struct(">q")
SUM = Struct(">II")
FAN_OUT: Final = 16
SAMPLED: Final = 32
"""The last offset of each entry with such a number is a sample."""
NEIGHBOURS: Final = 32
"""So many entries are read one by one before the tree is asked."""


class AbortedTransaction(NamedTuple):
    """An entry of the index; Fetch lists the first two fields."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(SparseIndex):
    """The aborted transactions of one segment."""

    __slots__ = (
        "_levels",
        "_samples",
        "count",
        "crc",
        "is_named",
        "last_offset",
        "least_first_offset",
        "sum_path",
        "summed",
    )

    def __init__(self, disk: Disk, path: str, base_offset: int, sum_path: str) -> None:
        """Make an empty index in memory. `load` replaces it by the contents of the file."""
        super().__init__(disk, path, base_offset, ENTRY)
        self.sum_path = sum_path
        self.summed = 0
        """So many entries are, or are about to be, under the checksum on the disk; 0: there is
        none, -1: unknown."""
        self.is_named = False
        """True if a flush has synced the directory since the file is in it: unlike the others this
        index is not missed when its file is gone."""
        self._levels: list[array[int]] = []
        self._samples: array[int] = array("q")
        self._summarise()

    def _summarise(self) -> None:
        """Take what stays in memory, with the entries in memory."""
        self.count = len(self.entries) // ENTRY_BYTES
        # Copied: the library lets other threads run meanwhile, and they may append to an index.
        self.crc = crc32c(bytes(self.entries))
        self.last_offset = self._offset(self.count - 1, LAST_OFFSET_AT) if self.count else -1
        self.least_first_offset = min(
            (self._offset(slot, FIRST_OFFSET_AT) for slot in range(self.count)), default=NO_OFFSET
        )

    def describe(self, other: TransactionIndex) -> None:
        """Take over what stays in memory from an index with the same entries; load them later."""
        self.count = other.count
        self.crc = other.crc
        self.summed = other.summed
        self.last_offset = other.last_offset
        self.least_first_offset = other.least_first_offset
        self.loaded = False

    def append(self, transaction: CompletedTransaction) -> None:
        """Add an aborted transaction, whose marker is after all others."""
        self.add(
            AbortedTransaction(
                transaction.producer_id,
                transaction.first_offset,
                transaction.last_offset,
                transaction.last_stable_offset,
            )
        )

    def add(self, aborted: AbortedTransaction) -> None:
        """Add an entry at the end."""
        entry = ENTRY.pack(VERSION, *aborted)
        self.entries += entry
        self.crc = crc32c(entry, self.crc)
        first_offset = aborted.first_offset
        self._levels = []  # made again when it is asked
        self.count += 1
        self.last_offset = aborted.last_offset
        if first_offset < self.least_first_offset:
            self.least_first_offset = first_offset

    def load(self) -> bool:
        """Read the file. False if it has a partial entry; without one the index is empty."""
        sound = super().load() or not self._disk.exists(self.path)
        self._levels = []
        self._samples = array("q")
        return sound

    def load_and_summarise(self) -> bool:
        """Read the file. False if it has a partial entry."""
        sound = self.load()
        self._summarise()
        return sound

    def matches_sum(self) -> bool:
        """True if the loaded entries have the checksum on the disk."""
        try:
            count, crc = SUM.unpack(self._disk.read_file(self.sum_path))
        except StructError:
            return False
        self.summed = int(count)
        size = self.summed * ENTRY_BYTES
        return len(self.entries) >= size and crc32c(self.entries[:size]) == crc

    def is_sound(self, next_base: int) -> bool:
        """True if the entries can be those of a segment that ends before `next_base`."""
        before_last, before_stable = self.base_offset - 1, -1
        for version, producer_id, first, last, stable in ENTRY.iter_unpack(self.entries):
            if (
                version != VERSION
                or producer_id < 0
                or not 0 <= first < last
                or not before_last < last < next_base
                or not before_stable <= stable <= last + 1
            ):
                return False
            before_last, before_stable = last, stable
        return True

    def is_as_before(self) -> bool:
        """True if the entries that were loaded fit what stayed in memory."""
        loaded = bytes(self.entries)
        return len(loaded) == self.count * ENTRY_BYTES and self.crc == crc32c(loaded)

    def at(self, slot: int) -> AbortedTransaction:
        """Return an entry."""
        _, producer_id, first, last, stable = ENTRY.unpack_from(self.entries, slot * ENTRY_BYTES)
        return AbortedTransaction(producer_id, first, last, stable)

    def truncate_from(self, offset: int) -> None:
        """Remove the entries whose markers are at or after `offset`."""
        self._keep(self._slot_from(offset))

    def reset(self) -> None:
        """Forget all entries, whatever they are. The files stay as they are."""
        self.entries = bytearray()
        self.written = self.summed = 0
        self.loaded = True
        self._levels = []
        self._samples = array("q")
        self._summarise()

    def replace(self) -> None:
        """Write all entries as a new file, synced, and their checksum. Blocks."""
        self.close()
        self._file = None
        self._disk.replace_file(self.path, bytes(self.entries))
        self.written = len(self.entries)
        self.write_sum()

    def write_sum(self) -> None:
        """Write the checksum of all entries, which are synced. Blocks."""
        self._disk.replace_file(self.sum_path, self.sum())
        self.summed = self.count

    def sum(self) -> bytes:
        """Return the contents of the file with the checksum of all entries."""
        return SUM.pack(self.count, self.crc)

    def _remove_sum(self) -> None:
        if self._disk.exists(self.sum_path):
            self._disk.remove(self.sum_path)
        self.summed = 0

    def _keep(self, count: int) -> None:
        if count < self.count:
            if not 0 <= self.summed <= count:
                self._remove_sum()  # before the entries, or it would say more than the index has
            self._levels = []
            self._samples = array("q")
            self.truncate(count)
            self._summarise()

    def may_overlap(self, start: int, end: int) -> bool:
        """False if no transaction of this index overlaps the offsets `start..end`."""
        return self.last_offset >= start and self.least_first_offset < end

    def collect(self, start: int, end: int, into: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap the offsets `start..end`.

        True if those after this segment overlap none of them.
        """
        count, steps = self.count, 0
        slot = self._slot_from(start)
        while slot < count:
            aborted = self.at(slot)
            if aborted.first_offset < end:
                into.append(aborted)
            if aborted.last_stable_offset >= end:
                return True
            slot += 1
            steps += 1
            if steps > NEIGHBOURS and slot < count:
                following = self._next_that_begins_before(end, slot)
                if following > slot:
                    # Of those in between only the last can tell that all have ended.
                    if self.at(following - 1).last_stable_offset >= end:
                        return True
                    slot = following
        return False

    def _offset(self, slot: int, field: int) -> int:
        offset: int = OFFSET.unpack_from(self.entries, slot * ENTRY_BYTES + field)[0]
        return offset

    def _slot_from(self, offset: int) -> int:
        """The first slot whose marker is at or after `offset`."""
        samples = self._samples
        if len(samples) * SAMPLED < self.count:
            slots = range(len(samples) * SAMPLED, self.count, SAMPLED)
            samples.extend(self._offset(slot, LAST_OFFSET_AT) for slot in slots)
        number = bisect_left(samples, offset)
        least = max(0, number - 1) * SAMPLED
        most = min(number * SAMPLED, self.count)
        slots = range(least, most)
        return least + bisect_left(
            slots, offset, key=lambda slot: self._offset(slot, LAST_OFFSET_AT)
        )

    # The tree of least first offsets

    def _next_that_begins_before(self, offset: int, slot: int) -> int:
        """The first slot from `slot` on whose transaction begins before `offset`, or the count."""
        if not self._levels:
            self._build_levels()
        level = 0
        while True:  # up while nothing is found, then down to the entry
            size = self.count if level == 0 else len(self._levels[level - 1])
            while slot < size and self._least(level, slot) >= offset:
                slot += 1
                if slot % FAN_OUT == 0 and level < len(self._levels):
                    slot //= FAN_OUT
                    level += 1
                    size = len(self._levels[level - 1])
            if slot >= size:
                return self.count
            if level == 0:
                return slot
            slot *= FAN_OUT
            level -= 1

    def _least(self, level: int, slot: int) -> int:
        return self._offset(slot, FIRST_OFFSET_AT) if level == 0 else self._levels[level - 1][slot]

    def _build_levels(self) -> None:
        below = array("q", (self._offset(slot, FIRST_OFFSET_AT) for slot in range(self.count)))
        while len(below) > FAN_OUT:
            below = array(
                "q", (min(below[at : at + FAN_OUT]) for at in range(0, len(below), FAN_OUT))
            )
            self._levels.append(below)
