"""The transactions of one log that keep its last stable offset down.

The last stable offset (LSO) is the end for read_committed readers: everything before it belongs to
no transaction, or to one whose end is certain. It is the least of

    the high watermark
    the first offset of each open transaction
    the first offset of each transaction that a marker at or above the high watermark has ended

`first_unstable` is the least of the last two, kept as transactions begin and end, so that reading
it costs nothing:

- Transactions begin in the order of their first offsets, so the first one still open has the least.
- They are replicated in the order of their markers. `_deciding` has of `_unreplicated` only those
  whose first offset is below that of every transaction with a later marker: the others decide only
  if those markers are truncated. So first offsets ascend too, and the first one is the least.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

NO_OFFSET: Final = (1 << 63) - 1
"""Above every offset: there is no unstable one."""


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended.

    `last_offset` is the marker's. `last_stable_offset`: the first offset that was undecided then.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int


class OpenTransactions:
    """The open transactions of a log, and those that ended at or above its high watermark."""

    __slots__ = ("_deciding", "_open", "_unreplicated", "first_unstable")

    def __init__(self) -> None:
        self._open: OrderedDict[int, int] = OrderedDict()
        self._unreplicated: deque[tuple[int, int]] = deque()  # (marker's offset, first offset)
        self._deciding: deque[tuple[int, int]] = deque()
        self.first_unstable = NO_OFFSET

    def __len__(self) -> int:
        return len(self._open)

    @property
    def producer_ids(self) -> list[int]:
        """The producers with an open transaction, by its first offset."""
        return list(self._open.values())

    @property
    def first_undecided(self) -> int:
        """The first offset of the open transactions, `NO_OFFSET` if there is none."""
        for first_offset in self._open:
            return first_offset
        return NO_OFFSET

    @property
    def has_unreplicated(self) -> bool:
        """True if a marker at or above the high watermark has ended a transaction."""
        return len(self._unreplicated) > 0

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a transaction; it begins after all others."""
        self._open[first_offset] = producer_id
        if first_offset < self.first_unstable:
            self.first_unstable = first_offset

    def end(self, first_offset: int, marker_offset: int) -> int:
        """End a transaction; return the first offset that is undecided after its marker."""
        del self._open[first_offset]
        self._add_unreplicated(marker_offset, first_offset)
        return min(self.first_undecided, marker_offset + 1)

    def replicated_to(self, high_watermark: int) -> None:
        """Let the transactions go whose markers are below the high watermark."""
        for ended in (self._unreplicated, self._deciding):
            while ended and ended[0][0] < high_watermark:
                ended.popleft()
        self.first_unstable = self.first_undecided
        if self._deciding and self._deciding[0][1] < self.first_unstable:
            self.first_unstable = self._deciding[0][1]

    def truncate_from(self, before: OpenTransactions, offset: int) -> None:
        """Take the ended transactions from the time `before` a truncation to `offset`.

        Those of the log that is left were restored from a snapshot, which does not have them.
        """
        self._unreplicated.clear()
        self._deciding.clear()
        for marker_offset, first_offset in before._unreplicated:
            if marker_offset < offset:
                self._add_unreplicated(marker_offset, first_offset)
        self.replicated_to(0)

    def _add_unreplicated(self, marker_offset: int, first_offset: int) -> None:
        self._unreplicated.append((marker_offset, first_offset))
        deciding = self._deciding
        while deciding and deciding[-1][1] > first_offset:
            deciding.pop()
        deciding.append((marker_offset, first_offset))

    def clear(self) -> None:
        """Forget all transactions."""
        self._open.clear()
        self._unreplicated.clear()
        self._deciding.clear()
        self.first_unstable = NO_OFFSET
