"""A connected TCP socket as a `model.env.Transport`.

Nothing here waits: what cannot be done now is `None` (receive) or `0` (send), and the reactor
tells when to try again.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Final

from odradek.model.env import Buffer, File

MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
"""Linux's flag; where there is none (macOS, the BSDs) the head leaves on its own."""

LOST: Final = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN})
"""What `ConnectionError` does not cover of the ways in which a connection is lost."""

READ_FALLBACK_BYTES: Final = 256 * 1024
"""How much of a file without a descriptor is read at once for one `send_file`."""


class SocketTransport:
    """Takes over a connected stream socket: non-blocking, no Nagle delay, keep-alive probes on."""

    __slots__ = ("_fd", "_socket", "peer")

    def __init__(self, connected: socket.socket, peer: tuple[str, int] | None = None) -> None:
        connected.setblocking(False)
        if connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connected
        self._fd = connected.fileno()
        self.peer: tuple[str, int] = peer or _address(connected.getpeername())

    def fileno(self) -> int:
        """The descriptor, the same for the life of the transport."""
        return self._fd

    def receive(self, count: int) -> bytes | None:
        try:
            return self._socket.recv(count)
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        try:
            if more:
                return self._socket.sendmsg(parts, (), MORE)
            if len(parts) == 1:
                return self._socket.send(parts[0])
            return self._socket.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0

    def send_file(self, file: File, offset: int, count: int) -> int:
        descriptor = file.pin()
        try:
            if descriptor is None:
                return self._send_read(file, offset, count)
            sent = os.sendfile(self._fd, descriptor, offset, count)
        except (BlockingIOError, InterruptedError):
            return 0
        finally:
            file.unpin()
        if sent == 0 and count:
            raise _short(file, offset, count)
        return sent

    def _send_read(self, file: File, offset: int, count: int) -> int:
        data = file.read(offset, min(count, READ_FALLBACK_BYTES))
        if not data and count:
            raise _short(file, offset, count)
        return self._socket.send(data)

    def close(self) -> None:
        self._socket.close()


def is_lost(error: Exception) -> bool:
    """Whether a call failed because the other end, or the way there, is gone."""
    return isinstance(error, ConnectionError) or (
        isinstance(error, OSError) and error.errno in LOST
    )


def _short(file: File, offset: int, count: int) -> OSError:
    return OSError(errno.EIO, f"the file ends before byte {offset + count}", file.path)


def _address(name: object) -> tuple[str, int]:
    """The first two fields of an IPv4 or IPv6 address; a socket pair has none."""
    if isinstance(name, tuple) and len(name) >= 2:
        return str(name[0]), int(name[1])
    return str(name), 0
