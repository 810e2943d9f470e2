"""The state of one partition of `__consumer_offsets`: its groups and the offsets they committed."""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.departures import session_over
from odradek.coordinator.group.groups import Groups, tombstone
from odradek.coordinator.group.rebalance import (
    JOIN,
    SYNC,
    join_timed_out,
    prepare,
    refuse_all,
    sync_timed_out,
)
from odradek.coordinator.group.sessions import HEARTBEAT, watch
from odradek.coordinator.group.states import GroupState
from odradek.coordinator.records import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.coordinator.turn import TimerKey, Turn
from odradek.model.env import Random
from odradek.model.errors import ErrorCode


class GroupShard:
    """A `shard.StateMachine`."""

    def __init__(self, config: BrokerConfig, random: Random) -> None:
        self.groups = Groups(config, random)

    def replay(self, record: CoordinatorRecord) -> None:
        """The only writer of what is kept."""
        key, value = record
        if isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self.groups.replay(key, value)
        else:
            assert isinstance(key, OffsetCommitKey)
            assert value is None or isinstance(value, OffsetCommitValue)

    def loaded(self, turn: Turn) -> None:
        """Every member has a session's time to be heard of. A group that is larger than it may be
        now rebalances, and the last to come stay out.
        """
        for group in self.groups:
            for member in group.members.values():
                watch(turn, group, member)
            if len(group.members) > self.groups.config.group_max_size:
                prepare(self.groups, turn, group)

    def expired(self, key: TimerKey, turn: Turn) -> None:
        """The time of a join, a sync or a session is over."""
        group = self.groups.get(key[1])
        if group is None:
            return
        if key[0] == HEARTBEAT:
            session_over(self.groups, turn, group, key[2])
        elif key[0] == JOIN:
            join_timed_out(self.groups, turn, group)
        elif key[0] == SYNC:
            sync_timed_out(self.groups, turn, group)

    def delete_group(self, turn: Turn, group_id: str) -> ErrorCode:
        """Let a group go that has no members, with its offsets."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        turn.write(tombstone(group_id))
        return ErrorCode.NONE

    def unloaded(self, error: ErrorCode) -> None:
        """Nobody is served here any more."""
        for group in self.groups:
            refuse_all(group, error)
