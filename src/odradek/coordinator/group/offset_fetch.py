"""OffsetFetch: how far a group has read, for some partitions or for all it has committed.

Of what was never committed the answer is offset -1, without an error, and so it is for a group that
does not exist. Answers wait until what they tell is committed (see `shard`), and there are no
transactions: every offset is stable, whether `require_stable` or not.

An offset that was committed for another topic of the same name is not this one's: nothing is
told of it where both ids are known.
"""

from __future__ import annotations

from odradek.coordinator.group.offsets import Offsets, is_of_another
from odradek.coordinator.records import OffsetCommitValue
from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1


def fetch(offsets: Offsets, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """What one group of a request is told. Topics have names here, in every version."""
    if request.topics is None:
        return OffsetFetchResponseGroup(
            group_id=request.group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic,
                    partitions=[told(number, value) for number, value in partitions.items()],
                )
                for topic, partitions in offsets.of_group(request.group_id).items()
            ],
        )
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[_topic(offsets, request.group_id, topic) for topic in request.topics],
    )


def _topic(
    offsets: Offsets, group_id: str, topic: OffsetFetchRequestTopics
) -> OffsetFetchResponseTopics:
    partitions = []
    for number in topic.partition_indexes:
        value = offsets.get(group_id, topic.name, number)
        if value is not None and is_of_another(value, topic.topic_id):
            value = None
        partitions.append(told(number, value))
    return OffsetFetchResponseTopics(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def told(
    number: int, value: OffsetCommitValue | None, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    """What is told of one partition; without a value, that nothing was committed."""
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


def group_refused(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    """An error for a group as a whole."""
    return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=error)
