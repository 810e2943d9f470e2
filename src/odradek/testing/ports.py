"""Ports for nodes that are killed and started again, reserved among the processes of this user.

A node that is started again needs the port it had. While it is down nothing listens there, so a
test that runs beside this one could take the port. Each port is one byte of a file in /tmp, which
every process finds there: TMPDIR may be another one for each run of tests. A process that
reserves a port locks its byte. The system unlocks it when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
import random
import socket
import threading
from collections.abc import Iterable
from pathlib import Path

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
PORTS = range(27_000, 32_700)
"""Below the ports that systems give to connections, above those that `odradek up -n` chooses."""


class PortReservations:
    """The ports that this process has reserved.

    `path`: the file whose bytes are locked; all processes that name the same one share the ports.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._owner = 0
        self._ports: set[int] = set()
        self._lock = threading.Lock()

    def reserve(self, count: int) -> list[int]:
        """Return ports of the loopback interface that are free now, and that no other call returns.

        Raises `OSError` if the file cannot be opened, or if no more ports are free.
        """
        with self._lock:
            file = self._opened()
            found: list[int] = []
            for port in random.SystemRandom().sample(PORTS, k=len(PORTS)):
                if len(found) == count:
                    break
                if port not in self._ports and self._lock_byte(file, port):
                    if is_free(port):
                        found.append(port)
                    else:
                        fcntl.lockf(file, fcntl.LOCK_UN, 1, port)
            if len(found) < count:
                for port in found:
                    fcntl.lockf(file, fcntl.LOCK_UN, 1, port)
                raise OSError(
                    f"{count} free ports are needed, and only {len(found)} of {PORTS.start} to "
                    f"{PORTS.stop - 1} are free. What to do: end tests that run beside this one"
                )
            self._ports.update(found)
            return found

    def release(self, ports: Iterable[int]) -> None:
        """Let any process reserve these ports again."""
        with self._lock:
            for port in self._ports.intersection(ports):
                self._ports.remove(port)
                fcntl.lockf(self._opened(), fcntl.LOCK_UN, 1, port)

    def _opened(self) -> int:
        """The file, opened by this process: a forked one has no locks of its parent."""
        if self._file is None or self._owner != os.getpid():
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            self._owner = os.getpid()
        return self._file

    def _lock_byte(self, file: int, port: int) -> bool:
        """Lock the byte of a port. False if another process has locked it."""
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except (BlockingIOError, PermissionError) as error:  # POSIX allows either.
            logger.debug("port %d is reserved: %s", port, error)
            return False
        return True


def is_free(port: int) -> bool:
    """True if a server can listen on a port of the loopback interface now."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        logger.debug("port %d is in use: %s", port, error)
        return False
    return True


_reservations = PortReservations(Path("/tmp") / f"odradek-test-ports-{os.getuid()}")


def reserve_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that are free now, and that this function returns to
    no process of this user before this one has released them or ended. Raises `OSError` if there
    are not enough.
    """
    return _reservations.reserve(count)


def release_ports(ports: Iterable[int]) -> None:
    """Let any process reserve these ports again."""
    _reservations.release(ports)
