"""A listening socket: accepting connections, also when descriptors run out.

When the process (or the system) is out of descriptors, `accept` fails and the pending connection
keeps the socket readable: a level-triggered loop would spin, and the client would hang. So a spare
descriptor is held. It is closed to accept the pending connection and close it, which the client
sees at once, and opened again. Then accepting pauses, each time twice as long up to a second, until
it succeeds.

    accepting ──out of descriptors──► reject pending ones ──► paused ──100 ms .. 1 s──► accepting

A listener whose clients matter less than others (HTTP) may also rest after each round that accepted
as many connections as a round may, so that a flood of them takes a bounded share of the loop.

`SocketServer` decides which connections are admitted. `port_holder` finds the process that holds a
port, for the error message, and `own_address` the address under which clients on other machines
reach this one.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

from odradek.config.addresses import address_text
from odradek.model.env import SYSTEM_BUFFERS, SocketBuffers, Transport
from odradek.network.poller import READ, DescriptorWatcher
from odradek.network.transport import SocketTransport, set_buffers
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask

log = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTS_PER_ROUND = 64
FIRST_PAUSE_MS = 100
LAST_PAUSE_MS = 1000

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

NUMERIC = frozenset("0123456789abcdefABCDEF.:")
"""The characters of addresses."""

LISTENING_STATE = "0A"
LOOPBACK = "127.0.0.1"
ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses reserved for documentation, which no machine has (RFC 5737, RFC 3849)."""


class CannotListenError(OSError):
    """The address is not one of this machine, or may not be used."""

    def __init__(self, code: int, host: str, port: int, reason: str) -> None:
        super().__init__(code, f"cannot listen on {address_text(host, port)}: {reason}")

    def __str__(self) -> str:
        return str(self.strerror)


class AddressInUseError(OSError):
    """The address is in use. `holder` names the process, None if it is unknown."""

    def __init__(self, host: str, port: int, holder: str | None) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"{address_text(host, port)} is in use by {holder or 'another process'}",
        )
        self.host = host
        self.port = port
        self.holder = holder


class TcpServerSocket:
    """Listens from construction until `close`."""

    def __init__(
        self,
        watcher: DescriptorWatcher,
        timer: SystemTimer,
        listening: socket.socket,
        accepted: Callable[[Transport], None],
        accepts_per_round: int = ACCEPTS_PER_ROUND,
        rest_ms: int = 0,
    ) -> None:
        """`listening`: a socket from `bound_socket`; it is closed with this. `rest_ms`: how long
        nothing is accepted after a round with all its accepts; others wait in the backlog.
        """
        self._watcher = watcher
        self._timer = timer
        self._accepted = accepted
        self._accepts_per_round = accepts_per_round
        self._rest_ms = rest_ms
        self._socket = listening
        self._spare = _spare()
        self._pause_ms = FIRST_PAUSE_MS
        self._resume: TimerTask | None = None
        self.rejected = 0
        """The number of connections closed because descriptors ran out."""
        name = self._socket.getsockname()
        self.address: tuple[str, int] = (str(name[0]), int(name[1]))
        watcher.watch(self, self._readable, self._readable)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Stop listening. The system resets connections that were not accepted."""
        if self._socket.fileno() < 0:
            return
        if self._resume is not None:
            self._resume.cancel()
        self._watcher.unwatch(self)
        self._socket.close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _readable(self) -> None:
        for _ in range(self._accepts_per_round):
            try:
                connected, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._exhausted(error)
                    return
                # The connection failed before it was accepted: accept(2) reports that here.
                log.debug("a connection was lost before it was accepted: %s", error)
                continue
            self._pause_ms = FIRST_PAUSE_MS
            self._adopt(connected, (str(address[0]), int(address[1])))
            if self._socket.fileno() < 0:
                return
        if self._rest_ms:
            self._watcher.set_mask(self, 0)
            self._resume = self._timer.call_later(self._rest_ms, self._accept_again)

    def _adopt(self, connected: socket.socket, address: tuple[str, int]) -> None:
        try:
            transport = SocketTransport(connected, address)
        except OSError as error:  # Reset meanwhile; macOS then refuses socket options.
            log.debug("a connection was lost when it was accepted: %s", error)
            connected.close()
            return
        self._accepted(transport)

    def _exhausted(self, error: OSError) -> None:
        rejected = self._reject_pending()
        self.rejected += rejected
        log.warning(
            "no descriptor for a new connection (%s): rejected %d, accepting again in %d ms",
            error.strerror,
            rejected,
            self._pause_ms,
        )
        self._watcher.set_mask(self, 0)
        self._resume = self._timer.call_later(self._pause_ms, self._accept_again)
        self._pause_ms = min(self._pause_ms * 2, LAST_PAUSE_MS)

    def _accept_again(self) -> None:
        self._resume = None
        if self._spare is None:
            self._spare = _spare()
        self._watcher.set_mask(self, READ)

    def _reject_pending(self) -> int:
        """Close pending connections by means of the spare descriptor; return how many."""
        rejected = 0
        while self._spare is not None and rejected < ACCEPTS_PER_ROUND:
            os.close(self._spare)
            self._spare = None
            try:
                connected, _ = self._socket.accept()
            except OSError as error:
                log.debug("no more pending connections to reject: %s", error)
                self._spare = _spare()
                break
            connected.close()
            rejected += 1
            self._spare = _spare()
        return rejected


def bound_socket(
    host: str, port: int, *others: int, buffers: SocketBuffers = SYSTEM_BUFFERS
) -> socket.socket:
    """Return a listening, non-blocking socket at the first free one of these ports. The sockets
    that it accepts inherit its buffers.

    Raises `AddressInUseError` (for the first port) and `CannotListenError`.
    """
    for each in (port, *others):
        try:
            return _bound(host, each, buffers)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise AddressInUseError(host, port, port_holder(port))


def host_bytes(host: str) -> str | bytes:
    """The host as the system's resolver takes it: for text, even an address in digits, Python would
    import its codec for international names."""
    return host.encode() if set(host) <= NUMERIC else host


def _bound(host: str, port: int, buffers: SocketBuffers) -> socket.socket:
    """Bind and listen. Raises `CannotListenError`, and an `OSError` if the port is in use."""
    try:
        found = socket.getaddrinfo(
            host_bytes(host) or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise CannotListenError(errno.EADDRNOTAVAIL, host, port, reason_of(error)) from error
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        set_buffers(listening, buffers)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise
        code = error.errno or errno.EADDRNOTAVAIL
        raise CannotListenError(code, host, port, reason_of(error)) from error
    return listening


def reason_of(error: OSError | UnicodeError) -> str:
    """Return the system's message without its error number."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _spare() -> int | None:
    """Return a descriptor to close when none are left, None if there is none."""
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        log.debug("no spare descriptor: %s", error)
        return None


def port_holder(port: int, proc: Path = Path("/proc")) -> str | None:
    """Return `name (pid n)` of a process listening on the port, None if unknown. Linux only.

    `/proc/net/tcp` and `tcp6` have one line per socket: its local address as `HEX:PORT`, its state
    (`0A` is listening) and its inode. The process with the socket has a link `socket:[inode]` among
    its descriptors. Those of other users' processes cannot be read; the holder is then unknown.
    """
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not inodes:
        return None
    for process in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        if _holds(process / "fd", inodes):
            return f"{_name(process)} (pid {process.name})"
    return None


def _listening_inodes(port: int, proc: Path) -> list[str]:
    rows = _rows(proc / "net" / "tcp") + _rows(proc / "net" / "tcp6")
    return [
        fields[9]
        for fields in rows
        if fields[3] == LISTENING_STATE and int(fields[1].rpartition(":")[2], 16) == port
    ]


def _rows(table: Path) -> list[list[str]]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:  # Not Linux, or no IPv6.
        return []
    return [fields for line in lines if len(fields := line.split()) > 9]


def _holds(descriptors: Path, sockets: set[str]) -> bool:
    try:
        links = list(descriptors.iterdir())
    except OSError:  # Another user's process, or one that just ended.
        return False
    return any(_target(link) in sockets for link in links)


def _target(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:  # Closed since it was listed.
        return None


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:  # It has just ended.
        return "a process"


def own_address(listens_on: str) -> str:
    """Return the address of this machine from which traffic to other machines leaves.

    It is an IPv4 address; else, if `listens_on` is `::`, an IPv6 one. Without a route to other
    machines it is the loopback address, with a warning. No packet is sent. Behind a port mapping
    (of a container or a router) clients use an address that cannot be found from here:
    `advertised.listeners` must state it.
    """
    for family, elsewhere in ELSEWHERE[: 2 if listens_on == "::" else 1]:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as unsent:
                unsent.connect((elsewhere, 9))  # For a datagram socket, this only selects a route.
                return str(unsent.getsockname()[0])
        except OSError as error:
            log.debug("no route to %s: %s", elsewhere, error)
    log.warning(
        "no route to other machines, so %s is advertised to clients. What to do: if clients on "
        "other machines are to connect, set advertised.listeners",
        LOOPBACK,
    )
    return LOOPBACK
