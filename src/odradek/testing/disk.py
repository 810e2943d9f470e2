"""The simulated disk: a file system per machine that outlives its processes, with faults.

    SimDisk (the machine's disk) ──mount──► Mount (one incarnation's `model.env.Disk`)
        tree of Directory and FileNode        │ every effect: counted, digested, perhaps failed,
        power_loss(): `testing.volume`        │ perhaps the last
                                              └ SimFile (`model.env.File`)

The faults are `EIO` on read, write and fsync, `ENOSPC`, and a crash before, after or in the middle
of the n-th effect from now. The crash reaches every point between two system calls of a handler.
Each change to the disk is one `effect`: it is counted, and digested for the tape. The `Mount` of a
process that has ended raises `Crash` on every call.

An operation is one event: `sync` returns when the bytes are durable. `testing.process` runs
blocking operations, and simulates that they take time while other things happen.

Not modelled: rename across directories, hard links, permissions. A file that is removed and made
again while it is open keeps its node, as on a real system.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from odradek.model.env import Buffer
from odradek.testing.prng import SplitMix64
from odradek.testing.process import Crash
from odradek.testing.scheduler import Scheduler
from odradek.testing.volume import Directory, FileNode, VolumeWrite


@dataclass(slots=True, eq=False)
class SimDisk:
    """The disk of one machine."""

    scheduler: Scheduler
    name: str
    root: Directory = field(default_factory=Directory)
    effects: int = 0
    syncs: int = 0
    chance: SplitMix64 = field(init=False)
    _mounted: Mount | None = None
    _locks: dict[str, Mount] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = self.scheduler.stream(f"disk/{self.name}")

    def mount(self, faults: DiskFaults | None = None) -> Mount:
        """Return the disk for a new incarnation; the previous mount is dead, its locks are free."""
        if self._mounted is not None:
            self._mounted.dead = True
        self._locks.clear()
        self._mounted = Mount(self, faults or DiskFaults())
        return self._mounted

    def power_loss(self) -> None:
        """Lose unsynced data, as a power failure may: a random part of it."""
        mode = self.chance.pick(("lost", "kept", *(None,) * 8))
        self.root.power_loss(self.chance, mode)

    def synced_bytes(self, path: str) -> bytes:
        """Return the durable bytes of a file, for checkers; nothing if its name is not durable."""
        node: FileNode | Directory | None = self.root
        for name in names_of(path):
            node = node.synced.get(name) if isinstance(node, Directory) else None
        return bytes(node.synced) if isinstance(node, FileNode) else b""

    def content(self, path: str) -> bytes:
        """Return a file's bytes as programs see them, with the page cache; nothing if missing."""
        node = self._node(path)
        return bytes(node.content) if isinstance(node, FileNode) else b""

    def sync_file(self, path: str) -> None:
        """Make a file's data durable; its name may not be."""
        node = self._node(path)
        if isinstance(node, FileNode):
            node.sync()

    def flip_bit(self, path: str, bit: int) -> None:
        """Flip one bit of a file, in the cache and on the platter."""
        file = self._node(path)
        assert isinstance(file, FileNode), path
        file.sync()
        file.content[bit // 8] ^= 1 << (bit % 8)
        file.synced[bit // 8] ^= 1 << (bit % 8)

    def shorten(self, path: str, size: int) -> None:
        """Cut the end off a file, in the cache and on the platter."""
        file = self._node(path)
        assert isinstance(file, FileNode), path
        file.sync()
        del file.content[size:], file.synced[size:]

    def _node(self, path: str) -> FileNode | Directory | None:
        node: FileNode | Directory | None = self.root
        for name in names_of(path):
            node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it is missing."""
        node = self._node(path)
        return sorted(node.entries) if isinstance(node, Directory) else []

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        found: list[str] = []

        def walk(directory: Directory, prefix: str) -> None:
            for name in sorted(directory.entries):
                node = directory.entries[name]
                if isinstance(node, Directory):
                    walk(node, f"{prefix}/{name}")
                else:
                    found.append(f"{prefix}/{name}")

        walk(self.root, "")
        return found


TOTAL_BYTES = 1 << 40


@dataclass(slots=True)
class DiskFaults:
    """The faults that are injected from now on; rates are per mille of the calls."""

    read_error_rate: int = 0
    write_error_rate: int = 0
    sync_error_rate: int = 0
    full: bool = False
    crash_after_effects: int | None = None
    """The number of effects that are still done; the process crashes at the next one."""

    @property
    def injecting(self) -> bool:
        """True if calls may fail now."""
        rates = self.read_error_rate + self.write_error_rate + self.sync_error_rate
        return self.full or rates > 0

    def heal(self) -> None:
        """Stop injecting errors (a crash point that was set stays)."""
        self.read_error_rate = self.write_error_rate = self.sync_error_rate = 0
        self.full = False


@dataclass(slots=True, eq=False)
class SimFile:
    """An open file. Implements `model.env.File`."""

    mount: Mount
    path: str
    node: FileNode

    def size(self) -> int:
        return len(self.node.content)

    def read(self, offset: int, count: int) -> bytes:
        self.mount.may_fail("read", self.path, self.mount.faults.read_error_rate)
        return bytes(self.node.content[offset : offset + count])

    def append(self, parts: Sequence[Buffer]) -> int:
        data = b"".join(parts)
        self._write(len(self.node.content), data, "append")
        return len(self.node.content)

    def write(self, offset: int, data: Buffer) -> None:
        self._write(offset, bytes(data), "write")

    def truncate(self, size: int) -> None:
        self.mount.effect(
            "truncate", self.path, lambda: self.node.change(VolumeWrite(size, None)), size
        )

    def sync(self) -> None:
        self.mount.sync_node(self.path, self.node)

    def pin(self) -> int | None:
        return None

    def unpin(self) -> None:
        """Do nothing: the node lives as long as it is referenced."""

    def read_ahead(self, offset: int, count: int) -> None:
        """Do nothing: the bytes are in memory."""

    def close(self) -> None:
        """Do nothing: a node needs no closing."""

    def _write(self, offset: int, data: bytes, kind: str) -> None:
        mount = self.mount
        if mount.faults.full and offset + len(data) > len(self.node.content):
            mount.disk.scheduler.reach("disk: full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        mount.may_fail("write", self.path, mount.faults.write_error_rate)

        def torn() -> None:
            cut = mount.disk.chance.between(0, len(data))
            self.node.change(VolumeWrite(offset, data[:cut]))

        def complete() -> None:
            self.node.change(VolumeWrite(offset, data))

        mount.effect(kind, self.path, complete, zlib.crc32(data), torn)


@dataclass(slots=True, eq=False)
class Mount:
    """The disk as one process sees it. Implements `model.env.Disk`."""

    disk: SimDisk
    faults: DiskFaults = field(default_factory=DiskFaults)
    dead: bool = False

    def open(self, path: str, *, create: bool = False) -> SimFile:
        parent, name = self._parent(path)
        node = parent.entries.get(name)
        if node is None and create:
            node = FileNode()
            self._bind("create", path, {name: node})
        if isinstance(node, FileNode):
            return SimFile(self, path, node)
        raise error(errno.ENOENT if node is None else errno.EISDIR, path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, path: str) -> Sequence[str]:
        return sorted(self._directory(path).entries)

    def make_directory(self, path: str) -> None:
        names = names_of(path)
        for depth in range(1, len(names) + 1):
            there = "/".join(names[:depth])
            node = self._find(there)
            if node is None:
                self._bind("mkdir", there, {names[depth - 1]: Directory()})
            elif isinstance(node, FileNode):
                raise error(errno.ENOTDIR, path)

    def rename(self, source: str, target: str) -> None:
        parent, name = self._parent(source)
        other, new_name = self._parent(target)
        if parent is not other:
            raise error(errno.EXDEV, target)
        node = parent.entries.get(name)
        if node is None:
            raise error(errno.ENOENT, source)
        if name != new_name:
            self._bind("rename", source, {name: None, new_name: node})

    def remove(self, path: str) -> None:
        if not isinstance(self._find(path), FileNode):
            raise error(errno.ENOENT, path)
        self._bind("remove", path, {names_of(path)[-1]: None})

    def remove_tree(self, path: str) -> None:
        for name in self.list(path):
            below = f"{path}/{name}"
            if isinstance(self._find(below), Directory):
                self.remove_tree(below)
            else:
                self.remove(below)
        self._bind("rmdir", path, {names_of(path)[-1]: None})

    def sync_directory(self, path: str) -> None:
        self.sync_node(path, self._directory(path))

    def read_file(self, path: str) -> bytes:
        file = self.open(path)
        return file.read(0, file.size())

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = self.open(path + ".tmp", create=True)
        temporary.truncate(0)
        temporary.append([data])
        temporary.sync()
        self.rename(path + ".tmp", path)
        self.sync_directory("/".join(names_of(path)[:-1]))

    def free_bytes(self, path: str) -> tuple[int, int]:
        return (0 if self.faults.full else TOTAL_BYTES // 2, TOTAL_BYTES)

    def lock(self, path: str) -> Callable[[], None]:
        locks = self.disk._locks
        if path in locks:
            raise BlockingIOError(errno.EAGAIN, "locked by another process", path)
        self.open(path, create=True)
        locks[path] = self

        def release() -> None:
            locks.pop(path, None)

        return release

    # Effects and faults.

    def effect(
        self,
        kind: str,
        path: str,
        act: Callable[[], None],
        crc: int = 0,
        torn: Callable[[], None] | None = None,
    ) -> None:
        """Make one change to the disk, or crash the process before, within or after it."""
        if self.dead:
            raise Crash
        disk, left = self.disk, self.faults.crash_after_effects
        disk.effects += 1
        disk.scheduler.note(disk.name, kind, zlib.crc32(path.encode(), crc))
        if left is None or left > 0:
            act()
            self.faults.crash_after_effects = None if left is None else left - 1
            return
        self.dead = True
        disk.scheduler.note(disk.name, "crash")
        ending = disk.chance.pick((None, act, torn))
        when = "before" if ending is None else "after" if ending is act else "within"
        disk.scheduler.reach(f"disk: crash {when} an effect")
        if ending is not None:
            ending()
        raise Crash

    def may_fail(self, what: str, path: str, rate: int) -> None:
        if self.dead:
            raise Crash
        if self.disk.chance.chance(rate):
            self.disk.scheduler.note(self.disk.name, f"EIO {what}", zlib.crc32(path.encode()))
            self.disk.scheduler.reach(f"disk: EIO {what}")
            raise error(errno.EIO, path)

    def sync_node(self, path: str, node: FileNode | Directory) -> None:
        try:
            self.may_fail("sync", path, self.faults.sync_error_rate)
        except OSError:
            if isinstance(node, FileNode):
                node.fail_sync(self.disk.chance)
            raise
        self.disk.syncs += 1
        self.effect("sync", path, node.sync)

    def _bind(self, kind: str, path: str, names: dict[str, FileNode | Directory | None]) -> None:
        parent = self._parent(path)[0]
        if self.faults.full and kind in ("create", "mkdir"):
            self.disk.scheduler.reach("disk: full")
            raise error(errno.ENOSPC, path)
        self.effect(kind, path, lambda: parent.bind(names))

    # Paths.

    def _find(self, path: str) -> FileNode | Directory | None:
        node: FileNode | Directory | None = self.disk.root
        for name in names_of(path):
            node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if isinstance(node, Directory):
            return node
        raise error(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def _parent(self, path: str) -> tuple[Directory, str]:
        names = names_of(path)
        return self._directory("/".join(names[:-1])), names[-1]


def names_of(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
