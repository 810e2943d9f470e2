"""HeldUpWatch: tells the application whose open transaction its reading waits for.

Committed records are read up to the first offset of the oldest transaction that is still open. A
consumer that waits there for `HELD_UP_MS` logs one warning for each such transaction: whose it is
(DescribeProducers of the partition's leader, ListTransactions of all brokers), and what to do. The
requests change nothing. If a broker does not know them, the warning has no name.

`Fetcher` calls `look` after answers, of which there is one every `fetch.max.wait.ms`, so nothing
wakes for this. Runs on the engine's thread.
"""

from __future__ import annotations

import logging

from odradek.client.consumer.position.subscription_state import PartitionState, SubscriptionState
from odradek.client.engine import Engine
from odradek.client.errors import KafkaError, error_for
from odradek.client.waiter import gather, spawn
from odradek.model.topics import TopicPartition
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from odradek.protocol.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

log = logging.getLogger(__name__)

HELD_UP_MS = 10_000
"""How long a consumer waits for one transaction before it says so."""
LOOK_MS = 1_000
"""The least time between two looks."""


class HeldUpWatch:
    """The partitions of one consumer that wait for an open transaction."""

    def __init__(self, engine: Engine, subscriptions: SubscriptionState) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._since: dict[TopicPartition, tuple[int, int]] = {}
        """The last stable offset that a partition waits at, and since when."""
        self._told: dict[TopicPartition, int] = {}
        """The last stable offset of the last warning."""
        self._next_look_ms = 0

    def look(self) -> None:
        """Look for partitions that wait, if the last look was a while ago."""
        now_ms = self._engine.now_ms
        if now_ms < self._next_look_ms:
            return
        self._next_look_ms = now_ms + LOOK_MS
        since: dict[TopicPartition, tuple[int, int]] = {}
        for state in self._subscriptions.states:
            stable = stable_offset_waited_at(state)
            if stable is None:
                continue
            partition = state.topic_partition
            before = self._since.get(partition)
            began_ms = before[1] if before is not None and before[0] == stable else now_ms
            since[partition] = stable, began_ms
            if now_ms - began_ms >= HELD_UP_MS and self._told.get(partition) != stable:
                self._told[partition] = stable
                spawn(self._tell(partition, state.leader.node_id, stable))
        self._since = since

    async def _tell(self, partition: TopicPartition, leader: int, stable: int) -> None:
        """Log whose transaction it is."""
        try:
            whose = await self._whose(partition, leader)
        except KafkaError as error:
            whose = f"a transaction (of whom, the brokers did not say: {error})"
        log.warning(
            "reading %s has waited at offset %d for %d s for %s. What to do: have it committed or "
            "aborted; its coordinator does so after its transaction.timeout.ms. To read what may "
            "be aborted later, set isolation.level=read_uncommitted",
            partition,
            stable,
            HELD_UP_MS // 1000,
            whose,
        )

    async def _whose(self, partition: TopicPartition, leader: int) -> str:
        producer = await self._oldest_open(partition, leader)
        if producer is None:
            return "the replicas to get the end of a transaction"
        text = f"producer id {producer.producer_id}, epoch {producer.producer_epoch}"
        try:
            name = await self._transactional_id(producer.producer_id)
        except KafkaError as error:
            owner = f"{text} (of which transactional id, the brokers did not say: {error})"
        else:
            known = f"transactional id {name} ({text})"
            owner = f"{text}, of no known coordinator" if name is None else known
        return f"the open transaction of {owner}, which began here"

    async def _oldest_open(self, partition: TopicPartition, leader: int) -> ProducerState | None:
        wanted = TopicRequest(name=partition.topic, partition_indexes=[partition.partition])
        response = await self._engine.call(
            leader, DescribeProducersRequest(topics=[wanted]), DescribeProducersResponse
        )
        answers = [each for topic in response.topics for each in topic.partitions]
        for each in answers:
            if each.error_code:
                raise error_for(each.error_code, f"asking for the producers of {partition}")
        opened = [
            producer
            for each in answers
            for producer in each.active_producers
            if producer.current_txn_start_offset >= 0
        ]
        return min(opened, key=lambda producer: producer.current_txn_start_offset, default=None)

    async def _transactional_id(self, producer_id: int) -> str | None:
        """Return the transactional id that a producer id belongs to; None if no coordinator knows
        it. Raises the error of one that did not say."""
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id])
        engine = self._engine
        waiters = [
            engine.call(node_id, request, ListTransactionsResponse)
            for node_id in engine.metadata.image.nodes
        ]
        failure: BaseException | None = None
        for waiter in await gather(waiters):
            if waiter.error is not None:
                failure = waiter.error
                continue
            response = waiter.result()
            for found in response.transaction_states:
                return found.transactional_id
            if response.error_code:
                failure = error_for(response.error_code, "listing transactions")
        if failure is not None:
            raise failure
        return None


def stable_offset_waited_at(state: PartitionState) -> int | None:
    """Return the last stable offset if all below it is fetched and there are records above it."""
    stable, high = state.last_stable_offset, state.high_watermark
    if stable is None or high is None or stable >= high or state.fetch.offset < stable:
        return None
    return stable
