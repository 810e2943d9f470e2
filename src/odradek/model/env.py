"""The environment: clock, randomness, network, disk and workers, as arguments of deciding code.

Log, replication, coordinators, purgatories and clients get them as values of these types. The real
ones are thin (`network.reactor`, `network.workers`, `log.files`). The simulated ones (`testing`)
run a whole broker with its clients under one seeded scheduler, faster than real time.

All methods are called on the owner thread. Only the function given to `Offload.submit` runs on a
worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    """A monotonic clock for timeouts, and the wall clock for timestamps."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; they never decrease. For deadlines."""
        ...

    def monotonic_ns(self) -> int:
        """Read the same clock in nanoseconds. For measuring."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch. For timestamps and retention, not for timeouts."""
        ...


class Random(Protocol):
    """The only source of randomness (a `random.Random` fits)."""

    def getrandbits(self, bits: int, /) -> int: ...


class File(Protocol):
    """One file. Descriptors may be opened lazily and closed when cold; `pin` keeps one open."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Bytes in the file, without a system call."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Read `count` bytes from `offset`; fewer only at the end of the file. Raises `OSError`."""
        ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end, with one system call if possible; return the new size.

        After a short or failed write the file is truncated to its former size, then `OSError` is
        raised.
        """
        ...

    def write(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes in place. Recovery overwrites batches only with the same bytes."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until the bytes written so far are on disk (fdatasync). Raises `OSError`.

        For worker threads only.
        """
        ...

    def pin(self) -> int | None:
        """Keep the descriptor open until `unpin`, and return it; None for a file in memory."""
        ...

    def unpin(self) -> None: ...

    def read_ahead(self, offset: int, count: int) -> None:
        """Have these bytes of a pinned file in memory soon; returns at once, and never fails."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Directories and files by path. Every error is an `OSError` with the path."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> Sequence[str]:
        """The names in a directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, if they do not exist."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable. Blocks."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Replace a file atomically and durably. Blocks.

        It writes a temporary file, syncs and renames it, and syncs the directory.
        """
        ...

    def free_bytes(self, path: str) -> tuple[int, int]:
        """Free and total bytes of the volume; (-1, -1) without a volume."""
        ...

    def lock(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock file, and return the function that releases it.

        Raises `BlockingIOError` if another process has it.
        """
        ...


class Transport(Protocol):
    """A connected, non-blocking stream of bytes: a socket, or its simulation."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the other side."""
        ...

    def receive(self, count: int) -> bytes | None:
        """Receive at most `count` bytes; None if none have arrived, b"" at the end of the stream.

        Raises `OSError`.
        """
        ...

    def set_low_water_mark(self, count: int) -> int:
        """Report the transport readable only when `count` bytes have arrived, or the stream has
        ended. Return the mark that was set: fewer if the system holds fewer, 1 if it has no marks.

        The system may report it earlier all the same.
        """
        ...

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        """Send bytes in order, and return how many were accepted; 0 if the buffer is full.

        `more` says that a `send_file` follows at once, so that a short head need not be sent in a
        packet of its own. Raises `OSError`.
        """
        ...

    def send_file(self, file: File, offset: int, count: int) -> int:
        """Like `send`, for bytes of a file; without a copy in user space where possible."""
        ...

    def close(self) -> None: ...


class ServerSocket(Protocol):
    """A bound server socket."""

    @property
    def address(self) -> tuple[str, int]: ...

    def close(self) -> None: ...


class SocketBuffers(NamedTuple):
    """The sizes of a socket's buffers in bytes (SO_SNDBUF, SO_RCVBUF); -1 leaves a size to the
    operating system, which adapts it to the connection."""

    send_bytes: int = -1
    receive_bytes: int = -1


SYSTEM_BUFFERS = SocketBuffers()


class Network(Protocol):
    """Connections, and callbacks on the owner thread when they are ready.

    Buffer sizes are set before a socket connects or listens: later, the receive buffer could no
    longer enlarge TCP's window.
    """

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Transport], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> ServerSocket:
        """Accept connections at an address. Accepted ones have these buffers."""
        ...

    def connect(
        self,
        host: str,
        port: int,
        connected: Callable[[Transport], None],
        failed: Callable[[OSError], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> Callable[[], None]:
        """Connect to a name or address without blocking; return the function that cancels it.

        At most one of the callbacks is called, once, not before this method returns and not after
        the cancellation. Neither is called while the other side does not answer. The error given to
        `failed` has the address.
        """
        ...

    def register(
        self, transport: Transport, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        """Start watching for readability, level-triggered."""
        ...

    def set_interest(self, transport: Transport, *, read: bool, write: bool) -> None: ...

    def unregister(self, transport: Transport) -> None: ...


class Offload(Protocol):
    """Workers for blocking calls."""

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work` on a worker, then `done(result)` or `failed(error)` on the owner thread."""
        ...


def do_nothing() -> None:
    """The default callback."""


@dataclass(slots=True)
class Env:
    """The environment. `call_soon` runs a callback on the owner thread after the current event.

    `many_made` is called after thousands of objects were made that stay: a process may keep its
    garbage collector from looking at all of them again and again.
    """

    clock: Clock
    random: Random
    network: Network
    disk: Disk
    offload: Offload
    call_soon: Callable[[Callable[[], None]], None]
    many_made: Callable[[], object] = do_nothing
