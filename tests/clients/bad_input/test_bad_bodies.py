"""Requests with additional bytes, too many elements, or meaningless values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.bad_input.filling import Filling, frame, request_frame
from clients.bad_input.memory import MIB
from clients.wire import RawConnection, request_bytes
from odradek.broker.apis import CLIENT_ROWS, Api
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.codec import encode_bytes
from odradek.protocol.primitives import uvarint
from odradek.testing.broker import Broker


@pytest.mark.parametrize("row", CLIENT_ROWS, ids=lambda row: row.name)
def test_bytes_after_a_request_are_skipped_by_every_api(known: RawConnection, row: Api) -> None:
    for version in {row.min_version, row.max_version}:
        request = Filling(version, 0, "", ZERO_UUID).message(row.request)
        known.send(request_frame(row.key, version, encode_bytes(request, version) + b"\0\1\2"))
        assert known.frame() is not None, f"v{version}"


@pytest.mark.parametrize("row", CLIENT_ROWS, ids=lambda row: row.name)
def test_a_truncated_request_closes_its_connection(broker: Broker, row: Api) -> None:
    for version in {row.min_version, row.max_version}:
        request = Filling(version, 1, "name", ZERO_UUID).message(row.request)
        whole = encode_bytes(request, version)
        for size in {len(whole) // 2, len(whole) - 1} if whole else ():
            with RawConnection(broker.bootstrap) as wire:
                wire.send(request_frame(row.key, version, whole[:size]))
                assert wire.closed_by_peer(), f"v{version}, {size} of {len(whole)} bytes"


def array(count: int, element: bytes) -> bytes:
    """Return an array in a flexible version."""
    return uvarint(count + 1) + element * count


def tags(count: int, size: int = 0) -> bytes:
    """Return a section of unknown tagged fields."""
    return uvarint(count) + (b"\x64" + uvarint(size) + bytes(size)) * count


NONE = tags(0)


@pytest.mark.parametrize(
    "rest",
    [
        NONE + b"\x01\x00\x00\x00" + tags(100_000),
        NONE + array(1, b"\x01" + tags(100_000)) + b"\x00\x00\x00" + NONE,
        tags(100_000) + b"\x01\x00\x00\x00" + NONE,
        NONE + b"\x01\x00\x00\x00" + tags(8, MIB),
    ],
    ids=["in the body", "in an element", "in the header", "large ones"],
)
def test_unknown_tagged_fields_are_skipped(known: RawConnection, rest: bytes) -> None:
    known.send(frame(3, 9, rest))
    assert known.answer(MetadataRequest(topics=[]), 9, MetadataResponse).brokers


@pytest.mark.parametrize(
    ("key", "version", "rest"),
    [
        (3, 9, NONE + array(250_000, b"\x02t" + NONE) + bytes(4)),
        (
            9,
            8,
            NONE
            + array(61, b"\x02g" + array(61, b"\x02t" + array(61, bytes(4)) + NONE) + NONE)
            + bytes(2),
        ),
        (0, 9, bytes(8) + array(2, b"\x02t" + array(120_000, b"\0\0\0\0\x01\0") + NONE) + NONE),
        (1, 12, bytes(26) + array(500, b"\x02t" + array(450, bytes(33)) + NONE) + b"\1\1\0"),
        (3, 9, NONE + b"\x01\x00\x00\x00" + tags(250_000)),
        (3, 9, tags(250_000) + b"\x01\x00\x00\x00" + NONE),
        (3, 9, NONE + array(30_000, b"\x01" + tags(10)) + bytes(4)),
    ],
    ids=[
        "in one array",
        "in arrays within arrays",
        "in Produce",
        "in Fetch",
        "in tagged fields",
        "in tagged fields of the header",
        "in tagged fields of elements",
    ],
)
def test_too_many_elements_close_the_connection(
    known: RawConnection, key: int, version: int, rest: bytes
) -> None:
    known.send(frame(key, version, rest))
    assert known.closed_by_peer()


@pytest.mark.parametrize(
    "request_and_version",
    [
        (FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=7, topics=[]), 12),
        (ListOffsetsRequest(replica_id=-1, isolation_level=7, topics=[]), 7),
    ],
    ids=["Fetch", "ListOffsets"],
)
def test_an_unknown_isolation_level_closes_the_connection(
    broker: Broker, request_and_version: tuple[object, int]
) -> None:
    with RawConnection(broker.bootstrap) as wire:
        wire.send(request_bytes(*request_and_version))
        assert wire.closed_by_peer()


def test_a_cursor_at_a_negative_partition_is_refused(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    name = new_topic()
    asked = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name)], cursor=Cursor(topic_name=name, partition_index=-5)
    )
    with RawConnection(broker.bootstrap) as wire:
        answer = wire.ask(asked, 0, DescribeTopicPartitionsResponse)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_cursor_after_the_last_partition_continues_with_the_next_topic(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    first, second = sorted([new_topic(), new_topic()])
    asked = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=first), TopicRequest(name=second)],
        response_partition_limit=1,
        cursor=Cursor(topic_name=first, partition_index=2**31 - 1),
    )
    with RawConnection(broker.bootstrap) as wire:
        answer = wire.ask(asked, 0, DescribeTopicPartitionsResponse)
    assert [(t.name, len(t.partitions)) for t in answer.topics] == [(first, 0), (second, 1)]
