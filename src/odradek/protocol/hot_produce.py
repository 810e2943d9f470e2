"""Produce, written by hand: its messages, readers and writers (see `hot_codec`).

The generated codec handles record errors, and reads new leaders with their addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from librt.strings import write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from odradek.model.topics import ZERO_UUID
from odradek.protocol.hot_codec import (
    HotMessage,
    HotReader,
    HotWriter,
    MessageInput,
    MessageOutput,
    UseReference,
)

FIRST_VERSION_WITH_LEADERS: Final = 10
LEADER_TAG: Final = 0


class PartitionProduceData(HotMessage):
    """The batches of one partition."""

    __slots__ = ("index", "records")

    def __init__(self, *, index: int, records: Any) -> None:
        self.index = index
        self.records = records


class TopicProduceData(HotMessage):
    """One topic: by name up to version 12, by id from 13."""

    __slots__ = ("name", "partition_data", "topic_id")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_data: list[PartitionProduceData],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = partition_data


class ProduceRequest(HotMessage):
    """Appends record batches; the response waits for `acks`."""

    __slots__ = ("acks", "timeout_ms", "topic_data", "transactional_id")

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int,
        timeout_ms: int,
        topic_data: list[TopicProduceData],
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data


class PartitionProduceResponse(HotMessage):
    """The result of appending one partition's batches."""

    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        *,
        index: int,
        error_code: int,
        base_offset: int,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[Any] | None = None,
        error_message: str | None = None,
        current_leader: Any = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors: list[Any] = [] if record_errors is None else record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class TopicProduceResponse(HotMessage):
    """The results of one topic, named as in the request."""

    __slots__ = ("name", "partition_responses", "topic_id")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = partition_responses


class ProduceResponse(HotMessage):
    """Per partition, the base offset of its batch or the error."""

    __slots__ = ("node_endpoints", "responses", "throttle_time_ms")

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse],
        throttle_time_ms: int = 0,
        node_endpoints: list[Any] | None = None,
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints: list[Any] = [] if node_endpoints is None else node_endpoints


class ProduceRequestReader(HotReader):
    def __init__(
        self,
        cls: type[Any],
        version: i64,
        reference: Callable[[bytes, int], Any],
        open_ended: bool,
    ) -> None:
        super().__init__(cls, version, reference, open_ended)
        self.min_topic_size: i64 = self.min_element_size(TopicProduceData)
        self.min_partition_size: i64 = self.min_element_size(PartitionProduceData)

    def message(self, source: MessageInput) -> ProduceRequest:
        transactional_id = source.nullable_text()
        acks = source.int16()
        timeout_ms = source.int32()
        topics = [self.topic(source) for _ in range(source.count(self.min_topic_size))]
        source.skip_tags()
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics
        )

    def topic(self, source: MessageInput) -> TopicProduceData:
        name, topic_id = self.topic_key(source)
        partitions: list[PartitionProduceData] = []
        for _ in range(source.count(self.min_partition_size)):
            index = source.int32()
            partitions.append(PartitionProduceData(index=index, records=source.records()))
            source.skip_tags()
        source.skip_tags()
        return TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions)


class ProduceRequestWriter(HotWriter):
    def put(self, target: MessageOutput, message: ProduceRequest) -> None:
        target.nullable_text(message.transactional_id)
        write_i16_be(target.out, i16(message.acks))
        write_i32_be(target.out, i32(message.timeout_ms))
        target.length(len(message.topic_data), False)
        for topic in message.topic_data:
            self.topic_key(target, topic.name, topic.topic_id)
            target.length(len(topic.partition_data), False)
            for partition in topic.partition_data:
                write_i32_be(target.out, i32(partition.index))
                target.records(partition.records)
                target.no_tags()
            target.no_tags()
        target.no_tags()


class ProduceResponseReader(HotReader):
    def __init__(
        self,
        cls: type[Any],
        version: i64,
        reference: Callable[[bytes, int], Any],
        open_ended: bool,
    ) -> None:
        super().__init__(cls, version, reference, open_ended)
        self.names_leaders = version >= FIRST_VERSION_WITH_LEADERS
        self.min_topic_size: i64 = self.min_element_size(TopicProduceResponse)
        self.min_partition_size: i64 = self.min_element_size(PartitionProduceResponse)

    def message(self, source: MessageInput) -> ProduceResponse:
        topics = [self.topic(source) for _ in range(source.count(self.min_topic_size))]
        throttle_time_ms = source.int32()
        self.end_of_struct(source, self.names_leaders)
        return ProduceResponse(responses=topics, throttle_time_ms=throttle_time_ms)

    def topic(self, source: MessageInput) -> TopicProduceResponse:
        name, topic_id = self.topic_key(source)
        partitions = [self.partition(source) for _ in range(source.count(self.min_partition_size))]
        source.skip_tags()
        return TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=partitions)

    def partition(self, source: MessageInput) -> PartitionProduceResponse:
        index = source.int32()
        error_code = source.int16()
        base_offset = source.int64()
        log_append_time_ms = source.int64()
        log_start_offset: i64 = source.int64() if self.version >= 5 else -1
        error_message: str | None = None
        if self.version >= 8:
            if source.length(False) != 0:
                raise UseReference
            error_message = source.nullable_text()
        self.end_of_struct(source, self.names_leaders)
        return PartitionProduceResponse(
            index=index,
            error_code=error_code,
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
            error_message=error_message,
        )


class ProduceResponseWriter(HotWriter):
    def put(self, target: MessageOutput, message: ProduceResponse) -> None:
        if message.node_endpoints and self.version < FIRST_VERSION_WITH_LEADERS:
            raise UseReference
        target.length(len(message.responses), False)
        for topic in message.responses:
            self.topic_key(target, topic.name, topic.topic_id)
            target.length(len(topic.partition_responses), False)
            for partition in topic.partition_responses:
                self.partition(target, partition)
            target.no_tags()
        write_i32_be(target.out, i32(message.throttle_time_ms))
        self.endpoints(target, message.node_endpoints)

    def partition(self, target: MessageOutput, partition: PartitionProduceResponse) -> None:
        leader = partition.current_leader
        if partition.record_errors or (
            leader is not None and self.version < FIRST_VERSION_WITH_LEADERS
        ):
            raise UseReference
        out = target.out
        write_i32_be(out, i32(partition.index))
        write_i16_be(out, i16(partition.error_code))
        write_i64_be(out, i64(partition.base_offset))
        write_i64_be(out, i64(partition.log_append_time_ms))
        if self.version >= 5:
            write_i64_be(out, i64(partition.log_start_offset))
        if self.version >= 8:
            target.length(0, False)
            target.nullable_text(partition.error_message)
        if leader is None:
            target.no_tags()
        else:
            self.leader(target, LEADER_TAG, leader)
