"""What groups have committed: by group, topic and partition, the value of the last record.

`replay` is the only writer; a tombstone takes an offset away. A group that commits without ever
having members is kept as a group all the same, empty and without a protocol.

Not here: who may commit (`offset_commit`), what is told (`offset_fetch`), what goes when
(`offset_expiration`, `offset_deletion`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from odradek.coordinator.records import CoordinatorRecord, OffsetCommitKey, OffsetCommitValue
from odradek.model.topics import ZERO_UUID

Partitions = dict[int, OffsetCommitValue]
TopicId = Callable[[str], UUID | None]
"""The id of the topic that has a name now; None if there is none."""


class Offsets:
    """Of the groups of one shard."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, Partitions]] = {}

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """A record says how far a group has read in a partition, or that nothing is kept of it."""
        if value is not None:
            topics = self._by_group.setdefault(key.group, {})
            topics.setdefault(key.topic, {})[key.partition] = value
            return
        topics = self._by_group.get(key.group, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is None or partitions:
            return
        del topics[key.topic]
        if not topics:
            del self._by_group[key.group]

    def groups(self) -> list[str]:
        """The ids of the groups that have committed anything."""
        return list(self._by_group)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """The committed offset, if there is one."""
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> dict[str, Partitions]:
        """All of a group's, by topic and partition. To look at only."""
        return self._by_group.get(group_id, {})

    def tombstones(self, group_id: str) -> Iterator[CoordinatorRecord]:
        """The records that nothing is kept of this group any more."""
        for topic, partitions in self.of_group(group_id).items():
            for partition in partitions:
                yield tombstone(group_id, topic, partition)


def is_of_another(value: OffsetCommitValue, topic_id: UUID) -> bool:
    """Whether it was committed for another topic of the same name (KIP-848 gave commits topic ids);
    of older commits that is not known.
    """
    known = value.topic_id != ZERO_UUID and topic_id != ZERO_UUID
    return known and value.topic_id != topic_id


def is_orphan(value: OffsetCommitValue, topic_id: UUID | None) -> bool:
    """Whether the topic it was committed for is no more; `topic_id` is that of its name now."""
    return topic_id is None or is_of_another(value, topic_id)


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The record that nothing is kept of what a group has read in a partition."""
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
    )
