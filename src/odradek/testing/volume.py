"""What a power failure leaves of a file system: the durable half of the simulated disk.

A `FileNode` has its content as programs see it (the page cache), the image that is surely on the
platter (`synced`), and the writes since then, in order (`pending`). A `Directory` has the same
for its entries. `sync` moves one into the other; a power failure keeps the synced part and *some*
of the pending one:

| of        | survives                                                                          |
|-----------|-----------------------------------------------------------------------------------|
| file data | any subset of the pages (512 B or 4 KiB), each as it was at any moment since      |
| file size | any size it had since; grown without its data it shows zeros, or old garbage      |
| names     | a prefix of each directory's creations, renames, removals; a rename whole or not  |

That is what journalling file systems with delayed allocation do at their worst, and it is the
model under which applications are known to break: appends torn in the middle or present without
what came before them, files that exist but are empty, files that are gone because only they were
synced and not their directory. Each failure draws one temper per file, so that runs with nothing
lost, with all lost, with a clean prefix and with arbitrary pages all occur.

A failed fsync is as Linux does it: some of the pending pages were written, the others are marked
clean all the same and will *never* be, whatever later fsyncs say; programs go on reading them
from the cache.

A kill (of the process, not of the power) leaves the cache as it is: nothing to be done here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.testing.prng import SplitMix64

PAGE_SIZES = (512, 4096)
TEMPERS = ("lost", "kept", "prefix", "pages", "pages", "pages", "pages")


@dataclass(slots=True, frozen=True)
class Change:
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
    """A file, whatever its names are."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.synced)
        self.pending.clear()

    def fail_sync(self, chance: SplitMix64) -> None:
        """Some of the pending pages are on the platter; of the others nobody thinks any more."""
        self.synced = surviving_bytes(self.synced, self.pending, chance)
        self.pending.clear()

    def power_loss(self, chance: SplitMix64, temper: str) -> None:
        if temper == "kept":
            self.sync()
        elif temper == "prefix":
            for change in self.pending[: chance.between(0, len(self.pending))]:
                change.apply(self.synced)
        elif temper == "pages":
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

    def power_loss(self, chance: SplitMix64, temper: str | None) -> None:
        """Lose some of the whole tree; `temper` for all of it, or None to draw one for each."""
        mine = temper or chance.pick(TEMPERS)
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
                node.power_loss(chance, temper)
            else:
                node.power_loss(chance, temper or chance.pick(TEMPERS))


def rebind(
    entries: dict[str, FileNode | Directory], names: dict[str, FileNode | Directory | None]
) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def surviving_bytes(synced: bytearray, pending: list[Change], chance: SplitMix64) -> bytearray:
    """An image with a random size and, page by page, a random version of the data.

    The size is the one after some prefix of the changes. A page may be of any version, but for
    truncations: one that survived has cut every page beyond it, one that did not has cut none.
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


def size_after(size: int, changes: list[Change]) -> int:
    for change in changes:
        cut = change.data is None
        size = change.offset if cut else max(size, change.offset + len(change.data or b""))
    return size


def version_bounds(pending: list[Change], kept: int, page_end: int) -> tuple[int, int]:
    """Between how many changes at least and at most the content of a page can be from."""
    cuts = [i for i, c in enumerate(pending) if c.data is None and c.offset < page_end]
    low = max((i + 1 for i in cuts if i < kept), default=0)
    high = min((i for i in cuts if i >= kept), default=len(pending))
    return low, high


def assemble(
    synced: bytearray,
    pending: list[Change],
    versions: dict[int, list[int]],
    size: int,
    page: int,
    chance: SplitMix64,
) -> bytearray:
    """Play the changes on the image, taking each page when its version is there."""
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
