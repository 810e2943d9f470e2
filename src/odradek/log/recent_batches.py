"""Where the last few hundred batches of a segment are that were appended: followers and consumers
at the tail are served without reading.

Offsets and positions ascend; what lies before the first is not known here. Positions are bytes of
the segment's `.log`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

RECENT_BATCHES: Final = 128
"""Kept at least, of those that were appended; at most twice as many."""


class RecentBatches:
    """Of one segment, which is the active one or was."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing any more."""
        self._offsets = array("q")
        self._positions = array("q")

    def append(self, base_offset: int, position: int) -> None:
        """One more batch, behind all others."""
        offsets = self._offsets
        if len(offsets) >= 2 * RECENT_BATCHES:
            del offsets[:RECENT_BATCHES]
            del self._positions[:RECENT_BATCHES]
        offsets.append(base_offset)
        self._positions.append(position)

    def cut(self, position: int) -> None:
        """The segment now ends there."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]

    def locate(self, offset: int, end: int) -> tuple[int, int, int] | None:
        """(base offset, position, size) of the last batch that begins at or before `offset`, in a
        segment of `end` bytes.
        """
        slot = bisect_right(self._offsets, offset) - 1
        if slot < 0:
            return None
        positions = self._positions
        start = positions[slot]
        stop = positions[slot + 1] if slot + 1 < len(positions) else end
        return self._offsets[slot], start, stop - start

    def start_of(self, offset: int) -> int:
        """Position of the batch that begins with `offset`; -1: none does that is known."""
        offsets = self._offsets
        slot = bisect_left(offsets, offset)
        return self._positions[slot] if slot < len(offsets) and offsets[slot] == offset else -1

    def last_start(self, position: int) -> int:
        """The last start of a batch at or before `position`; -1: none that is known."""
        slot = bisect_right(self._positions, position) - 1
        return self._positions[slot] if slot >= 0 else -1
