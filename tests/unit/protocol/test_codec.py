"""Readers and writers of messages: bounds, null, tags, versions, parts that are not copied."""

from __future__ import annotations

import traceback
import tracemalloc
from typing import Any

import pytest

from odradek.model.byte_ranges import ByteRange, FileSlice
from odradek.model.errors import ProtocolError
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.protocol.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.protocol.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from odradek.protocol.api.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.api.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.api.sync_group import SyncGroupRequest
from odradek.protocol.codec import (
    decode,
    encode,
    encode_bytes,
    open_ended_reader,
    reader,
    source,
)
from odradek.protocol.codegen import objects_max
from odradek.protocol.generated_writer import joined
from odradek.protocol.primitives import COPIED_BYTES_MAX, uvarint
from odradek.protocol.schema import UnsupportedVersionError


def produce(records: Any, name: str = "t") -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=name, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def test_a_produce_request_has_the_golden_bytes() -> None:
    assert encode_bytes(produce(b"rr"), 7).hex(" ") == (
        "ff ff ff ff 00 00 03 e8 00 00 00 01 00 01 74 00 00 00 01 00 00 00 00 00 00 00 02 72 72"
    )
    assert encode_bytes(produce(b"rr"), 9).hex(" ") == (
        "00 ff ff 00 00 03 e8 02 02 74 02 00 00 00 00 03 72 72 00 00 00"
    )


KAFKA_4_4 = [
    (
        ApiVersionsRequest(
            client_software_name="me", client_software_version="1", cluster_id="abc", node_id=3
        ),
        5,
        "036d650231046162630000000300",
    ),
    (
        ApiVersionsRequest(client_software_name="me", client_software_version="1"),
        5,
        "036d65023100ffffffff00",
    ),
    (
        DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    error_code=0,
                    log_dir="/d",
                    topics=[
                        DescribeLogDirsTopic(
                            name="t",
                            partitions=[
                                DescribeLogDirsPartition(
                                    partition_index=1,
                                    partition_size=2,
                                    offset_lag=3,
                                    is_future_key=True,
                                )
                            ],
                        )
                    ],
                    total_bytes=9,
                    usable_bytes=8,
                    is_cordoned=True,
                )
            ]
        ),
        5,
        "000000000000020000032f64020274020000000100000000000000020000000000000003010000000000000000"
        "00090000000000000008010000",
    ),
]


@pytest.mark.parametrize(("message", "version", "written"), KAFKA_4_4)
def test_a_message_has_the_bytes_of_kafkas_own_serializer(
    message: object, version: int, written: str
) -> None:
    # Versions that kafka-python does not have.
    assert encode_bytes(message, version).hex() == written
    assert decode(type(message), version, bytes.fromhex(written)) == message


def test_records_are_read_as_a_range_of_the_frame() -> None:
    frame = b"head" + encode_bytes(produce(b"batches"), 9)
    records = decode(ProduceRequest, 9, frame, 4).topic_data[0].partition_data[0].records
    assert isinstance(records, ByteRange)
    assert records.data is frame
    assert bytes(records) == b"batches"


class Unread:
    """A file whose read fails the test."""

    def read(self, offset: int, count: int) -> bytes:
        raise AssertionError


def test_file_slices_are_separate_parts() -> None:
    slices = [FileSlice(Unread(), 0, 100), FileSlice(Unread(), 0, 50)]  # type: ignore[arg-type]

    def partition(index: int, records: Any) -> PartitionData:
        return PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=9,
            aborted_transactions=None,
            records=records,
        )

    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    partition(0, slices[0]),
                    partition(1, None),
                    partition(2, slices),
                    partition(3, []),
                ],
            )
        ]
    )
    head, first, between, second, third, tail = encode(response, 12)
    assert (first, second, third) == (slices[0], *slices)
    assert joined([head])[-1:] == b"\x65", "100 + 1"
    assert joined([between])[-2:] == b"\x97\x01", "150 + 1"
    assert isinstance(tail, bytes)


def test_large_batches_are_not_copied() -> None:
    batch = bytes(COPIED_BYTES_MAX + 1)
    assert encode(produce(batch), 9)[1] is batch
    span = ByteRange(b"x" + batch, 1, len(batch) + 1)
    part = encode(produce(span), 9)[1]
    assert isinstance(part, memoryview)
    assert part.obj is span.data
    assert len(encode(produce(batch[:-1]), 9)) == 1


def test_unknown_tags_are_skipped_anywhere() -> None:
    frame = encode_bytes(produce(b"rr"), 9)
    assert frame.endswith(b"rr\0\0\0")
    tagged = frame[:-3] + b"\1\7\3abc" + b"\1\x80\x01\0" + b"\2\0\1x\1\0"
    assert str(decode(ProduceRequest, 9, tagged)).startswith("ProduceRequest(transactional_id=None")


def test_known_tags_are_read_between_unknown_ones_and_in_any_order() -> None:
    request = FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=[], replica_state=ReplicaState(replica_id=4)
    )
    frame = encode_bytes(request, 15)
    state = b"\x01\x0d" + b"\x00\x00\x00\x04" + b"\xff" * 8 + b"\x00"
    assert frame.endswith(b"\x01" + state)
    more = frame[: -len(state) - 1] + b"\x03" + b"\x09\x01z" + state + b"\x00\x02\x02b"
    assert decode(FetchRequest, 15, more + b"").replica_state == ReplicaState(replica_id=4)
    assert decode(FetchRequest, 15, more).cluster_id == "b"


def test_a_known_tag_must_fill_its_size() -> None:
    frame = encode_bytes(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 15)[:-1]
    with pytest.raises(ProtocolError, match="replica_state"):
        decode(FetchRequest, 15, frame + b"\x01\x01\x0e" + b"\0" * 4 + b"\xff" * 8 + b"\0\0")


def test_tagged_fields_at_their_defaults_are_not_written() -> None:
    def response(leader: LeaderIdAndEpoch | None) -> ProduceResponse:
        partition = PartitionProduceResponse(
            index=0, error_code=6, base_offset=-1, current_leader=leader
        )
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[partition])]
        )

    with_leader = encode_bytes(response(LeaderIdAndEpoch(leader_id=2, leader_epoch=3)), 10)
    without = encode_bytes(response(None), 10)
    assert len(with_leader) - len(without) == 2 + 9
    read = decode(ProduceResponse, 10, without)
    assert read.responses[0].partition_responses[0].current_leader is None


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    everything = MetadataRequest(topics=None)
    assert encode_bytes(everything, 1) == b"\xff\xff\xff\xff"
    with pytest.raises(UnsupportedVersionError, match=r"v0.*topics"):
        encode(everything, 0)
    with pytest.raises(ProtocolError, match="topics"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    nameless = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    assert decode(MetadataRequest, 12, encode_bytes(nameless, 12)) == nameless
    with pytest.raises(UnsupportedVersionError, match="name"):
        encode(nameless, 9)


def test_a_nullable_struct_is_written_and_read_with_a_null_marker() -> None:
    page = DescribeTopicPartitionsRequest(
        topics=[], cursor=Cursor(topic_name="t", partition_index=3)
    )
    assert encode_bytes(page, 0).hex(" ") == "01 00 00 07 d0 01 02 74 00 00 00 03 00 00"
    assert decode(DescribeTopicPartitionsRequest, 0, encode_bytes(page, 0)) == page
    page.cursor = None
    assert encode_bytes(page, 0).hex(" ") == "01 00 00 07 d0 ff 00"
    assert decode(DescribeTopicPartitionsRequest, 0, encode_bytes(page, 0)) == page


def test_a_value_the_version_lacks_is_refused_unless_ignorable() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with pytest.raises(UnsupportedVersionError, match="allow_auto_topic_creation"):
        encode(request, 3)
    encode(request, 4)
    response = CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name="t", error_code=0, error_message=None, num_partitions=7, configs=None
            )
        ]
    )
    read = decode(CreateTopicsResponse, 4, encode_bytes(response, 4)).topics[0]
    assert (read.num_partitions, read.configs) == (-1, [])


def test_fields_the_version_lacks_are_read_as_their_defaults() -> None:
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=[])
    response = MetadataResponse(brokers=[], topics=[topic])
    read = decode(MetadataResponse, 0, encode_bytes(response, 0))
    assert read == response
    assert (read.cluster_id, read.controller_id, read.topics[0].topic_id) == (None, -1, ZERO_UUID)


def test_a_text_above_32767_bytes_is_refused() -> None:
    longest = "x" * 32767
    assert decode(ProduceRequest, 9, encode_bytes(produce(b"", longest), 9))
    with pytest.raises(ValueError, match="32768"):
        encode(produce(b"", longest + "x"), 9)
    frame = b"\x00\xff\xff\x00\x00\x03\xe8\x02\x81\x80\x02" + b"x" * 32768 + b"\x01\x00\x00"
    with pytest.raises(ProtocolError, match=r"name|text"):
        decode(ProduceRequest, 9, frame)


def test_text_that_is_not_utf_8_is_refused() -> None:
    frame = encode_bytes(produce(b"rr", "tt"), 9).replace(b"tt", b"\xc3\x28")
    with pytest.raises(ProtocolError, match="UTF-8"):
        decode(ProduceRequest, 9, frame)


COUNTS = ["7fffffff", "40000000", "00030d41", "000186a0", "80000000", "fffffffe"]


@pytest.mark.parametrize("count", COUNTS)
def test_a_count_larger_than_the_frame_allocates_nothing(count: str) -> None:
    # At the first level and in the innermost array of integers.
    bomb = bytes.fromhex(count)
    frames = [
        (ProduceRequest, 7, b"\xff\xff\xff\xff\x00\x00\x03\xe8" + bomb + bytes(1000)),
        (MetadataResponse, 0, b"\0\0\0\0" + b"\0\0\0\1\0\0\0\1t\0\0\0\1" + bytes(10) + bomb),
    ]
    for cls, version, frame in frames:
        with pytest.raises(ProtocolError, match="left"):
            decode(cls, version, frame)
        tracemalloc.start()
        with pytest.raises(ProtocolError):
            decode(cls, version, frame)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20_000


@pytest.mark.parametrize("size", ["ffffffff0f", "8080808008"])
def test_a_compact_count_larger_than_the_frame_is_refused(size: str) -> None:
    frame = b"\x00\xff\xff\x00\x00\x03\xe8" + bytes.fromhex(size) + bytes(1000)
    with pytest.raises(ProtocolError):
        decode(ProduceRequest, 9, frame)


def test_a_message_with_too_many_objects_is_refused() -> None:
    # The frame has the bytes for that many elements, but objects are a hundred times as large.

    def topics(count: int) -> bytes:
        empty = b"\x02t\x01\x00"
        return b"\x00\xff\xff\x00\x00\x03\xe8" + uvarint(count + 1) + empty * count + b"\x00"

    most = objects_max(ProduceRequest)
    assert len(decode(ProduceRequest, 9, topics(most)).topic_data) == most == 20_000
    with pytest.raises(ProtocolError, match=r"topic_data|array"):
        decode(ProduceRequest, 9, topics(most + 1))


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 15, b"\x00\x01\x00"),
        (FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 15, b"\x01\x0d" + bytes(13)),
        (FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 15, b"\x09\x00"),
        (produce(b""), 9, b"\x09\x00"),
    ],
    ids=["a text", "a struct", "unknown", "unknown where none is known"],
)
def test_too_many_tagged_fields_are_refused(message: Any, version: int, field: bytes) -> None:
    # A tagged field may have two bytes: a large frame of them would block a broker for long.
    whole = encode_bytes(message, version)[:-1]

    def tagged(count: int) -> bytes:
        return whole + uvarint(count) + field * count

    most = objects_max(type(message))
    assert decode(type(message), version, tagged(most // 2))
    with pytest.raises(ProtocolError, match="tagged fields"):
        decode(type(message), version, tagged(most + 1))


def test_bytes_after_a_response_are_refused() -> None:
    response = ProduceResponse(responses=[])
    with pytest.raises(ProtocolError, match="2 bytes more"):
        decode(ProduceResponse, 9, encode_bytes(response, 9) + b"\0\0")


def test_an_open_ended_reader_skips_bytes_after_a_response() -> None:
    data = encode_bytes(MetadataResponse(brokers=[], topics=[]), 13)
    read = open_ended_reader(MetadataResponse, 13)
    assert read(data + b"xy", 0) == read(data, 0)
    with pytest.raises(ProtocolError):
        read(data[:-1], 0)


def test_bytes_after_a_request_are_skipped() -> None:
    frame = encode_bytes(produce(b"rr"), 9)
    request = decode(ProduceRequest, 9, frame + b"\0\0")
    assert encode_bytes(request, 9) == frame


def test_a_metadata_request_of_librdkafka_with_three_bytes_too_many_is_read() -> None:
    request = decode(MetadataRequest, 13, bytes.fromhex("00000000010000"))
    assert request == MetadataRequest(topics=None, allow_auto_topic_creation=False)


def test_a_version_that_does_not_exist_is_a_value_error() -> None:
    for version in (2, 14, -1):
        with pytest.raises(ValueError, match="versions 3 to 13"):
            reader(ProduceRequest, version)
        with pytest.raises(ValueError, match="versions 3 to 13"):
            encode(produce(b""), version)


def test_source_returns_the_generated_code() -> None:
    assert "o.acks, o.timeout_ms" in source(ProduceRequest, 9)


def test_tracebacks_show_the_generated_source() -> None:
    request = SyncGroupRequest(group_id="g", generation_id=2**40, member_id="m", assignments=[])
    with pytest.raises(Exception, match="format requires") as caught:
        encode(request, 3)
    text = "".join(traceback.format_exception(caught.value))
    assert "o.generation_id" in text
