"""One client's requests and answers: order, batching, back-pressure, deadlines, every ending."""

from __future__ import annotations

import errno
import logging
import struct

import pytest
from memory_network import Client, PinnedFile, Recorder, framed, serve

from odradek.model.errors import ProtocolError
from odradek.network.connection import Connection, Exchange
from odradek.network.limits import ConnectionLimits
from odradek.network.output import INLINE_BYTES

LONG = INLINE_BYTES + 1


# Order.


def test_a_request_is_handed_out_and_its_answer_sent() -> None:
    network, server = serve(Recorder(echo=True))
    client = network.connect()
    client.request(b"hello")
    assert client.read() == framed(b"hello")
    assert (server.counters.bytes_in, server.counters.bytes_out) == (9, 9)
    assert (server.counters.requests, network.interest_changes) == (1, 0)


def test_answers_leave_in_the_order_of_the_requests_whatever_the_order_they_are_ready_in() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.send(framed(b"1") + framed(b"2") + framed(b"3"))
    one, two, three = handler.exchanges
    three.respond([b"third"])
    network.run()
    two.no_response()
    network.run()
    assert client.read() == b""
    assert handler.connections[0].in_progress == 3
    one.respond([b"first,"])
    network.run()
    assert client.read() == b"first,third"
    assert handler.connections[0].in_progress == 0


def test_answers_of_one_turn_leave_with_one_call() -> None:
    network, _ = serve(Recorder(echo=True))
    client = network.connect()
    client.send(b"".join(framed(b"x") for _ in range(10)))
    assert client.transport.sends == [50]


def test_answers_that_become_ready_in_one_event_leave_with_one_call() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.send(b"".join(framed(b"x") for _ in range(10)))
    for exchange in handler.exchanges:
        exchange.respond([b"answer"])
    assert client.transport.sends == []
    network.run()
    assert client.transport.sends == [60]


def test_an_exchange_is_answered_once() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    network.connect().request(b"x")
    (exchange,) = handler.exchanges
    assert not exchange.answered
    exchange.no_response()
    assert exchange.answered
    with pytest.raises(AssertionError, match="twice"):
        exchange.respond([b"again"])


# Back-pressure and fairness.


def test_reading_stops_while_too_many_requests_are_in_progress() -> None:
    handler = Recorder()
    network, _ = serve(handler, ConnectionLimits(max_in_progress=3))
    client = network.connect()
    client.send(b"".join(framed(b"%d" % i) for i in range(5)))
    client.send(framed(b"5"))
    assert handler.frames == [b"0", b"1", b"2"]
    assert not client.transport.read
    assert client.transport.inbox == framed(b"5"), (
        "left to the system, where it holds the client up"
    )
    handler.exchanges[1].respond([b"b"])
    network.run()
    assert len(handler.frames) == 3, "the oldest is not answered"
    handler.exchanges[0].no_response()
    network.run()
    assert handler.frames == [b"0", b"1", b"2", b"3", b"4"]
    for exchange in handler.exchanges[2:]:
        exchange.no_response()
    network.run()
    assert handler.frames[-1] == b"5"
    assert client.transport.read


def test_reading_goes_on_after_an_answer_also_if_no_frame_waits() -> None:
    handler = Recorder()
    network, _ = serve(handler, ConnectionLimits(max_in_progress=1))
    client = network.connect()
    client.request(b"1")
    assert not client.transport.read
    handler.exchanges[0].respond([b"one"])
    network.run()
    assert client.transport.read
    client.request(b"2")
    assert handler.frames == [b"1", b"2"]


def test_reading_stops_while_the_client_does_not_take_its_answers() -> None:
    handler = Recorder(echo=True)
    limits = ConnectionLimits(max_queued_bytes=1000)
    network, server = serve(handler, limits)
    client = network.connect(capacity=100)
    client.send(b"".join(framed(b"x" * 396) for _ in range(20)))
    (connection,) = handler.connections
    assert not client.transport.read
    assert 1000 < connection.queued_bytes <= 1000 + 400
    handed_out = len(handler.frames)
    assert handed_out < 6
    got = b""
    while data := client.read(50):
        assert connection.queued_bytes <= 1000 + 400
        got += data
    assert got == b"".join(framed(b"x" * 396) for _ in range(20))
    assert (client.transport.read, client.transport.write) == (True, False)
    assert server.counters.bytes_out == len(got)


def test_a_turn_hands_out_a_bounded_number_of_frames_then_others_have_theirs() -> None:
    handler = Recorder(echo=True)
    network, _ = serve(handler, ConnectionLimits(frames_per_turn=4))
    greedy, modest = network.connect(), network.connect()
    greedy.transport.inbox += b"".join(framed(b"greedy") for _ in range(10))
    modest.transport.inbox += framed(b"modest")
    network.run_once()
    assert handler.frames == [b"greedy"] * 4 + [b"modest"] + [b"greedy"] * 4
    network.run()
    assert handler.frames.count(b"greedy") == 10


def test_a_turn_sends_a_bounded_number_of_bytes_then_others_have_theirs() -> None:
    handler = Recorder()
    network, _ = serve(handler, ConnectionLimits(bytes_per_turn=100_000))
    clients = [network.connect(), network.connect()]
    file = PinnedFile(b"x" * 300_000)
    for client in clients:
        client.request(b"fetch")
    for exchange in handler.exchanges:
        exchange.respond([file.slice(0, 300_000)])
    for sent in (100_000, 200_000, 300_000):
        network.run_once()
        assert [len(client.transport.outbox) for client in clients] == [sent, sent]
    assert file.pins == 0


# Deadlines.


def test_a_client_that_takes_nothing_is_closed_after_the_deadline() -> None:
    handler = Recorder(echo=True)
    network, server = serve(handler, ConnectionLimits(stalled_timeout_ms=5000))
    client = network.connect(capacity=10)
    client.request(b"x" * 100)
    network.pass_time(4000)
    client.read(5)
    network.pass_time(4999)
    assert client.open
    network.pass_time(1)
    assert not client.open
    assert server.counters.stalled_closed == 1


def test_a_client_that_took_everything_is_not_closed_by_an_old_deadline() -> None:
    network, server = serve(Recorder(echo=True), ConnectionLimits(stalled_timeout_ms=5000))
    client = network.connect(capacity=10)
    client.request(b"x" * 100)
    while client.read():
        pass
    network.pass_time(4999)
    client.request(b"y" * 100)
    network.pass_time(4999)
    assert client.open, "it stalls for 4,999 ms only"
    network.pass_time(1)
    assert server.counters.stalled_closed == 1


def test_a_deadline_that_passes_while_nothing_waits_closes_nothing() -> None:
    network, _ = serve(Recorder(echo=True), ConnectionLimits(stalled_timeout_ms=5000))
    client = network.connect(capacity=10)
    client.request(b"x" * 100)
    while client.read():
        pass
    network.pass_time(20_000)
    assert client.open


def test_an_idle_connection_is_closed_at_its_deadline_not_before_and_not_later() -> None:
    network, server = serve(Recorder(echo=True), ConnectionLimits(max_idle_ms=60_000))
    client = network.connect()
    client.request(b"x")
    network.pass_time(59_999)
    client.request(b"x")
    network.pass_time(59_999)
    assert client.open
    network.pass_time(1)
    assert not client.open
    assert server.counters.idle_closed == 1


def test_requests_do_not_touch_the_timer() -> None:
    network, _ = serve(Recorder(echo=True))
    client = network.connect()
    pending = network.timer.size
    for _ in range(100):
        client.request(b"x")
    assert network.timer.size == pending == 1


def test_a_connection_with_a_request_in_progress_is_not_idle() -> None:
    handler = Recorder()
    network, _ = serve(handler, ConnectionLimits(max_idle_ms=1000))
    client = network.connect()
    client.request(b"long poll")
    network.pass_time(10_000)
    assert client.open
    handler.exchanges[0].respond([b"at last"])
    network.pass_time(1000)
    assert not client.open
    assert client.transport.outbox == b"at last"


def test_without_a_whole_first_request_in_time_it_is_closed() -> None:
    network, _ = serve(Recorder(), ConnectionLimits(first_request_timeout_ms=1000))
    silent, slow = network.connect(), network.connect()
    for byte in framed(b"slow loris")[:-1]:
        slow.send(bytes([byte]))
        network.pass_time(80)
    assert not silent.open
    assert not slow.open


def test_no_timer_is_left_behind() -> None:
    network, _ = serve(Recorder(echo=True))
    client = network.connect(capacity=10)
    client.request(b"x" * 100)
    assert network.timer.size == 2
    client.end()
    assert network.timer.size == 0


# Bad input: each closes that connection with one line, and others are served.


def others_are_served(client: Client) -> bool:
    other = client.network.connect("10.9.9.9")
    other.request(b"still there?")
    return other.read() == framed(b"still there?")


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
def test_a_frame_that_cannot_be_closes_only_its_connection(
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


def test_the_first_request_is_small_later_ones_may_be_large() -> None:
    handler = Recorder(echo=True)
    limits = ConnectionLimits(max_first_request_bytes=10, max_request_bytes=100)
    network, _ = serve(handler, limits)
    client = network.connect()
    client.send(framed(b"x" * 10) + framed(b"x" * 100) + framed(b"x" * 101))
    assert [len(frame) for frame in handler.frames] == [10, 100]
    assert not client.open


def test_limits_that_change_apply_to_those_who_have_not_sent_their_first_request() -> None:
    handler = Recorder(echo=True)
    network, server = serve(handler, ConnectionLimits(max_first_request_bytes=10))
    client = network.connect()
    server.limits = ConnectionLimits(max_first_request_bytes=20, max_request_bytes=100)
    client.send(framed(b"x" * 10) + framed(b"x" * 100))
    assert [len(frame) for frame in handler.frames] == [10, 100]


def test_a_protocol_error_of_the_handler_closes_with_one_line(
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
    assert client.transport.outbox == framed(b"good"), "what was ready is still sent"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert (server.counters.violations, server.counters.bugs) == (1, 0)
    assert others_are_served(client)


def test_a_bug_in_the_handler_closes_logs_counts_and_tells(
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


# Endings.


def test_requests_before_the_end_of_the_stream_are_handed_out_all() -> None:
    class Quiet(Recorder):
        def received(self, exchange: Exchange) -> None:
            super().received(exchange)
            exchange.no_response()

    handler = Quiet()
    network, _ = serve(handler, ConnectionLimits(frames_per_turn=2))
    client = network.connect()
    client.transport.inbox += b"".join(framed(b"acks=0") for _ in range(9))
    client.end()
    assert len(handler.frames) == 9
    assert not client.open


def test_the_handler_is_told_once_and_not_within_its_own_call() -> None:
    told_within: list[bool] = []

    class Closing(Recorder):
        def received(self, exchange: Exchange) -> None:
            exchange.close_connection("no")
            told_within.append(bool(self.gone))
            exchange.connection.close("again")

    handler = Closing()
    network, server = serve(handler)
    network.connect().request(b"x")
    assert told_within == [False]
    assert handler.gone == handler.connections
    assert server.connections == {}


def test_an_answer_after_the_end_is_dropped_and_its_files_released() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.request(b"fetch")
    client.end()
    file = PinnedFile(b"x" * LONG)
    handler.exchanges[0].respond([b"head", file.slice(0, LONG)])
    network.run()
    assert file.pins == 0


def test_files_of_all_unsent_answers_are_released_when_the_connection_dies() -> None:
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


def test_a_broken_disk_under_an_answer_closes_and_is_an_error_in_the_log(
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


def test_without_memory_for_it_a_connection_ends_and_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network, server = serve(Recorder(echo=True))
    client = network.connect()
    client.fail(MemoryError())
    assert not client.open
    assert server.connections == {}
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert others_are_served(client)


def test_a_reset_is_nothing_to_write_about(caplog: pytest.LogCaptureFixture) -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.send(framed(b"half")[:6])
    client.fail(ConnectionResetError(errno.ECONNRESET, "reset"))
    assert handler.gone == handler.connections
    assert caplog.records == []


def test_a_failure_is_noticed_while_reading_is_stopped() -> None:
    """The system tells of a failure whatever the interest is; what came before is not lost."""
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


# All connections.


def test_connections_above_the_limits_are_refused_with_one_line_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Recorder(echo=True)
    limits = ConnectionLimits(max_connections=3, max_connections_per_ip=2)
    network, server = serve(handler, limits)
    first, second = network.connect("10.0.0.1"), network.connect("10.0.0.1")
    assert not network.connect("10.0.0.1").open
    third = network.connect("10.0.0.2")
    assert not network.connect("10.0.0.3").open
    assert all(client.open for client in (first, second, third))
    assert server.counters.connections_refused == 2
    assert len(caplog.records) == 1
    assert "max.connections.per.ip=2" in caplog.records[0].getMessage()
    first.end()
    second.end()
    assert network.connect("10.0.0.1").open, "a place is free again"
    assert network.connect("10.0.0.1").open


def test_closing_the_server_closes_all() -> None:
    handler = Recorder(echo=True)
    network, server = serve(handler)
    clients = [network.connect() for _ in range(3)]
    server.close()
    network.run()
    assert not any(client.open for client in clients)
    assert len(handler.gone) == server.counters.connections_closed == 3
    assert network.timer.size == 0


def test_a_connection_says_who_it_is() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    network.connect("10.1.2.3")
    (connection,) = handler.connections
    assert isinstance(connection, Connection)
    assert (str(connection), connection.peer, connection.id) == (
        "10.1.2.3:1000",
        ("10.1.2.3", 1000),
        1,
    )


# Gone with requests unanswered.


def test_what_waits_to_answer_is_told_when_the_client_is_gone() -> None:
    """Once, after the event, and only for requests that were not answered."""
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
