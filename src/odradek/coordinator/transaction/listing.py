"""DescribeTransactions and ListTransactions: transactional ids as clients see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.coordinator.transaction.transaction_state import ENDING, STATE_NAMES
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.describe_transactions import DescribedTransaction, TopicData
from odradek.protocol.api.list_transactions import ListedTransaction, ListTransactionsRequest

if TYPE_CHECKING:
    from odradek.coordinator.transaction.id_pattern import IdPattern
    from odradek.coordinator.transaction.transaction_metadata import TransactionMetadata


def describe_error(transactional_id: str, error: ErrorCode) -> DescribedTransaction:
    """The description of an id that carries only an error."""
    return DescribedTransaction(error_code=error, transactional_id=transactional_id)


def describe(
    metadata: TransactionMetadata, left: frozenset[TopicPartition] | None
) -> DescribedTransaction:
    """Describe an id. `left`: the partitions whose markers are not written, while it is ending."""
    partitions = metadata.partitions
    if metadata.state in ENDING and left is not None:
        partitions = left
    topics: dict[str, TopicData] = {}
    for topic, number in sorted(partitions):
        found = topics.setdefault(topic, TopicData(topic=topic, partitions=[]))
        found.partitions.append(number)
    return DescribedTransaction(
        error_code=ErrorCode.NONE,
        transactional_id=metadata.transactional_id,
        transaction_state=metadata.state.text,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=list(topics.values()),
    )


class TransactionFilter:
    """Selects ids by the filters of a request; an empty filter selects all.

    `pattern`: the request's regular expression, which must match whole ids.
    """

    def __init__(
        self, request: ListTransactionsRequest, pattern: IdPattern | None, now_ms: int
    ) -> None:
        names = dict.fromkeys(request.state_filters)
        self.unknown_states = [name for name in names if name not in STATE_NAMES]
        self._states = set(names)
        self._producer_ids = set(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._pattern = pattern
        self._now_ms = now_ms

    def select(self, transactions: Iterable[TransactionMetadata]) -> list[ListedTransaction]:
        """The ids that match."""
        return [
            ListedTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.text,
            )
            for each in transactions
            if self._matches(each)
        ]

    def _matches(self, each: TransactionMetadata) -> bool:
        return (
            (not self._producer_ids or each.producer_id in self._producer_ids)
            and (not self._states or each.state.text in self._states)
            and (self._duration_ms < 0 or self._now_ms - each.start_ms > self._duration_ms)
            and (self._pattern is None or self._pattern.matches(each.transactional_id))
        )
