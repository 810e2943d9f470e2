"""Committed offsets: by group, topic and partition, the value of the last record; and OffsetFetch.

`Offsets.replay` is the only code that changes them; a tombstone removes an offset. A group that
commits without ever having members exists as an empty group without a protocol. `offset_commit`
decides who may commit, `offset_deletion` what is removed when.

OffsetFetch returns some partitions or all that a group has committed. Where nothing was committed
the offset is -1, without an error; so it is for a group that does not exist. Responses wait until
the offsets in them are committed (see `shard`). With `require_stable` a partition whose offset an
open transaction may change is UNSTABLE_OFFSET_COMMIT (see `pending_offsets`). An offset that was
committed for another topic of the same name is left out where both topic ids are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from odradek.coordinator.group.group_records import OffsetCommitKey, OffsetCommitValue
from odradek.coordinator.group.pending_offsets import PendingOffsets
from odradek.coordinator.records import CoordinatorRecord
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

Partitions = dict[int, OffsetCommitValue]
TopicId = Callable[[str], UUID | None]
"""Returns the id of the topic that has a name now; None if there is none."""


class Offsets:
    """The committed offsets of the groups of one shard."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, Partitions]] = {}
        self.pending = PendingOffsets()
        """The offsets of open transactions."""

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply a record: the committed offset of a partition, or None, which removes it, and the
        pending ones.
        """
        if value is not None:
            self.pending.overtake(key)
            self._commit(key, value)
            return
        self.pending.remove(key)
        topics = self._by_group.get(key.group, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is None or partitions:
            return
        del topics[key.topic]
        if not topics:
            del self._by_group[key.group]

    def _commit(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        topics = self._by_group.setdefault(key.group, {})
        topics.setdefault(key.topic, {})[key.partition] = value

    def replay_transactional(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
    ) -> None:
        """Keep a record of a transaction until its end; a tombstone is applied at once."""
        if value is None:
            self.replay(key, None)
        else:
            self.pending.add(key, value, producer_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Apply the pending offsets of a producer's transaction, or forget them."""
        for key, value in self.pending.end(producer_id, committed):
            self._commit(key, value)

    def groups(self) -> list[str]:
        """The ids of the groups that have committed offsets, or pending ones."""
        return list(dict.fromkeys((*self._by_group, *self.pending.groups())))

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """The committed offset, or None."""
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> dict[str, Partitions]:
        """All offsets of a group, by topic and partition. Read-only."""
        return self._by_group.get(group_id, {})

    def tombstones(self, group_id: str) -> Iterator[CoordinatorRecord]:
        """The records that remove all offsets of a group, pending ones too."""
        for topic, partitions in self.of_group(group_id).items():
            for partition in partitions:
                yield offset_tombstone(group_id, topic, partition)
        for topic, partition in self.pending.partitions(group_id):
            if self.get(group_id, topic, partition) is None:
                yield offset_tombstone(group_id, topic, partition)


def belongs_to_other_topic(value: OffsetCommitValue, topic_id: UUID) -> bool:
    """True if the offset was committed for another topic of the same name.

    Commits have topic ids since KIP-848; of older ones that is unknown, and this is False.
    """
    known = value.topic_id != ZERO_UUID and topic_id != ZERO_UUID
    return known and value.topic_id != topic_id


def is_orphan(value: OffsetCommitValue, topic_id: UUID | None) -> bool:
    """True if the topic it was committed for is deleted. `topic_id`: the name's present one."""
    return topic_id is None or belongs_to_other_topic(value, topic_id)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The record that removes the offset of a group for a partition."""
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
    )


NO_OFFSET = -1


def fetch_offsets(
    offsets: Offsets, request: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """The offsets of one group of a request. Topics have names here, in every version."""
    group_id = request.group_id
    is_open = offsets.pending.has if require_stable else never_open
    if request.topics is None:
        return OffsetFetchResponseGroup(
            group_id=group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic,
                    partitions=[
                        unstable(number)
                        if is_open(group_id, topic, number)
                        else partition_response(number, value)
                        for number, value in partitions.items()
                    ],
                )
                for topic, partitions in offsets.of_group(group_id).items()
            ],
        )
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[_topic(offsets, group_id, topic, is_open) for topic in request.topics],
    )


def _topic(
    offsets: Offsets,
    group_id: str,
    topic: OffsetFetchRequestTopics,
    is_open: Callable[[str, str, int], bool],
) -> OffsetFetchResponseTopics:
    partitions = []
    for number in topic.partition_indexes:
        if is_open(group_id, topic.name, number):
            partitions.append(unstable(number))
            continue
        value = offsets.get(group_id, topic.name, number)
        if value is not None and belongs_to_other_topic(value, topic.topic_id):
            value = None
        partitions.append(partition_response(number, value))
    return OffsetFetchResponseTopics(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def never_open(group_id: str, topic: str, partition: int) -> bool:
    """False: who does not ask for stable offsets gets the last committed ones."""
    return False


def unstable(number: int) -> OffsetFetchResponsePartitions:
    """The response for a partition whose offset an open transaction may change."""
    return partition_response(number, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def partition_response(
    number: int, value: OffsetCommitValue | None, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    """The response for one partition; without a value its offset is -1."""
    if value is None:
        return OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=NO_OFFSET, metadata="", error_code=error
        )
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=error,
    )


def fetch_error(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    """The response with an error for a group as a whole."""
    return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=error)
