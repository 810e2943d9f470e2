"""HTTP over the network in memory: answers, keep-alive, bodies in slices, the token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unit.network.memory_http import MemoryHttp, answers, get

TOKEN = "a-token-of-the-test"


def test_a_get_is_answered_and_the_connection_kept() -> None:
    http = MemoryHttp()
    client = http.connect()
    for _ in range(3):
        client.send(get("/short"))
        (answer,) = answers(client.read())
        assert (answer.status, answer.body) == (200, b"ok\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["date"] == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert client.open
    assert http.server.counters.requests == 3


def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    answer = MemoryHttp().ask(get("/long"))
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"abc", "text/x")
    assert "content-length" not in answer.headers


def test_to_http_1_0_it_is_sent_up_to_the_end_of_the_connection() -> None:
    http = MemoryHttp()
    client = http.connect()
    client.send(b"GET /long HTTP/1.0\r\n\r\n")
    (answer,) = answers(client.read())
    assert (answer.body, "transfer-encoding" in answer.headers) == (b"abc", False)
    assert not client.open


def test_head_has_the_headers_of_get_and_produces_nothing() -> None:
    produced: list[int] = []

    def slices() -> Iterator[bytes]:
        produced.append(1)
        yield b"x"

    http = MemoryHttp(slices=slices)
    client = http.connect()
    client.send(get("/long").replace(b"GET", b"HEAD"))
    head = client.read()
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and head.endswith(b"\r\n\r\n")
    assert b"text/x" in head and not produced
    client.send(get("/short"))
    assert answers(client.read())[0].body == b"ok\n", "the connection goes on"


@pytest.mark.parametrize(
    "target", ["/short?x=1", "http://h:9404/short", "HTTP://other/short?x", "http://[::1]:1/short"]
)
def test_a_query_and_the_absolute_form_of_a_target_mean_the_path(target: str) -> None:
    assert MemoryHttp().ask(get(target)).body == b"ok\n"


@pytest.mark.parametrize("target", ["/", "/short/", "*", "http://h", "/%73hort", "ftp://h/short"])
def test_another_path_is_not_found_and_the_answer_lists_those_there_are(target: str) -> None:
    answer = MemoryHttp().ask(get(target))
    assert answer.status == 404 and b"/short, /long" in answer.body


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"ODD"])
def test_other_methods_are_not_allowed(method: bytes) -> None:
    answer = MemoryHttp().ask(get("/short").replace(b"GET", method))
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_a_client_may_ask_for_the_end_of_the_connection() -> None:
    client = MemoryHttp().connect()
    client.send(get("/short", "Connection: close"))
    (answer,) = answers(client.read())
    assert answer.headers["connection"] == "close" and not client.open


def test_a_client_that_sends_no_more_gets_its_answer() -> None:
    client = MemoryHttp().connect()
    client.transport.inbox += get("/long")
    client.end()
    assert answers(client.read())[0].body == b"abc" and not client.open


def test_pipelined_requests_are_answered_in_order() -> None:
    client = MemoryHttp().connect()
    client.send(get("/short") + get("/long") + get("/none") + get("/short"))
    assert [answer.status for answer in answers(client.read())] == [200, 200, 404, 200]


def test_a_short_body_is_dropped() -> None:
    client = MemoryHttp().connect()
    client.send(get("/short", "Content-Length: 7") + b"ignored" + get("/long"))
    assert [answer.body for answer in answers(client.read())] == [b"ok\n", b"abc"]
    client.send(get("/short", "Content-Length: 7") + b"ign")
    assert client.read() == b"", "the body is awaited"
    client.send(b"ored")
    assert answers(client.read())[0].body == b"ok\n"


def test_slices_are_taken_as_the_client_takes_them() -> None:
    taken: list[int] = []

    def slices() -> Iterator[bytes]:
        for number in range(100):
            taken.append(number)
            yield b"%03d" % number * 100

    http = MemoryHttp(slices=slices)
    client = http.connect(capacity=1000)
    client.send(get("/long"))
    assert len(taken) <= 5
    received = b""
    while part := client.read(500):
        received += part
        assert len(taken) * 300 <= len(received) + 2000, "at most a slice is held"
    assert answers(received)[0].body == b"".join(b"%03d" % n * 100 for n in range(100))


def test_a_round_of_the_loop_produces_one_slice_however_many_ask() -> None:
    taken: list[int] = []

    def slices() -> Iterator[bytes]:
        for number in range(20):
            taken.append(number)
            yield b"x"

    http = MemoryHttp(slices=slices)
    clients = [http.connect() for _ in range(4)]
    for client in clients:
        client.transport.inbox += get("/long")
    busy = True
    while busy:
        before = len(taken)
        busy = http.network.run_once()
        assert len(taken) - before <= 1
    assert [answers(client.read())[0].body for client in clients] == [b"x" * 20] * 4


def test_a_page_of_a_hundred_thousand_partitions_is_never_held_as_a_whole() -> None:
    lines = [b'odradek_log_end_offset{topic="t",partition="%d"} 1\n' % n for n in range(100_000)]
    taken: list[int] = []

    def slices() -> Iterator[bytes]:
        for start in range(0, len(lines), 200):
            taken.append(start)
            yield b"".join(lines[start : start + 200])

    http = MemoryHttp(slices=slices)
    client = http.connect(capacity=65_536)
    client.send(get("/long"))
    received = bytearray()
    while part := client.read(65_536):
        received += part
        assert sum(map(len, lines[: 200 * len(taken)])) - len(received) < 200_000
    assert answers(bytes(received))[0].body == b"".join(lines)


def test_a_client_that_leaves_ends_the_production() -> None:
    ended: list[str] = []

    def slices() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 100
        finally:
            ended.append("closed")

    page = slices()  # This reference would keep it alive.
    http = MemoryHttp(slices=lambda: page)
    client = http.connect(capacity=1000)
    client.send(get("/long"))
    client.fail(ConnectionResetError())
    assert ended == ["closed"] and not client.open and not http.server.connections


def test_a_bug_in_a_body_cuts_it_off_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    def slices() -> Iterator[bytes]:
        yield b"x"
        raise ZeroDivisionError("a bug of the test")

    http = MemoryHttp(slices=slices)
    client = http.connect()
    client.send(get("/long"))
    assert not client.read().endswith(b"0\r\n\r\n"), "else the body would look complete"
    assert not client.open and http.server.bugs == 1
    assert "a bug of the test" in caplog.text


def test_a_bug_in_a_route_is_a_500() -> None:
    def broken() -> Iterator[bytes]:
        raise ZeroDivisionError

    http = MemoryHttp(slices=broken)
    assert http.ask(get("/long")).status == 500 and http.server.bugs == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((), 401),
        (("Authorization: Bearer wrong",), 403),
        ((f"Authorization: Basic {TOKEN}",), 403),
        ((f"Authorization: {TOKEN}",), 403),
        ((f"Authorization: Bearer {TOKEN}x",), 403),
        ((f"Authorization: Bearer {TOKEN}", "Authorization: Bearer x"), 403),
        (("Authorization: Bearer \xe9",), 403),
        ((f"Authorization: Bearer {TOKEN}",), 200),
        ((f"authorization: bearer  {TOKEN} ",), 200),
    ],
)
def test_with_a_token_every_request_must_have_it(headers: tuple[str, ...], status: int) -> None:
    http = MemoryHttp(token=TOKEN)
    answer = http.ask(get("/short", *headers))
    assert answer.status == status
    assert ("www-authenticate" in answer.headers) == (status == 401)
    missing = http.ask(get("/none", *headers))
    assert missing.status == (404 if status == 200 else status), "no path is told without it"
