"""Slow, huge and broken HTTP, and too much of it: each has a bound and an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.network.http_connection import HttpLimits
from unit.network.memory_http import LIMITS, MemoryHttp, answers, get


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
        (b"\x00\x00\x00\x12\x00\x12\x00\x03\n\n", 400),
        (b"GET /short HTTP/2.0\r\n\r\n", 505),
        (b"GET /short HTTP/1.1\r\n\r\n", 400),
        (b"GET /sh ort HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (get("/short", "No colon"), 400),
        (get("/short", "Space : x"), 400),
        (get("/short", "X: a\x00b"), 400),
        (get("/short", "Content-Length: x"), 400),
        (get("/short", "Content-Length: -1"), 400),
        (get("/short", "Content-Length: 1", "Content-Length: 2"), 400),
        (get("/short", "Content-Length: 101"), 413),
        (get("/short", f"Content-Length: {10**19}"), 413),
        (get("/short", "Transfer-Encoding: chunked"), 411),
        (get("/short", "Transfer-Encoding: gzip"), 501),
        (get("/short", "Content-Length: 5", "Expect: 100-continue"), 417),
        (get("/short", *(f"X{n}: y" for n in range(20))), 431),
        (get("/short", "X: " + "y" * 1000), 431),
        (b"G" * 1001, 431),
        (b"\n" * 21 + b"x", 400),
        (b"a\n" * 21, 431),
    ],
)
def test_a_bad_request_gets_a_reason_and_the_connection_ends(
    request_bytes: bytes, status: int
) -> None:
    http = MemoryHttp()
    client = http.connect()
    client.send(request_bytes)
    (answer,) = answers(client.read())
    assert answer.status == status and answer.body
    assert answer.headers["connection"] == "close"
    http.network.pass_time(LIMITS.linger_ms)
    assert not client.open and not http.server.connections
    assert http.server.bugs == 0


def test_a_refused_request_is_read_a_little_longer_but_not_answered_again() -> None:
    """Else the reset for unread bytes could overtake the answer."""
    http = MemoryHttp()
    client = http.connect()
    client.send(b"G" * 1001)
    assert len(answers(client.read())) == 1
    client.send(b"G" * 100_000 + get("/short"))
    assert client.open and client.read() == b"" and not client.transport.inbox
    http.network.pass_time(LIMITS.linger_ms)
    assert not client.open


def test_a_request_cut_off_by_the_client_is_refused() -> None:
    http = MemoryHttp()
    client = http.connect()
    client.transport.inbox += b"GET /short HTTP/1.1\r\nHost"
    client.end()
    assert answers(client.read())[0].status == 400 and not client.open


def test_a_client_that_sends_nothing_is_closed_quietly() -> None:
    http = MemoryHttp()
    client = http.connect()
    client.end()
    assert not client.open and client.read() == b""


def test_a_request_that_drips_in_is_closed_at_its_deadline() -> None:
    """Slow loris: each byte counts as nothing."""
    http = MemoryHttp()
    client = http.connect()
    for byte in get("/short")[:9]:
        client.send(bytes([byte]))
        assert client.open
        http.network.pass_time(1_000)
    client.send(b"x")
    http.network.pass_time(1_000)
    assert not client.open and http.server.counters.timed_out == 1


def test_the_deadline_of_a_later_request_begins_with_its_first_byte() -> None:
    http = MemoryHttp()
    client = http.connect()
    client.send(get("/short"))
    http.network.pass_time(LIMITS.idle_timeout_ms - 1)
    client.send(b"G")
    http.network.pass_time(LIMITS.request_timeout_ms - 1)
    assert client.open
    http.network.pass_time(1)
    assert not client.open


def test_an_idle_connection_is_closed_at_its_deadline() -> None:
    http = MemoryHttp()
    client = http.connect()
    client.send(get("/short"))
    http.network.pass_time(LIMITS.idle_timeout_ms - 1)
    assert client.open
    http.network.pass_time(1)
    assert not client.open and http.server.counters.timed_out == 0


def test_a_client_that_takes_nothing_is_closed() -> None:
    http = MemoryHttp(slices=lambda: iter([b"x" * 1000] * 10))
    client = http.connect(capacity=1000)
    client.send(get("/long"))
    http.network.pass_time(LIMITS.stalled_timeout_ms - 1)
    assert client.open
    http.network.pass_time(1)
    assert not client.open and http.server.counters.timed_out == 1


def test_a_client_that_takes_little_has_a_limit_for_the_whole_response() -> None:
    http = MemoryHttp(slices=lambda: iter([b"x" * 1000] * 1000))
    client = http.connect(capacity=1000)
    client.send(get("/long"))
    passed_ms = 0
    while client.open:
        client.read(10)
        http.network.pass_time(10_000)
        passed_ms += 10_000
    assert passed_ms == LIMITS.response_timeout_ms


def test_pipelined_requests_wait_in_the_socket_while_a_client_takes_nothing() -> None:
    http = MemoryHttp()
    client = http.connect(capacity=300)
    client.send(get("/short") * 10_000)
    held = 10_000 * len(get("/short")) - len(client.transport.inbox)
    assert held <= 2 * 4096 + len(get("/short"))


def test_one_too_many_connections_gets_a_503_and_the_others_go_on() -> None:
    http = MemoryHttp()
    clients = [http.connect() for _ in range(LIMITS.max_connections)]
    refused = http.connect()
    (answer,) = answers(refused.read())
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert not refused.open and http.server.counters.connections_refused == 1
    for client in clients:
        client.send(get("/short"))
        assert answers(client.read())[0].status == 200


def test_a_connection_that_has_been_idle_makes_room_for_a_new_one() -> None:
    http = MemoryHttp()
    clients = [http.connect() for _ in range(LIMITS.max_connections)]
    for client in clients[:2]:
        client.send(get("/short"))
    clients[2].send(b"G")
    http.network.pass_time(2_000)
    clients[0].send(get("/short"))
    late = http.connect()
    late.send(get("/short"))
    assert answers(late.read())[0].status == 200
    assert [client.open for client in clients] == [True, False, True, True]


def test_ten_thousand_scrapers_leave_no_more_than_the_limit() -> None:
    produced: list[int] = []

    def slices() -> Iterator[bytes]:
        produced.append(1)
        yield b"x"

    http = MemoryHttp(limits=HttpLimits(), slices=slices)
    clients = [http.connect() for _ in range(10_000)]
    for client in clients:
        if client.open:
            client.transport.inbox += get("/long")
    http.network.run()
    statuses = [answers(client.read())[0].status for client in clients]
    assert statuses.count(200) == len(produced) == HttpLimits().max_connections
    assert statuses.count(503) == 10_000 - HttpLimits().max_connections
    assert http.network.timer.size <= HttpLimits().max_connections
