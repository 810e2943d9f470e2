"""Invalid input closes its connection with one log line, and others are served."""

from __future__ import annotations

import struct

import pytest

from odradek.model.errors import ProtocolError
from odradek.network.connection import ConnectionLimits, Exchange
from unit.network.memory_network import Recorder, framed, others_are_served, serve


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (struct.pack(">i", 0), "length 0"),
        (struct.pack(">i", -1), "length -1"),
        (struct.pack(">i", 2**31 - 1), "above the limit"),
        (struct.pack(">i", 64 * 1024 + 1), "above the limit of 65536"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
    ],
)
def test_an_invalid_frame_closes_only_its_connection(
    data: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    network, server = serve(Recorder(echo=True))
    client = network.connect()
    client.send(data)
    assert not client.open
    assert server.counters.violations == 1
    (record,) = caplog.records
    assert said in record.getMessage()
    assert "10.0.0.1:1000" in record.getMessage()
    assert others_are_served(client)


def test_the_first_request_has_a_lower_size_limit_than_later_ones() -> None:
    handler = Recorder(echo=True)
    limits = ConnectionLimits(max_first_request_bytes=10, max_request_bytes=100)
    network, _ = serve(handler, limits)
    client = network.connect()
    client.send(framed(b"x" * 10) + framed(b"x" * 100) + framed(b"x" * 101))
    assert [len(frame) for frame in handler.frames] == [10, 100]
    assert not client.open


def test_a_changed_limit_applies_to_connections_before_their_first_request() -> None:
    handler = Recorder(echo=True)
    network, server = serve(handler, ConnectionLimits(max_first_request_bytes=10))
    client = network.connect()
    server.limits = ConnectionLimits(max_first_request_bytes=20, max_request_bytes=100)
    client.send(framed(b"x" * 10) + framed(b"x" * 100))
    assert [len(frame) for frame in handler.frames] == [10, 100]


def test_a_protocol_error_of_the_handler_closes_with_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Strict(Recorder):
        def received(self, exchange: Exchange) -> None:
            if exchange.frame == b"bad":
                raise ProtocolError("a bad request")
            super().received(exchange)

    network, server = serve(Strict(echo=True))
    client = network.connect()
    client.send(framed(b"good") + framed(b"bad") + framed(b"never"))
    assert not client.open
    assert client.transport.outbox == framed(b"good"), "a ready response is still sent"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert (server.counters.violations, server.counters.bugs) == (1, 0)
    assert others_are_served(client)


def test_a_bug_in_the_handler_closes_the_connection_and_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Recorder(echo=True)
    network, server = serve(handler)
    told: list[tuple[str, Exception]] = []
    server.on_bug = lambda where, error: told.append((where, error))
    client = network.connect()
    client.send(framed(b"bug") + framed(b"never"))
    assert not client.open
    assert handler.frames == [b"bug"]
    assert server.counters.bugs == 1
    assert isinstance(told[0][1], ZeroDivisionError)
    assert caplog.records[0].exc_info is not None
    assert others_are_served(client)


def test_an_exchange_may_close_its_connection_later() -> None:
    handler = Recorder()
    network, server = serve(handler)
    client = network.connect()
    client.send(framed(b"1") + framed(b"2"))
    handler.exchanges[0].respond([b"one"])
    handler.exchanges[1].close_connection("not allowed")
    assert not client.open
    assert client.transport.outbox == b"one"
    assert server.counters.violations == 1
