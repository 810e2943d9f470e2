"""The environment seam: everything that deciding code may not reach for itself.

Log, replication, coordinators, purgatories and clients get clock, randomness, network, disk and
worker pool as arguments of these types. The real ones are thin (`network.selector`,
`network.workers`, `log.files`); the simulated ones (`testing`) run a whole broker with its clients
under one seeded scheduler, faster than real time.

Everything here is called on the owner thread, except the function given to `Offload.submit`, which
runs on a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    """Two clocks: one that only goes forward, for waiting; one that people set, for timestamps."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back. For deadlines."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch. For record timestamps and retention, never for
        waiting.
        """
        ...


class Random(Protocol):
    """The one source of chance (a `random.Random` fits)."""

    def getrandbits(self, bits: int, /) -> int: ...


class File(Protocol):
    """One file. Descriptors may be opened lazily and closed when cold; `pin` keeps one open."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Bytes in the file, from memory: no system call."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset`; fewer only at the end of the file. `OSError`."""
        ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end with one system call where the kernel takes them; the new
        size.

        On a short or failed write the file is truncated back to where it was before `OSError` is
        raised.
        """
        ...

    def write(self, offset: int, data: Buffer) -> None:
        """Overwrite in place (of batches: only with the bytes they have, in recovery)."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Blocks until the bytes written so far are on disk (fdatasync). Worker threads only.
        Raises `OSError`.
        """
        ...

    def pin(self) -> int | None:
        """Keep the descriptor open until `unpin`; the descriptor for `sendfile`, None where there
        is none (memory).
        """
        ...

    def unpin(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Directories and files by path. All errors are `OSError`s with the path in them."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> Sequence[str]:
        """Names in a directory, sorted (never in the order of the file system)."""
        ...

    def make_directory(self, path: str) -> None:
        """Parents too; no error if it exists."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Creations, renames and removals in this directory are durable after this. Blocks."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """All or nothing, durable: temporary file, fsync, rename, fsync of directory. Blocks."""
        ...

    def free_bytes(self, path: str) -> tuple[int, int]:
        """(free, total) bytes of the volume; (-1, -1) where that means nothing."""
        ...

    def lock(self, path: str) -> Callable[[], None]:
        """Take the exclusive lock file at `path`; returns its release. `BlockingIOError` if another
        process has it.
        """
        ...


class Transport(Protocol):
    """A connected, non-blocking stream of bytes: a socket, or its simulation."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the other side."""
        ...

    def receive(self, count: int) -> bytes | None:
        """Up to `count` bytes; None if nothing has arrived; b"" at the end of the stream. Raises
        `OSError`.
        """
        ...

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        """How many bytes were taken, in order; 0 if the peer does not read now. Raises `OSError`.

        `more` hints that a `send_file` follows at once, so that a short head is not sent on its
        own.
        """
        ...

    def send_file(self, file: File, offset: int, count: int) -> int:
        """Like `send`, for bytes of a file that never enter user space where the system can do
        that.
        """
        ...

    def close(self) -> None: ...


class ServerSocket(Protocol):
    """A bound server socket."""

    @property
    def address(self) -> tuple[str, int]: ...

    def close(self) -> None: ...


class Network(Protocol):
    """Readiness of transports, told on the owner thread."""

    def listen(
        self, host: str, port: int, accepted: Callable[[Transport], None]
    ) -> ServerSocket: ...

    def connect(
        self,
        host: str,
        port: int,
        connected: Callable[[Transport], None],
        failed: Callable[[OSError], None],
    ) -> Callable[[], None]:
        """Connect to a name or an address, without waiting; what is returned gives up.

        At most one of the callbacks, once, never before this returned and never after giving up;
        neither, while the other side is silent. `failed` gets an error that names the address.
        """
        ...

    def register(
        self, transport: Transport, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        """Start watching, with interest in reading only. Level-triggered."""
        ...

    def set_interest(self, transport: Transport, *, read: bool, write: bool) -> None: ...

    def unregister(self, transport: Transport) -> None: ...


class Offload(Protocol):
    """Where blocking work goes."""

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work` on a worker; then exactly one of `done(result)` or `failed(error)` on the
        owner thread.
        """
        ...


@dataclass(slots=True)
class Env:
    """The seam as one value. `call_soon` runs a callback on the owner thread after the current
    event.
    """

    clock: Clock
    random: Random
    network: Network
    disk: Disk
    offload: Offload
    call_soon: Callable[[Callable[[], None]], None]
