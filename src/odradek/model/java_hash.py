"""Java's string hash, and the iteration order of Java's hash tables.

Where Kafka iterates over a `HashMap` or takes a hash modulo a count, the order is part of its
behaviour: which partition of `__consumer_offsets` has a group, which assignor wins a tie, which of
two equal members gets the odd partition.

    bucket of a key   (h ^ h >>> 16) & (size - 1), where h is its 32-bit `hashCode`
    size              a power of two from 16 on, doubled while more than 3/4 of it is used
    iteration         bucket by bucket; within one, in the order of insertion

A table never shrinks. Java turns buckets of more than seven keys into trees; here they are lists,
which makes a difference only if seven random ids collide.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

FIRST_SIZE = 16


@lru_cache(maxsize=4096)
def string_hash(text: str) -> int:
    """Java's `String.hashCode` as an unsigned 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value


def partition_for(key: str, count: int) -> int:
    """The partition of a coordinator's key: `Utils.abs(hashCode) % count`."""
    value = string_hash(key)
    if value >= 1 << 31:
        value = (1 << 32) - value
    return 0 if value == 1 << 31 else value % count


def bucket(hash_code: int, size: int) -> int:
    """The bucket of a hash code in a table of this size."""
    return (hash_code ^ hash_code >> 16) & (size - 1)


def table_size(count: int) -> int:
    """The size of a table of default initial size with `count` keys."""
    size = FIRST_SIZE
    while count * 4 > size * 3:
        size *= 2
    return size


def hash_ordered(keys: Iterable[str]) -> list[str]:
    """The keys in the iteration order of a `HashMap` or `HashSet` with this order of insertion."""
    distinct = list(dict.fromkeys(keys))
    size = table_size(len(distinct))
    distinct.sort(key=lambda key: bucket(string_hash(key), size))
    return distinct
