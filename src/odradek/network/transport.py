"""A connected TCP socket as a `model.env.Transport`.

No call blocks: when nothing can be done now, `receive` returns None and `send` 0, and the reactor
reports when to try again.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from odradek.model.env import Buffer, File, SocketBuffers

MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
"""Linux's flag; elsewhere (macOS, the BSDs) the head is sent in a packet of its own."""

QUICK_ACK: Final[int] = getattr(socket, "TCP_QUICKACK", 0)
"""An option of Linux, as the marks are."""

LOST: Final = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN})
"""Errors of a lost connection that are not a `ConnectionError`."""

LOW_WATER_MARKS_SINCE: Final = (5, 10)
"""Older versions of Linux could wait for ever for a mark that the receive buffer does not hold."""

READ_FALLBACK_BYTES: Final = 256 * 1024
"""The most bytes that one `send_file` reads of a file without a descriptor."""


def set_buffers(unconnected: socket.socket, buffers: SocketBuffers) -> None:
    """Set the sizes of the buffers of a socket that is to connect or listen. Raises `OSError`."""
    if buffers.send_bytes >= 0:
        unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers.send_bytes)
    if buffers.receive_bytes >= 0:
        unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers.receive_bytes)


def has_low_water_marks(system: str, release: str) -> bool:
    """True if a system waits for a low-water mark, and lowers one that it cannot wait for."""
    version = re.match(r"(\d+)\.(\d+)", release)
    if system != "linux" or version is None:
        return False
    return (int(version[1]), int(version[2])) >= LOW_WATER_MARKS_SINCE


HAS_LOW_WATER_MARKS: Final = hasattr(os, "uname") and has_low_water_marks(
    sys.platform, os.uname().release
)


class SocketTransport:
    """Owns a connected stream socket: non-blocking, no Nagle delay, keep-alive probes on."""

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
        """Return the descriptor, which never changes."""
        return self._fd

    def receive(self, count: int) -> bytes | None:
        try:
            return self._socket.recv(count)
        except (BlockingIOError, InterruptedError):
            return None

    def set_low_water_mark(self, count: int) -> int:
        if not HAS_LOW_WATER_MARKS:
            return 1
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            granted = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        except OSError:  # For example a sandbox that refuses the option.
            return 1
        if granted > 1 and self._socket.family != socket.AF_UNIX:
            # The system acknowledges what arrived before the mark at the next receive, which now
            # comes late. A sender whose window is full would wait some 10 ms until it probes.
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, QUICK_ACK, 1)
        return granted

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
    """True if a call failed because the peer, or the route to it, was lost."""
    return isinstance(error, ConnectionError) or (
        isinstance(error, OSError) and error.errno in LOST
    )


def _short(file: File, offset: int, count: int) -> OSError:
    return OSError(errno.EIO, f"the file ends before byte {offset + count}", file.path)


def _address(name: object) -> tuple[str, int]:
    """Return host and port of an IPv4 or IPv6 address; a socket pair has no port."""
    if isinstance(name, tuple) and len(name) >= 2:
        return str(name[0]), int(name[1])
    return str(name), 0
