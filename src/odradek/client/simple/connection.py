"""One blocking connection to one node: frames out, frames in, in order.

    request   length i32, header, body          any number may be under way (pipelining)
    response  length i32, correlation id i32 …  the broker answers in the order it was asked

Responses come in request order (a promise of the protocol), so a response is matched to the oldest
request under way, and any other correlation id is a violation. One that is waited for out of order
is reached by setting the earlier ones aside. A connection that has failed in any way (timeout,
violation, end of stream) is closed and stays closed: the bytes still in it cannot be trusted to be
whole. There is no state to repair; the caller opens another.

No thread and no buffer of its own: a response is read straight into the `bytes` that the decoder
gets.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence

from odradek.model.errors import ProtocolError

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
SEND_PARTS = 512


class Disconnected(ConnectionError):
    """The node could not be reached, went away, or did not answer in time. Safe to retry what may
    be repeated."""


class Connection:
    """A connected socket. Raises `Disconnected` and `ProtocolError`; is closed after either."""

    def __init__(
        self, host: str, port: int, *, timeout_ms: int, max_response_bytes: int = MAX_RESPONSE_BYTES
    ) -> None:
        self.address = f"{host}:{port}"
        self.max_response_bytes = max_response_bytes
        self.next_correlation_id = 0
        self.under_way: deque[int] = deque()
        self.set_aside: dict[int, bytes] = {}
        try:
            self.socket: socket.socket | None = socket.create_connection(
                (host, port), timeout_ms / 1000
            )
        except OSError as error:
            raise Disconnected(f"cannot connect to {self.address}: {error}") from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The kernel keeps the time of each read and write, so that a large response is received by
        # one call into memory of its final size; a Python-level timeout would yield it in pieces.
        limit = struct.pack("ll", timeout_ms // 1000, timeout_ms % 1000 * 1000)
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    @property
    def closed(self) -> bool:
        return self.socket is None

    def correlation_id(self) -> int:
        """The id of the request about to be sent."""
        return self.next_correlation_id

    def send(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send one framed request whose header has `correlation_id()`; that id."""
        sock = self._open_socket()
        try:
            send_all(sock, parts)
        except OSError as error:
            raise self._failed(f"sending to {self.address} failed: {error}") from error
        sent = self.next_correlation_id
        self.under_way.append(sent)
        self.next_correlation_id = (sent + 1) & 0x7FFFFFFF
        return sent

    def receive(self, correlation_id: int, deadline: float) -> bytes:
        """The response frame (from its correlation id on) to a request under way.

        `deadline` is on `time.monotonic()`, in seconds.
        """
        while correlation_id not in self.set_aside:
            if correlation_id not in self.under_way:
                raise AssertionError(f"{correlation_id} is not one of {list(self.under_way)}")
            oldest = self.under_way[0]
            self.set_aside[oldest] = self._next_frame(oldest, deadline)
            self.under_way.popleft()
        return self.set_aside.pop(correlation_id)

    def _next_frame(self, due: int, deadline: float) -> bytes:
        sock = self._open_socket()
        try:
            if not any_readable([self], int((deadline - time.monotonic()) * 1000)):
                raise self._failed(f"{self.address} did not answer in time")
            size = int.from_bytes(self._read(sock, 4), "big", signed=True)
            if size < 4 or size > self.max_response_bytes:
                raise ProtocolError(f"{self.address} announced a response of {size} bytes")
            frame = self._read(sock, size)
            answered = int.from_bytes(frame[:4], "big", signed=True)
            if answered != due:
                raise ProtocolError(f"{self.address} answered {answered} where {due} is due")
        except Disconnected:
            raise
        except OSError as error:
            raise self._failed(f"receiving from {self.address} failed: {error}") from error
        except ProtocolError:
            self.close()
            raise
        return frame

    def _read(self, sock: socket.socket, count: int) -> bytes:
        data = sock.recv(count, socket.MSG_WAITALL)
        if len(data) == count:
            return data
        pieces = [data]
        while (missing := count - sum(map(len, pieces))) > 0:
            if not pieces[-1]:
                raise self._failed(f"{self.address} closed the connection")
            pieces.append(sock.recv(missing, socket.MSG_WAITALL))
        return b"".join(pieces)

    def _open_socket(self) -> socket.socket:
        if self.socket is None:
            raise Disconnected(f"the connection to {self.address} is closed")
        return self.socket

    def _failed(self, reason: str) -> Disconnected:
        self.close()
        return Disconnected(reason)

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def any_readable(connections: Sequence[Connection], timeout_ms: int) -> bool:
    """Whether bytes (or the end) have arrived on any of these, waiting up to `timeout_ms`."""
    poll = select.poll()
    for connection in connections:
        if connection.socket is None or connection.set_aside:
            return True
        poll.register(connection.socket, select.POLLIN)
    return bool(poll.poll(max(0, timeout_ms)))


def send_all(sock: socket.socket, parts: Sequence[bytes | memoryview]) -> None:
    """All parts in order, with few system calls and no joining of large ones."""
    waiting = [memoryview(part) for part in parts if len(part)]
    while waiting:
        sent = sock.sendmsg(waiting[:SEND_PARTS])
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.pop(0))
        if sent:
            waiting[0] = waiting[0][sent:]
