"""Offsets that go because somebody wants it: OffsetDelete, a topic's or a group's deletion.

OffsetDelete (KIP-496) is for topics that a group does not read any more: GROUP_SUBSCRIBED_TO_TOPIC
for those it does. Of a group with members whose subscriptions the broker cannot read nothing is
deleted: NON_EMPTY_GROUP.

When a topic is deleted what was committed for it goes, so that the next one of its name begins
without. That may be many records: they are written a thousand at a time. What a full disk refused
is an orphan: it goes with the next pass of `offset_expiration`, whoever has its topic's name then.

Offsets that go with time, and groups of which nothing is left (KIP-211).

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

from collections.abc import Iterable, Iterator
from itertools import islice

from odradek.coordinator.group.classic_group import (
    ClassicGroup,
    Groups,
    GroupState,
    group_tombstone,
)
from odradek.coordinator.group.offsets import Offsets, TopicId, is_orphan, offset_tombstone
from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.records import CoordinatorRecord, OffsetCommitValue
from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE

RECORDS_AT_ONCE = 1000


def delete_offsets(
    groups: Groups,
    offsets: Offsets,
    result: OperationResult,
    request: OffsetDeleteRequest,
    reply: Reply[OffsetDeleteResponse],
) -> None:
    """The operation of an OffsetDelete."""
    group = groups.get(request.group_id)
    error = _validate(group)
    if group is None or error is not ErrorCode.NONE:
        result.answer(reply, deletion_error(error))
        return
    topics = [_delete_topic(group, offsets, result, topic) for topic in request.topics]
    result.answer(reply, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))


def _validate(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _delete_topic(
    group: ClassicGroup, offsets: Offsets, result: OperationResult, topic: OffsetDeleteRequestTopic
) -> OffsetDeleteResponseTopic:
    is_read = group.is_subscribed_to(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
    partitions = []
    for partition in topic.partitions:
        index = partition.partition_index
        if not is_read and offsets.get(group.id, topic.name, index) is not None:
            result.write(offset_tombstone(group.id, topic.name, index))
        partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def deletion_error(error: ErrorCode) -> OffsetDeleteResponse:
    """An error for the group as a whole."""
    return OffsetDeleteResponse(error_code=error, topics=[])


def orphaned_offsets(
    offsets: Offsets, topic_id: TopicId, only: str | None = None
) -> Iterator[CoordinatorRecord]:
    """The end of what was committed for topics that are no more, or for one that had this name."""
    for group_id in offsets.groups():
        committed = offsets.of_group(group_id)
        for topic in committed if only is None else committed.keys() & {only}:
            now = topic_id(topic)
            for number, value in committed[topic].items():
                if is_orphan(value, now):
                    yield offset_tombstone(group_id, topic, number)


def write_batch(result: OperationResult, records: Iterable[CoordinatorRecord]) -> bool:
    """Write as many records as make a batch of bearable size. True: there are more."""
    rest = iter(records)
    for record in islice(rest, RECORDS_AT_ONCE):
        result.write(record)
    return next(rest, None) is not None


MINUTE_MS = 60_000
NOT_RECORDED = -1


def expired_offsets(
    groups: Groups, offsets: Offsets, now_ms: int, topic_id: TopicId
) -> Iterator[CoordinatorRecord]:
    """The end of all whose time is over at `now_ms`."""
    retention_ms = groups.config.offsets_retention_minutes * MINUTE_MS
    for group in groups:
        kept = 0
        for topic, partitions in offsets.of_group(group.id).items():
            in_use, current = _is_in_use(group, topic), topic_id(topic)
            for number, value in partitions.items():
                is_old = not in_use and now_ms >= _expires_at_ms(group, value, retention_ms)
                if is_old or is_orphan(value, current):
                    yield offset_tombstone(group.id, topic, number)
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


def _expires_at_ms(group: ClassicGroup, value: OffsetCommitValue, retention_ms: int) -> int:
    """Until when an offset that is not in use is kept."""
    if value.expire_timestamp != NOT_RECORDED:
        return value.expire_timestamp
    since_ms = value.commit_timestamp
    had_members = group.protocol_type is not None and group.state is GroupState.EMPTY
    if had_members and group.state_timestamp_ms != NOT_RECORDED:
        since_ms = group.state_timestamp_ms
    return since_ms + retention_ms
