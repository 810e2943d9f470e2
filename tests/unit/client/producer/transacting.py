"""A transactional producer in simulated time, and brokers that keep transactions as Kafka's do.

`Transacting.script` lists, in order, what brokers were asked about transactions: a transcript. A
test makes the next requests of a kind fail with `fail_next`: an error code, `CLOSE` (the connection
breaks before the request takes effect) or `LOST` (it takes effect, and the answer is lost).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.producer.transaction_steps import Transactions
from odradek.client.waiter import Waiter
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.testing.scripted import CLOSE
from unit.client.producer.producing import Producing

LOST = "the answer is lost"
GROUP = ConsumerGroupMetadata("group", 3, "member")


class Transacting(Producing):
    """A producer of transactional id `id`, one coordinator (node 1), topic `t` by default."""

    def __init__(self, *, version: int = 2, **settings: Any) -> None:
        super().__init__(
            transactional_id="id", features={"transaction.version": version}, **settings
        )
        self.script: list[Any] = []
        self.coordinator_node = 1
        self.epoch = -1
        self.failures: dict[type[Any], deque[Any]] = {}
        self.ends: dict[int, bool] = {}
        """By epoch: whether the transaction was committed (version 2)."""
        answers = self.cluster.answers
        answers[FindCoordinatorRequest] = self.find
        for kind, answer in (
            (InitProducerIdRequest, self.init),
            (AddPartitionsToTxnRequest, self.add_partitions),
            (AddOffsetsToTxnRequest, self.add_offsets),
            (TxnOffsetCommitRequest, self.commit_offsets),
            (EndTxnRequest, self.end),
        ):
            answers[kind] = self.failing(kind, answer)
        for node_id in self.cluster.listed:
            keep = self.cluster[node_id].answers[ProduceRequest]
            self.cluster[node_id].answers[ProduceRequest] = self.produce_and_tell(keep)

    # The brokers.

    def fail_next(self, kind: type[Any], *failures: Any) -> None:
        self.failures.setdefault(kind, deque()).extend(failures)

    def failing(self, kind: type[Any], answer: Callable[..., Any]) -> Callable[[Any, int], Any]:
        def answered(request: Any, version: int) -> Any:
            queue = self.failures.get(kind)
            failure = queue.popleft() if queue else ErrorCode.NONE
            if failure is CLOSE:
                return CLOSE
            if failure is LOST:
                answer(request, version, ErrorCode.NONE)
                return CLOSE
            return answer(request, version, failure)

        return answered

    def find(self, request: FindCoordinatorRequest, version: int) -> Any:
        key = request.coordinator_keys[0]
        queue = self.failures.get(FindCoordinatorRequest)
        failure = queue.popleft() if queue else ErrorCode.NONE
        node = self.cluster[self.coordinator_node]
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=node.node_id,
                    host=node.host,
                    port=9092,
                    error_code=failure,
                    error_message=None,
                )
            ]
        )

    def init(self, request: InitProducerIdRequest, version: int, failure: ErrorCode) -> Any:
        given = "" if request.producer_id == -1 else f" at {request.producer_epoch}"
        self.script.append(f"init {request.transactional_id}{given}{named(failure)}")
        if failure:
            return InitProducerIdResponse(error_code=failure, producer_epoch=-1)
        self.epoch += 1
        return InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=self.epoch)

    def add_partitions(
        self, request: AddPartitionsToTxnRequest, version: int, failure: ErrorCode
    ) -> Any:
        topics = request.v3_and_below_topics
        names = ",".join(f"{topic.name}{topic.partitions}" for topic in topics)
        self.script.append(f"add {names}{named(failure)}")
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=number, partition_error_code=failure
                        )
                        for number in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )

    def add_offsets(self, request: AddOffsetsToTxnRequest, version: int, failure: Any) -> Any:
        self.script.append(f"add offsets of {request.group_id}{named(failure)}")
        return AddOffsetsToTxnResponse(error_code=failure)

    def commit_offsets(self, request: TxnOffsetCommitRequest, version: int, failure: Any) -> Any:
        offsets = [
            f"{topic.name}-{each.partition_index}={each.committed_offset}"
            for topic in request.topics
            for each in topic.partitions
        ]
        self.script.append(
            f"offsets v{version} {request.group_id}/{request.generation_id}/{request.member_id} "
            f"{','.join(offsets)}{named(failure)}"
        )
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=failure
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def end(self, request: EndTxnRequest, version: int, failure: ErrorCode) -> Any:
        what = "commit" if request.committed else "abort"
        self.script.append(f"{what} v{version} epoch {request.producer_epoch}{named(failure)}")
        if failure:
            return EndTxnResponse(error_code=failure)
        if version < 5:
            return EndTxnResponse(error_code=0)
        self.epoch = request.producer_epoch + 1  # A second time, too.
        before = self.ends.setdefault(request.producer_epoch, request.committed)
        assert before == request.committed, "a transaction ends in one way only"
        return EndTxnResponse(error_code=0, producer_id=7, producer_epoch=self.epoch)

    def produce_and_tell(self, keep: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        def answered(request: ProduceRequest, version: int) -> Any:
            for topic in request.topic_data:
                for part in topic.partition_data:
                    header = RecordBatchHeader(bytes(part.records), 0)
                    assert header.is_transactional and request.transactional_id is not None
                    self.script.append(
                        f"produce v{min(version, 12)} {part.index} "
                        f"epoch {header.producer_epoch} sequence {header.base_sequence}"
                    )
            queue = self.failures.get(ProduceRequest)
            failure = queue.popleft() if queue else None
            if failure is CLOSE:
                return CLOSE
            kept = keep(request, version)
            return CLOSE if failure is LOST else kept

        return answered

    # The application.

    @property
    def transactions(self) -> Transactions:
        return self.core.transactions_or_error

    def wait(self, make: Callable[[Transactions], Waiter[Any]]) -> Any:
        return self.side.wait(lambda: make(self.transactions))

    def init_transactions(self, timeout_ms: int = 60_000, name: str | None = None) -> None:
        self.wait(lambda t: t.init(timeout_ms, name))

    def begin_transaction(self) -> None:
        self.wait(lambda t: t.begin())

    def started(self) -> None:
        """The first transaction is open."""
        self.init_transactions()
        self.begin_transaction()
        self.script.clear()

    def commit(self, timeout_ms: int | None = None) -> None:
        self.wait(lambda t: t.commit(timeout_ms))

    def abort(self, timeout_ms: int | None = None) -> None:
        self.wait(lambda t: t.abort(timeout_ms))

    def offsets(self, offset: int, group: ConsumerGroupMetadata = GROUP) -> None:
        from odradek.client.consumer.batch import OffsetAndMetadata

        at = {TopicPartition("in", 0): OffsetAndMetadata(offset)}
        self.wait(lambda t: t.commit_offsets(group, at, 60_000))


def named(failure: ErrorCode) -> str:
    return f": {failure.name}" if failure else ""
