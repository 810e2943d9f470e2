"""A small correct broker with one file per partition; `test_canaries` makes mutants of it.

It tests the simulator, not the product: workload, nemesis and checker must find no violation in
it over many seeds, and must find each mutant. It has batches of any size, fsync before
`acks=all`, recovery by scanning, and deduplication of the last five batches per producer. It
blocks where a real broker would not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.model.env import Env, File, Transport
from odradek.model.errors import ErrorCode
from odradek.model.topics import new_uuid, uuid_text
from odradek.network.framing import Framing
from odradek.protocol import frame, record_batch
from odradek.protocol.api import (
    create_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from odradek.protocol.codec import decode, encode
from odradek.protocol.frame import RequestHeader, decode_request_header, response_is_flexible
from odradek.protocol.generated_writer import joined
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.testing.machine import PORT
from odradek.testing.process import SimProcess

REQUESTS: dict[int, type[Any]] = {
    0: produce.ProduceRequest,
    1: fetch.FetchRequest,
    2: list_offsets.ListOffsetsRequest,
    3: metadata.MetadataRequest,
    8: offset_commit.OffsetCommitRequest,
    9: offset_fetch.OffsetFetchRequest,
    10: find_coordinator.FindCoordinatorRequest,
    19: create_topics.CreateTopicsRequest,
    22: init_producer_id.InitProducerIdRequest,
}


@dataclass(eq=False)
class ResponseSlot:
    """The place of a response in the order of its connection."""

    parts: bytes | None = None


@dataclass(eq=False)
class Partition:
    """A log in one file: where each batch is, and the last batch of each producer."""

    file: File
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    producers: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    end: int = 0
    durable: int = 0
    flushing: bool = False
    waiting: list[tuple[int, Any]] = field(default_factory=list)

    def add(self, header: RecordBatchHeader, base: int, position: int) -> None:
        self.batches.append((base, base + header.count, position, header.size))
        if header.producer_id >= 0:
            last = (header.base_sequence, header.base_sequence + header.count, base)
            last_batches = self.producers.setdefault(header.producer_id, [])
            self.producers[header.producer_id] = [*last_batches[-4:], last]
        self.end = base + header.count


class ToyBroker:
    """Correct in everything that is checked. Each mutant overrides a method."""

    def __init__(self, env: Env, process: SimProcess, durability: str) -> None:
        self.env, self.process, self.durability = env, process, durability
        self.fenced = False
        self.topics: dict[str, tuple[UUID, list[Partition]]] = {}
        env.disk.make_directory("/data")
        env.disk.sync_directory("/")
        self.recover()
        env.network.listen("0.0.0.0", PORT, self.accepted)

    # Storage.

    def recover(self) -> None:
        if not self.env.disk.exists("/data/topics"):
            return
        for line in self.env.disk.read_file("/data/topics").decode().splitlines():
            name, topic_id, count = line.split()
            partitions = [self.open(UUID(topic_id), number) for number in range(int(count))]
            self.topics[name] = (UUID(topic_id), partitions)

    def path(self, topic_id: UUID, number: int) -> str:
        return f"/data/{uuid_text(topic_id)}-{number}"

    def open(self, topic_id: UUID, number: int) -> Partition:
        path = f"{self.path(topic_id, number)}/{0:020}.log"
        partition = Partition(self.env.disk.open(path, create=True))
        data = partition.file.read(0, partition.file.size())
        good = 0
        try:
            for header in record_batch.batches(data):
                if not self.is_intact(data, header) or header.base_offset != partition.end:
                    break
                partition.add(header, header.base_offset, good)
                good = header.end
        except record_batch.CorruptBatch:
            pass
        self.truncate(partition.file, good)
        self.sync_recovered(partition, data[:good])
        return partition

    def truncate(self, file: File, size: int) -> None:
        file.truncate(size)

    def sync_recovered(self, partition: Partition, data: bytes) -> None:
        """Write and sync again: the data may be in the page cache only, and marked clean there."""
        if data:
            partition.file.write(0, data)
        partition.file.sync()
        partition.durable = partition.end

    def is_intact(self, data: bytes, header: RecordBatchHeader) -> bool:
        return record_batch.is_intact(data, header)

    def visible_end(self, partition: Partition) -> int:
        return partition.durable if self.durability == "fsync" else partition.end

    def acked_end(self, partition: Partition) -> int:
        return self.visible_end(partition)

    # Connections.

    def accepted(self, transport: Transport) -> None:
        framing, slots, outbox = Framing(1 << 26), deque[ResponseSlot](), bytearray()

        def pump() -> None:
            while slots and slots[0].parts is not None:
                outbox.extend(slots.popleft().parts or b"")
            try:
                if outbox:
                    del outbox[: transport.send([bytes(outbox)])]
            except OSError:
                self.env.network.unregister(transport)
                return
            self.env.network.set_interest(transport, read=True, write=bool(outbox))

        def readable() -> None:
            try:
                data = transport.receive(65536)
            except OSError:
                data = b""
            if not data:
                if data == b"":
                    self.env.network.unregister(transport)
                    transport.close()
                return
            framing.feed(data)
            while (request := framing.next_frame()) is not None:
                slot = ResponseSlot()
                slots.append(slot)
                self.received(request, slot, pump)

        self.env.network.register(transport, readable, pump)

    def received(self, request: bytes, slot: ResponseSlot, pump: Any) -> None:
        header, position = decode_request_header(request)
        body = decode(REQUESTS[header.api_key], header.api_version, request, position)

        def respond(response: Any) -> None:
            slot.parts = b"" if response is None else self.answer(header, response)
            self.env.call_soon(pump)

        name = type(body).__name__.removesuffix("Request")
        getattr(self, f"do_{name}")(header.api_version, body, respond)

    def answer(self, header: RequestHeader, response: Any) -> bytes:
        flexible = response_is_flexible(header.api_key, header.api_version)
        body = encode(response, header.api_version)
        parts = frame.response_parts(header.correlation_id, body, flexible)
        return joined(parts)

    # Requests.

    def do_CreateTopics(self, version: int, request: Any, respond: Any) -> None:
        topic = request.topics[0]
        error = ErrorCode.NONE
        if topic.name in self.topics:
            error = ErrorCode.TOPIC_ALREADY_EXISTS
        else:
            try:
                self.create(topic.name, topic.num_partitions)
            except OSError:
                error = ErrorCode.KAFKA_STORAGE_ERROR
        topic_id = self.topics[topic.name][0] if topic.name in self.topics else UUID(int=0)
        result = create_topics.CreatableTopicResult(
            name=topic.name, topic_id=topic_id, error_code=error, error_message=None
        )
        respond(create_topics.CreateTopicsResponse(topics=[result]))

    def create(self, name: str, count: int) -> None:
        topic_id = new_uuid(self.env.random)
        for number in range(count):
            self.env.disk.make_directory(self.path(topic_id, number))
            self.env.disk.sync_directory("/data")
            self.open(topic_id, number)
            self.env.disk.sync_directory(self.path(topic_id, number))
        lines = [f"{n} {i} {len(p)}" for n, (i, p) in self.topics.items()]
        content = "\n".join([*lines, f"{name} {topic_id} {count}"])
        self.env.disk.replace_file("/data/topics", content.encode())
        self.topics[name] = (topic_id, [self.open(topic_id, n) for n in range(count)])

    def do_Metadata(self, version: int, request: Any, respond: Any) -> None:
        name = request.topics[0].name
        topic_id, partitions = self.topics.get(name, (UUID(int=0), []))
        rows = [
            metadata.MetadataResponsePartition(
                error_code=0, partition_index=n, leader_id=0, replica_nodes=[0], isr_nodes=[0]
            )
            for n in range(len(partitions))
        ]
        error = ErrorCode.NONE if rows else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = metadata.MetadataResponseTopic(
            error_code=error, name=name, topic_id=topic_id, partitions=rows
        )
        respond(metadata.MetadataResponse(brokers=[], topics=[topic]))

    def do_InitProducerId(self, version: int, request: Any, respond: Any) -> None:
        path = "/data/next"
        error, producer_id = ErrorCode.NONE, -1
        try:
            found = int(self.env.disk.read_file(path)) if self.env.disk.exists(path) else 0
            self.env.disk.replace_file(path, str(found + 1).encode())
            producer_id = found
        except OSError:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        respond(
            init_producer_id.InitProducerIdResponse(
                error_code=error, producer_id=producer_id, producer_epoch=0
            )
        )

    def find(self, topic: Any) -> tuple[str, list[Partition]]:
        for name, (topic_id, partitions) in self.topics.items():
            if topic_id == getattr(topic, "topic_id", None) or name == (
                getattr(topic, "name", "") or getattr(topic, "topic", "")
            ):
                return name, partitions
        raise AssertionError(f"unknown topic {topic}")

    def do_ListOffsets(self, version: int, request: Any, respond: Any) -> None:
        topics = []
        for topic in request.topics:
            partitions = self.find(topic)[1]
            rows = [
                list_offsets.ListOffsetsPartitionResponse(
                    partition_index=p.partition_index,
                    error_code=0,
                    offset=self.visible_end(partitions[p.partition_index]),
                )
                for p in topic.partitions
            ]
            topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        respond(list_offsets.ListOffsetsResponse(topics=topics))

    # Produce.

    def do_Produce(self, version: int, request: Any, respond: Any) -> None:
        topic = request.topic_data[0]
        name, partitions = self.find(topic)
        data = topic.partition_data[0]
        partition = partitions[data.index]
        error, base, end = self.append(partition, bytes(data.records))

        def reply(error: ErrorCode, base: int) -> None:
            row = produce.PartitionProduceResponse(
                index=data.index, error_code=error, base_offset=base
            )
            result = produce.TopicProduceResponse(
                name=name, topic_id=self.topics[name][0], partition_responses=[row]
            )
            respond(produce.ProduceResponse(responses=[result]))

        if request.acks == 0:
            respond(None)
        elif error or request.acks == 1 or self.acked_end(partition) >= end:
            reply(error, base)
        else:
            partition.waiting.append((end, lambda e: reply(e, -1 if e else base)))
        self.flush(partition)

    def append(self, partition: Partition, data: bytes) -> tuple[ErrorCode, int, int]:
        header = RecordBatchHeader(data, 0)
        if self.fenced:
            return ErrorCode.KAFKA_STORAGE_ERROR, -1, -1
        error, base = self.sequence_error(partition, header)
        if error or base >= 0:
            return error, base, base + header.count
        base = partition.end
        size = partition.file.size()
        try:
            partition.file.append([record_batch.stamp(data, 0, base, 0), data[16:]])
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR, -1, -1
        partition.add(header, base, size)
        return ErrorCode.NONE, base, base + header.count

    def sequence_error(self, partition: Partition, h: RecordBatchHeader) -> tuple[ErrorCode, int]:
        """Return the error, or the offset of the batch that this duplicates, or (NONE, -1)."""
        if h.producer_id < 0:
            return ErrorCode.NONE, -1
        last_batches = partition.producers.get(h.producer_id, [])
        if h.base_sequence == (last_batches[-1][1] if last_batches else 0):
            return ErrorCode.NONE, -1
        for first, after, base in last_batches:
            if (first, after) == (h.base_sequence, h.base_sequence + h.count):
                return ErrorCode.NONE, base
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1

    def flush(self, partition: Partition) -> None:
        if partition.flushing or partition.durable == partition.end or self.fenced:
            return
        partition.flushing = True
        end = partition.end

        def done(_: None) -> None:
            partition.flushing = False
            partition.durable = end
            self.wake(partition, ErrorCode.NONE)
            self.flush(partition)

        def failed(_: BaseException) -> None:
            self.fenced = True
            self.wake(partition, ErrorCode.KAFKA_STORAGE_ERROR)

        self.env.offload.submit(partition.file.sync, done, failed)

    def wake(self, partition: Partition, error: ErrorCode) -> None:
        ready = [w for w in partition.waiting if error or self.acked_end(partition) >= w[0]]
        partition.waiting = [w for w in partition.waiting if w not in ready]
        for _, reply in ready:
            reply(error)

    # Fetch.

    def do_Fetch(self, version: int, request: Any, respond: Any) -> None:
        topics = []
        for topic in request.topics:
            name, partitions = self.find(topic)
            rows = [self.read(partitions[p.partition], p) for p in topic.partitions]
            topics.append(
                fetch.FetchableTopicResponse(
                    topic=name, topic_id=self.topics[name][0], partitions=rows
                )
            )
        respond(fetch.FetchResponse(responses=topics))

    def read(self, partition: Partition, requested: Any) -> fetch.PartitionData:
        visible = self.visible_end(partition)
        error, records = ErrorCode.NONE, b""
        if requested.fetch_offset > visible:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        for _, end, position, size in partition.batches:
            if end > requested.fetch_offset and end <= visible:
                try:
                    records = partition.file.read(position, size)
                except OSError:
                    error = ErrorCode.KAFKA_STORAGE_ERROR
                break
        return fetch.PartitionData(
            partition_index=requested.partition,
            error_code=error,
            high_watermark=visible,
            aborted_transactions=None,
            records=records,
        )
