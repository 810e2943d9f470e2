"""The simulated disk: a file system per machine that outlives its processes, with faults on demand.

    SimDisk (the machine's disk) ──mount──► Mount (one incarnation's `model.env.Disk`)
        tree of Directory and FileNode        │ every effect: counted, digested, perhaps failed,
        power_loss(): `testing.volume`        │ perhaps the last
                                              └ SimFile (`model.env.File`)

Faults are those of the matrix: `EIO` on read, write and fsync, `ENOSPC`, and a crash before,
after or in the middle of the n-th effect from now, which is how every point between two system
calls of a handler is reached.

An operation is one event: `sync` returns with the bytes durable. That it takes time, and that
other things happen meanwhile, is the business of `testing.offload`, where blocking operations
run.

What it does not model: rename across directories, hard links, permissions, files held open by a
name that was removed and made again (they keep their node, as on a real system).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.testing.mount import DiskFaults, Mount, names_of
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import Scheduler
from odradek.testing.volume import Directory, FileNode


@dataclass(slots=True, eq=False)
class SimDisk:
    """A machine's disk."""

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
        """The disk for a new incarnation; the one before is dead and its locks are free."""
        if self._mounted is not None:
            self._mounted.dead = True
        self._locks.clear()
        self._mounted = Mount(self, faults or DiskFaults())
        return self._mounted

    def power_loss(self) -> None:
        """Lose what a power failure may lose of what was not synced."""
        temper = self.chance.pick(("lost", "kept", *(None,) * 8))
        self.root.power_loss(self.chance, temper)

    def synced_bytes(self, path: str) -> bytes:
        """What of a file is surely on the platter, if its name is (else nothing): for checkers."""
        node: FileNode | Directory | None = self.root
        for name in names_of(path):
            node = node.synced.get(name) if isinstance(node, Directory) else None
        return bytes(node.synced) if isinstance(node, FileNode) else b""

    def content(self, path: str) -> bytes:
        """A file as programs see it, the page cache included; nothing if there is none."""
        node = self._node(path)
        return bytes(node.content) if isinstance(node, FileNode) else b""

    def sync_file(self, path: str) -> None:
        """What is in the cache of a file is on the platter; its name may not be."""
        node = self._node(path)
        if isinstance(node, FileNode):
            node.sync()

    def flip_bit(self, path: str, bit: int) -> None:
        """Damage at rest: one bit of a file changes, in cache and on the platter."""
        file = self._node(path)
        assert isinstance(file, FileNode), path
        file.sync()
        file.content[bit // 8] ^= 1 << (bit % 8)
        file.synced[bit // 8] ^= 1 << (bit % 8)

    def _node(self, path: str) -> FileNode | Directory | None:
        node: FileNode | Directory | None = self.root
        for name in names_of(path):
            node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def paths(self) -> list[str]:
        """All files, sorted."""
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
