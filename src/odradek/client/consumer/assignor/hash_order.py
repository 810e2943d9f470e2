"""The order in which Java's hash tables give their keys.

Java's assignors walk over `HashMap`s of members and `HashSet`s of partitions, and where two members
are equally entitled the first one met wins. A group whose leaders are now a Java client and now
this one would move partitions at every change of leader unless both walk in the same order, so the
order is part of the contract:

    bucket of a key   (h ^ h >>> 16) & (size - 1), where h is its 32-bit `hashCode`
    size              a power of two from 16 on, doubled while more than 3/4 of it is used
    walk              bucket by bucket; within one, in the order of insertion

A table never shrinks. Buckets with more than seven keys, which Java turns into trees, are walked
as if they were lists: it takes seven collisions of random ids to see the difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from odradek.model.ids import TopicPartition

FIRST_SIZE = 16


@lru_cache(maxsize=4096)
def string_hash(text: str) -> int:
    """`String.hashCode`, as 32 bits without a sign: over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value


def partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`."""
    return ((31 + partition.partition) * 31 + string_hash(partition.topic)) & 0xFFFFFFFF


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


def utf16_order(text: str) -> bytes:
    """A sort key that orders strings as `String.compareTo` does: by UTF-16 units.

    It differs from the order of code points beyond the basic plane only.
    """
    return text.encode("utf-16-be", "surrogatepass")


class PartitionHashSet:
    """A `HashSet` of partitions, as far as its first element goes."""

    __slots__ = ("_members", "_size")

    def __init__(self) -> None:
        self._members: dict[TopicPartition, None] = {}
        self._size = FIRST_SIZE

    def __len__(self) -> int:
        return len(self._members)

    def add(self, partition: TopicPartition) -> None:
        self._members[partition] = None
        self._size = max(self._size, table_size(len(self._members)))

    def remove(self, partition: TopicPartition) -> None:
        """Raises `KeyError` if it is not in the set."""
        del self._members[partition]

    def first(self) -> TopicPartition:
        """What Java's iterator gives first. The set must not be empty."""
        return min(self._members, key=lambda each: bucket(partition_hash(each), self._size))
