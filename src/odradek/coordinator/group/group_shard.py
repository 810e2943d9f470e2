"""The state of one partition of `__consumer_offsets`: its groups and the offsets they committed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.classic_group import Groups, GroupState, group_tombstone
from odradek.coordinator.group.group_records import (
    GROUP_RECORDS,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.coordinator.group.heartbeat import HEARTBEAT, cancel_session, reset_session
from odradek.coordinator.group.leave import session_expired
from odradek.coordinator.group.offset_deletion import expired_offsets, orphaned_offsets, write_batch
from odradek.coordinator.group.offsets import Offsets, TopicId
from odradek.coordinator.group.rebalance import (
    JOIN,
    SYNC,
    fail_all_waiting,
    join_timed_out,
    prepare_rebalance,
    sync_timed_out,
)
from odradek.coordinator.group.transitions import GroupTransitions
from odradek.coordinator.operation import OperationResult, TimerKey
from odradek.coordinator.records import CoordinatorRecord
from odradek.model.env import Random
from odradek.model.errors import ErrorCode, ProtocolError

EXPIRE = "expire-offsets"
ORPHANS = "orphaned-offsets"
SOON_MS = 1
DELETED = "deleted on request"
EXPIRED = "empty, and its last offset expired"


class GroupShard:
    """The `StateMachine` of a shard. `topic_id` reads the cluster's metadata."""

    def __init__(
        self,
        config: BrokerConfig,
        random: Random,
        topic_id: TopicId,
        transitions: GroupTransitions | None = None,
    ) -> None:
        self.codec = GROUP_RECORDS
        self.groups = Groups(config, random, transitions)
        self.offsets = Offsets()
        self.topic_id = topic_id

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record: the only code that changes what the log keeps."""
        key, value = record
        if isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self.groups.replay(key, value)
        else:
            assert isinstance(key, OffsetCommitKey)
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None:
                self.groups.get_or_create(key.group, value.commit_timestamp)
            self.offsets.replay(key, value)

    def replay_transactional(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Keep an offset that a transaction commits until its marker."""
        key, value = record
        if not isinstance(key, OffsetCommitKey):
            raise ProtocolError(f"a {type(key).__name__} in a transaction")
        if value is not None:
            self.groups.get_or_create(key.group, value.commit_timestamp)
        self.offsets.replay_transactional(key, value, producer_id)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Apply the offsets of a transaction, or forget them."""
        self.offsets.end_transaction(producer_id, committed)

    def loaded(self, result: OperationResult) -> None:
        """Start the timers and the sessions of all members after loading.

        A group above `group.max.size` rebalances, and the last members to join stay out. Offsets of
        topics that were deleted before the broker stopped are deleted now.
        """
        result.schedule((EXPIRE,), self.groups.config.offsets_retention_check_interval_ms)
        self.expired((ORPHANS,), result)
        self.groups.loaded()
        for group in self.groups:
            group.update_subscribed_topics()
            for member in group.members.values():
                reset_session(result, group, member)
            if len(group.members) > self.groups.config.group_max_size:
                reason = f"it has more than {self.groups.config.group_max_size} members"
                prepare_rebalance(self.groups, result, group, reason)

    def expired(self, key: TimerKey, result: OperationResult) -> None:
        """A timer expired: of a join, a sync or a session, or of the check of the offsets."""
        if key[0] == EXPIRE:
            result.schedule(key, self.groups.config.offsets_retention_check_interval_ms)
            found = expired_offsets(
                self.groups, self.offsets, result.retention_now_ms, self.topic_id
            )
            self._write_batches(result, key, found)
            self._note_removed(result)
            return
        if key[0] == ORPHANS:
            self._write_batches(result, key, orphaned_offsets(self.offsets, self.topic_id))
            return
        group = self.groups.get(key[1])
        if group is None:
            return
        if key[0] == HEARTBEAT:
            session_expired(self.groups, result, group, key[2])
        elif key[0] == JOIN:
            join_timed_out(self.groups, result, group)
        elif key[0] == SYNC:
            sync_timed_out(self.groups, result, group)

    def _write_batches(
        self, result: OperationResult, key: TimerKey, records: Iterable[CoordinatorRecord]
    ) -> None:
        """Write records of one batch now and schedule the rest, unless the append fails."""
        if write_batch(result, records):
            result.after_append(lambda: result.schedule(key, SOON_MS))

    def _note_removed(self, result: OperationResult) -> None:
        for key, value in result.records:
            if isinstance(key, GroupMetadataKey) and value is None:
                group = self.groups.get(key.group)
                assert group is not None
                note = partial(group.note_transition, result.now_ms, EXPIRED, GroupState.DEAD)
                result.after_append(note)

    def delete_topic_offsets(self, result: OperationResult, topic: str) -> None:
        """Delete the offsets that were committed for a deleted topic."""
        self._write_batches(
            result, (ORPHANS,), orphaned_offsets(self.offsets, self.topic_id, topic)
        )

    def delete_group(self, result: OperationResult, group_id: str) -> ErrorCode:
        """Delete a group that has no members, with its offsets."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        for record in self.offsets.tombstones(group_id):
            result.write(record)
        result.write(group_tombstone(group_id))
        result.after_append(lambda: group.note_transition(result.now_ms, DELETED, GroupState.DEAD))
        for member_id in sorted(group.pending_joins):
            result.after_append(partial(cancel_session, result, group, member_id))
        return ErrorCode.NONE

    def unloaded(self, error: ErrorCode) -> None:
        """Answer all waiting requests of the groups with `error`."""
        for group in self.groups:
            fail_all_waiting(group, error)
