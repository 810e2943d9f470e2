"""Offsets of open transactions: kept aside until the marker of their transaction.

    TxnOffsetCommit ─► pending, by partition and producer id ─┬─ COMMIT ─► committed, unless a
                                                              │            newer one is
                                                              └─ ABORT ──► gone

A partition with a pending offset has no *stable* one: a reader that asks for stable offsets gets
UNSTABLE_OFFSET_COMMIT until the marker, because it may be about to read what the transaction has
read already.

Of several commits of a partition, plain or of transactions, the one whose record is last in the log
counts, whatever the order of the markers. That is also the one that compaction keeps. So a pending
offset that is overtaken loses its value at once, and only its transaction stays open. A tombstone
removes pending offsets too, and the transaction is not open there any more.

Kafka's OffsetMetadataManager compares the offsets of the records instead; records arrive here in
their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.coordinator.group.group_records import OffsetCommitKey, OffsetCommitValue

Pending = dict[int, OffsetCommitValue | None]
"""Producer id → its pending offset, in the order of the records; None: it was overtaken."""


class PendingOffset(NamedTuple):
    """An offset that a transaction would commit."""

    topic: str
    partition: int
    value: OffsetCommitValue


class PendingOffsets:
    """The pending offsets of the groups of one shard."""

    __slots__ = ("_by_group", "_by_producer")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[tuple[str, int], Pending]] = {}
        self._by_producer: dict[int, dict[tuple[str, str, int], None]] = {}

    def add(self, key: OffsetCommitKey, value: OffsetCommitValue, producer_id: int) -> None:
        """Add the last record of a transaction for a partition."""
        partitions = self._by_group.setdefault(key.group, {})
        pending = partitions.setdefault((key.topic, key.partition), {})
        pending.pop(producer_id, None)
        pending[producer_id] = value
        held = self._by_producer.setdefault(producer_id, {})
        held[key.group, key.topic, key.partition] = None

    def overtake(self, key: OffsetCommitKey) -> None:
        """Take the values of all pending offsets of a partition: a later record is committed."""
        if not self._by_group:
            return
        pending = self._by_group.get(key.group, {}).get((key.topic, key.partition))
        if pending is not None:
            for producer_id in pending:
                pending[producer_id] = None

    def remove(self, key: OffsetCommitKey) -> None:
        """Remove all pending offsets of a partition: a tombstone."""
        if not self._by_group:
            return
        pending = self._by_group.get(key.group, {}).get((key.topic, key.partition))
        for producer_id in list(pending or ()):
            self._release(producer_id, (key.group, key.topic, key.partition))

    def end(
        self, producer_id: int, committed: bool
    ) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """End a producer's transaction, and yield what it has committed."""
        for held in list(self._by_producer.get(producer_id, ())):
            group, topic, partition = held
            pending = self._by_group[group][topic, partition]
            value = pending[producer_id]
            if committed and value is not None:
                for earlier in pending:
                    if earlier == producer_id:
                        break
                    pending[earlier] = None
                yield OffsetCommitKey(group=group, topic=topic, partition=partition), value
            self._release(producer_id, held)

    def _release(self, producer_id: int, held: tuple[str, str, int]) -> None:
        group, topic, partition = held
        partitions = self._by_group[group]
        pending = partitions[topic, partition]
        del pending[producer_id]
        if not pending:
            del partitions[topic, partition]
            if not partitions:
                del self._by_group[group]
        of_producer = self._by_producer[producer_id]
        del of_producer[held]
        if not of_producer:
            del self._by_producer[producer_id]

    def has_group(self, group_id: str) -> bool:
        """True if a transaction is open that has committed offsets of this group."""
        return group_id in self._by_group

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """True if the offset of a partition is not stable."""
        partitions = self._by_group.get(group_id)
        return partitions is not None and (topic, partition) in partitions

    def groups(self) -> list[str]:
        """The ids of the groups that have pending offsets."""
        return list(self._by_group)

    def partitions(self, group_id: str) -> list[tuple[str, int]]:
        """The partitions of a group that have pending offsets."""
        return list(self._by_group.get(group_id, ()))

    def of_group(self, group_id: str) -> Iterator[PendingOffset]:
        """Yield the pending offsets of a group that no later record has overtaken."""
        for (topic, partition), pending in self._by_group.get(group_id, {}).items():
            for value in pending.values():
                if value is not None:
                    yield PendingOffset(topic, partition, value)
