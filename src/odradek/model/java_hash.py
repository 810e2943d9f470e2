"""Java's string hash, and the order in which Java's hash tables give their keys.

Where Kafka walks over a `HashMap` or takes a hash modulo a count, what it finds first is part of
the contract: which partition of `__consumer_offsets` has a group, which assignor wins a tie, which
of two equal members gets the odd partition.

    bucket of a key   (h ^ h >>> 16) & (size - 1), where h is its 32-bit `hashCode`
    size              a power of two from 16 on, doubled while more than 3/4 of it is used
    walk              bucket by bucket; within one, in the order of insertion

A table never shrinks. Buckets with more than seven keys, which Java turns into trees, are walked
as if they were lists: it takes seven collisions of random ids to see the difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

FIRST_SIZE = 16


@lru_cache(maxsize=4096)
def string_hash(text: str) -> int:
    """`String.hashCode`, as 32 bits without a sign: over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value


def partition_for(key: str, count: int) -> int:
    """Which of `count` partitions a coordinator's key belongs to: `Utils.abs(hashCode) % count`."""
    value = string_hash(key)
    if value >= 1 << 31:
        value = (1 << 32) - value
    return 0 if value == 1 << 31 else value % count


def bucket(hash_code: int, size: int) -> int:
    """Where a key with this hash code is in a table of this size."""
    return (hash_code ^ hash_code >> 16) & (size - 1)


def table_size(count: int) -> int:
    """Of a table that was made without a size and has taken `count` keys."""
    size = FIRST_SIZE
    while count * 4 > size * 3:
        size *= 2
    return size


def hash_ordered(keys: Iterable[str]) -> list[str]:
    """The keys in the order of a `HashMap` or `HashSet` into which they were put in this order."""
    distinct = list(dict.fromkeys(keys))
    size = table_size(len(distinct))
    distinct.sort(key=lambda key: bucket(string_hash(key), size))
    return distinct
