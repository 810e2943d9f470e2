"""A disk in memory with the interface of the real one: `odradek up --memory`, tests, the simulator.

Every change calls `MemoryDisk.effect(kind, path)` before it happens. A subclass may override it to
record, fail, delay or crash; if it raises, the disk is unchanged. The kinds are `create append
write truncate sync rename remove make_directory sync_directory replace`.

Contents are a `bytearray` per file and live as long as the file object, as on POSIX: removing or
renaming a file that is being read removes only its name. A crash loses nothing here; the disk of
`testing` loses unsynced bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from odradek.model.env import Buffer


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", path)


class MemoryFile:
    """A file of a `MemoryDisk` (see `model.env.File`). It has no descriptor; pins are counted."""

    __slots__ = ("content", "disk", "name", "pins")

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self.disk = disk
        self.name = path
        self.content = bytearray()
        self.pins = 0

    @property
    def path(self) -> str:
        return self.name

    def size(self) -> int:
        return len(self.content)

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self.content[offset : offset + count])

    def append(self, parts: Sequence[Buffer]) -> int:
        self.disk.effect("append", self.name)
        for part in parts:
            self.content += part
        return len(self.content)

    def write(self, offset: int, data: Buffer) -> None:
        self.disk.effect("write", self.name)
        self.content.extend(bytes(max(0, offset - len(self.content))))
        self.content[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        self.disk.effect("truncate", self.name)
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))

    def sync(self) -> None:
        self.disk.effect("sync", self.name)

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        assert self.pins > 0, f"{self.name}: unpinned more often than pinned"
        self.pins -= 1

    def read_ahead(self, offset: int, count: int) -> None:
        """Do nothing: the bytes are in memory."""

    def close(self) -> None:
        """Do nothing: there is no descriptor."""


class MemoryDisk:
    """Directories and files in memory, by path with `/`. See `model.env.Disk`."""

    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}
        self.directories: dict[str, None] = {"": None, "/": None, ".": None}
        self.locks: dict[str, None] = {}

    def effect(self, kind: str, path: str) -> None:
        """Called before every change; subclasses override it."""

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file = self.files.get(path)
        if file is None:
            if not create or _parent(path) not in self.directories:
                raise _missing(path)
            self.effect("create", path)
            file = self.files[path] = self.new_file(path)
        return file

    def new_file(self, path: str) -> MemoryFile:
        """Make a file; subclasses override it."""
        return MemoryFile(self, path)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def list(self, path: str) -> Sequence[str]:
        if path not in self.directories:
            raise _missing(path)
        start = path + "/"
        names = [*self.files, *self.directories]
        return sorted(
            name[len(start) :]
            for name in names
            if name.startswith(start) and len(name) > len(start) and "/" not in name[len(start) :]
        )

    def make_directory(self, path: str) -> None:
        if path not in self.directories:
            self.make_directory(_parent(path))
            self.effect("make_directory", path)
            self.directories[path] = None

    def rename(self, source: str, target: str) -> None:
        if not self.exists(source):
            raise _missing(source)
        self.effect("rename", source)
        for name in [
            name for name in self.files if name == source or name.startswith(source + "/")
        ]:
            file = self.files.pop(name)
            file.name = target + name[len(source) :]
            self.files[file.name] = file
        for name in [
            name for name in self.directories if name == source or name.startswith(source + "/")
        ]:
            del self.directories[name]
            self.directories[target + name[len(source) :]] = None

    def remove(self, path: str) -> None:
        if path not in self.files:
            raise _missing(path)
        self.effect("remove", path)
        del self.files[path]

    def remove_tree(self, path: str) -> None:
        if path not in self.directories:
            raise _missing(path)
        for name in [name for name in self.files if name.startswith(path + "/")]:
            self.remove(name)
        for name in [
            name for name in self.directories if name == path or name.startswith(path + "/")
        ]:
            self.effect("remove", name)
            del self.directories[name]

    def sync_directory(self, path: str) -> None:
        if path not in self.directories:
            raise _missing(path)
        self.effect("sync_directory", path)

    def read_file(self, path: str) -> bytes:
        if path not in self.files:
            raise _missing(path)
        return bytes(self.files[path].content)

    def replace_file(self, path: str, data: bytes) -> None:
        self.effect("replace", path)
        if path not in self.files:
            self.files[path] = self.new_file(path)
        self.files[path].content[:] = data

    def free_bytes(self, path: str) -> tuple[int, int]:
        return -1, -1

    def lock(self, path: str) -> Callable[[], None]:
        if path in self.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "this data directory is in use", path)
        self.locks[path] = None

        def release() -> None:
            self.locks.pop(path, None)

        return release
