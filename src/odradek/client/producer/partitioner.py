"""The partition of a record: by its key, or the sticky choice for records without a key.

A record with a key goes to `murmur2(key) mod partitions`, as the Java client sends it, so all Kafka
clients agree. (librdkafka's default is another hash; its setting `partitioner=murmur2_random`
agrees with this one.)

A record without key and partition goes where `BuiltInPartitioner` is: to one partition until it has
filled a batch there, then to another, chosen at random (KIP-794):

    peek ─► append there ─► update(bytes) ─┬─ fewer than `batch.size` so far: stay
                                           ├─ as many, and its batches are full: choose another
                                           └─ twice as many: choose another

Staying with a partition makes large batches and few requests. Counting bytes rather than batches
keeps a slow partition from getting more records for being slow. The choice is adaptive: the longer
the queue of a partition, the less often it is chosen, in proportion to how much shorter than the
longest queue it is. A partition whose leader takes nothing for
`partitioner.availability.timeout.ms` is not chosen at all.

    queues 0 3 1  ─►  weights 4 1 3  ─►  cumulative 4 5 8  ─►  a number below 8 finds its place

The accumulator's lock guards a `BuiltInPartitioner`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, final

from librt.strings import read_i32_le
from mypy_extensions import i64

from odradek.model.env import Random

SEED: Final[i64] = 0x9747B28C
M: Final[i64] = 0x5BD1E995
MASK: Final[i64] = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `data` with Kafka's seed, unsigned."""
    return murmur2_slice(data, 0, len(data))


def murmur2_slice(data: bytes, start: i64, size: i64) -> i64:
    """Return `murmur2(data[start:start + size])`."""
    # 32-bit by 31-bit products fit 63 bits: no overflow in a native 64-bit integer.
    h: i64 = (SEED ^ size) & MASK
    pos = start
    end = start + size
    while end - pos >= 4:
        k: i64 = (i64(read_i32_le(data, pos)) * M) & MASK
        k ^= k >> 24
        k = (k * M) & MASK
        h = (h * M) & MASK
        h ^= k
        pos += 4
    rest = end - pos
    byte: i64
    if rest >= 3:
        byte = data[pos + 2]
        h ^= byte << 16
    if rest >= 2:
        byte = data[pos + 1]
        h ^= byte << 8
    if rest >= 1:
        byte = data[pos]
        h ^= byte
        h = (h * M) & MASK
    h ^= h >> 13
    h = (h * M) & MASK
    h ^= h >> 15
    return h


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions`."""
    return partition_for_slice(key, 0, len(key), partitions)


def partition_for_slice(data: bytes, start: i64, size: i64, partitions: i64) -> i64:
    """Return the partition of the key `data[start:start + size]`."""
    if partitions == 1:
        return 0
    return (murmur2_slice(data, start, size) & 0x7FFFFFFF) % partitions


NO_PARTITION: Final = -1
RANDOM_BITS: Final = 31


@final
class PartitionLoadStats:
    """The weights of the partitions, from the lengths of their queues when they were last looked
    at."""

    def __init__(self, cumulative: list[int], partitions: list[int]) -> None:
        self.cumulative = cumulative
        self.partitions = partitions


@final
class BuiltInPartitioner:
    """The sticky partition of one topic; `sticky_bytes` is `batch.size`."""

    def __init__(self, sticky_bytes: i64, random: Random) -> None:
        self.sticky_bytes: i64 = max(1, sticky_bytes)
        self.random = random
        self.partition_count = 0
        self.available: Sequence[int] = ()
        """The partitions that have a leader."""
        self.partition: i64 = NO_PARTITION
        self.produced_bytes: i64 = 0
        self.load_stats: PartitionLoadStats | None = None

    def update_partitions(self, partition_count: int, available: Sequence[int]) -> None:
        """Take over the partitions that new metadata has."""
        self.partition_count = partition_count
        self.available = available
        self.load_stats = None
        if self.partition >= partition_count:
            self.partition = NO_PARTITION

    def peek(self) -> i64:
        """Return the partition of the next record."""
        if self.partition < 0:
            self.switch()
        return self.partition

    @property
    def bytes_left(self) -> i64:
        """How many bytes may be appended to the sticky partition before `update` chooses another,
        if every time a switch would leave a batch half full."""
        return 2 * self.sticky_bytes - self.produced_bytes

    def update(self, appended_bytes: i64, enable_switch: bool) -> bool:
        """Count bytes appended to the sticky partition; return True if another one was chosen.

        `enable_switch` is true if a switch at this moment leaves no batch half full.
        """
        produced: i64 = self.produced_bytes + appended_bytes
        self.produced_bytes = produced
        if produced < self.sticky_bytes:
            return False
        if not enable_switch and produced < 2 * self.sticky_bytes:
            return False
        self.switch()
        return True

    def switch(self) -> None:
        """Choose the next partition at random, possibly the same one."""
        self.partition = self.next_partition()
        self.produced_bytes = 0

    def next_partition(self) -> int:
        number = self.random.getrandbits(RANDOM_BITS)
        stats = self.load_stats
        if stats is not None:
            chosen = bisect_right(stats.cumulative, number % stats.cumulative[-1])
            return stats.partitions[chosen]
        if self.available:
            return self.available[number % len(self.available)]
        return number % self.partition_count

    def update_load_stats(self, queue_sizes: Sequence[int], partitions: Sequence[int]) -> None:
        """Set the weights by the present lengths of the queues of partitions that may be chosen."""
        excluded = len(partitions) < self.partition_count
        longest = max(queue_sizes, default=0)
        self.load_stats = None
        if not partitions or self.partition_count < 2:
            return
        if excluded or longest != min(queue_sizes):
            cumulative, total = [], 0
            for size in queue_sizes:
                total += longest + 1 - size
                cumulative.append(total)
            self.load_stats = PartitionLoadStats(cumulative, list(partitions))
