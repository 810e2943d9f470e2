"""Produce and Fetch requests read by hand: half of what a broker does most (`hot_responses`).

The declarations in `api.produce` and `api.fetch` say what the bytes mean, and the readers made from
them are the reference: these yield the same objects for every version, and a `ProtocolError` for
the same frames, which a parity test holds them to. They exist because they can be compiled to
native code, and made code cannot; `compile.reader` hands them out when this module runs compiled,
for interpreted the made code is the faster one. What is rare (a follower's fetch, with tagged
fields that are known) is left to the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from odradek.model.errors import ProtocolError
from odradek.model.ids import ZERO_UUID
from odradek.model.spans import Span
from odradek.protocol.hot_fetch_messages import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from odradek.protocol.hot_messages import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.primitives import (
    MAX_STRING_BYTES,
    REQUEST_OBJECTS_MAX,
    read_uvarint,
    skip_tags,
    uuid_of,
)


class Input:
    """A frame and the position in it. Every read checks that it stays inside."""

    def __init__(self, data: bytes, pos: i64, flexible: bool) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = len(data)
        self.flexible = flexible
        self.left: i64 = REQUEST_OBJECTS_MAX

    def int8(self) -> i64:
        at: i64 = self.step(1)
        value: i64 = self.data[at]
        return value - 256 if value > 127 else value

    def int16(self) -> i64:
        return i64(read_i16_be(self.data, self.step(2)))

    def int32(self) -> i64:
        return i64(read_i32_be(self.data, self.step(4)))

    def int64(self) -> i64:
        return read_i64_be(self.data, self.step(8))

    def step(self, size: i64) -> i64:
        """Pass over `size` bytes; where they begin."""
        at: i64 = self.pos
        if size > self.end - at:
            raise ProtocolError("a request runs past the end of its frame")
        self.pos = at + size
        return at

    def length(self, narrow: bool) -> i64:
        """The length before a value, -1 for null; `narrow` where the old encoding has 2 bytes."""
        if not self.flexible:
            return self.int16() if narrow else self.int32()
        at: i64 = self.step(1)
        value: i64 = self.data[at]
        if value > 127:
            value, self.pos = read_uvarint(self.data, at)
        return value - 1

    def text(self) -> str:
        """A text that is not null."""
        return self.text_of(self.length(True))

    def nullable_text(self) -> str | None:
        size: i64 = self.length(True)
        return None if size == -1 else self.text_of(size)

    def text_of(self, size: i64) -> str:
        if size < 0 or size > MAX_STRING_BYTES:
            raise ProtocolError(f"a text of {size} bytes")
        at: i64 = self.step(size)
        try:
            return self.data[at : at + size].decode()
        except UnicodeDecodeError:
            raise ProtocolError("a request has text that is not UTF-8") from None

    def identifier(self) -> Any:
        at: i64 = self.step(16)
        return uuid_of(self.data[at : at + 16])

    def records(self) -> Any:
        """Record batches: a span of the frame, or null."""
        size: i64 = self.length(False)
        if size == -1:
            return None
        if size < 0:
            raise ProtocolError(f"records of {size} bytes")
        at: i64 = self.step(size)
        return Span(self.data, at, at + size)

    def count(self, smallest: i64) -> i64:
        """The number of elements of an array, which the remaining bytes can hold."""
        found: i64 = self.length(False)
        self.left -= found
        if found < 0 or self.left < 0 or found * smallest > self.end - self.pos:
            raise ProtocolError(f"an array of {found} elements, {self.end - self.pos} bytes left")
        return found

    def skip_tags(self) -> None:
        """Pass over a tag section of which no field is known."""
        if self.flexible:
            at: i64 = self.step(1)
            if self.data[at] != 0:
                self.pos, self.left = skip_tags(self.data, at, self.left)

    def has_tags(self) -> bool:
        """Pass over an empty tag section; whether it has fields instead."""
        return self.flexible and self.data[self.step(1)] != 0


class ProduceRequestReader:
    """Reads `ProduceRequest`s of one version."""

    def __init__(self, version: i64) -> None:
        self.flexible = version >= 9
        self.by_id = version >= 13
        self.smallest_topic: i64 = 18 if self.by_id else 3 if self.flexible else 6
        self.smallest_partition: i64 = 6 if self.flexible else 8

    def read(self, data: bytes, pos: i64) -> ProduceRequest:
        """The request in a frame, from `pos` to its end. Raises `ProtocolError`."""
        source = Input(data, pos, self.flexible)
        transactional_id = source.nullable_text()
        acks = source.int16()
        timeout_ms = source.int32()
        topics: list[TopicProduceData] = []
        topics_left: i64 = source.count(self.smallest_topic)
        while topics_left > 0:
            topics_left -= 1
            topics.append(self.topic(source))
        source.skip_tags()
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics
        )

    def topic(self, source: Input) -> TopicProduceData:
        """One topic with its partitions."""
        name, topic_id = "", ZERO_UUID
        if self.by_id:
            topic_id = source.identifier()
        else:
            name = source.text()
        partitions: list[PartitionProduceData] = []
        partitions_left: i64 = source.count(self.smallest_partition)
        while partitions_left > 0:
            partitions_left -= 1
            index = source.int32()
            partitions.append(PartitionProduceData(index=index, records=source.records()))
            source.skip_tags()
        source.skip_tags()
        return TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions)


class FetchRequestReader:
    """Reads `FetchRequest`s of one version; those with known tagged fields by the reference."""

    def __init__(self, version: i64, reference: Callable[[bytes, int], Any]) -> None:
        self.version: i64 = version
        self.reference = reference
        self.flexible = version >= 12
        self.by_id = version >= 13
        self.smallest_topic: i64 = 18 if self.by_id else 3 if self.flexible else 6
        self.smallest_partition: i64 = (
            16
            + (4 if version >= 9 else 0)
            + (8 if version >= 5 else 0)
            + (5 if version >= 12 else 0)
        )
        self.tagged = False

    def read(self, data: bytes, pos: i64) -> Any:
        """The request in a frame, from `pos` to its end. Raises `ProtocolError`."""
        source = Input(data, pos, self.flexible)
        version = self.version
        self.tagged = False
        replica_id: i64 = source.int32() if version <= 14 else -1
        max_wait_ms, min_bytes, max_bytes = source.int32(), source.int32(), source.int32()
        isolation_level = source.int8()
        session_id: i64 = source.int32() if version >= 7 else 0
        session_epoch: i64 = source.int32() if version >= 7 else -1
        topics: list[FetchTopic] = []
        topics_left: i64 = source.count(self.smallest_topic)
        while topics_left > 0 and not self.tagged:
            topics_left -= 1
            topics.append(self.topic(source))
        if self.tagged:
            return self.reference(data, pos)
        forgotten = self.forgotten(source) if version >= 7 else []
        rack_id = source.text() if version >= 11 else ""
        if source.has_tags():
            return self.reference(data, pos)
        return FetchRequest(
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=rack_id,
        )

    def topic(self, source: Input) -> FetchTopic:
        """One topic with its partitions, incomplete if a tagged field is met."""
        name, topic_id = "", ZERO_UUID
        if self.by_id:
            topic_id = source.identifier()
        else:
            name = source.text()
        partitions: list[FetchPartition] = []
        partitions_left: i64 = source.count(self.smallest_partition)
        while partitions_left > 0 and not self.tagged:
            partitions_left -= 1
            partitions.append(self.partition(source))
        if not self.tagged:
            source.skip_tags()
        return FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)

    def partition(self, source: Input) -> FetchPartition:
        """One partition; sets `tagged` if its tag section is not empty."""
        version = self.version
        index = source.int32()
        current_leader_epoch: i64 = source.int32() if version >= 9 else -1
        fetch_offset = source.int64()
        last_fetched_epoch: i64 = source.int32() if version >= 12 else -1
        log_start_offset: i64 = source.int64() if version >= 5 else -1
        partition_max_bytes = source.int32()
        if version >= 17:
            self.tagged = source.has_tags()
        else:
            source.skip_tags()
        return FetchPartition(
            partition=index,
            current_leader_epoch=current_leader_epoch,
            fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
            log_start_offset=log_start_offset,
            partition_max_bytes=partition_max_bytes,
        )

    def forgotten(self, source: Input) -> list[ForgottenTopic]:
        """The partitions that leave the session."""
        topics: list[ForgottenTopic] = []
        topics_left: i64 = source.count(self.smallest_topic)
        while topics_left > 0:
            topics_left -= 1
            name, topic_id = "", ZERO_UUID
            if self.by_id:
                topic_id = source.identifier()
            else:
                name = source.text()
            partitions: list[int] = []
            partitions_left: i64 = source.count(4)
            while partitions_left > 0:
                partitions_left -= 1
                partitions.append(source.int32())
            source.skip_tags()
            topics.append(ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions))
        return topics
