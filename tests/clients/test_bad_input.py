"""Whatever a client sends, the others are served and memory stays bounded.

Every case is sent over a real socket; after it the broker must answer somebody else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clients.wire import Wire, request_bytes
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_UUID
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.compression import CompressionType, compress
from odradek.protocol.record_batch_builder import assemble, build
from odradek.protocol.schema import BLOB, BOOLEAN, IDENTIFIER, TEXT, ArrayOf, fields_of
from odradek.testing.broker import Broker

GIB = 1 << 30
MIB = 1 << 20


@pytest.fixture(autouse=True)
def others_are_served(broker: Broker) -> Iterator[None]:
    """After each test: somebody else asks, and gets an answer; nothing large is held."""
    yield
    assert broker.bugs == 0
    with Wire(broker.bootstrap) as other:
        answer = other.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
    assert [b.node_id for b in answer.brokers] == [1]
    assert resident_bytes() < GIB // 2


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def header(key: int, version: int, rest: bytes = b"") -> bytes:
    """A request frame with an empty client id and whatever follows."""
    body = struct.pack(">hhih", key, version, 1, 0) + rest
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 200 * MIB),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        header(99, 0),
        header(-1, 0),
        header(3, 99),
        header(3, -1),
        header(0, 2),
        header(3, 9, b"\x00\xff\xff\xff\xff\x07"),
        header(3, 9, b"\x00" + b"\xff" * 12),
        header(1, 12, b"\x00"),
        header(19, 5, b"\x00\x7f\x05\xff"),
        header(3, 1, struct.pack(">i", 2**31 - 1)),
        header(3, 1, struct.pack(">ih", 1, -5)),
        header(3, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
        struct.pack(">ihhih", 10, 18, 0, 1, 999),
    ],
    ids=[
        "negative length",
        "length 0",
        "length 2^31-1",
        "length above the limit",
        "TLS",
        "HTTP",
        "unknown key",
        "negative key",
        "version too high",
        "negative version",
        "produce before version 3",
        "tag of 2^31 bytes",
        "varint without end",
        "truncated",
        "array longer than the frame",
        "array of 2^31-1",
        "string of negative length",
        "string that is not UTF-8",
        "client id longer than the frame",
    ],
)
def test_a_request_that_makes_no_sense_ends_its_connection(broker: Broker, sent: bytes) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.send(sent)
        assert wire.closed_by_peer()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.send(header(18, 99, b"\x00whatever comes"))
        answer = wire.answer(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in answer.api_keys] == [(18, 5)]


def test_the_first_request_must_be_small(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.send(struct.pack(">i", 100_000))
        assert wire.closed_by_peer()


def test_a_frame_byte_by_byte_is_a_frame(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        for byte in request_bytes(MetadataRequest(topics=[]), 9):
            wire.send(bytes([byte]))
        answer = wire.answer(MetadataRequest(topics=[]), 9, MetadataResponse)
    assert answer.brokers


def test_a_large_promise_holds_no_memory_until_it_is_kept(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        before = resident_bytes()
        wire.send(struct.pack(">i", 90 * MIB) + bytes(1000))
        with Wire(broker.bootstrap) as other:
            other.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        assert resident_bytes() - before < 8 * MIB


def test_pipelined_requests_whose_answers_nobody_reads_are_not_all_taken(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    value = bytes(900_000)
    with Wire(broker.bootstrap) as wire:
        wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        produce(wire, topic, build([(None, value, [], 1_700_000_000_000)]))
        fetch = request_bytes(fetch_request(topic, 0), 12)
        wire.socket.setblocking(False)
        before = resident_bytes()
        sent = 0
        for _ in range(10_000):
            try:
                sent += wire.socket.send(fetch)
            except BlockingIOError:
                break
        with Wire(broker.bootstrap) as other:
            other.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        assert resident_bytes() - before < 64 * MIB


def fetch_request(topic: str, offset: int, **more: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MIB)
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[partition])], **more
    )


def produce(wire: Wire, topic: str, batch: bytes, version: int = 9) -> tuple[int, str | None]:
    """Produce one batch with acks=all; (error code, message)."""
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = wire.ask(request, version, ProduceResponse)
    (partition,) = answer.responses[0].partition_responses
    return partition.error_code, partition.error_message


def flipped(batch: bytes, position: int) -> bytes:
    return batch[:position] + bytes([batch[position] ^ 1]) + batch[position + 1 :]


GOOD = build([(b"k", b"v", [], 1_700_000_000_000)])
BOMB = assemble(compress(CompressionType.GZIP, bytes(64 * MIB)), 1, attributes=CompressionType.GZIP)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (flipped(GOOD, 65), ErrorCode.CORRUPT_MESSAGE),
        (flipped(GOOD, 17), ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:16] + b"\x01" + GOOD[17:], ErrorCode.INVALID_RECORD),
        (GOOD[:-3], ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (assemble(b"", 5), ErrorCode.INVALID_RECORD),
        (assemble(b"\xff" * 20, 1), ErrorCode.INVALID_RECORD),
        (BOMB, ErrorCode.MESSAGE_TOO_LARGE),
        (build([(b"k", bytes(2 * MIB), [], 1)]), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=[
        "bad CRC over the records",
        "another CRC",
        "magic 1",
        "truncated batch",
        "two batches",
        "no batch",
        "records missing",
        "record length without end",
        "decompression bomb",
        "larger than the topic allows",
    ],
)
def test_a_bad_batch_is_refused_and_nothing_is_appended(
    broker: Broker, new_topic: Callable[..., str], batch: bytes, error: ErrorCode
) -> None:
    topic = new_topic()
    with Wire(broker.bootstrap) as wire:
        wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        assert produce(wire, topic, batch)[0] == error
        assert produce(wire, topic, GOOD)[0] == ErrorCode.NONE
        answer = wire.ask(fetch_request(topic, 0), 12, FetchResponse)
    (partition,) = answer.responses[0].partitions
    assert partition.high_watermark == 1


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\0b", "../../etc/passwd", "x" * 250, "t\u00f6pic", "a b"]
)
def test_a_name_that_is_no_topics_name_is_refused(broker: Broker, name: str) -> None:
    asked = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    with Wire(broker.bootstrap) as wire:
        answer = wire.ask(CreateTopicsRequest(topics=[asked]), 7, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_name_too_long_to_quote_is_refused(broker: Broker) -> None:
    """A message that quotes it would not fit in a string."""
    asked = CreatableTopic(
        name="x" * 32_767, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    with Wire(broker.bootstrap) as wire:
        answer = wire.ask(CreateTopicsRequest(topics=[asked]), 7, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(answer.topics[0].error_message or "") < 2_100


@pytest.mark.parametrize(
    "request_and_version",
    [
        (FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=7, topics=[]), 12),
        (ListOffsetsRequest(replica_id=-1, isolation_level=7, topics=[]), 7),
    ],
    ids=["Fetch", "ListOffsets"],
)
def test_an_unknown_isolation_level_ends_the_connection(
    broker: Broker, request_and_version: tuple[object, int]
) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.send(request_bytes(*request_and_version))
        assert wire.closed_by_peer()


def test_a_cursor_at_a_negative_partition_is_refused(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    name = new_topic()
    asked = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name)], cursor=Cursor(topic_name=name, partition_index=-5)
    )
    with Wire(broker.bootstrap) as wire:
        answer = wire.ask(asked, 0, DescribeTopicPartitionsResponse)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    first, second = sorted([new_topic(), new_topic()])
    asked = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=first), TopicRequest(name=second)],
        response_partition_limit=1,
        cursor=Cursor(topic_name=first, partition_index=2**31 - 1),
    )
    with Wire(broker.bootstrap) as wire:
        answer = wire.ask(asked, 0, DescribeTopicPartitionsResponse)
    assert [(t.name, len(t.partitions)) for t in answer.topics] == [(first, 0), (second, 1)]


def test_empty_arrays_everywhere_are_harmless(broker: Broker) -> None:
    from odradek.broker.apis import ROWS

    with Wire(broker.bootstrap) as wire:
        for row in ROWS:
            for version in range(row.min_version, row.max_version + 1):
                wire.send(request_bytes(empty(row.request), version))
                assert wire.frame() is not None, f"{row.name} v{version}"


def empty(request: type[object]) -> object:
    """The request with every array and text empty and every number 0."""
    from dataclasses import MISSING

    nothing: dict[object, object] = {TEXT: "", BLOB: b"", IDENTIFIER: ZERO_UUID, BOOLEAN: False}
    values: dict[str, object] = {}
    for field in fields_of(request):
        if field.default is MISSING:
            if isinstance(field.type, ArrayOf):
                values[field.name] = []
            else:
                values[field.name] = None if field.optional else nothing.get(field.type, 0)
    if request is ApiVersionsRequest:
        values |= {"client_software_name": "a", "client_software_version": "1"}
    if request is ProduceRequest:
        values |= {"acks": 1}
    return request(**values)


def test_metadata_of_10_000_topics_that_do_not_exist(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked for with leave to create them: one answer, one line in the log, no topic."""
    names = [MetadataRequestTopic(name=f"none-{number}") for number in range(10_000)]
    with Wire(broker.bootstrap, timeout=60) as wire:
        wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        asked = MetadataRequest(topics=names, allow_auto_topic_creation=True)
        before = resident_bytes()
        for _ in range(3):
            answer = wire.ask(asked, 9, MetadataResponse)
            assert len(answer.topics) == len(names)
        assert resident_bytes() - before < 64 * MIB
        everything = wire.ask(MetadataRequest(topics=None), 9, MetadataResponse)
    assert not any((topic.name or "").startswith("none-") for topic in everything.topics)
    assert len(caplog.records) == 3


@pytest.mark.parametrize("codec", [c for c in CompressionType if c is not CompressionType.NONE])
def test_bomb_after_bomb_holds_no_memory(
    broker: Broker, new_topic: Callable[..., str], codec: CompressionType
) -> None:
    """What the broker must decompress to check is let go of again."""
    topic = new_topic()
    bomb = assemble(compress(codec, bytes(20 * MIB)), 1, attributes=codec)
    honest = build([(None, bytes(900_000), [], 1_700_000_000_000)], codec)
    with Wire(broker.bootstrap) as wire:
        wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        produce(wire, topic, bomb)
        before = resident_bytes()
        for _ in range(5):
            assert produce(wire, topic, bomb)[0] != ErrorCode.NONE
            assert produce(wire, topic, honest)[0] == ErrorCode.NONE
        assert resident_bytes() - before < 48 * MIB


def test_names_that_differ_only_in_dots_and_underscores_do_not_stand_side_by_side(
    broker: Broker,
) -> None:
    def created(name: str) -> ErrorCode:
        asked = CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        with Wire(broker.bootstrap) as wire:
            answer = wire.ask(CreateTopicsRequest(topics=[asked]), 7, CreateTopicsResponse)
        return ErrorCode(answer.topics[0].error_code)

    assert created("one.name") == ErrorCode.NONE
    assert created("one_name") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert created("One.name") == ErrorCode.NONE
    assert created("\u043ene.name") == ErrorCode.INVALID_TOPIC_EXCEPTION  # Cyrillic o
