"""Directories and files of this machine, by path."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.log.files.descriptors import DEFAULT_MAX_OPEN, Descriptors
from odradek.log.files.local_file import WRITE_MODE, LocalFile, sync_descriptor, with_path


class LocalDisk:
    """Directories and files of this machine. See `model.env.Disk`."""

    def __init__(self, max_open: int = DEFAULT_MAX_OPEN) -> None:
        """`max_open`: descriptors kept for files; pinned ones may come on top."""
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
            self._descriptors.done(self._descriptors.open(path, WRITE_MODE | os.O_CREAT))
        return LocalFile(self._descriptors, path, os.stat(path).st_size)

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
        descriptor = self._descriptors.open(path or ".", flags)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise with_path(error, path) from error
        finally:
            self._descriptors.done(descriptor)

    def read_file(self, path: str) -> bytes:
        descriptor = self._descriptors.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            self._descriptors.done(descriptor)

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
            self._descriptors.done(descriptor)
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
