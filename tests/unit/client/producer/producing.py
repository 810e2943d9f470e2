"""A producer's core in simulated time, with brokers that a test scripts.

`Producing.brokers` keep records as a real broker does: per partition the records in order, and per
producer id the sequences, so that duplicates and gaps are found. A test makes requests fail with
`fail_next`, or answers them itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.client.errors import KafkaError
from odradek.client.producer.futures import CoroutineWait, Delivery, FutureRecordMetadata
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import SerializedRecord
from odradek.client.producer.settings import (
    AccumulatorSettings,
    Partitioner,
    ProducerSettings,
    SenderSettings,
)
from odradek.client.waiter import Waiter, completed
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.record_batch import RecordBatchHeader, is_intact, records_of
from odradek.protocol.records import NO_HEADERS, encode_headers
from odradek.testing.scripted import NO_ANSWER, ClientSide, ScriptedCluster

Answers = Callable[[ProduceRequest, int], Any]


class PartitionLog:
    """The log of one partition."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.batches: list[RecordBatchHeader] = []
        self.recent: dict[int, deque[tuple[int, int, int, int]]] = {}
        """Per producer id: epoch, first and last sequence, base offset of the last five batches."""

    def has(self, data: bytes) -> bool:
        """True if the batch is a duplicate."""
        header = RecordBatchHeader(data, 0)
        batch = (header.producer_epoch, header.base_sequence, header.last_sequence)
        return any(seen[:3] == batch for seen in self.recent.get(header.producer_id, ()))

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        header = RecordBatchHeader(data, 0)
        assert is_intact(data, header) and header.end == len(data)
        if header.has_producer_id:
            recent = self.recent.setdefault(header.producer_id, deque(maxlen=5))
            epoch, first, last = header.producer_epoch, header.base_sequence, header.last_sequence
            for seen in recent:
                if seen[:3] == (epoch, first, last):
                    return ErrorCode.NONE, seen[3]
            if recent:
                before = recent[-1]
                if epoch < before[0]:
                    return ErrorCode.INVALID_PRODUCER_EPOCH, -1
                due = 0 if epoch > before[0] else (before[2] + 1) & 0x7FFFFFFF
                if first != due:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            recent.append((epoch, first, last, len(self.values)))
        offset = len(self.values)
        self.values += [record.value for record in records_of(data, header)]
        self.batches.append(header)
        return ErrorCode.NONE, offset


class Brokers:
    """The logs of all scripted brokers; each node serves only the partitions that it leads."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.failures: dict[tuple[str, int], deque[Any]] = {}
        self.requests: list[tuple[int, ProduceRequest, int]] = []
        self.max_batch_bytes = 1 << 30
        self.next_producer_id = 1000
        cluster.answers[InitProducerIdRequest] = self.init_producer_id
        for node_id in cluster.listed:
            cluster[node_id].answers[ProduceRequest] = self.produce_at(node_id)

    def init_producer_id(self, request: InitProducerIdRequest, version: int) -> Any:
        self.next_producer_id += 1
        return InitProducerIdResponse(
            error_code=0, producer_id=self.next_producer_id, producer_epoch=0
        )

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        return self.logs.setdefault((topic, partition), PartitionLog())

    def fail_next(self, topic: str, partition: int, *failures: Any) -> None:
        """The next batches for the partition get these: an error code, or a function of the batch
        that gives a `PartitionProduceResponse`, or None for what is right."""
        self.failures.setdefault((topic, partition), deque()).extend(failures)

    def produce_at(self, node_id: int) -> Answers:
        return lambda request, version: self.produce(node_id, request, version)

    def produce(self, node_id: int, request: ProduceRequest, version: int) -> Any:
        self.requests.append((node_id, request, version))
        ids = {topic.topic_id: name for name, topic in self.cluster.topics.items()}
        topics = []
        for topic in request.topic_data:
            name = topic.name or ids[topic.topic_id]
            answers = [self.one(node_id, name, part) for part in topic.partition_data]
            topics.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return ProduceResponse(responses=topics) if request.acks else NO_ANSWER

    def one(self, node_id: int, name: str, part: Any) -> PartitionProduceResponse:
        assert isinstance(part.records, ByteRange)
        data = bytes(part.records)
        failures = self.failures.get((name, part.index))
        failure = failures.popleft() if failures else None
        if callable(failure):
            return failure(part.index, data)
        if failure is not None and not failure.retriable and self.log(name, part.index).has(data):
            failure = None  # No broker forbids what it has done.
        if failure is None:
            failure, offset = self.kept(node_id, name, part.index, data)
        else:
            offset = -1
        return PartitionProduceResponse(index=part.index, error_code=failure, base_offset=offset)

    def kept(self, node_id: int, name: str, index: int, data: bytes) -> tuple[ErrorCode, int]:
        if self.cluster.topics[name].leaders[index] != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if len(data) > self.max_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        return self.log(name, index).append(data)


class Producing:
    """A cluster, by default with topic `t` of one partition, and a producer."""

    def __init__(
        self,
        *,
        brokers: int = 1,
        leaders: dict[str, list[int]] | None = None,
        batch_bytes: int = 16_384,
        linger_ms: int = 0,
        delivery_timeout_ms: int = 120_000,
        codec: int = 0,
        adaptive: bool = True,
        availability_timeout_ms: int = 0,
        acks: int = -1,
        max_in_flight: int = 5,
        max_request_bytes: int = 1_048_576,
        retries: int = 2**31 - 1,
        buffer_bytes: int = 33_554_432,
        max_block_ms: int = 60_000,
        idempotence: bool = True,
        ignore_keys: bool = False,
        partitioner: Partitioner | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        features: dict[str, int] | None = None,
        engine: dict[str, Any] | None = None,
    ) -> None:
        self.cluster = ScriptedCluster(brokers, features=features or {})
        for name, nodes in (leaders or {"t": [1]}).items():
            self.cluster.create(name, nodes)
        self.brokers = Brokers(self.cluster)
        self.side: ClientSide = self.cluster.client()
        self.engine = self.side.engine(max_in_flight=max_in_flight, **(engine or {}))
        self.told: list[tuple[KafkaError | None, Delivery]] = []
        accumulator = AccumulatorSettings(
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            codec=codec,
            level=None,
            adaptive=adaptive,
            availability_timeout_ms=availability_timeout_ms,
        )
        sender = SenderSettings(
            acks=acks,
            max_in_flight=max_in_flight,
            max_request_bytes=max_request_bytes,
            request_timeout_ms=30_000,
            retries=retries,
        )
        settings = ProducerSettings(
            accumulator,
            sender,
            buffer_bytes=buffer_bytes,
            max_block_ms=max_block_ms,
            idempotence=idempotence,
            ignore_keys=ignore_keys,
            partitioner=partitioner,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        self.core = ProducerCore(self.engine, settings, CoroutineWait())
        self.side.do(lambda: self.core.start(self.core.sender.run_soon))

    def on_delivery(self, error: KafkaError | None, delivery: Delivery) -> None:
        self.told.append((error, delivery))

    def record(self, topic: str, value: bytes | None, **given: Any) -> SerializedRecord:
        headers = given.get("headers")
        return SerializedRecord(
            topic,
            given.get("partition", -1),
            given.get("timestamp_ms", 1_000),
            given.get("key"),
            value,
            encode_headers(headers) if headers else NO_HEADERS,
            given.get("callback", self.on_delivery),
        )

    def begin(self, value: bytes | None, topic: str = "t", **given: Any) -> Waiter[Any]:
        """Send as a client does."""
        record = self.record(topic, value, **given)

        def send() -> Waiter[Any]:
            taken = self.core.router.send(
                topic,
                record.partition,
                record.timestamp_ms,
                record.key,
                record.value,
                record.headers,
                record.callback,
            )
            if isinstance(taken, SerializedRecord):
                return self.core.send_later(taken).waiter
            return completed(taken)

        return self.side.do(send)

    def send(self, value: bytes | None, topic: str = "t", **given: Any) -> FutureRecordMetadata:
        """Send and wait until the record is queued."""
        waiter = self.begin(value, topic, **given)
        self.cluster.until(lambda: waiter.done)
        found: FutureRecordMetadata = waiter.result()
        return found

    def outcome(self, future: FutureRecordMetadata, limit_ms: int = 600_000) -> Any:
        """Return the delivery or the error of a record."""
        self.cluster.until(future.done, limit_ms)
        return future.exception(0) or future.result(0)

    def flush(self, timeout_ms: int | None = None) -> int:
        return self.side.wait(lambda: self.core.flush(timeout_ms))

    def values(self, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        return self.brokers.log(topic, partition).values


def forget(p: Producing, topic: str) -> None:
    """Drop a topic from the metadata, as if it were idle."""
    metadata = p.engine.metadata
    others = [name for name in metadata.image.topics if name != topic]

    def not_any_more() -> None:
        metadata.set_topics(others)
        metadata.request_update()

    p.side.do(not_any_more)
    p.cluster.until(lambda: topic not in metadata.image.topics)
