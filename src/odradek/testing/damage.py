"""Which bit of a disk to flip, so that one knows what must come of it.

    durable bit   of a batch that recovery reads and that was durable: between the recovery point
                  and the durable end that `durable-ends` has. The broker must notice at its next
                  start, and take that partition offline. Not the leader epoch, which no checksum
                  covers.
    derived bit   of an index or a producer snapshot. Nothing but speed may depend on those.

What lies before the recovery point no start reads again. There a flipped bit is found by whoever
reads the batch, and checks its CRC: clients do.
"""

from __future__ import annotations

from contextlib import suppress

from odradek.log.durable_ends import DURABLE_ENDS_FILE, DurableEnd, DurableEnds
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from odradek.protocol import record_batch
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.testing.disk import SimDisk
from odradek.testing.prng import SplitMix64

LEADER_EPOCH = range(12, 16)
DERIVED = (".index", ".timeindex", ".snapshot")


def flip_durable_bit(disk: SimDisk, directory: str, chance: SplitMix64) -> TopicIdPartition | None:
    """Flip one, while no broker runs; in whose log, or None if there is no such byte."""
    candidates = [
        (key, path, header)
        for key, end in durable_ends(disk, directory)
        for path, header in recovered_batches(disk, directory, key, end)
    ]
    if not candidates:
        return None
    key, path, header = chance.pick(candidates)
    at = chance.below(header.size)
    while at in LEADER_EPOCH:
        at = chance.below(header.size)
    disk.flip_bit(path, 8 * (header.position + at) + chance.below(8))
    return key


def durable_ends(disk: SimDisk, directory: str) -> list[tuple[TopicIdPartition, DurableEnd]]:
    """What the file says, in a fixed order."""
    content = disk.content(f"{directory}/{DURABLE_ENDS_FILE}")
    copy = MemoryDisk()
    copy.make_directory("/copy")
    copy.replace_file(f"/copy/{DURABLE_ENDS_FILE}", content)
    ends = DurableEnds(copy, "/copy")
    found = [(key, ends.get(key)) for key in sorted(ends.partitions())]
    return [(key, end) for key, end in found if end is not None]


def recovered_batches(
    disk: SimDisk, directory: str, key: TopicIdPartition, end: DurableEnd
) -> list[tuple[str, RecordBatchHeader]]:
    """The batches of a log between its recovery point and its durable end."""
    found = []
    for path in disk.paths():
        if path.startswith(f"{directory}/{key}/") and path.endswith(".log"):
            found += [
                (path, header)
                for header in sound_batches(disk.content(path))
                if end.recovery_point <= header.base_offset and header.next_offset <= end.offset
            ]
    return found


def sound_batches(data: bytes) -> list[RecordBatchHeader]:
    """Up to what is no batch: damaged already, or torn."""
    found: list[RecordBatchHeader] = []
    with suppress(record_batch.CorruptBatch):
        found.extend(record_batch.batches(data))
    return found


def flip_derived_bit(disk: SimDisk, directory: str, chance: SplitMix64) -> str | None:
    """Flip one, while no broker runs; in which file."""
    paths = [
        path
        for path in disk.paths()
        if path.startswith(f"{directory}/")
        and path.endswith(DERIVED)
        and "__cluster_metadata" not in path
        and disk.content(path)
    ]
    if not paths:
        return None
    path = chance.pick(paths)
    disk.flip_bit(path, chance.below(8 * len(disk.content(path))))
    return path
