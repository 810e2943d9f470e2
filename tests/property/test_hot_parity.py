"""The readers and writers by hand do exactly what those made from the declarations do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_strategies import messages

from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.spans import FileSlice
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.hot_requests import FetchRequestReader, ProduceRequestReader
from odradek.protocol.hot_responses import FetchResponseWriter, ProduceResponseWriter
from odradek.protocol.primitives import REQUEST_OBJECTS_MAX, uvarint
from odradek.protocol.reader import compile_reader
from odradek.protocol.writer import compile_writer, joined

careful = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
PRODUCE, FETCH = range(3, 14), range(4, 19)


def readers(cls: type[Any], version: int) -> tuple[Any, Any]:
    """The reader by hand and the reference."""
    made = compile_reader(cls, version)[0]
    if cls is ProduceRequest:
        return ProduceRequestReader(version).read, made
    return FetchRequestReader(version, made).read, made


def outcome(read: Any, frame: bytes, pos: int) -> Any:
    """What is read, or that it is refused."""
    try:
        return read(frame, pos)
    except ProtocolError:
        return ProtocolError


@pytest.mark.parametrize(
    ("cls", "version"),
    [(ProduceRequest, version) for version in PRODUCE]
    + [(FetchRequest, version) for version in FETCH],
)
@careful
@given(data=st.data())
def test_requests_are_read_alike(cls: type[Any], version: int, data: st.DataObject) -> None:
    by_hand, made = readers(cls, version)
    frame = joined(compile_writer(cls, version)[0](data.draw(messages(cls, version))))
    assert by_hand(b"head" + frame, 4) == made(b"head" + frame, 4)
    for end in range(len(frame)):
        assert outcome(by_hand, frame[:end], 0) is ProtocolError
    damaged = bytearray(frame)
    spots = st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255))
    for position, byte in data.draw(st.lists(spots, max_size=6)):
        damaged[position] = byte
    assert outcome(by_hand, bytes(damaged), 0) == outcome(made, bytes(damaged), 0)


def test_the_objects_of_a_request_are_bounded() -> None:
    """Counts that the bytes could hold are refused by their number, before anything is read."""
    head, topic = b"\x00\xff\xff\x00\x00\x03\xe8", b"\x02t\x01\x00"
    for count, refused in [(REQUEST_OBJECTS_MAX, False), (REQUEST_OBJECTS_MAX + 1, True)]:
        frame = head + uvarint(count + 1) + topic * count + b"\x00"
        assert (outcome(ProduceRequestReader(9).read, frame, 0) is ProtocolError) == refused
    with pytest.raises(ProtocolError, match="1000 elements"):
        ProduceRequestReader(9).read(head + uvarint(1001) + topic * 500 + b"\x00", 0)


class Unread:
    """A file that is not read."""


FILE = Unread()


def in_files(records: bytes | None) -> Any:
    """Records as the log yields them: stretches of a file, a single one or several or none."""
    if records is None or len(records) % 4 == 0:
        return records
    pieces = [FileSlice(FILE, 0, len(records)), FileSlice(FILE, 7, 3)]  # type: ignore[arg-type]
    return [pieces[0], pieces, []][len(records) % 3]


@pytest.mark.parametrize("version", FETCH)
@careful
@given(data=st.data())
def test_fetch_responses_are_written_alike(version: int, data: st.DataObject) -> None:
    response = data.draw(messages(FetchResponse, version))
    for topic in response.responses:
        for partition in topic.partitions:
            partition.records = in_files(partition.records)
            if data.draw(st.booleans()):
                partition.diverging_epoch = None
                partition.current_leader = None
                partition.snapshot_id = None
    made = compile_writer(FetchResponse, version)[0]
    assert FetchResponseWriter(version, made).write(response) == made(response)


@pytest.mark.parametrize("version", PRODUCE)
@careful
@given(data=st.data())
def test_produce_responses_are_written_alike(version: int, data: st.DataObject) -> None:
    response = data.draw(messages(ProduceResponse, version))
    for topic in response.responses:
        for partition in topic.partition_responses:
            if data.draw(st.booleans()):
                partition.record_errors = []
                partition.current_leader = None
    made = compile_writer(ProduceResponse, version)[0]
    assert ProduceResponseWriter(version, made).write(response) == made(response)


def test_values_a_version_lacks_are_refused_alike() -> None:
    def unused(message: Any) -> list[Any]:
        raise NotImplementedError

    response = FetchResponse(session_id=5, responses=[])
    with pytest.raises(NotImplementedError):
        FetchResponseWriter(6, unused).write(response)
    assert FetchResponseWriter(7, unused).write(response)


def test_error_codes_are_numbers_to_both() -> None:
    partition = PartitionProduceResponse(
        index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1
    )
    topic = TopicProduceResponse(name="t", partition_responses=[partition])
    response = ProduceResponse(responses=[topic])
    made = compile_writer(ProduceResponse, 9)[0]
    assert ProduceResponseWriter(9, made).write(response) == made(response)
