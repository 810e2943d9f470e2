"""An HTTP server over the network in memory, and what its clients read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from odradek.network.http_connection import HttpLimits, HttpResponse
from odradek.network.http_server import HttpServer
from unit.network.memory_network import UNBOUNDED, Client, MemoryNetwork

LIMITS = HttpLimits(
    max_connections=4,
    max_head_bytes=1000,
    max_head_lines=20,
    max_body_bytes=100,
    request_timeout_ms=10_000,
    idle_timeout_ms=90_000,
    stalled_timeout_ms=30_000,
    response_timeout_ms=120_000,
    linger_ms=1_000,
)
WALL_MS = 784_111_777_000
"""The example of RFC 9110: Sun, 06 Nov 1994 08:49:37 GMT."""


class Clock:
    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return WALL_MS


@dataclass
class Answer:
    """A response as a client reads it."""

    status: int
    headers: dict[str, str]
    body: bytes


class MemoryHttp:
    """A server with the paths `/short` and `/long`; `slices` makes the body of the second."""

    def __init__(
        self,
        *,
        token: str | None = None,
        limits: HttpLimits = LIMITS,
        slices: Callable[[], Iterator[bytes]] = lambda: iter([b"a", b"bc"]),
    ) -> None:
        self.network = MemoryNetwork()
        self.server = HttpServer(
            self.network,  # type: ignore[arg-type]
            self.network.call_soon,
            self.network.timer,
            Clock(),
            {
                "/short": lambda: HttpResponse.text(200, "ok"),
                "/long": lambda: HttpResponse(200, slices(), "text/x"),
            },
            token=token,
            limits=limits,
        )
        self.network.listen("memory", 0, self.server.accepted)

    def connect(self, capacity: int = UNBOUNDED) -> Client:
        return self.network.connect(capacity=capacity)

    def ask(self, request: bytes) -> Answer:
        """Send the bytes on a new connection, and read the one response."""
        client = self.connect()
        client.send(request)
        (answer,) = answers(client.read())
        return answer


def get(path: str, *headers: str) -> bytes:
    """A request of HTTP/1.1."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: h", *headers, "", ""]).encode()


def answers(data: bytes) -> list[Answer]:
    """Parse responses that are complete, one after the other."""
    found = []
    while data:
        head, separator, data = data.partition(b"\r\n\r\n")
        assert separator, f"an incomplete head: {head!r}"
        status, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (n.partition(": ") for n in lines)}
        if headers.get("transfer-encoding") == "chunked":
            body, data = unchunked(data)
        elif "content-length" in headers:
            length = int(headers["content-length"])
            body, data = data[:length], data[length:]
            assert len(body) == length, "an incomplete body"
        else:
            body, data = data, b""
        found.append(Answer(int(status.split()[1]), headers, body))
    return found


def unchunked(data: bytes) -> tuple[bytes, bytes]:
    """The body in chunks, and the bytes behind it."""
    body = b""
    while True:
        size, separator, data = data.partition(b"\r\n")
        assert separator, "no further chunk"
        length = int(size, 16)
        body, data = body + data[:length], data[length + 2 :]
        if length == 0:
            return body, data
