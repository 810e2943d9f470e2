"""Frames that are invalid, too large, or contain a request that cannot be read."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import pytest

from clients.asking import long_poll, produce
from clients.bad_input.filling import frame
from clients.bad_input.memory import MIB, resident_bytes
from clients.wire import RawConnection, request_bytes
from odradek.model.errors import ErrorCode
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.record_batch_builder import build
from odradek.testing.broker import Broker


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 17 * MIB),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        frame(99, 0),
        frame(-1, 0),
        frame(3, 99),
        frame(3, -1),
        frame(0, 2),
        frame(3, 9, b"\x00\xff\xff\xff\xff\x07"),
        frame(3, 9, b"\x00" + b"\xff" * 12),
        frame(3, 9, b"\x00" + b"\x80" * 9 + b"\x01"),
        frame(3, 9, b"\x00" + b"\xff\xff\xff\xff\x1f"),
        frame(3, 9, b"\x00\x02\x00"),
        frame(1, 12, b"\x00"),
        frame(19, 5, b"\x00\x7f\x05\xff"),
        frame(3, 1, struct.pack(">i", 2**31 - 1)),
        frame(3, 1, struct.pack(">i", -2)),
        frame(3, 1, struct.pack(">ih", 1, -5)),
        frame(3, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
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
        "varint of ten bytes",
        "varint of more than 32 bits",
        "compact string that is null",
        "truncated",
        "array longer than the frame",
        "array of 2^31-1",
        "array of negative length",
        "string of negative length",
        "string that is not UTF-8",
        "client id longer than the frame",
    ],
)
def test_an_invalid_request_closes_its_connection(broker: Broker, sent: bytes) -> None:
    with RawConnection(broker.bootstrap) as wire:
        wire.send(sent)
        assert wire.closed_by_peer()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: Broker) -> None:
    with RawConnection(broker.bootstrap) as wire:
        wire.send(frame(18, 99, b"\x00whatever comes"))
        answer = wire.answer(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in answer.api_keys] == [(18, 5)]


def test_a_large_first_request_is_refused(broker: Broker) -> None:
    with RawConnection(broker.bootstrap) as wire:
        wire.send(struct.pack(">i", 100_000))
        assert wire.closed_by_peer()


def test_a_frame_sent_byte_by_byte_is_answered(broker: Broker) -> None:
    with RawConnection(broker.bootstrap) as wire:
        for byte in request_bytes(MetadataRequest(topics=[]), 9):
            wire.send(bytes([byte]))
        answer = wire.answer(MetadataRequest(topics=[]), 9, MetadataResponse)
    assert answer.brokers


def test_a_large_stated_length_holds_no_memory(broker: Broker, known: RawConnection) -> None:
    before = resident_bytes()
    known.send(struct.pack(">i", 15 * MIB) + bytes(1000))
    with RawConnection(broker.bootstrap) as other:
        other.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
    assert resident_bytes() - before < 8 * MIB


def test_pipelined_requests_are_not_read_while_responses_are_not(
    broker: Broker, new_topic: Callable[..., str], known: RawConnection
) -> None:
    topic = new_topic()
    assert produce(known, topic, 0, build([(None, bytes(900_000), [], 1_700_000_000_000)])) == 0
    fetch = request_bytes(long_poll(topic, 0), 12)
    known.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(10_000):
            known.socket.send(fetch)
    with RawConnection(broker.bootstrap) as other:
        other.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
