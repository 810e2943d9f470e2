"""Committed offsets are deleted: on request, with their topic or group, or when they expire.

*OffsetDelete* (KIP-496) deletes offsets of topics that the group does not subscribe to;
GROUP_SUBSCRIBED_TO_TOPIC for the others. If a group has members and the broker cannot decode their
subscriptions, nothing is deleted: NON_EMPTY_GROUP.

*Deletion of a topic* deletes the offsets committed for it, so that the next topic of that name
begins without. These may be many records: they are written `RECORDS_AT_ONCE` at a time. If a full
disk refuses them, the next pass of the expiration deletes them.

*Expiration* (KIP-211): an offset expires `offsets.retention.minutes` after

    the group became empty        if it had members, whatever the age of the commits
    its commit                    if the group never had members: nothing else shows that it is used
    its commit                    if the group is stable and does not subscribe to the topic

and never while a group rebalances, or while its subscription is unknown. Clients before 2.1 could
send a retention time of their own, which takes precedence. An empty group without offsets and
without pending member ids is deleted too. While a transaction has pending offsets of a group, the
group stays, and so do the offsets of its partitions. All groups are checked every
`offsets.retention.check.interval.ms`, some records at a time.
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
from odradek.coordinator.group.group_records import OffsetCommitValue
from odradek.coordinator.group.offsets import Offsets, TopicId, is_orphan, offset_tombstone
from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.records import CoordinatorRecord
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
        is_known = offsets.get(group.id, topic.name, index) is not None or offsets.pending.has(
            group.id, topic.name, index
        )
        if not is_read and is_known:
            result.write(offset_tombstone(group.id, topic.name, index))
        partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def deletion_error(error: ErrorCode) -> OffsetDeleteResponse:
    """The response with an error for the group as a whole."""
    return OffsetDeleteResponse(error_code=error, topics=[])


def orphaned_offsets(
    offsets: Offsets, topic_id: TopicId, only: str | None = None
) -> Iterator[CoordinatorRecord]:
    """Tombstones of the offsets of topics that are deleted; with `only`, of that name only."""
    for group_id in offsets.groups():
        committed = offsets.of_group(group_id)
        for topic in committed if only is None else committed.keys() & {only}:
            now = topic_id(topic)
            for number, value in committed[topic].items():
                if is_orphan(value, now):
                    yield offset_tombstone(group_id, topic, number)
        for topic, number, value in offsets.pending.of_group(group_id):
            if only in (None, topic) and is_orphan(value, topic_id(topic)):
                yield offset_tombstone(group_id, topic, number)


def write_batch(result: OperationResult, records: Iterable[CoordinatorRecord]) -> bool:
    """Write the next `RECORDS_AT_ONCE` records. Return True if there are more."""
    rest = iter(records)
    for record in islice(rest, RECORDS_AT_ONCE):
        result.write(record)
    return next(rest, None) is not None


MINUTE_MS = 60_000
NOT_RECORDED = -1


def expired_offsets(
    groups: Groups, offsets: Offsets, now_ms: int, topic_id: TopicId
) -> Iterator[CoordinatorRecord]:
    """Tombstones of all offsets that are expired at `now_ms`, and of the groups left empty."""
    retention_ms = groups.config.offsets_retention_minutes * MINUTE_MS
    for group in groups:
        kept = 0
        for topic, partitions in offsets.of_group(group.id).items():
            in_use, current = _is_in_use(group, topic), topic_id(topic)
            for number, value in partitions.items():
                is_old = not in_use and now_ms >= _expires_at_ms(group, value, retention_ms)
                is_old = is_old and not offsets.pending.has(group.id, topic, number)
                if is_old or is_orphan(value, current):
                    yield offset_tombstone(group.id, topic, number)
                else:
                    kept += 1
        is_idle = group.state is GroupState.EMPTY and not group.pending_joins
        if kept == 0 and is_idle and not offsets.pending.has_group(group.id):
            yield group_tombstone(group.id)


def _is_in_use(group: ClassicGroup, topic: str) -> bool:
    """True if a group's offsets of a topic do not expire now."""
    if group.protocol_type is None or group.state is GroupState.EMPTY:
        return False
    if group.state is not GroupState.STABLE:
        return True
    return group.subscribed_topics is None or topic in group.subscribed_topics


def _expires_at_ms(group: ClassicGroup, value: OffsetCommitValue, retention_ms: int) -> int:
    """The time when an offset that is not in use expires."""
    if value.expire_timestamp != NOT_RECORDED:
        return value.expire_timestamp
    since_ms = value.commit_timestamp
    had_members = group.protocol_type is not None and group.state is GroupState.EMPTY
    if had_members and group.state_timestamp_ms != NOT_RECORDED:
        since_ms = group.state_timestamp_ms
    return since_ms + retention_ms
