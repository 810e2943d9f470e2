"""The hand-written readers and writers do exactly what the generated ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from odradek.model.byte_ranges import ByteRange, FileSlice
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.codec import HOT_READERS, HOT_WRITERS
from odradek.protocol.codegen import objects_max
from odradek.protocol.generated_reader import compile_reader
from odradek.protocol.generated_writer import compile_writer, joined
from odradek.protocol.primitives import (
    COPIED_BYTES_MAX,
    RESPONSE_OBJECTS_MAX,
    uvarint,
)
from odradek.protocol.schema import UnsupportedVersionError, declaration, fields_of
from property.random_messages import random_messages

EXAMPLES = 24
MESSAGES = [
    ProduceRequest,
    ProduceResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
]


def versions(cls: type[Any]) -> range:
    low, high = declaration(cls).versions
    return range(low, high + 1)


every_version = pytest.mark.parametrize(
    ("cls", "version"), [(cls, version) for cls in MESSAGES for version in versions(cls)]
)


READERS: dict[tuple[type[Any], int, bool], Callable[..., Any]] = {}
WRITERS: dict[tuple[type[Any], int], Callable[..., Any]] = {}


def generated_reader(cls: type[Any], version: int, open_ended: bool = False) -> Callable[..., Any]:
    key = cls, version, open_ended
    if key not in READERS:
        READERS[key] = compile_reader(*key)[0]
    return READERS[key]


def generated_writer(cls: type[Any], version: int) -> Callable[..., Any]:
    key = cls, version
    if key not in WRITERS:
        WRITERS[key] = compile_writer(*key)[0]
    return WRITERS[key]


def unused(*_: Any) -> Any:
    """Stands in for the reference and fails the test if called."""
    raise NotImplementedError


def by_hand(cls: type[Any], version: int, *, open_ended: bool = True) -> Callable[..., Any]:
    """Return the hand-written reader without a reference."""
    return HOT_READERS[cls](cls, version, unused, open_ended).read


def outcome(codec: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result, or the error."""
    try:
        return codec(*arguments)
    except (ProtocolError, UnsupportedVersionError) as refusal:
        return type(refusal)


def make_common(message: Any, chosen: Callable[[], bool] = lambda: True) -> None:
    """Remove values that are left to the reference, all of them or a drawn part."""
    for item in fields_of(type(message)):
        value = getattr(message, item.name)
        if item.tag is not None or item.name == "record_errors":
            if chosen():
                setattr(message, item.name, [] if item.default == [] else item.default)
        elif item.name == "aborted_transactions":
            if value and chosen():
                message.aborted_transactions = []
        elif item.name == "isolation_level":
            if chosen():
                message.isolation_level = abs(value) % 128
        elif isinstance(value, list):
            for each in value:
                if not isinstance(each, int):
                    make_common(each, chosen)


def examples(cls: type[Any], version: int) -> Iterator[tuple[Random, Any, bool]]:
    """Yield messages, and True with those that only need the hand-written codec."""
    for random, message in random_messages(cls, version, EXAMPLES):
        common = random.random() < 0.5
        if common:
            make_common(message)
        else:
            make_common(message, lambda random=random: random.random() < 0.5)  # type: ignore[misc]
        yield random, message, common


@every_version
def test_both_readers_return_the_same_message(cls: type[Any], version: int) -> None:
    for random, message, common in examples(cls, version):
        frame = joined(generated_writer(cls, version)(message))
        damaged = bytearray(frame)
        for _ in range(random.randint(0, 6)):
            damaged[random.randrange(len(frame))] = random.getrandbits(8)
        if common:
            assert by_hand(cls, version)(b"head" + frame, 4)
        for open_ended in (False, True):
            made = generated_reader(cls, version, open_ended)
            read = HOT_READERS[cls](cls, version, made, open_ended).read
            assert read(b"head" + frame, 4) == made(b"head" + frame, 4)
            for end in range(len(frame)):
                assert outcome(read, frame[:end], 0) is ProtocolError
            for other in (bytes(damaged), bytes(damaged) + b"more"):
                assert outcome(read, other, 0) == outcome(made, other, 0)
            assert (outcome(read, frame + b"more", 0) is ProtocolError) == (not open_ended)


@every_version
def test_both_readers_skip_unknown_tagged_fields(cls: type[Any], version: int) -> None:
    if not declaration(cls).is_flexible(version):
        return
    message = cls(**{item.name: SMALL.get(item.name, item.default) for item in fields_of(cls)})
    frame = joined(generated_writer(cls, version)(message))
    unknown = frame[:-1] + b"\x01\x63\x02ab"
    made = generated_reader(cls, version)
    read = HOT_READERS[cls](cls, version, made, False).read
    assert read(unknown, 0) == read(frame, 0) == made(frame, 0)


SMALL: dict[str, Any] = {
    "acks": 1,
    "timeout_ms": 5,
    "max_wait_ms": 5,
    "min_bytes": 5,
    "topic_data": [],
    "topics": [],
    "responses": [],
    "forgotten_topics_data": [],
    "node_endpoints": [],
    "group_id": "g",
    "generation_id": 1,
    "member_id": "m",
    "error_code": 0,
}


def test_both_readers_refuse_a_request_with_too_many_objects() -> None:
    read, most = by_hand(ProduceRequest, 9), objects_max(ProduceRequest)
    head, topic = b"\x00\xff\xff\x00\x00\x03\xe8", b"\x02t\x01\x00"
    for count, refused in [(most, False), (most + 1, True)]:
        frame = head + uvarint(count + 1) + topic * count + b"\x00"
        assert (outcome(read, frame, 0) is ProtocolError) == refused
    with pytest.raises(ProtocolError, match="1000 elements"):
        read(head + uvarint(1001) + topic * 500 + b"\x00", 0)


@pytest.mark.parametrize(
    ("cls", "version", "head"), [(ProduceResponse, 9, b""), (FetchResponse, 12, bytes(10))]
)
def test_both_readers_refuse_a_response_with_too_many_objects(
    cls: type[Any], version: int, head: bytes
) -> None:
    read = by_hand(cls, version)
    room = bytes(4 * RESPONSE_OBJECTS_MAX + 4)
    with pytest.raises(ProtocolError, match=f"an array of {RESPONSE_OBJECTS_MAX + 1} elements"):
        read(head + uvarint(RESPONSE_OBJECTS_MAX + 2) + room, 0)
    with pytest.raises(ProtocolError, match="a text of -1 bytes"):  # Of the first element.
        read(head + uvarint(RESPONSE_OBJECTS_MAX + 1) + room, 0)


class Unread:
    """A file whose read fails the test."""


FILE = Unread()
SHAPES = ["bytes", "many bytes", "span", "long span", "slice", "slices", "no slices"]


def shaped(records: bytes | None, shape: str) -> Any:
    """Return record batches in one of the forms of the log, a client or a frame reader."""
    if records is None or shape == "bytes":
        return records
    if shape.startswith("span"):
        return ByteRange(b"head" + records + b"tail", 4, 4 + len(records))
    many = records + bytes(COPIED_BYTES_MAX)
    if shape in ("many bytes", "long span"):
        return many if shape == "many bytes" else ByteRange(many, 0, len(many))
    pieces = [FileSlice(FILE, 0, len(many)), FileSlice(FILE, 7, 3)]  # type: ignore[arg-type]
    return {"slice": pieces[0], "slices": pieces, "no slices": []}[shape]


def shape_records(message: Any, random: Random) -> None:
    """Replace all record batches of a message by one form."""
    for item in fields_of(type(message)):
        value = getattr(message, item.name)
        if item.name == "records":
            message.records = shaped(value, random.choice(SHAPES))
        elif isinstance(value, list):
            for each in value:
                if not isinstance(each, int):
                    shape_records(each, random)


@every_version
def test_both_writers_return_the_same_parts_or_error(cls: type[Any], version: int) -> None:
    """Also for messages of other versions, with fields that this one lacks."""
    made = generated_writer(cls, version)
    for other in (version, *versions(cls)):
        for random, message, common in examples(cls, other):
            shape_records(message, random)
            parts, expected = (
                outcome(HOT_WRITERS[cls](cls, version, made).write, message),
                outcome(made, message),
            )
            assert parts == expected
            if expected is not UnsupportedVersionError:
                assert [type(part) for part in parts] == [type(part) for part in expected]
                if common:
                    hot = HOT_WRITERS[cls](cls, version, unused).write
                    assert outcome(hot, message) == expected


@pytest.mark.parametrize("cls", [ProduceRequest, FetchResponse])
def test_both_writers_do_not_copy_large_batches(cls: type[Any]) -> None:
    large = bytes(COPIED_BYTES_MAX + 1)
    for batch, copied in [(large[1:], True), (large, False)]:
        write = HOT_WRITERS[cls](cls, 12, unused).write
        parts = write(produce_of(batch) if cls is ProduceRequest else fetched(batch))
        assert any(part is batch for part in parts) == (not copied)
        assert len(parts) == (1 if copied else 3)


def produce_of(batch: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="t", partition_data=[partition])
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])


def produced(**values: Any) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=6, base_offset=-1, **values)
    return ProduceResponse(responses=[TopicProduceResponse(partition_responses=[partition])])


FOLLOWER = ReplicaState(replica_id=3, replica_epoch=77)


def test_a_followers_fetch_needs_no_reference_codec():
    partition = FetchPartition(
        partition=1, fetch_offset=5, partition_max_bytes=9, log_start_offset=2, durable_end=4
    )
    request = fetch(topics=[FetchTopic(topic_id=UUID(int=7), partitions=[partition])])
    request.replica_state = FOLLOWER
    for version in range(15, 19):
        data = joined(HOT_WRITERS[FetchRequest](FetchRequest, version, unused).write(request))
        assert data == joined(compile_writer(FetchRequest, version)[0](request))
        reader = HOT_READERS[FetchRequest](FetchRequest, version, unused, False)
        assert reader.read(data, 0) == request


def fetch_of(**values: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1, **values)
    return fetch(topics=[FetchTopic(topic="t", partitions=[partition])])


def fetch(**values: Any) -> FetchRequest:
    least: dict[str, Any] = {"max_wait_ms": 1, "min_bytes": 1, "topics": []}
    return FetchRequest(**least | values)


def fetched(batch: bytes = b"", **values: Any) -> FetchResponse:
    least: dict[str, Any] = {"error_code": 0, "high_watermark": 1, "aborted_transactions": None}
    partition = PartitionData(partition_index=0, records=batch, **least | values)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


NODE = NodeEndpoint(node_id=1, host="h", port=1)
NODES = [
    NodeEndpoint(node_id=number, host=f"node{number}." + "long" * 20, port=9092, rack=rack)
    for number, rack in enumerate(("a", None, "rack-c"))
]
LEADER = LeaderIdAndEpoch(leader_id=2_000_000, leader_epoch=300)


def moved_produce(partitions: int) -> ProduceResponse:
    """The response of a broker that has lost its leaderships (KIP-951)."""
    moved = [
        PartitionProduceResponse(
            index=number,
            error_code=6,
            base_offset=-1,
            current_leader=LEADER if number % 2 else None,
        )
        for number in range(partitions)
    ]
    topic = TopicProduceResponse(partition_responses=moved)
    return ProduceResponse(responses=[topic, topic], node_endpoints=NODES)


def moved_fetch(partitions: int) -> FetchResponse:
    """The same of a Fetch, with records of a partition that has not moved."""
    moved = [
        PartitionData(
            partition_index=number,
            error_code=6 if number % 2 else 0,
            high_watermark=1,
            aborted_transactions=None,
            records=b"" if number % 2 else b"x" * 10_000,
            current_leader=LEADER if number % 2 else None,
        )
        for number in range(partitions)
    ]
    topic = FetchableTopicResponse(partitions=moved)
    return FetchResponse(responses=[topic, topic], node_endpoints=NODES)


RARE = [
    produced(record_errors=[BatchIndexAndErrorMessage(batch_index=0)]),
    produced(current_leader=LeaderIdAndEpoch(leader_id=1)),
    ProduceResponse(responses=[], node_endpoints=[NODE]),
    fetch_of(last_fetched_epoch=4),
    fetch_of(replica_directory_id=UUID(int=1)),
    fetch_of(high_watermark=4),
    fetch(cluster_id="c"),
    fetch(replica_id=3),
    fetch(replica_state=ReplicaState()),
    fetch(isolation_level=-1),
    fetch(session_id=4),
    fetch(forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[1])]),
    fetched(diverging_epoch=EpochEndOffset(epoch=1)),
    fetched(current_leader=LeaderIdAndEpoch(leader_id=1)),
    fetched(snapshot_id=SnapshotId(epoch=1)),
    fetched(preferred_read_replica=3),
    fetched(aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)]),
    FetchResponse(responses=[], session_id=5),
    FetchResponse(responses=[], node_endpoints=[NODE]),
]


@pytest.mark.parametrize(
    ("message", "since"), [(moved_produce(5), 10), (moved_fetch(5), 16)], ids=["produce", "fetch"]
)
def test_new_leaders_are_written_by_hand(message: Any, since: int) -> None:
    cls = type(message)

    def reference(message: Any) -> list[Any]:
        raise AssertionError("not by hand")

    for version in versions(cls):
        made = generated_writer(cls, version)
        if version >= since:
            written = HOT_WRITERS[cls](cls, version, reference).write(message)
            assert b"".join(map(bytes, written)) == b"".join(map(bytes, made(message)))
        else:
            assert outcome(HOT_WRITERS[cls](cls, version, made).write, message) == outcome(
                made, message
            )


@pytest.mark.parametrize("message", RARE)
def test_each_rare_field_is_handled_alike_by_both_codecs(message: Any) -> None:
    cls = type(message)
    for version in versions(cls):
        made = generated_writer(cls, version)
        written = outcome(HOT_WRITERS[cls](cls, version, made).write, message)
        assert written == outcome(made, message)
        if written is not UnsupportedVersionError:
            frame, reference = joined(written), generated_reader(cls, version)
            read = HOT_READERS[cls](cls, version, reference, False).read
            assert read(frame, 0) == reference(frame, 0)


def test_both_writers_accept_error_codes_as_numbers() -> None:
    partition = PartitionProduceResponse(
        index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1
    )
    topic = TopicProduceResponse(name="t", partition_responses=[partition])
    response = ProduceResponse(responses=[topic])
    made = generated_writer(ProduceResponse, 9)
    assert HOT_WRITERS[ProduceResponse](ProduceResponse, 9, unused).write(response) == made(
        response
    )
