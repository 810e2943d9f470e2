"""Offsets that go with time, and groups of which nothing is left (KIP-211).

An offset is let go `offsets.retention.minutes` after

    the group became empty        if it had members, whatever the age of the commits
    its commit                    if it never had any: whoever commits to such a group is not seen
                                  otherwise
    its commit                    if its group is stable and its members do not read the topic

and never while a group rebalances, or while it is not known what its members read. Clients before
2.1 could say for how long an offset is to be kept; such a one goes when it said.

What was committed for a topic that is no more goes too: mostly when that is deleted, here if the
records were refused then. An empty group without offsets that nobody is about to join is deleted.
All groups are looked through every `offsets.retention.check.interval.ms`, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.groups import Groups
from odradek.coordinator.group.groups import tombstone as group_tombstone
from odradek.coordinator.group.offsets import Offsets, TopicId, is_orphan, tombstone
from odradek.coordinator.group.states import GroupState
from odradek.coordinator.records import CoordinatorRecord, OffsetCommitValue

MINUTE_MS = 60_000
NOT_RECORDED = -1


def expired(
    groups: Groups, offsets: Offsets, now_ms: int, topic_id: TopicId
) -> Iterator[CoordinatorRecord]:
    """The end of all whose time is over at `now_ms`."""
    retention_ms = groups.config.offsets_retention_minutes * MINUTE_MS
    for group in groups:
        kept = 0
        for topic, partitions in offsets.of_group(group.id).items():
            in_use, current = _is_in_use(group, topic), topic_id(topic)
            for number, value in partitions.items():
                is_old = not in_use and now_ms >= _end_ms(group, value, retention_ms)
                if is_old or is_orphan(value, current):
                    yield tombstone(group.id, topic, number)
                else:
                    kept += 1
        if kept == 0 and group.state is GroupState.EMPTY and not group.pending_joins:
            yield group_tombstone(group.id)


def _is_in_use(group: ClassicGroup, topic: str) -> bool:
    """Whether a group's offsets of a topic are kept however old they are."""
    if group.protocol_type is None or group.state is GroupState.EMPTY:
        return False
    if group.state is not GroupState.STABLE:
        return True
    return group.subscribed_topics is None or topic in group.subscribed_topics


def _end_ms(group: ClassicGroup, value: OffsetCommitValue, retention_ms: int) -> int:
    """Until when an offset that is not in use is kept."""
    if value.expire_timestamp != NOT_RECORDED:
        return value.expire_timestamp
    since_ms = value.commit_timestamp
    had_members = group.protocol_type is not None and group.state is GroupState.EMPTY
    if had_members and group.state_timestamp_ms != NOT_RECORDED:
        since_ms = group.state_timestamp_ms
    return since_ms + retention_ms
