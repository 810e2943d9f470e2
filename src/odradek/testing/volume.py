"""Files and directories of the simulated disk, and the part of them that a power failure keeps.

A `FileNode` has its content as programs see it (the page cache), the durable image (`synced`), and
the writes since then, in order (`pending`). A `Directory` has the same for its entries. `sync`
makes the pending part durable; a power failure keeps the synced part and *some* of the pending one:

| of        | survives                                                                          |
|-----------|-----------------------------------------------------------------------------------|
| file data | any subset of the pages (512 B or 4 KiB), each as it was at any moment since      |
| file size | any size it had since; grown without its data it shows zeros, or old garbage      |
| names     | a prefix of each directory's creations, renames, removals; a rename whole or not  |

This is the worst case of journalling file systems with delayed allocation, and applications are
known to break under it: appends torn in the middle or present without earlier ones, files that
exist but are empty, files that are gone because they were synced and their directory was not. Each
failure draws one mode per file, so that runs with nothing lost, all lost, a clean prefix and
arbitrary pages all occur.

A failed fsync behaves as on Linux: some of the pending pages were written; the others are marked
clean and are *never* written, even if later fsyncs succeed. Programs go on reading them from the
cache.

A kill of the process leaves the cache as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.testing.prng import SplitMix64

PAGE_SIZES = (512, 4096)
LOSS_MODES = ("lost", "kept", "prefix", "pages", "pages", "pages", "pages")


@dataclass(slots=True, frozen=True)
class VolumeWrite:
    """One write of `data` at `offset`; without data, a truncation to `offset`."""

    offset: int
    data: bytes | None

    def apply(self, image: bytearray) -> None:
        if self.data is None:
            del image[self.offset :]
            image.extend(bytes(self.offset - len(image)))
            return
        if len(image) < self.offset:
            image.extend(bytes(self.offset - len(image)))
        image[self.offset : self.offset + len(self.data)] = self.data


@dataclass(slots=True, eq=False)
class FileNode:
    """A file, independent of its names."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    pending: list[VolumeWrite] = field(default_factory=list)

    def change(self, change: VolumeWrite) -> None:
        change.apply(self.content)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.synced)
        self.pending.clear()

    def fail_sync(self, chance: SplitMix64) -> None:
        """Write some of the pending pages; the others will never be written."""
        self.synced = surviving_bytes(self.synced, self.pending, chance)
        self.pending.clear()

    def power_loss(self, chance: SplitMix64, mode: str) -> None:
        if mode == "kept":
            self.sync()
        elif mode == "prefix":
            for change in self.pending[: chance.between(0, len(self.pending))]:
                change.apply(self.synced)
        elif mode == "pages":
            self.synced = surviving_bytes(self.synced, self.pending, chance)
        self.content = bytearray(self.synced)
        self.pending.clear()


Node = "FileNode | Directory"


@dataclass(slots=True, eq=False)
class Directory:
    """Names of files and directories. A binding to None is a removal."""

    entries: dict[str, FileNode | Directory] = field(default_factory=dict)
    synced: dict[str, FileNode | Directory] = field(default_factory=dict)
    pending: list[dict[str, FileNode | Directory | None]] = field(default_factory=list)

    def bind(self, names: dict[str, FileNode | Directory | None]) -> None:
        """Change one name, or several at once (a rename)."""
        rebind(self.entries, names)
        self.pending.append(names)

    def sync(self) -> None:
        for names in self.pending:
            rebind(self.synced, names)
        self.pending.clear()

    def power_loss(self, chance: SplitMix64, mode: str | None) -> None:
        """Lose a part of the whole tree; `mode` is for all nodes, None draws one for each."""
        mine = mode or chance.pick(LOSS_MODES)
        limit = len(self.pending)
        keep = {"lost": 0, "kept": limit}.get(mine)
        keep = chance.between(0, limit) if keep is None else keep
        for names in self.pending[:keep]:
            rebind(self.synced, names)
        self.pending.clear()
        self.entries = dict(self.synced)
        for name in sorted(self.entries):
            node = self.entries[name]
            if isinstance(node, Directory):
                node.power_loss(chance, mode)
            else:
                node.power_loss(chance, mode or chance.pick(LOSS_MODES))


def rebind(
    entries: dict[str, FileNode | Directory], names: dict[str, FileNode | Directory | None]
) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def surviving_bytes(synced: bytearray, pending: list[VolumeWrite], chance: SplitMix64) -> bytearray:
    """Return an image with a random size and, page by page, a random version of the data.

    The size is the one after some prefix of the changes. A page may be of any version, except
    around truncations: one that survived has cut every page beyond it, one that did not has cut
    none.
    """
    page = chance.pick(PAGE_SIZES)
    kept = chance.between(0, len(pending))
    size = size_after(len(synced), pending[:kept])
    versions: dict[int, list[int]] = {}
    first = min((change.offset for change in pending), default=0) // page
    for number in range(first, -(-size // page)):
        low, high = version_bounds(pending, kept, (number + 1) * page)
        versions.setdefault(chance.between(low, high), []).append(number)
    return assemble(synced, pending, versions, size, page, chance)


def size_after(size: int, changes: list[VolumeWrite]) -> int:
    for change in changes:
        cut = change.data is None
        size = change.offset if cut else max(size, change.offset + len(change.data or b""))
    return size


def version_bounds(pending: list[VolumeWrite], kept: int, page_end: int) -> tuple[int, int]:
    """Return the least and the greatest number of changes that a page can contain."""
    cuts = [i for i, c in enumerate(pending) if c.data is None and c.offset < page_end]
    low = max((i + 1 for i in cuts if i < kept), default=0)
    high = min((i for i in cuts if i >= kept), default=len(pending))
    return low, high


def assemble(
    synced: bytearray,
    pending: list[VolumeWrite],
    versions: dict[int, list[int]],
    size: int,
    page: int,
    chance: SplitMix64,
) -> bytearray:
    """Apply the changes to the image, and copy each page at its version."""
    image = bytearray(synced)
    result = bytearray(synced[:size])
    result.extend(bytes(size - len(result)))
    for version in range(len(pending) + 1):
        if version:
            pending[version - 1].apply(image)
        for number in versions.get(version, ()):
            start, end = number * page, min((number + 1) * page, size)
            data = image[start:end]
            missing = end - start - len(data)
            garbage = missing == end - start and chance.chance(250)
            data += (
                chance.getrandbits(8 * missing).to_bytes(missing, "big")
                if garbage
                else bytes(missing)
            )
            result[start:end] = data
    return result
