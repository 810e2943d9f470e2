"""Partition movements: what went from whom to whom while an assignment was being balanced.

Balancing moves one partition at a time. If it is about to move a partition of a topic from A to B
and one of the same topic went from B to A before, that one goes back instead: counts end up the
same, and two partitions fewer change their owner.
"""

from __future__ import annotations

from odradek.client.consumer.assignor.hash_order import PartitionHashSet
from odradek.model.topics import TopicPartition

Pair = tuple[str, str]
"""From whom, to whom."""


class PartitionMovements:
    """The movements of one assignment, each partition's from where it was at first."""

    def __init__(self) -> None:
        self._pair_of: dict[TopicPartition, Pair] = {}
        self._moved: dict[tuple[str, Pair], PartitionHashSet] = {}
        """By topic and pair."""

    def to_move(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Which partition to move rather than this one; itself, if no movement can be undone."""
        moved = self._pair_of.get(partition)
        origin = source if moved is None else moved[0]
        back = self._moved.get((partition.topic, (target, origin)))
        return partition if back is None else back.first()

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note a movement. Coming back to where it began is no movement."""
        before = self._pair_of.pop(partition, None)
        origin = source
        if before is not None:
            origin = before[0]
            self._forget(partition, before)
        if origin == target:
            return
        self._pair_of[partition] = (origin, target)
        key = (partition.topic, (origin, target))
        self._moved.setdefault(key, PartitionHashSet()).add(partition)

    def _forget(self, partition: TopicPartition, pair: Pair) -> None:
        key = (partition.topic, pair)
        self._moved[key].remove(partition)
        if not self._moved[key]:
            del self._moved[key]
