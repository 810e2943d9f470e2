"""The segments of one log, in order; the last one is active.

Inactive segments have their indexes in memory only while they are used: get at them by `loaded` or
`holding`. The first use also checks that the segment ends where the next one begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from odradek.log.index import LoadedIndexes
from odradek.log.segment import Segment
from odradek.log.segment_loading import load


class Segments:
    """At least one segment, by ascending base offset."""

    __slots__ = ("_bases", "_cache", "active", "items")

    def __init__(self, items: list[Segment], cache: LoadedIndexes) -> None:
        self.items = items
        self.active = items[-1]
        self._bases = [segment.base_offset for segment in items]
        self._cache = cache

    def __len__(self) -> int:
        return len(self.items)

    @property
    def first_offset(self) -> int:
        return self._bases[0]

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self.items)

    def end_of(self, number: int) -> int:
        """Base offset of the segment after an inactive one."""
        return self._bases[number + 1]

    def number_of(self, offset: int) -> int:
        """The number of the segment that holds `offset`, or the first."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset`, and those after it."""
        return self.items[self.number_of(offset) :]

    def loaded(self, number: int) -> Segment:
        """A segment whose indexes are in memory. Raises `LogDamaged` if its end is missing."""
        segment = self.items[number]
        if segment is not self.active:
            load(segment, self._cache, self._bases[number + 1])
        return segment

    def each(self) -> Iterator[Segment]:
        """All of them in order, each loaded when it is yielded."""
        for number in range(len(self.items)):
            yield self.loaded(number)

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._cache.loaded(self.active.offset_index)
        self._cache.loaded(self.active.time_index)
        self.items.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def take_first(self, count: int) -> list[Segment]:
        """Remove the first `count`, not the active one."""
        assert count < len(self.items), "the active segment is not for deletion"
        taken = self.items[:count]
        del self.items[:count]
        del self._bases[:count]
        self._forget(taken)
        return taken

    def take_after(self, number: int) -> list[Segment]:
        """Remove those after `number`, which becomes the active one."""
        taken = self.items[number + 1 :]
        del self.items[number + 1 :]
        del self._bases[number + 1 :]
        self.active = self.items[number]
        self._forget([self.active, *taken])
        return taken

    def replace(self, first: int, count: int, segment: Segment) -> None:
        """Have an inactive `segment` in the place of `count` neighbours, all of them inactive."""
        assert first + count < len(self.items), "the active segment is not replaced"
        old = self.items[first : first + count]
        self.items[first : first + count] = [segment]
        self._bases[first : first + count] = [segment.base_offset]
        self._forget(old)

    def _forget(self, segments: list[Segment]) -> None:
        for segment in segments:
            self._cache.forget(segment.offset_index)
            self._cache.forget(segment.time_index)

    def close(self) -> None:
        self._forget(self.items)
        for segment in self.items:
            segment.close()
