"""The real disk: the only module of the broker that makes a file system call.

`LocalDisk` and `LocalFile` are the `Disk` and `File` of `model.env` on Linux and macOS.

**Descriptors.** A `LocalFile` is a path, a size and, most of the time, no descriptor. The first use
opens it; when more than `max_open` are open, cold ones are closed, so 10,000 partitions live in
1,024 descriptors. Coldness is judged by the clock algorithm: a use sets a bit (no bookkeeping on
the hot path), the hand that looks for a victim clears it and takes the first file found without it.
A pinned file is never a victim.

A few descriptors are kept in reserve, for the process may run out of them: a flush on a worker must
sync a directory whoever took the last one, for what it may not fail at fences the data directory.

**Threads.** Files belong to the owner thread. A worker may use a file only while it is pinned (a
flush pins what it syncs, a recovery what it reads), since only the owner thread closes cold
descriptors; a worker that opens one more than the limit leaves it to the owner to come back below.
The lock guards the set of open files, never a system call on the hot path.

**Writing.** A descriptor's position is the end of the file as this object knows it, so an append is
one `writev`. Short writes are continued; after an error the file is cut back to its old size before
the error is raised, and if even that fails, before the next append. `sync` is `fdatasync`
(`F_FULLFSYNC` on macOS, where `fsync` does not reach the platter).

**Closing a descriptor with unsynced bytes** is safe: Linux reports a later write-back error to the
next descriptor opened on the file, so the `sync` that follows still fails.

Not here: what a failure means (see `fence`), what is written (see `segment`, `index`,
`checkpoints`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.model.env import Buffer

IOV_MAX = os.sysconf("SC_IOV_MAX")
FULL_FSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
DEFAULT_MAX_OPEN = 768
RESERVED_DESCRIPTORS = 4
WRITE_MODE = os.O_RDWR | os.O_CLOEXEC
NO_DESCRIPTOR = -1


def _with_path(error: OSError, path: str) -> OSError:
    """The same error with the path in it (calls on descriptors leave it out)."""
    return OSError(error.errno or errno.EIO, error.strerror or str(error), path)


def _sync(descriptor: int) -> None:
    if FULL_FSYNC is not None:
        fcntl.fcntl(descriptor, FULL_FSYNC)
    else:
        os.fdatasync(descriptor)


class LocalFile:
    """A file that is open when it needs to be. See `model.env.File`."""

    __slots__ = ("_descriptor", "_disk", "_path", "_pins", "_size", "_torn", "used")

    def __init__(self, disk: LocalDisk, path: str, size: int) -> None:
        self._disk = disk
        self._path = path
        self._size = size
        self._descriptor = NO_DESCRIPTOR
        self._pins = 0
        self._torn = False
        self.used = True

    @property
    def path(self) -> str:
        return self._path

    @property
    def evictable(self) -> bool:
        return self._pins == 0

    def size(self) -> int:
        return self._size

    def _open(self) -> int:
        descriptor = self._disk.descriptor(self._path, WRITE_MODE)
        os.lseek(descriptor, self._size, os.SEEK_SET)
        self._descriptor = descriptor
        self._disk.opened(self)
        return descriptor

    def _ready(self) -> int:
        self.used = True
        descriptor = self._descriptor
        return descriptor if descriptor >= 0 else self._open()

    def read(self, offset: int, count: int) -> bytes:
        descriptor = self._ready()
        try:
            data = os.pread(descriptor, count, offset)
            while len(data) < count and offset + len(data) < self._size:
                more = os.pread(descriptor, count - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _with_path(error, self._path) from error
        return data

    def append(self, parts: Sequence[Buffer]) -> int:
        self.used = True
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._open()
        if self._torn:
            self._cut_back()
        total = 0
        for part in parts:
            total += len(part)
        try:
            if len(parts) > IOV_MAX or os.writev(descriptor, parts) != total:
                self._append_rest(descriptor, parts, total)
        except OSError as error:
            self._torn = True
            with suppress(OSError):  # stays torn; the next append tries again
                self._cut_back()
            raise _with_path(error, self._path) from error
        self._size += total
        return self._size

    def _append_rest(self, descriptor: int, parts: Sequence[Buffer], total: int) -> None:
        """Continue after a short write, or write more parts than one call takes."""
        written = os.lseek(descriptor, 0, os.SEEK_CUR) - self._size
        rest = memoryview(b"".join(parts))
        while written < total:
            count = os.write(descriptor, rest[written:])
            if count == 0:
                raise OSError(errno.EIO, "nothing written")
            written += count

    def _cut_back(self) -> None:
        os.ftruncate(self._descriptor, self._size)
        os.lseek(self._descriptor, self._size, os.SEEK_SET)
        self._torn = False

    def write(self, offset: int, data: Buffer) -> None:
        descriptor = self._ready()
        view = memoryview(data)
        try:
            while len(view) > 0:
                count = os.pwrite(descriptor, view, offset)
                offset += count
                view = view[count:]
            if offset > self._size:
                self._size = offset
                os.lseek(descriptor, offset, os.SEEK_SET)
        except OSError as error:
            raise _with_path(error, self._path) from error

    def truncate(self, size: int) -> None:
        descriptor = self._ready()
        try:
            os.ftruncate(descriptor, size)
            os.lseek(descriptor, size, os.SEEK_SET)
        except OSError as error:
            raise _with_path(error, self._path) from error
        self._size = size

    def sync(self) -> None:
        try:
            _sync(self._ready())
        except OSError as error:
            raise _with_path(error, self._path) from error

    def pin(self) -> int:
        self._pins += 1  # before the descriptor is looked at: from here on it is no victim
        descriptor = self._descriptor
        if descriptor >= 0:
            return descriptor
        try:
            return self._open()
        except OSError:
            self._pins -= 1
            raise

    def unpin(self) -> None:
        assert self._pins > 0, f"{self._path}: unpinned more often than pinned"
        self._pins -= 1
        self.used = True

    def close(self) -> None:
        """Give the descriptor back (a pinned file keeps it until it is cold); a later use opens it
        again.
        """
        if self._pins == 0:
            self._disk.closed(self)
            self.close_descriptor()

    def close_descriptor(self) -> None:
        """Called by the disk for its victim."""
        descriptor, self._descriptor = self._descriptor, NO_DESCRIPTOR
        if descriptor >= 0:
            os.close(descriptor)


class LocalDisk:
    """Directories and files of this machine. See `model.env.Disk`."""

    def __init__(self, max_open: int = DEFAULT_MAX_OPEN) -> None:
        """`max_open`: descriptors kept for files; pinned ones may come on top."""
        assert max_open >= 1
        self.max_open = max_open
        self._open: dict[LocalFile, None] = {}
        self._lock = threading.Lock()
        self._owner = threading.get_ident()
        self._reserve: list[int] = []  # the first stays: it is what the others are copies of
        while len(self._reserve) <= RESERVED_DESCRIPTORS:
            self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        for descriptor in self._reserve:
            os.close(descriptor)

    @property
    def open_files(self) -> int:
        """Descriptors in use now."""
        return len(self._open)

    def own(self) -> None:
        """Make the calling thread the owner (the one that may close cold descriptors)."""
        self._owner = threading.get_ident()

    def opened(self, file: LocalFile) -> None:
        """Called by a file that opened its descriptor; closes cold ones above the limit."""
        with self._lock:
            self._open[file] = None
            if len(self._open) > self.max_open and threading.get_ident() == self._owner:
                self._evict(file)

    def descriptor(self, path: str, flags: int) -> int:
        """Open a path; if the process is out of descriptors, at the price of cold files, or of the
        reserve.
        """
        while True:
            try:
                return os.open(path, flags, 0o600)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._give_up_one():
                    raise

    def _give_up_one(self) -> bool:
        """Close the first file that may be closed (only the owner may), or one of the reserve."""
        with self._lock:
            if threading.get_ident() == self._owner:
                for file in self._open:
                    if file.evictable:
                        del self._open[file]
                        file.close_descriptor()
                        return True
            if len(self._reserve) > 1:
                os.close(self._reserve.pop())
                return True
        return False

    def _done(self, descriptor: int) -> None:
        """Close what was open for a moment; or make up the reserve with it, before anybody else can
        have it.
        """
        with self._lock:
            if len(self._reserve) <= RESERVED_DESCRIPTORS:
                os.dup2(self._reserve[0], descriptor, inheritable=False)
                self._reserve.append(descriptor)
                return
        os.close(descriptor)

    def closed(self, file: LocalFile) -> None:
        with self._lock:
            self._open.pop(file, None)

    def _evict(self, newcomer: LocalFile) -> None:
        for _ in range(2 * len(self._open)):
            if len(self._open) <= self.max_open:
                return
            file = next(iter(self._open))
            del self._open[file]
            if file is newcomer or file.used or not file.evictable:
                file.used = False
                self._open[file] = None
            else:
                file.close_descriptor()
        newcomer.used = True

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        if create:
            self._done(self.descriptor(path, WRITE_MODE | os.O_CREAT))
        return LocalFile(self, path, os.stat(path).st_size)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> Sequence[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        if parent:
            self.make_directory(parent)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
        descriptor = self.descriptor(path or ".", flags)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _with_path(error, path) from error
        finally:
            self._done(descriptor)

    def read_file(self, path: str) -> bytes:
        descriptor = self.descriptor(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            self._done(descriptor)

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        descriptor = self.descriptor(temporary, WRITE_MODE | os.O_CREAT | os.O_TRUNC)
        try:
            view = memoryview(data)
            while len(view) > 0:
                view = view[os.write(descriptor, view) :]
            _sync(descriptor)
        except OSError as error:
            raise _with_path(error, temporary) from error
        finally:
            self._done(descriptor)
        os.rename(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def free_bytes(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize

    def lock(self, path: str) -> Callable[[], None]:
        descriptor = self.descriptor(path, WRITE_MODE | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise BlockingIOError(
                errno.EWOULDBLOCK,
                f"in use by process {holder}; stop it or choose another data directory",
                path,
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

        def release() -> None:
            os.close(descriptor)

        return release


def descriptor_budget(share: float = 0.5) -> int:
    """How many descriptors files may have: a share of the process's limit, at least 16."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > sys.maxsize:
        soft = 1 << 16
    return max(16, int(soft * share))
