"""The order in which Java's assignors walk over members, topics and partitions.

They walk over `HashMap`s of members and `HashSet`s of partitions, and where two members are equally
entitled the first one met wins. A group whose leaders are now a Java client and now this one would
move partitions at every change of leader unless both walk in the same order, so the order is part
of the contract. How a table orders its keys stands in `model.java_hash`.
"""

from __future__ import annotations

from odradek.model.java_hash import FIRST_SIZE, bucket, hash_ordered, string_hash, table_size
from odradek.model.topics import TopicPartition

__all__ = ["PartitionHashSet", "hash_ordered", "partition_hash", "utf16_order"]


def partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`."""
    return ((31 + partition.partition) * 31 + string_hash(partition.topic)) & 0xFFFFFFFF


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
