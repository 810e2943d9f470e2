"""The order in which Java's assignors iterate over members, topics and partitions.

They iterate over `HashMap`s of members and `HashSet`s of partitions, and of two equally entitled
members the first one wins. If the leader of a group is a Java client at one time and this client at
another, partitions would move with every change of leader unless both iterate in the same order. So
the order is part of the contract. `model.java_hash` has the order of a hash table's keys.
"""

from __future__ import annotations

from odradek.model.java_hash import FIRST_SIZE, bucket, hash_ordered, string_hash, table_size
from odradek.model.topics import TopicPartition

__all__ = ["PartitionHashSet", "hash_ordered", "partition_hash", "utf16_order"]


def partition_hash(partition: TopicPartition) -> int:
    return ((31 + partition.partition) * 31 + string_hash(partition.topic)) & 0xFFFFFFFF


def utf16_order(text: str) -> bytes:
    """Return a sort key that orders strings by UTF-16 units, as `String.compareTo` does.

    It differs from the order of code points only beyond the basic plane.
    """
    return text.encode("utf-16-be", "surrogatepass")


class PartitionHashSet:
    """The first element of a `HashSet` of partitions."""

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
        """Raises `KeyError` if the partition is not in the set."""
        del self._members[partition]

    def first(self) -> TopicPartition:
        """Return the first element of Java's iterator. The set must not be empty."""
        return min(self._members, key=lambda each: bucket(partition_hash(each), self._size))
