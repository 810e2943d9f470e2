"""Produce and Fetch responses written by hand: the other half of what a broker does most.

As in `hot_requests`, the writers made from the declarations are the reference, and a parity test
holds these to the same bytes for every version. What is rare is left to the reference: tagged
fields, record errors, records that are not stretches of files, and values that a version lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from odradek.model.spans import FileSlice
from odradek.protocol.hot_fetch_messages import FetchResponse, PartitionData
from odradek.protocol.hot_messages import PartitionProduceResponse, ProduceResponse
from odradek.protocol.primitives import MAX_STRING_BYTES, uvarint

Reference = Callable[[Any], list[Any]]


class Output:
    """Bytes being written, and the parts that are finished."""

    def __init__(self, flexible: bool) -> None:
        self.flexible = flexible
        self.out = BytesWriter()
        self.parts: list[Any] = []

    def length(self, size: i64, narrow: bool) -> None:
        """The length before a value, -1 for null; `narrow` where the old encoding has 2 bytes."""
        if self.flexible:
            if size < 127:
                self.out.append(size + 1)
            else:
                self.out.write(uvarint(size + 1))
        elif narrow:
            write_i16_be(self.out, i16(size))
        else:
            write_i32_be(self.out, i32(size))

    def text(self, value: str) -> None:
        data = value.encode()
        if len(data) > MAX_STRING_BYTES:
            raise ValueError(f"a text takes {len(data)} bytes, the protocol allows 32767")
        self.length(len(data), True)
        self.out.write(data)

    def nullable_text(self, value: str | None) -> None:
        if value is None:
            self.length(-1, True)
        else:
            self.text(value)

    def no_tags(self) -> None:
        """An empty tag section."""
        if self.flexible:
            self.out.append(0)

    def records(self, records: Any) -> bool:
        """Record batches that are null or in files; whether they are."""
        if records is None:
            self.length(-1, False)
            return True
        if isinstance(records, FileSlice):
            self.length(records.length, False)
            self.split()
            self.parts.append(records)
            return True
        if not isinstance(records, list):
            return False
        size: i64 = 0
        for piece in records:
            size += piece.length
        self.length(size, False)
        if records:
            self.split()
            self.parts.extend(records)
        return True

    def split(self) -> None:
        """End the part of bytes that is being written."""
        self.parts.append(self.out.getvalue())
        self.out = BytesWriter()

    def finish(self) -> list[Any]:
        """All parts."""
        if len(self.out) > 0:
            self.parts.append(self.out.getvalue())
        return self.parts


class ProduceResponseWriter:
    """Writes `ProduceResponse`s of one version."""

    def __init__(self, version: i64, reference: Reference) -> None:
        self.version: i64 = version
        self.reference = reference

    def write(self, message: ProduceResponse) -> list[Any]:
        """The response as parts."""
        version = self.version
        if message.node_endpoints:
            return self.reference(message)
        target = Output(version >= 9)
        topics = message.responses
        target.length(len(topics), False)
        for topic in topics:
            if version >= 13:
                target.out.write(topic.topic_id.bytes)
            else:
                target.text(topic.name)
            partitions = topic.partition_responses
            target.length(len(partitions), False)
            for partition in partitions:
                if partition.current_leader is not None or partition.record_errors:
                    return self.reference(message)
                self.partition(target, partition)
            target.no_tags()
        write_i32_be(target.out, i32(message.throttle_time_ms))
        target.no_tags()
        return target.finish()

    def partition(self, target: Output, partition: PartitionProduceResponse) -> None:
        """One partition."""
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
        target.no_tags()


class FetchResponseWriter:
    """Writes `FetchResponse`s of one version."""

    def __init__(self, version: i64, reference: Reference) -> None:
        self.version: i64 = version
        self.reference = reference

    def write(self, message: FetchResponse) -> list[Any]:
        """The response as parts; stretches of files are parts of their own."""
        version = self.version
        if message.node_endpoints or (version < 7 and message.session_id != 0):
            return self.reference(message)
        target = Output(version >= 12)
        write_i32_be(target.out, i32(message.throttle_time_ms))
        if version >= 7:
            write_i16_be(target.out, i16(message.error_code))
            write_i32_be(target.out, i32(message.session_id))
        topics = message.responses
        target.length(len(topics), False)
        for topic in topics:
            if version >= 13:
                target.out.write(topic.topic_id.bytes)
            else:
                target.text(topic.topic)
            partitions = topic.partitions
            target.length(len(partitions), False)
            for partition in partitions:
                if not self.partition(target, partition):
                    return self.reference(message)
            target.no_tags()
        target.no_tags()
        return target.finish()

    def partition(self, target: Output, partition: PartitionData) -> bool:
        """One partition; False for what is left to the reference."""
        version = self.version
        if (
            partition.diverging_epoch is not None
            or partition.current_leader is not None
            or partition.snapshot_id is not None
            or (version < 11 and partition.preferred_read_replica != -1)
        ):
            return False
        out = target.out
        write_i32_be(out, i32(partition.partition_index))
        write_i16_be(out, i16(partition.error_code))
        write_i64_be(out, i64(partition.high_watermark))
        write_i64_be(out, i64(partition.last_stable_offset))
        if version >= 5:
            write_i64_be(out, i64(partition.log_start_offset))
        self.aborted(target, partition.aborted_transactions)
        if version >= 11:
            write_i32_be(out, i32(partition.preferred_read_replica))
        if not target.records(partition.records):
            return False
        target.no_tags()
        return True

    def aborted(self, target: Output, transactions: list[Any] | None) -> None:
        """The aborted transactions, null for readers of uncommitted records."""
        if transactions is None:
            target.length(-1, False)
            return
        target.length(len(transactions), False)
        for transaction in transactions:
            write_i64_be(target.out, transaction.producer_id)
            write_i64_be(target.out, transaction.first_offset)
            target.no_tags()
