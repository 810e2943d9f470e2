"""Connects to a host name without blocking: tries its addresses until one answers.

    resolving ──► trying addresses in order, the next one when the last has failed or not answered
        │         for 250 ms ──► first to answer: connected, the others are closed
        └── no address, or all of them failed ──► failed, with the last reason

A worker resolves the name, because that may block for as long as the name server takes; a numeric
address needs no worker. Trying the next address while the last has not answered (RFC 8305) keeps
one dead address among several, such as IPv6 without a route, from using up the whole time.

The caller decides how long to wait, and calls `give_up`. After that no `SocketTransport` is made.
`connected` and `failed` are called at most once, and never from the constructor.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.config.addresses import address_text
from odradek.model.env import SYSTEM_BUFFERS, Offload, SocketBuffers, Transport
from odradek.network.listener import host_bytes
from odradek.network.poller import WRITE, DescriptorWatcher
from odradek.network.transport import SocketTransport, set_buffers
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask

ATTEMPT_DELAY_MS = 250
"""Time without an answer from an address before the next one is tried as well."""

PENDING = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY})

Address = tuple[int, Any]
"""Family and socket address."""


class ConnectAttempt:
    """A socket that is connecting to one address."""

    def __init__(self, connecting: socket.socket) -> None:
        self.socket = connecting

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()


class Connector:
    """One attempt to connect to a host. Ends when it succeeds, fails, or `give_up` is called."""

    def __init__(
        self,
        watcher: DescriptorWatcher,
        timer: SystemTimer,
        call_soon: Callable[[Callable[[], None]], None],
        offload: Offload | None,
        host: str,
        port: int,
        connected: Callable[[Transport], None],
        failed: Callable[[OSError], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> None:
        self._watcher = watcher
        self._buffers = buffers
        self._timer = timer
        self._host, self._port = host, port
        self._connected, self._failed = connected, failed
        self._addresses: deque[Address] = deque()
        self._attempts: list[ConnectAttempt] = []
        self._next: TimerTask | None = None
        self._reason: OSError | None = None
        self._over = False
        address = numeric_address(host, port)
        if address is not None:
            call_soon(lambda: self._resolved([address]))
        elif offload is None:
            error = OSError(
                errno.EADDRNOTAVAIL, f"cannot resolve the name {host!r}: no resolver is set"
            )
            call_soon(lambda: self._fail(error))
        else:
            offload.submit(lambda: resolve(host, port), self._resolved, self._unresolved)

    def give_up(self) -> None:
        """Stop. Neither `connected` nor `failed` is called afterwards."""
        self._end()

    def _resolved(self, addresses: list[Address]) -> None:
        if not self._over:
            self._addresses.extend(addresses)
            self._try_next()

    def _unresolved(self, error: BaseException) -> None:
        code = error.errno if isinstance(error, OSError) and error.errno is not None else 0
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        self._fail(OSError(code, f"cannot resolve the name {self._host!r}: {reason}"))

    def _try_next(self) -> None:
        """Start connecting to the next address that does not fail at once."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        while self._addresses and not self._over:
            family, address = self._addresses.popleft()
            try:
                attempt = self._begin(family, address)
            except OSError as error:
                self._reason = error
                continue
            self._attempts.append(attempt)
            if self._addresses:
                self._next = self._timer.call_later(ATTEMPT_DELAY_MS, self._try_next)
            return
        if not self._attempts and not self._over:
            self._fail(self._refusal())

    def _begin(self, family: int, address: Any) -> ConnectAttempt:
        connecting = socket.socket(family, socket.SOCK_STREAM)
        try:
            connecting.setblocking(False)
            set_buffers(connecting, self._buffers)
            code = connecting.connect_ex(address)
            if code and code not in PENDING:
                raise OSError(code, os.strerror(code))
            attempt = ConnectAttempt(connecting)
            # A failed socket is reported as readable, whatever the interest.
            self._watcher.watch(attempt, lambda: self._ended(attempt), lambda: self._ended(attempt))
            self._watcher.set_mask(attempt, WRITE)
        except OSError:
            connecting.close()
            raise
        return attempt

    def _ended(self, attempt: ConnectAttempt) -> None:
        """Handle the outcome of an attempt."""
        if attempt not in self._attempts:
            return
        code = attempt.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code and not is_connected(attempt.socket):
            return  # The event belonged to an earlier owner of the descriptor.
        self._attempts.remove(attempt)
        self._watcher.unwatch(attempt)
        try:
            if code:
                raise OSError(code, os.strerror(code))
            if attempt.socket.getsockname() == attempt.socket.getpeername():
                # TCP simultaneous open: without a listener, a socket can connect to itself.
                raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            transport = SocketTransport(attempt.socket)
        except OSError as error:
            attempt.close()
            self._reason = error
            self._try_next()
            return
        self._end()
        self._connected(transport)

    def _refusal(self) -> OSError:
        reason = self._reason
        if reason is None:
            return OSError(errno.EADDRNOTAVAIL, f"the name {self._host!r} has no address")
        where = address_text(self._host, self._port)
        text = f"cannot connect to {where}: {reason.strerror or reason}"
        return OSError(reason.errno or errno.ECONNREFUSED, text)

    def _fail(self, error: OSError) -> None:
        if not self._over:
            self._end()
            self._failed(error)

    def _end(self) -> None:
        self._over = True
        self._addresses.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        for attempt in self._attempts:
            self._watcher.unwatch(attempt)
            attempt.close()
        self._attempts.clear()


def numeric_address(host: str, port: int) -> Address | None:
    """Return the socket address if `host` is an IPv4 or IPv6 address, None for a name."""
    try:
        found = socket.getaddrinfo(
            host_bytes(host), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except (OSError, UnicodeError):  # A name, or not even a valid name.
        return None
    return found[0][0], found[0][4]


def resolve(host: str, port: int) -> list[Address]:
    """Return all addresses of a name, in the system's order. Blocks.

    Raises `OSError`, and `UnicodeError` for an invalid name.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def is_connected(connecting: socket.socket) -> bool:
    """True if the socket has a peer."""
    try:
        connecting.getpeername()
    except OSError:
        return False
    return True
