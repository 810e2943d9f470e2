"""Offsets that go because somebody wants it: OffsetDelete, a topic's or a group's deletion.

OffsetDelete (KIP-496) is for topics that a group does not read any more: GROUP_SUBSCRIBED_TO_TOPIC
for those it does. Of a group with members whose subscriptions the broker cannot read nothing is
deleted: NON_EMPTY_GROUP.

When a topic is deleted what was committed for it goes, so that the next one of its name begins
without. That may be many records: they are written a thousand at a time. What a full disk refused
is an orphan: it goes with the next pass of `offset_expiration`, whoever has its topic's name then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.groups import Groups
from odradek.coordinator.group.offsets import Offsets, TopicId, is_orphan, tombstone
from odradek.coordinator.group.states import GroupState
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.turn import Reply, Turn
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
    turn: Turn,
    request: OffsetDeleteRequest,
    reply: Reply[OffsetDeleteResponse],
) -> None:
    """The operation of an OffsetDelete."""
    group = groups.get(request.group_id)
    error = _fault(group)
    if group is None or error is not ErrorCode.NONE:
        turn.answer(reply, refused(error))
        return
    topics = [_delete_topic(group, offsets, turn, topic) for topic in request.topics]
    turn.answer(reply, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))


def _fault(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _delete_topic(
    group: ClassicGroup, offsets: Offsets, turn: Turn, topic: OffsetDeleteRequestTopic
) -> OffsetDeleteResponseTopic:
    is_read = group.reads(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
    partitions = []
    for partition in topic.partitions:
        index = partition.partition_index
        if not is_read and offsets.get(group.id, topic.name, index) is not None:
            turn.write(tombstone(group.id, topic.name, index))
        partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def refused(error: ErrorCode) -> OffsetDeleteResponse:
    """An error for the group as a whole."""
    return OffsetDeleteResponse(error_code=error, topics=[])


def orphans(
    offsets: Offsets, topic_id: TopicId, only: str | None = None
) -> Iterator[CoordinatorRecord]:
    """The end of what was committed for topics that are no more, or for one that had this name."""
    for group_id in offsets.groups():
        committed = offsets.of_group(group_id)
        for topic in committed if only is None else committed.keys() & {only}:
            now = topic_id(topic)
            for number, value in committed[topic].items():
                if is_orphan(value, now):
                    yield tombstone(group_id, topic, number)


def write_some(turn: Turn, records: Iterable[CoordinatorRecord]) -> bool:
    """Write as many records as make a batch of bearable size. True: there are more."""
    rest = iter(records)
    for record in islice(rest, RECORDS_AT_ONCE):
        turn.write(record)
    return next(rest, None) is not None
