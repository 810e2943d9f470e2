"""A client that sends given bytes over a real socket."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, TypeVar

from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode
from odradek.protocol.frame import decode_response_header, request_parts, response_is_flexible

T = TypeVar("T")


class RawConnection:
    """One connection. `closed_by_peer` waits until the broker closes it."""

    def __init__(self, bootstrap: str, timeout: float = 60) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def try_to_send(self, data: bytes) -> None:
        """Send as much as the broker takes before it closes."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def done_sending(self) -> None:
        """Shut down the sending side: the broker sees the end of stream and may still answer."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def hung_up(self) -> bool:
        """True if the broker has closed the connection without sending anything."""
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def drain(self) -> int:
        """Read until the broker closes; return the number of bytes."""
        count = 0
        try:
            while data := self.socket.recv(1 << 16):
                count += len(data)
        except ConnectionResetError:
            pass
        return count

    def frame(self) -> bytes | None:
        """Return the next frame without its length, None at the end of the stream."""
        head = self._exactly(4)
        return None if head is None else self._exactly(int.from_bytes(head, "big"))

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not piece:
                return None
            data += piece
        return data

    def closed_by_peer(self) -> bool:
        return self.frame() is None

    def ask(self, request: Any, version: int, expect: type[T]) -> T:
        """Send a request and decode its response."""
        self.send(request_bytes(request, version))
        return self.answer(request, version, expect)

    def answer(self, request: Any, version: int, expect: type[T]) -> T:
        frame = self.frame()
        if frame is None:
            raise ConnectionResetError("the broker closed the connection")
        key = key_of(request)
        _, position = decode_response_header(frame, response_is_flexible(key, version))
        return decode(expect, version, frame, position)


def key_of(request: Any) -> int:
    return next(row.key for row in MESSAGES.values() if row.request is type(request))


def request_bytes(
    request: Any, version: int, correlation_id: int = 1, client_id: str = "wire"
) -> bytes:
    parts = request_parts(
        key_of(request), version, correlation_id, client_id, encode(request, version)
    )
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
