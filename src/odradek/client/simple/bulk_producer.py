"""Writes many records with acks=all and waits for them: what a task of a batch job needs.

    append ─► builder of its partition ─► full: sealed batch ─► queue of its partition
                                                                    │ one batch per partition,
                                                                    ▼ one request per node under way
                                                                 Produce ─► answer ─► next

A partition has at most one batch under way, so batches cannot overtake each other and a retry needs
no care for order. With idempotence (the default) each batch carries the producer's id and sequence
numbers, and a batch that was written although its answer got lost is not written twice. The same
holds as long as the producer lives; a task that is run again by another producer writes again:
at least once.

While a request is under way the next batches are encoded. `append` waits for answers when more than
`buffer_bytes` are queued. `flush` waits for all. The first error that cannot pass is raised, and
the producer is then of no more use: what it had queued may or may not have been written.

A record without a key goes to one partition until its batch is full, then to the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.client.producer.partitioner import partition_of
from odradek.client.simple.cluster import Cluster, by_topic
from odradek.client.simple.connection import Disconnected
from odradek.client.simple.metadata import KafkaError, Retry
from odradek.client.simple.network_client import Pending
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.records import Header

ACKS_ALL = -1
LAST_VERSION_BY_NAME = 12
NO_ID = -1
SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(slots=True)
class Lane:
    """One partition: the batch being filled, those waiting, and the next sequence number."""

    builder: RecordBatchBuilder | None = None
    sealed: deque[bytes] = field(default_factory=deque)
    sequence: int = 0


class BulkProducer:
    """For one thread. Raises `KafkaError` and `RetriesExhausted`."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        codec: int = 0,
        batch_bytes: int = 524_288,
        buffer_bytes: int = 33_554_432,
        delivery_timeout_ms: int = 120_000,
        idempotence: bool = True,
    ) -> None:
        self.cluster = cluster
        self.codec = codec
        self.batch_bytes = batch_bytes
        self.buffer_bytes = buffer_bytes
        self.delivery_timeout_ms = delivery_timeout_ms
        self.lanes: dict[TopicPartition, Lane] = {}
        self.keyless: dict[str, int] = {}
        self.queued_bytes = 0
        self.written = 0
        self.under_way: dict[int, tuple[Pending[ProduceResponse], list[TopicPartition]]] = {}
        self.retry = Retry(delivery_timeout_ms)
        self.producer_id, self.producer_epoch = (
            self.init_producer_id() if idempotence else (NO_ID, NO_ID)
        )

    def init_producer_id(self) -> tuple[int, int]:
        """An id that no other producer has, and its epoch."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        while True:
            error: Exception
            try:
                node_id = self.cluster.client.any_node()
                answer = self.cluster.client.call(node_id, request, InitProducerIdResponse)
                code = ErrorCode(answer.error_code)
                if code == ErrorCode.NONE:
                    return answer.producer_id, answer.producer_epoch
                error = KafkaError(code, "a producer id")
                if not code.retriable:
                    raise error
            except Disconnected as failed:
                error = failed
            self.retry.pause(error)

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has. `KafkaError` if there is no such topic."""
        return len(self.cluster.metadata.topic(topic).leaders)

    def append(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int,
    ) -> None:
        """Queue one record; `partition` None leaves the choice to the key."""
        if partition is None:
            count = self.partitions(topic)
            if key is not None:
                partition = partition_of(key, count)
            else:
                partition = self.keyless.setdefault(topic, max(self.producer_id, 0) % count)
        target = TopicPartition(topic, partition)
        lane = self.lanes.get(target)
        if lane is None:
            if not 0 <= partition < self.partitions(topic):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(target))
            lane = self.lanes[target] = Lane()
        if lane.builder is None:
            lane.builder = self.new_builder(lane)
        if lane.builder.append(key, value, headers, timestamp_ms) >= self.batch_bytes:
            self.seal(target, lane)
            self.make_room()

    def new_builder(self, lane: Lane) -> RecordBatchBuilder:
        if self.producer_id == NO_ID:
            return RecordBatchBuilder(self.codec)
        return RecordBatchBuilder(
            self.codec,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=lane.sequence,
        )

    def seal(self, target: TopicPartition, lane: Lane) -> None:
        """The batch being filled is complete."""
        assert lane.builder is not None
        batch = lane.builder.build()
        lane.sequence = (lane.sequence + lane.builder.count) & SEQUENCE_MASK
        self.written += lane.builder.count
        lane.builder = None
        lane.sealed.append(batch)
        self.queued_bytes += len(batch)
        if self.keyless.get(target.topic) == target.partition:
            self.keyless[target.topic] = (target.partition + 1) % self.partitions(target.topic)

    def make_room(self) -> None:
        """Keep the leaders busy; wait for them when too much is queued."""
        self.send()
        while self.queued_bytes > self.buffer_bytes:
            self.step()

    def flush(self) -> int:
        """Wait until all is written; the number of records since the last flush."""
        for target, lane in self.lanes.items():
            if lane.builder is not None:
                self.seal(target, lane)
        while self.under_way or any(lane.sealed for lane in self.lanes.values()):
            self.step()
        written, self.written = self.written, 0
        self.retry = Retry(self.delivery_timeout_ms)
        return written

    def step(self) -> None:
        """Send what can be sent and take one round of answers."""
        error = self.send()
        for node_id in list(self.under_way):
            error = self.answer(node_id) or error
        if error is not None:
            self.retry.pause(error)

    def send(self) -> Exception | None:
        """A request to each leader that has none under way and batches waiting."""
        groups: dict[int, list[TopicPartition]] = {}
        for target, lane in self.lanes.items():
            if lane.sealed:
                node_id = self.cluster.metadata.leader(target)
                if node_id not in self.under_way:
                    groups.setdefault(node_id, []).append(target)
        error: Exception | None = None
        for node_id, targets in groups.items():
            try:
                pending = self.cluster.client.send(
                    node_id,
                    self.request(targets),
                    ProduceResponse,
                    max_version=LAST_VERSION_BY_NAME,
                )
                self.under_way[node_id] = (pending, targets)
            except Disconnected as failed:
                self.cluster.metadata.forget(by_topic(targets))
                error = failed
        return error

    def request(self, targets: list[TopicPartition]) -> ProduceRequest:
        topics = [
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=p.partition, records=self.lanes[p].sealed[0])
                    for p in group
                ],
            )
            for name, group in by_topic(targets).items()
        ]
        return ProduceRequest(
            acks=ACKS_ALL, timeout_ms=self.cluster.client.request_timeout_ms, topic_data=topics
        )

    def answer(self, node_id: int) -> Exception | None:
        """Take a node's answer; what went wrong, if it may pass."""
        pending, targets = self.under_way.pop(node_id)
        try:
            response = self.cluster.client.receive(pending)
        except Disconnected as failed:
            self.cluster.metadata.forget(by_topic(targets))
            return failed
        error: Exception | None = None
        for topic in response.responses:
            for one in topic.partition_responses:
                target = TopicPartition(topic.name, one.index)
                code = ErrorCode(one.error_code)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self.queued_bytes -= len(self.lanes[target].sealed.popleft())
                    self.retry = Retry(self.delivery_timeout_ms)
                else:
                    error = self.cluster.failure(code, target)
        return error

    def close(self) -> None:
        """Give up whatever is under way."""
        for pending, _ in self.under_way.values():
            self.cluster.client.abandon(pending)
        self.under_way.clear()
