"""Any bytes as HTTP, however they are split: no bug, no endless wait, the same answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unit.network.memory_http import LIMITS, MemoryHttp, answers, get

HEADERS = st.sampled_from(
    ["A: b", "Connection: close", "Content-Length: 3", "Content-Length: x", "Expect: 100-continue"]
)
REQUESTS = st.one_of(
    st.binary(max_size=60),
    st.just(b"\r\n\r\n"),
    st.sampled_from([b"GET /short HTTP/1.0\r\n\r\n", b"GET * HTTP/1.1\r\nHost: h\n\n"]),
    st.builds(
        lambda path, headers, body: get(path, *headers) + body,
        st.sampled_from(["/short", "/long", "/none"]),
        st.lists(HEADERS, max_size=2),
        st.sampled_from([b"", b"abc"]),
    ),
)
CUTS = st.lists(st.integers(0, 400), max_size=6)


def statuses(data: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    """The answers to bytes that arrive in parts, after which the client sends no more."""
    http = MemoryHttp()
    client = http.connect()
    received = b""
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        if client.open:
            client.send(data[start:end])
            received += client.read()
    if client.open:
        client.end()
    http.network.pass_time(LIMITS.response_timeout_ms)
    received += client.read()
    assert not client.open and not http.server.connections
    assert http.server.bugs == 0
    assert http.network.timer.size == 0, "no timer outlives its connection"
    return [(answer.status, answer.body) for answer in answers(received)]


@given(st.lists(REQUESTS, max_size=4).map(b"".join), CUTS)
def test_the_answers_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    assert statuses(data, cuts) == statuses(data, [])
