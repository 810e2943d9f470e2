"""A file of this machine: a path, a size and, most of the time, no descriptor.

The first use opens it; `Descriptors` closes it when it is cold, unless it is pinned. `close` on a
pinned file closes it with the last `unpin`.

A descriptor's position is the end of the file as this object knows it, so an append is one `write`
or `writev`. Short writes are continued. After an error the file is truncated to its old size before
the error is raised; if that fails, too, before the next append. `sync` is `fdatasync`
(`F_FULLFSYNC` on macOS, where `fsync` does not reach the medium).
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from odradek.model.env import Buffer

if TYPE_CHECKING:
    from odradek.log.files.local_disk import Descriptors

IOV_MAX: Final[int] = os.sysconf("SC_IOV_MAX")
FULL_FSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
WRITE_MODE: Final = os.O_RDWR | os.O_CLOEXEC
NO_DESCRIPTOR: Final = -1
CAN_ADVISE: Final = hasattr(os, "posix_fadvise")


def with_path(error: OSError, path: str) -> OSError:
    """Return the same error with the path, which errors of calls on descriptors do not have."""
    return OSError(error.errno or errno.EIO, error.strerror or str(error), path)


def sync_descriptor(descriptor: int) -> None:
    if FULL_FSYNC is not None:
        fcntl.fcntl(descriptor, FULL_FSYNC)
    elif sys.platform != "darwin":  # For mypy: macOS has only the other.
        os.fdatasync(descriptor)


class LocalFile:
    """A file that opens its descriptor when it needs one. See `model.env.File`."""

    __slots__ = (
        "_descriptor",
        "_descriptors",
        "_done_with",
        "_path",
        "_pins",
        "_size",
        "_torn",
        "used",
    )

    def __init__(self, descriptors: Descriptors, path: str, size: int) -> None:
        self._descriptors = descriptors
        self._path = path
        self._size = size
        self._descriptor = NO_DESCRIPTOR
        self._pins = 0
        self._done_with = False
        self._torn = False
        self.used = True

    @staticmethod
    def opened(descriptors: Descriptors, path: str, descriptor: int) -> LocalFile:
        """Return the file of a descriptor that was opened in `WRITE_MODE`, and count it."""
        size = os.fstat(descriptor).st_size
        file = LocalFile(descriptors, path, size)
        if size > 0:
            os.lseek(descriptor, size, os.SEEK_SET)
        file._descriptor = descriptor
        descriptors.opened(file)
        return file

    @property
    def path(self) -> str:
        return self._path

    @property
    def evictable(self) -> bool:
        return self._pins == 0

    def size(self) -> int:
        return self._size

    def _open(self) -> int:
        descriptor = self._descriptors.open(self._path, WRITE_MODE)
        os.lseek(descriptor, self._size, os.SEEK_SET)
        self._descriptor = descriptor
        self._descriptors.opened(self)
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
            raise with_path(error, self._path) from error
        return data

    def append(self, parts: Sequence[Buffer]) -> int:
        self.used = True
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._open()
        if self._torn:
            self._truncate_torn()
        count = len(parts)
        total = 0
        for part in parts:
            total += len(part)
        try:
            if count == 1:
                written = os.write(descriptor, parts[0])
            else:
                written = os.writev(descriptor, parts) if count <= IOV_MAX else 0
            if written != total:
                self._append_rest(descriptor, parts, total)
        except OSError as error:
            self._torn = True
            with suppress(OSError):  # stays torn; the next append tries again
                self._truncate_torn()
            raise with_path(error, self._path) from error
        self._size += total
        return self._size

    def _append_rest(self, descriptor: int, parts: Sequence[Buffer], total: int) -> None:
        """Continue after a short write, or write more parts than one call accepts."""
        written = os.lseek(descriptor, 0, os.SEEK_CUR) - self._size
        rest = memoryview(b"".join(parts))
        while written < total:
            count = os.write(descriptor, rest[written:])
            if count == 0:
                raise OSError(errno.EIO, "nothing written")
            written += count

    def _truncate_torn(self) -> None:
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
            raise with_path(error, self._path) from error

    def truncate(self, size: int) -> None:
        descriptor = self._ready()
        try:
            os.ftruncate(descriptor, size)
            os.lseek(descriptor, size, os.SEEK_SET)
        except OSError as error:
            raise with_path(error, self._path) from error
        self._size = size

    def sync(self) -> None:
        try:
            sync_descriptor(self._ready())
        except OSError as error:
            raise with_path(error, self._path) from error

    def pin(self) -> int:
        self._pins += 1  # before the descriptor is read: a pinned file is not closed
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
        if self._done_with and self._pins == 0:
            self.close()

    def read_ahead(self, offset: int, count: int) -> None:
        descriptor = self._descriptor
        if descriptor >= 0 and CAN_ADVISE and sys.platform != "darwin":
            with suppress(OSError):  # a file system may not know it
                os.posix_fadvise(descriptor, offset, count, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close the descriptor, with the last `unpin` if pinned. A later use opens it again."""
        self._done_with = self._pins > 0
        if not self._done_with:
            self._descriptors.closed(self)
            self.close_descriptor()

    def close_descriptor(self) -> None:
        """Close the descriptor; called by `Descriptors` for a cold file."""
        descriptor, self._descriptor = self._descriptor, NO_DESCRIPTOR
        if descriptor >= 0:
            os.close(descriptor)
