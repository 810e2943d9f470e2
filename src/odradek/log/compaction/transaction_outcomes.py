"""The outcomes of transactions in a pass of compaction: which data is aborted, which markers stay.

The batches of a pass are shown in the order of their offsets (Kafka's CleanedTransactionMetadata):

    data     of an aborted transaction: it can go. Any other transactional batch is committed, as a
             pass ends before the last stable offset
    marker   if the pass has seen a batch of its transaction, it is needed. Else the transaction has
             no records left, and the marker can go when its delete horizon has passed

The aborted transactions come from the indexes of the segments that are compacted (`files`), and
from later ones if they began in these segments (`spanning`). The indexes are read by objects of the
pass, which its worker may use.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from odradek.log.producer_state import marker_of
from odradek.log.transaction_index import AbortedTransaction, TransactionIndex
from odradek.protocol.record_batch import RecordBatchHeader


class AbortedTransactions:
    """The aborted transactions of the segments of a pass."""

    def __init__(
        self, indexes: Sequence[TransactionIndex], spanning: Sequence[AbortedTransaction]
    ) -> None:
        self._indexes = indexes
        self._spanning = spanning

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return those that overlap the offsets `start..end`, by their first offset."""
        found: list[AbortedTransaction] = []
        for index in self._indexes:
            if index.may_overlap(start, end):
                index.collect(start, end, found)
        found.extend(each for each in self._spanning if each.first_offset < end)
        found.sort(key=attrgetter("first_offset"), reverse=True)
        return found


class TransactionOutcomes:
    """The transactions that one reading of the segments has shown so far."""

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._aborted = aborted
        self._entered = False
        self._to_come: list[AbortedTransaction] = []  # the next one is the last
        self._open_aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """Producers of whose open transaction a batch was read."""
        self.kept_aborted: list[AbortedTransaction] = []
        """The aborted transactions whose markers are still needed."""

    def enter(self, start: int, end: int) -> None:
        """Take the transactions that begin in the next segment, which has these offsets."""
        found = self._aborted.between(start, end)
        if self._entered:
            found = [each for each in found if each.first_offset >= start]
        self._entered = True
        self._to_come = found + self._to_come

    def is_aborted(self, header: RecordBatchHeader) -> bool:
        """True if a data batch, the next one, is of an aborted transaction."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        self._seen.add(header.producer_id)
        return header.producer_id in self._open_aborted

    def needs_marker(self, data: bytes, header: RecordBatchHeader) -> bool:
        """True if a control batch, the next one, must stay."""
        if header.producer_id < 0:
            return True
        self._begin_up_to(header.last_offset)
        if header.count == 0:
            return False
        if marker_of(data, header) is None:
            return True
        aborted = self._open_aborted.pop(header.producer_id, None)
        if header.producer_id not in self._seen:
            return False
        self._seen.remove(header.producer_id)
        if aborted is not None:
            self.kept_aborted.append(aborted)
        return True

    def _begin_up_to(self, offset: int) -> None:
        to_come = self._to_come
        while to_come and to_come[-1].first_offset <= offset:
            aborted = to_come.pop()
            self._open_aborted.setdefault(aborted.producer_id, aborted)
