"""Connections: order of responses, batching, back-pressure, deadlines; limits of the server."""

from __future__ import annotations

import pytest

from odradek.network.connection import Connection, ConnectionLimits
from unit.network.memory_network import PinnedFile, Recorder, framed, serve

# Order.


def test_a_request_reaches_the_handler_and_its_response_is_sent() -> None:
    network, server = serve(Recorder(echo=True))
    client = network.connect()
    client.request(b"hello")
    assert client.read() == framed(b"hello")
    assert (server.counters.bytes_in, server.counters.bytes_out) == (9, 9)
    assert (server.counters.requests, network.interest_changes) == (1, 0)


def test_responses_leave_in_the_order_of_the_requests() -> None:
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


def test_responses_of_one_round_leave_with_one_call() -> None:
    network, _ = serve(Recorder(echo=True))
    client = network.connect()
    client.send(b"".join(framed(b"x") for _ in range(10)))
    assert client.transport.sends == [50]


def test_responses_that_become_ready_in_one_event_leave_with_one_call() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.send(b"".join(framed(b"x") for _ in range(10)))
    for exchange in handler.exchanges:
        exchange.respond([b"answer"])
    network.run()
    assert client.transport.sends == [60]


def test_a_response_leaves_at_once_if_no_other_request_is_open() -> None:
    handler = Recorder()
    network, _ = serve(handler)
    client = network.connect()
    client.send(b"".join(framed(b"x") for _ in range(3)))
    first, second, third = handler.exchanges
    first.respond([b"answer"])
    second.respond([b"answer"])
    assert client.transport.sends == [], "the third may be answered in the same event"
    network.run()
    assert client.transport.sends == [12]
    third.respond([b"answer"])
    assert client.transport.sends == [12, 6]


def test_answering_an_exchange_twice_is_refused() -> None:
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
        "left in the system's buffer, which stops the client"
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


def test_reading_resumes_after_a_response_also_if_no_frame_waits() -> None:
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


def test_reading_stops_while_the_client_does_not_read_its_responses() -> None:
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


def test_a_round_handles_a_limited_number_of_frames_of_one_connection() -> None:
    handler = Recorder(echo=True)
    network, _ = serve(handler, ConnectionLimits(frames_per_round=4))
    greedy, modest = network.connect(), network.connect()
    greedy.transport.inbox += b"".join(framed(b"greedy") for _ in range(10))
    modest.transport.inbox += framed(b"modest")
    network.run_once()
    assert handler.frames == [b"greedy"] * 4 + [b"modest"] + [b"greedy"] * 4
    network.run()
    assert handler.frames.count(b"greedy") == 10


def test_a_round_sends_a_limited_number_of_bytes_of_one_connection() -> None:
    handler = Recorder()
    network, _ = serve(handler, ConnectionLimits(bytes_per_round=100_000))
    clients = [network.connect(), network.connect()]
    file = PinnedFile(b"x" * 300_000)
    for client in clients:
        client.request(b"fetch")
    for exchange in handler.exchanges:
        exchange.respond([file.slice(0, 300_000)])
    for sent in (100_000, 200_000, 300_000):
        assert [len(client.transport.outbox) for client in clients] == [sent, sent]
        network.run_once()
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


def test_an_idle_connection_is_closed_exactly_at_its_deadline() -> None:
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


def test_a_connection_without_a_whole_first_request_in_time_is_closed() -> None:
    network, _ = serve(Recorder(), ConnectionLimits(first_request_timeout_ms=1000))
    silent, slow = network.connect(), network.connect()
    for byte in framed(b"slow loris")[:-1]:
        slow.send(bytes([byte]))
        network.pass_time(80)
    assert not silent.open
    assert not slow.open


def test_a_closed_connection_leaves_no_timer() -> None:
    network, _ = serve(Recorder(echo=True))
    client = network.connect(capacity=10)
    client.request(b"x" * 100)
    assert network.timer.size == 2
    client.end()
    assert network.timer.size == 0


# All connections.


def test_connections_above_the_limits_are_refused_with_one_log_line_per_interval(
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


def test_closing_the_server_closes_all_connections() -> None:
    handler = Recorder(echo=True)
    network, server = serve(handler)
    clients = [network.connect() for _ in range(3)]
    server.close()
    network.run()
    assert not any(client.open for client in clients)
    assert len(handler.disconnections) == server.counters.connections_closed == 3
    assert network.timer.size == 0


def test_the_text_of_a_connection_is_its_peer_address() -> None:
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
