"""A real disk whose calls fail on demand, for a broker under test.

disk = FailingDisk()
with Broker(data_dir=..., disk=disk) as broker:
    disk.sync_error = errno.EIO       # from now on
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from odradek.log.files import LocalDisk
from odradek.model.env import Buffer, Disk, File


class FailingFile:
    """A `model.env.File` that fails on demand and otherwise calls the real file."""

    def __init__(self, disk: FailingDisk, file: File) -> None:
        self.disk = disk
        self.file = file

    @property
    def path(self) -> str:
        return self.file.path

    def size(self) -> int:
        return self.file.size()

    def read(self, offset: int, count: int) -> bytes:
        self.disk.check(self.disk.read_error, self.path)
        return self.file.read(offset, count)

    def append(self, parts: Sequence[Buffer]) -> int:
        self.disk.check(self.disk.append_error, self.path)
        return self.file.append(parts)

    def write(self, offset: int, data: Buffer) -> None:
        self.file.write(offset, data)

    def truncate(self, size: int) -> None:
        self.file.truncate(size)

    def sync(self) -> None:
        self.disk.check(self.disk.sync_error, self.path)
        self.file.sync()

    def pin(self) -> int | None:
        self.disk.pins += 1
        return self.file.pin()

    def unpin(self) -> None:
        self.disk.pins -= 1
        self.file.unpin()

    def read_ahead(self, offset: int, count: int) -> None:
        self.file.read_ahead(offset, count)

    def close(self) -> None:
        self.file.close()


class FailingDisk:
    """A `model.env.Disk` that fails on demand and otherwise calls the real disk.

    `*_error` is an errno, 0 for none, raised for paths that contain `only`. `pins` counts the files
    pinned and not unpinned.
    """

    def __init__(self) -> None:
        self.real: Disk = LocalDisk()
        self.read_error = self.append_error = self.sync_error = 0
        self.only = ""
        self.pins = 0

    def check(self, error: int, path: str) -> None:
        if error and self.only in path:
            raise OSError(error, os.strerror(error), path)

    def open(self, path: str, *, create: bool = False) -> FailingFile:
        return FailingFile(self, self.real.open(path, create=create))

    def exists(self, path: str) -> bool:
        return self.real.exists(path)

    def list(self, path: str) -> Sequence[str]:
        return self.real.list(path)

    def make_directory(self, path: str) -> None:
        self.real.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.real.rename(source, target)

    def remove(self, path: str) -> None:
        self.real.remove(path)

    def remove_tree(self, path: str) -> None:
        self.real.remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self.check(self.sync_error, path)
        self.real.sync_directory(path)

    def read_file(self, path: str) -> bytes:
        return self.real.read_file(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self.check(self.sync_error, path)
        self.real.replace_file(path, data)

    def free_bytes(self, path: str) -> tuple[int, int]:
        return self.real.free_bytes(path)

    def lock(self, path: str) -> Callable[[], None]:
        return self.real.lock(path)
