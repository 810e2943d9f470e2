"""Closing connections: their responses, files and callbacks."""

from __future__ import annotations

import errno
import logging

import pytest

from odradek.network.connection import ConnectionLimits, Exchange
from odradek.network.output import INLINE_BYTES
from unit.network.memory_network import PinnedFile, Recorder, framed, others_are_served, serve

LONG = INLINE_BYTES + 1


def test_requests_before_the_end_of_the_stream_all_reach_the_handler() -> None:
    class Quiet(Recorder):
        def received(self, exchange: Exchange) -> None:
            super().received(exchange)
            exchange.no_response()

    handler = Quiet()
    network, _ = serve(handler, ConnectionLimits(frames_per_round=2))
    client = network.connect()
    client.transport.inbox += b"".join(framed(b"acks=0") for _ in range(9))
    client.end()
    assert len(handler.frames) == 9
    assert not client.open


def test_disconnected_is_called_once_and_not_within_a_call_of_the_handler() -> None:
    told_within: list[bool] = []

    class ClosingHandler(Recorder):
        def received(self, exchange: Exchange) -> None:
            exchange.close_connection("no")
            told_within.append(bool(self.disconnections))
            exchange.connection.close("again")

    handler = ClosingHandler()
    network, server = serve(handler)
    network.connect().request(b"x")
    assert told_within == [False]
    assert handler.disconnections == handler.connections
    assert server.connections == {}


def test_the_last_answer_of_a_connection_is_sent_before_it_ends() -> None:
    class EndingHandler(Recorder):
        def received(self, exchange: Exchange) -> None:
            super().received(exchange)
            exchange.end_connection("ask another")
            exchange.respond([framed(b"answer")])

    handler = EndingHandler()
    network, server = serve(handler)
    client = network.connect()
    client.request(b"x")
    assert client.read() == framed(b"answer")
    assert not client.open
    assert server.connections == {}


def test_a_response_after_the_close_is_dropped_and_its_files_released() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.request(b"fetch")
    client.end()
    file = PinnedFile(b"x" * LONG)
    handler.exchanges[0].respond([b"head", file.slice(0, LONG)])
    network.run()
    assert file.pins == 0


def test_files_of_unsent_responses_are_released_when_the_connection_closes() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect(capacity=20_000)
    client.send(b"".join(framed(b"fetch") for _ in range(4)))
    file = PinnedFile(b"x" * LONG)
    for exchange in (handler.exchanges[0], handler.exchanges[1], handler.exchanges[3]):
        exchange.respond([b"head", file.slice(0, LONG), file.slice(0, 5)])
    network.run()
    assert file.pins == 4, "one is sent, a small one read; the rest waits"
    client.fail(ConnectionResetError(errno.ECONNRESET, "reset"))
    assert not client.open
    assert file.pins == 0


def test_a_disk_error_while_sending_closes_the_connection_and_is_logged_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Recorder(echo=True)
    network, _ = serve(handler)
    handler.echo = False
    client = network.connect()
    client.request(b"fetch")
    file = PinnedFile(b"x" * LONG)
    file.broken = OSError(errno.EIO, "broken disk")
    handler.exchanges[0].respond([b"head", file.slice(0, LONG)])
    network.run()
    assert not client.open
    assert file.pins == 0
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    handler.echo = True
    assert others_are_served(client)


def test_a_memory_error_closes_one_connection_and_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network, server = serve(Recorder(echo=True))
    client = network.connect()
    client.fail(MemoryError())
    assert not client.open
    assert server.connections == {}
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert others_are_served(client)


def test_a_reset_by_the_client_is_logged_at_debug_level_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.send(framed(b"half")[:6])
    client.fail(ConnectionResetError(errno.ECONNRESET, "reset"))
    assert handler.disconnections == handler.connections
    assert caplog.records == []


def test_a_failure_is_noticed_while_reading_is_stopped() -> None:
    # The system reports a failure whatever the interest; requests before it are not lost.
    handler = Recorder()
    network, _ = serve(handler, ConnectionLimits(max_in_progress=1))
    client = network.connect()
    client.send(framed(b"1") + framed(b"2"))
    assert not client.transport.read
    client.transport.inbox += framed(b"3")
    readable = client.transport.readable
    assert readable is not None
    readable()
    assert handler.frames == [b"1"]
    client.transport.ended = True
    readable()
    network.run()
    assert not client.open


# Closing with unanswered requests.


def test_abandoned_is_called_for_unanswered_requests_of_a_closed_connection() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.send(framed(b"1") + framed(b"2") + framed(b"3"))
    told: list[bytes] = []
    for exchange in handler.exchanges:
        exchange.abandoned = lambda frame=exchange.frame: told.append(frame)
    handler.exchanges[1].respond([b"behind the first"])
    client.end()
    network.run()
    assert told == [b"1", b"3"]
