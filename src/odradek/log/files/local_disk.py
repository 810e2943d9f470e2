"""The disk of this machine: directories and files by path, and the process's file descriptors.

**Descriptors.** When more than `max_open` are open, cold ones are closed, so 10,000 partitions live
in 1,024 descriptors. The victim is found by the clock algorithm: a use sets a bit (no bookkeeping
on the hot path); the hand that looks for a victim clears it and takes the first file without it. A
pinned file is never a victim. Only the owner thread closes cold descriptors.

A few descriptors are kept in reserve in case the process runs out of them: a flush on a worker must
be able to open and sync a directory, because a flush that fails fences the data directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.log.files.local_file import WRITE_MODE, LocalFile, sync_descriptor, with_path

DEFAULT_MAX_OPEN = 768
RESERVED_DESCRIPTORS = 4
EVICTION_STEPS = 256
"""Files looked at for a cold one: with thousands open and used, a look at all takes too long."""


class Descriptors:
    """Opens and closes the descriptors of one `LocalDisk`."""

    def __init__(self, max_open: int = DEFAULT_MAX_OPEN) -> None:
        """`max_open`: open descriptors of files; pinned ones may exceed it."""
        assert max_open >= 1
        self.max_open = max_open
        self._files: dict[LocalFile, None] = {}
        self._lock = threading.Lock()
        self._owner = threading.get_ident()
        self._reserve: list[int] = []  # the first always stays; the others are copies of it
        while len(self._reserve) <= RESERVED_DESCRIPTORS:
            self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        for descriptor in self._reserve:
            os.close(descriptor)

    def __len__(self) -> int:
        """Return how many files have a descriptor."""
        return len(self._files)

    def own(self) -> None:
        """Make the calling thread the owner (the one that may close cold descriptors)."""
        self._owner = threading.get_ident()

    @property
    def owned(self) -> bool:
        """True on the owner thread."""
        return threading.get_ident() == self._owner

    def opened(self, file: LocalFile) -> None:
        """Count a file that opened its descriptor; close cold ones above the limit."""
        with self._lock:
            self._files[file] = None
            if len(self._files) > self.max_open and self.owned:
                self._evict(file)

    def open(self, path: str, flags: int) -> int:
        """Open a path; if descriptors run out, close cold files or use the reserve."""
        while True:
            try:
                return os.open(path, flags, 0o600)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._free_descriptor():
                    raise

    def _free_descriptor(self) -> bool:
        """Close the first unpinned file, which only the owner may, or a reserved descriptor."""
        with self._lock:
            if self.owned:
                for file in self._files:
                    if file.evictable:
                        del self._files[file]
                        file.close_descriptor()
                        return True
            if len(self._reserve) > 1:
                os.close(self._reserve.pop())
                return True
        return False

    def release_temporary(self, descriptor: int) -> None:
        """Close a descriptor that was used once; a reserve that is short keeps it instead."""
        with self._lock:
            if len(self._reserve) <= RESERVED_DESCRIPTORS:
                os.dup2(self._reserve[0], descriptor, inheritable=False)
                self._reserve.append(descriptor)
                return
        os.close(descriptor)

    def closed(self, file: LocalFile) -> None:
        with self._lock:
            self._files.pop(file, None)

    def _evict(self, newcomer: LocalFile) -> None:
        for _ in range(min(2 * len(self._files), EVICTION_STEPS)):
            if len(self._files) <= self.max_open:
                return
            file = next(iter(self._files))
            del self._files[file]
            if file is newcomer or file.used or not file.evictable:
                file.used = False
                self._files[file] = None
            else:
                file.close_descriptor()
        newcomer.used = True


def descriptor_budget(share: float = 0.5) -> int:
    """Return how many descriptors files may have: a share of the process's limit, at least 16."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > sys.maxsize:
        soft = 1 << 16
    return max(16, int(soft * share))


class LocalDisk:
    """Directories and files of this machine. See `model.env.Disk`."""

    def __init__(self, max_open: int = DEFAULT_MAX_OPEN) -> None:
        """`max_open`: open descriptors of files; pinned ones may exceed it."""
        self._descriptors = Descriptors(max_open)

    @property
    def open_files(self) -> int:
        """Descriptors in use now."""
        return len(self._descriptors)

    def own(self) -> None:
        """Make the calling thread the owner (the one that may close cold descriptors)."""
        self._descriptors.own()

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        if create:
            descriptor = self._descriptors.open(path, WRITE_MODE | os.O_CREAT)
            if self._descriptors.owned:
                return LocalFile.opened(self._descriptors, path, descriptor)
            # The owner could close it before this thread has pinned it.
            self._descriptors.release_temporary(descriptor)
        return LocalFile(self._descriptors, path, os.stat(path).st_size)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> Sequence[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            parent = os.path.dirname(path)
            if not parent:
                raise
            self.make_directory(parent)
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # Only here: it imports all kinds of archives.

        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
        descriptor = self._descriptors.open(path or ".", flags)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise with_path(error, path) from error
        finally:
            self._descriptors.release_temporary(descriptor)

    def read_file(self, path: str) -> bytes:
        descriptor = self._descriptors.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            self._descriptors.release_temporary(descriptor)

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        descriptor = self._descriptors.open(temporary, WRITE_MODE | os.O_CREAT | os.O_TRUNC)
        try:
            view = memoryview(data)
            while len(view) > 0:
                view = view[os.write(descriptor, view) :]
            sync_descriptor(descriptor)
        except OSError as error:
            raise with_path(error, temporary) from error
        finally:
            self._descriptors.release_temporary(descriptor)
        os.rename(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def free_bytes(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize

    def lock(self, path: str) -> Callable[[], None]:
        descriptor = self._descriptors.open(path, WRITE_MODE | os.O_CREAT)
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
