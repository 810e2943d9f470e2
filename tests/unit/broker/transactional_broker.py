"""A broker in memory with a transactional client: requests by their meaning, with few words."""

from __future__ import annotations

from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.record_batch_builder import build
from unit.broker.memory_broker import NOW_MS, MemoryBroker

TIMEOUT_MS = 60_000
NOTHING = (-1, -1)


class TransactionalBroker(MemoryBroker):
    """Has a topic `t` of three partitions. `id` is the transactional id of all requests."""

    id = "id"

    def __init__(self, disk: MemoryDisk | None = None, **settings: str) -> None:
        few = {"transaction_state_log_num_partitions": "2", "offsets_topic_num_partitions": "1"}
        super().__init__(disk, **few, **settings)
        if self.node.broker.image.topic("t") is None:
            self.create("t", 3)
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.id])
        (found,) = self.call(request, 4, FindCoordinatorResponse).coordinators
        assert (found.error_code, found.node_id) == (0, 1)

    def init(
        self,
        expected: tuple[int, int] = NOTHING,
        version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
    ) -> tuple[ErrorCode, int, int]:
        """InitProducerId; `expected`: the id and epoch that the request has."""
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        found = self.call(request, version, InitProducerIdResponse)
        return ErrorCode(found.error_code), found.producer_id, found.producer_epoch

    def started(self, timeout_ms: int = TIMEOUT_MS) -> tuple[int, int]:
        """The id and epoch of a producer that has started."""
        error, producer_id, epoch = self.init(timeout_ms=timeout_ms)
        assert error is ErrorCode.NONE
        return producer_id, epoch

    def add_request(self, producer: tuple[int, int], *partitions: int) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name="t", partitions=list(partitions or (0,)))
            ],
        )

    def add(self, producer: tuple[int, int], *partitions: int, version: int = 3) -> ErrorCode:
        """AddPartitionsToTxn of partitions of `t`, by default the first one."""
        request = self.add_request(producer, *partitions)
        found = self.call(request, version, AddPartitionsToTxnResponse)
        (topic,) = found.results_by_topic_v3_and_below
        (error,) = {each.partition_error_code for each in topic.results_by_partition}
        return ErrorCode(error)

    def add_group(self, producer: tuple[int, int], group: str = "g", version: int = 3) -> ErrorCode:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=group,
        )
        return ErrorCode(self.call(request, version, AddOffsetsToTxnResponse).error_code)

    def end_request(self, producer: tuple[int, int], committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )

    def end(
        self, producer: tuple[int, int], committed: bool = True, version: int = 5
    ) -> tuple[ErrorCode, int, int]:
        """EndTxn."""
        found = self.call(self.end_request(producer, committed), version, EndTxnResponse)
        return ErrorCode(found.error_code), found.producer_id, found.producer_epoch

    def described(self) -> DescribedTransaction:
        """DescribeTransactions."""
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        (found,) = self.call(request, 0, DescribeTransactionsResponse).transaction_states
        return found

    @property
    def state(self) -> str:
        return self.described().transaction_state

    def find_group_coordinator(self) -> None:
        """FindCoordinator of a group, which makes its topic."""
        self.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)

    def restarted(self) -> TransactionalBroker:
        """This broker after a clean stop and a start."""
        self.node.stop(lambda: None)
        self.run_until_idle()
        return TransactionalBroker(self.disk)

    def append_transactional(self, producer: tuple[int, int], sequence: int = 0) -> None:
        """Append a batch of a transaction to the first partition of `t`, as if it was verified."""
        partition = self.node.replicas.by_name["t", 0]
        data = build(
            [(b"k", b"v", (), NOW_MS)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        info = self.node.replicas.append(partition, ByteRange(data, 0, len(data)), 12)
        assert info.error is ErrorCode.NONE
        self.node.replicas.appended(partition)
        self.run_until_idle()

    def has_open(self, producer: tuple[int, int]) -> bool:
        """True if the producer has a transaction open in that partition."""
        return self.node.replicas.by_name["t", 0].log.producers.has_open_transaction(*producer)


HANGING = (7, 3)


class BrokerWithOpenTransaction(TransactionalBroker):
    """Producer 7, epoch 3, has a transaction open in partition 0 of `t`, which nobody knows of."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(disk, transaction_partition_verification_enable="false")
        self.append_transactional(HANGING)
        assert self.is_open

    @property
    def is_open(self) -> bool:
        return self.has_open(HANGING)
