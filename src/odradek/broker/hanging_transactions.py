"""HangingTransactions: aborts what is open in partitions led here and known to no coordinator.

A transaction may be left open in a partition for ever: a batch of it came after its end, from a
client that takes no part in KIP-890's verification; or its coordinator's state was lost. It would
hold up the readers of committed records, and compaction. Kafka leaves that to its operators
(KIP-664); here the leader looks once in `LOOK_MS`:

    open for longer than transaction.max.timeout.ms and MARGIN_MS
      ─► ask all brokers for the transactions of its producer (ListTransactions), and for the
         partitions of those that are open (DescribeTransactions)
           ─► all have answered, and none has one that is ending, or is open in this partition
                ─► at the next look the same again, and nothing was written meanwhile
                     ─► ABORT marker, and a line in the log

One that is ending counts whatever its partitions are: they go as their markers are written. A
look decides nothing if a broker does not answer, a coordinator is loading or a shard has no
leader. There are two looks, so that a shard which moves between two answers is not missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from odradek.log.producer_state import TransactionMarker
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.log.producer_state import ProducerStateEntry
    from odradek.protocol.api.describe_transactions import (
        DescribedTransaction,
        DescribeTransactionsResponse,
    )
    from odradek.protocol.api.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )
    from odradek.replication.partition import Partition

log = logging.getLogger(__name__)

LOOK_MS = 60_000
MARGIN_MS = 300_000
"""Beyond the longest timeout: as long as `kafka-transactions.sh find-hanging` waits."""
PARTITIONS_AT_ONCE = 1_000
OVERDUE_MAX = 1_000
ANSWER_MS = 10_000


class OverdueTransaction(NamedTuple):
    """A transaction that has been open for too long; equal if nothing was written to it."""

    key: TopicPartition
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int


class KnownTransactions:
    """The answers of the coordinators about the transactions of candidates."""

    def __init__(self) -> None:
        self._producer_ids: dict[str, int] = {}
        self._ending: set[int] = set()
        """The producers with a transaction whose markers are being written, or were just now."""
        self._open: set[tuple[int, TopicPartition]] = set()

    def take_listed(self, response: ListTransactionsResponse) -> None:
        """Take what a broker coordinates."""
        for each in response.transaction_states:
            self._producer_ids[each.transactional_id] = each.producer_id
            if each.transaction_state != "Ongoing":
                self._ending.add(each.producer_id)

    def take_described(self, response: DescribeTransactionsResponse) -> bool:
        """Take the partitions of transactions that were listed as open. False if one is missing."""
        for each in response.transaction_states:
            if each.error_code:
                return False
            producer_id = self._producer_ids[each.transactional_id]
            if each.transaction_state != "Ongoing" or each.producer_id != producer_id:
                self._ending.add(producer_id)
            for topic in each.topics:
                for number in topic.partitions:
                    self._open.add((producer_id, TopicPartition(topic.topic, number)))
        return True

    def will_end(self, found: OverdueTransaction) -> bool:
        """True if a coordinator will end the transaction."""
        return found.producer_id in self._ending or (found.producer_id, found.key) in self._open


class HangingTransactions:
    """Owner thread. `look` is called once in `LOOK_MS`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unknown: set[OverdueTransaction] = set()
        """The overdue transactions that no coordinator knew at the last look."""
        self.aborted = 0

    def look(self) -> None:
        """Begin a look, which goes on in the loop."""
        partitions = iter(list(self._broker.replicas))
        found: list[OverdueTransaction] = []

        def some() -> None:
            piece = list(islice(partitions, PARTITIONS_AT_ONCE))
            for partition in piece:
                found.extend(islice(self._late(partition), OVERDUE_MAX - len(found)))
            if piece and len(found) < OVERDUE_MAX:
                self._broker.env.call_soon(some)
            elif found:
                self._ask(found)
            else:
                self._unknown.clear()

        some()

    def _late(self, partition: Partition) -> Iterator[OverdueTransaction]:
        if partition.availability():
            return
        limit_ms = self._broker.config.transaction_max_timeout_ms + MARGIN_MS
        now_ms = self._broker.clock.monotonic_ms()
        for entry in partition.log.producers.late_transactions(now_ms, limit_ms):
            yield overdue_transaction(partition.topic_partition, entry)

    def _ask(self, found: list[OverdueTransaction]) -> None:
        """Ask all brokers whether they know the transactions."""
        if not self._all_shards_are_led():
            return
        # Imported here: hardly any broker ever needs it.
        from odradek.protocol.api.list_transactions import ListTransactionsRequest

        request = ListTransactionsRequest(
            state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"],
            producer_id_filters=list(dict.fromkeys(each.producer_id for each in found)),
        )
        known = KnownTransactions()
        brokers = [node for node, *_ in self._broker.alive_brokers()]
        missing = len(brokers)

        def complete() -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                self._decide([each for each in found if not known.will_end(each)])

        def listed(node: int, response: ListTransactionsResponse | None) -> None:
            if response is None or response.error_code:
                return  # One answer is missing, so the others do not count.
            known.take_listed(response)
            ongoing = [
                each.transactional_id
                for each in response.transaction_states
                if each.transaction_state == "Ongoing"
            ]
            if ongoing:
                self._describe(node, ongoing, described)
            else:
                complete()

        def described(response: DescribeTransactionsResponse | None) -> None:
            if response is not None and known.take_described(response):
                complete()

        for node in brokers:
            if node == self._broker.node_id:
                self._list_here(request, partial(listed, node))
            elif self._broker.broker_channel is not None:
                self._broker.broker_channel.send(node, request, partial(listed, node), ANSWER_MS)

    def _list_here(
        self,
        request: ListTransactionsRequest,
        answered: Callable[[ListTransactionsResponse], None],
    ) -> None:
        from odradek.coordinator.transaction.listing import TransactionFilter

        selected = TransactionFilter(request, None, self._broker.clock.wall_ms())
        self._broker.transactions.list(selected, answered)

    def _describe(
        self,
        node: int,
        transactional_ids: list[str],
        answered: Callable[[DescribeTransactionsResponse | None], None],
    ) -> None:
        """Ask the broker that has listed them for the partitions of open transactions."""
        from odradek.coordinator.operation import CombinedReply
        from odradek.protocol.api.describe_transactions import (
            DescribeTransactionsRequest,
            DescribeTransactionsResponse,
        )

        broker = self._broker
        if node == broker.node_id:
            combined: CombinedReply[DescribedTransaction] = CombinedReply(
                len(transactional_ids),
                lambda found: answered(DescribeTransactionsResponse(transaction_states=found)),
            )
            for index, transactional_id in enumerate(transactional_ids):
                broker.transactions.describe(transactional_id, combined.respond(index))
        elif broker.broker_channel is not None:
            request = DescribeTransactionsRequest(transactional_ids=transactional_ids)
            broker.broker_channel.send(node, request, answered, ANSWER_MS)

    def _all_shards_are_led(self) -> bool:
        topic = self._broker.image.topic(TRANSACTION_STATE)
        return topic is None or all(each.leader >= 0 for each in topic.partitions.values())

    def _decide(self, unknown: list[OverdueTransaction]) -> None:
        """Abort those that were unknown at the last look too."""
        before, self._unknown = self._unknown, set(unknown)
        for each in unknown:
            if each in before:
                self._abort(each)

    def _abort(self, hanging: OverdueTransaction) -> None:
        broker, key = self._broker, hanging.key
        partition = broker.replicas.by_name.get(key)
        if partition is None or partition.availability():
            return
        entry = partition.log.producers.entry(hanging.producer_id)
        if entry is None or overdue_transaction(key, entry) != hanging:
            return
        # No coordinator has the epoch -1, which an entry without a marker has.
        coordinator_epoch = max(0, entry.coordinator_epoch)
        abort = TransactionMarker(
            hanging.producer_id, entry.producer_epoch, coordinator_epoch, False, 0
        )
        if key.topic == CONSUMER_OFFSETS:
            broker.groups.complete_transaction(
                key.partition, abort, lambda error: self._ended(hanging, error)
            )
            return
        error = broker.replicas.append_marker(partition, abort).error
        if error is ErrorCode.NONE:
            broker.replicas.appended(partition)
        self._ended(hanging, error)

    def _ended(self, hanging: OverdueTransaction, error: ErrorCode) -> None:
        """Count and log an abort. One that was refused is tried again at the next look."""
        if error is not ErrorCode.NONE:
            log.warning(
                "the transaction of producer %d in %s cannot be aborted now: %s",
                hanging.producer_id,
                hanging.key,
                error.name,
            )
            return
        self.aborted += 1
        log.warning(
            "the transaction of producer %d that was open in %s from offset %d on is aborted: it "
            "was open for longer than transaction.max.timeout.ms allows, and no coordinator knows "
            "it",
            hanging.producer_id,
            hanging.key,
            hanging.first_offset,
        )


def overdue_transaction(key: TopicPartition, entry: ProducerStateEntry) -> OverdueTransaction:
    """The open transaction of a producer."""
    return OverdueTransaction(
        key,
        entry.producer_id,
        entry.producer_epoch,
        entry.current_txn_first_offset,
        entry.last_offset,
    )
