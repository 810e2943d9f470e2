"""Transactions: list and describe them, find those that hang, and abort them.

A transaction is known to the coordinator of its transactional id, and to the leader of each
partition with records of it. One that a partition has open and no coordinator knows *hangs*: nobody
will end it, and readers of committed records wait for ever (KIP-664). Brokers that verify
transactions (KIP-890) let none begin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from odradek.client.admin.calls import Calls, check_broker, raise_for_code
from odradek.client.admin.results import (
    OpenProducer,
    PartitionProducer,
    Transaction,
    TransactionDescription,
)
from odradek.client.arguments import PartitionLike, texts_of
from odradek.client.arguments import partitions_of as several
from odradek.client.errors import KafkaError
from odradek.client.find_coordinator import TRANSACTION
from odradek.client.producer.transaction_requests import end_txn, init_producer_id
from odradek.client.transaction import OpenTransaction
from odradek.client.waiter import gather, spawn
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from odradek.protocol.api.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.api.end_txn import EndTxnResponse
from odradek.protocol.api.init_producer_id import InitProducerIdResponse
from odradek.protocol.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.consumer_protocol import group_by_topic

R = TypeVar("R")
DURATION_VERSION, PATTERN_VERSION = 1, 2
FENCING_TIMEOUT_MS = 1
"""The transaction timeout that a fenced id gets; no transaction is begun with it. The shortest is
the one that no broker's `transaction.max.timeout.ms` refuses."""
DEFAULT_HANGING_MS = 15 * 60 * 1000
"""The default of `transaction.max.timeout.ms`: no coordinator leaves one open for longer."""


class TransactionCalls(Calls):
    """The calls about transactions and transactional producers."""

    async def list_transactions(
        self,
        *,
        states: str | Collection[str] = (),
        producer_ids: Collection[int] = (),
        open_for_ms: int = -1,
        pattern: str | None = None,
    ) -> list[Transaction]:
        """Return the transactional ids that the brokers know, sorted; if given, only those in one
        of `states` (`Ongoing`, `Empty`, `CompleteCommit` …), with one of `producer_ids`, with a
        transaction open for longer than `open_for_ms`, or that match `pattern`, a regular
        expression for the whole id, which a broker of Kafka 4.1 knows (KIP-994, KIP-1152)."""
        wanted = texts_of("state", states)
        lowest = PATTERN_VERSION if pattern else DURATION_VERSION if open_for_ms >= 0 else 0
        request = RequestBuilder(
            ListTransactionsRequest,
            lambda version: ListTransactionsRequest(
                state_filters=wanted,
                producer_id_filters=list(producer_ids),
                duration_filter=open_for_ms if version >= DURATION_VERSION else -1,
                transactional_id_pattern=pattern if version >= PATTERN_VERSION else None,
            ),
            min_version=lowest,
        )

        async def attempt() -> list[Transaction]:
            image = await self.engine.cluster_image()
            answers = await self.ask_each(
                dict.fromkeys(image.nodes, request), ListTransactionsResponse
            )
            found = set()
            for node_id, answer in answers:
                raise_for_code(answer.error_code, f"listing the transactions of broker {node_id}")
                for each in answer.transaction_states:
                    found.add(
                        Transaction(
                            each.transactional_id,
                            each.producer_id,
                            each.transaction_state,
                            node_id,
                        )
                    )
            return sorted(found, key=lambda each: each.transactional_id)

        return await self.retry(attempt)

    async def describe_transactions(
        self, transactional_ids: str | Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Return what the coordinators of several transactional ids know. Raises
        `TransactionalIdNotFound` for the first that is unknown."""
        names = dict.fromkeys(texts_of("transactional id", transactional_ids))
        waiters = {each: spawn(self._describe(each)) for each in names}
        await gather(list(waiters.values()))
        return {name: waiter.result() for name, waiter in waiters.items()}

    async def _describe(self, transactional_id: str) -> TransactionDescription:
        async def attempt() -> TransactionDescription:
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            node_id, answer = await self._ask_transaction_coordinator(
                transactional_id, request, DescribeTransactionsResponse
            )
            found = answer.transaction_states[0]
            raise_for_code(found.error_code, f"transactional id {transactional_id}")
            return description_of(found, node_id)

        return await self.retry(attempt)

    async def _ask_transaction_coordinator(
        self, transactional_id: str, request: object, response_type: type[R]
    ) -> tuple[int, R]:
        """Send a request to the coordinator of an id; return its broker's id too. One attempt."""
        name = f"transactional id {transactional_id}"
        return await self.ask_coordinator_of(
            transactional_id, TRANSACTION, name, request, response_type
        )

    async def describe_producers(
        self, partitions: PartitionLike | Iterable[PartitionLike], *, broker: int | None = None
    ) -> dict[TopicPartition, list[PartitionProducer]]:
        """Return the idempotent and transactional producers that partitions remember, from their
        leaders, or from the replicas of `broker`."""
        wanted = several(partitions)

        async def attempt() -> dict[TopicPartition, list[PartitionProducer]]:
            if broker is None:
                by_broker = await self.by_leader(wanted)
            else:
                image = await self.engine.fresh_image()
                check_broker(image, broker, f"producers on broker {broker!r}")
                by_broker = {broker: sorted(wanted)}
            requests = {
                node_id: DescribeProducersRequest(
                    topics=[
                        TopicRequest(name=topic.topic, partition_indexes=list(topic.partitions))
                        for topic in group_by_topic(each)
                    ]
                )
                for node_id, each in by_broker.items()
            }
            found = {}
            for _, answer in await self.ask_each(requests, DescribeProducersResponse):
                for topic in answer.topics:
                    for each in topic.partitions:
                        key = TopicPartition(topic.name, each.partition_index)
                        raise_for_code(each.error_code, f"producers of {key}", each.error_message)
                        found[key] = producers_of(each)
            return dict(sorted(found.items()))

        return await self.retry(attempt)

    async def hanging_transactions(
        self,
        partitions: PartitionLike | Iterable[PartitionLike],
        *,
        open_for_ms: int = DEFAULT_HANGING_MS,
        broker: int | None = None,
    ) -> list[OpenProducer]:
        """Return the transactions that partitions have open, whose last record is older than
        `open_for_ms`, and that no coordinator will end. `broker` as for `describe_producers`."""
        now_ms = self.engine.env.clock.wall_ms()
        known = await self.describe_producers(partitions, broker=broker)
        candidates = [
            OpenProducer(partition, each)
            for partition, found in known.items()
            for each in found
            if each.transaction_start_offset is not None
            and now_ms - each.last_timestamp > open_for_ms
        ]
        if not candidates:
            return []
        ids = {each.producer.producer_id for each in candidates}
        listed = await self.list_transactions(producer_ids=sorted(ids))
        described = await self._describe_known([each.transactional_id for each in listed])
        return [each for each in candidates if not will_end(each, described)]

    async def _describe_known(
        self, transactional_ids: Iterable[str]
    ) -> dict[int, TransactionDescription]:
        """Return descriptions by producer id; of ids that expired meanwhile none."""
        found = {}
        for name in dict.fromkeys(transactional_ids):
            try:
                description = await self._describe(name)
            except KafkaError as error:
                if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
            else:
                found[description.producer_id] = description
        return found

    async def fence_producers(self, transactional_ids: str | Iterable[str]) -> None:
        """Shut out the producers that have these transactional ids now; their open transactions are
        aborted before this returns. An id that is unknown becomes known by it."""
        names = dict.fromkeys(texts_of("transactional id", transactional_ids))
        for fenced in await gather([spawn(self._fence(each)) for each in names]):
            fenced.result()

    async def _fence(self, transactional_id: str) -> tuple[int, int]:
        """Return the producer id and the epoch that nobody writes with."""

        async def attempt() -> tuple[int, int]:
            request = init_producer_id(transactional_id, FENCING_TIMEOUT_MS)
            _, answer = await self._ask_transaction_coordinator(
                transactional_id, request, InitProducerIdResponse
            )
            raise_for_code(answer.error_code, f"fencing transactional id {transactional_id}")
            return answer.producer_id, answer.producer_epoch

        return await self.retry(attempt)

    async def end_transaction(self, transaction: OpenTransaction, *, committed: bool) -> None:
        """Commit or abort a transaction that was detached from its producer. The same end again is
        no error, as long as its id has begun no other transaction. Raises the coordinator's final
        error: `ProducerFenced` if another producer has the id, or the coordinator has aborted the
        transaction; otherwise by its `code`."""
        await self.retry(lambda: self._attempt_end(transaction, committed))

    async def _attempt_end(self, transaction: OpenTransaction, committed: bool) -> None:
        """One attempt of `end_transaction`."""
        transactional_id = transaction.transactional_id
        _, answer = await self._ask_transaction_coordinator(
            transactional_id, end_txn(transaction, committed=committed), EndTxnResponse
        )
        outcome = "committing" if committed else "aborting"
        raise_for_code(
            answer.error_code, f"{outcome} the transaction of transactional id {transactional_id}"
        )

    async def abort_transaction(
        self, partition: PartitionLike, producer_id: int, epoch: int, coordinator_epoch: int = -1
    ) -> None:
        """Abort a hanging transaction in one partition, whatever its coordinator thinks of it.
        `epoch` and `coordinator_epoch` are those that `describe_producers` returns."""
        (where,) = several(partition)
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
            coordinator_epoch=max(0, coordinator_epoch),
        )

        async def attempt() -> None:
            (leader,) = await self.by_leader([where])
            request = WriteTxnMarkersRequest(markers=[marker])
            answer = await self.call(leader, request, WriteTxnMarkersResponse)
            for topic in answer.markers[0].topics:
                for each in topic.partitions:
                    raise_for_code(
                        each.error_code, f"aborting producer {producer_id}'s transaction in {where}"
                    )

        await self.retry(attempt)


def will_end(found: OpenProducer, described: Mapping[int, TransactionDescription]) -> bool:
    """True if the coordinator still has the partition in the producer's transaction."""
    description = described.get(found.producer.producer_id)
    return description is not None and found.partition in description.partitions


def description_of(found: DescribedTransaction, coordinator: int) -> TransactionDescription:
    """Return the transaction of a response."""
    start_ms = found.transaction_start_time_ms
    return TransactionDescription(
        found.transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        start_ms if start_ms >= 0 else None,
        tuple(
            sorted(
                TopicPartition(topic.topic, number)
                for topic in found.topics
                for number in topic.partitions
            )
        ),
        coordinator,
    )


def producers_of(found: PartitionResponse) -> list[PartitionProducer]:
    """Return the producers of a partition, by id."""
    return sorted(
        (
            PartitionProducer(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
            )
            for each in found.active_producers
        ),
        key=lambda each: each.producer_id,
    )
