"""OffsetCommit: a group commits offsets.

Who may commit, and the errors of others:

    a member of the current generation      in Stable and PreparingRebalance, where it also counts
                                            as a heartbeat; in CompletingRebalance
                                            REBALANCE_IN_PROGRESS, because the partitions may belong
                                            to another member by now
    no member (generation -1)               while the group has no members: consumers that assign
                                            partitions to themselves, and tools
    any other client                        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
                                            ILLEGAL_GENERATION
    a generation of a group that does not   ILLEGAL_GENERATION; from version 9 on GROUP_ID_NOT_FOUND
    exist

Each partition has a result of its own: metadata longer than `offset.metadata.max.bytes` is
OFFSET_METADATA_TOO_LARGE. The offsets of one request are one batch of records.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState, member_error
from odradek.coordinator.group.group_records import OffsetCommitKey, OffsetCommitValue
from odradek.coordinator.group.heartbeat import reset_session
from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.records import CoordinatorRecord
from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_GROUP_NOT_FOUND = 9
BROKER_RETENTION = -1
NEVER = -1
LATEST_TIME_MS = (1 << 63) - 1
ALIVE_WHEN_COMMITTING = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)


def commit_offsets(
    groups: Groups,
    result: OperationResult,
    request: OffsetCommitRequest,
    version: int,
    reply: Reply[OffsetCommitResponse],
) -> None:
    """The operation of an OffsetCommit."""
    group = groups.get(request.group_id)
    if group is None and request.generation_id_or_member_epoch < 0:
        # It exists once its first record is replayed.
        group = ClassicGroup(request.group_id, result.now_ms)
    error = _validate(group, request, version)
    if error is not ErrorCode.NONE:
        result.answer(reply, commit_error(request, error))
        return
    if group is not None and group.state in ALIVE_WHEN_COMMITTING:
        reset_session(result, group, group.members[request.member_id])
    longest = groups.config.offset_metadata_max_bytes
    expires_ms = _expire_timestamp(result.now_ms, request.retention_time_ms)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            fits = len(metadata) <= longest
            if fits:
                result.write(_record(request.group_id, topic, partition, result.now_ms, expires_ms))
            error = ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE
            partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    result.answer(reply, OffsetCommitResponse(topics=topics))


def _validate(group: ClassicGroup | None, request: OffsetCommitRequest, version: int) -> ErrorCode:
    """The error if this request may not commit; NONE if it may."""
    if group is None:
        if version >= FIRST_VERSION_WITH_GROUP_NOT_FOUND:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    generation = request.generation_id_or_member_epoch
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _expire_timestamp(now_ms: int, retention_ms: int) -> int:
    """The time when an offset expires; clients before 2.1 could send a retention time."""
    if retention_ms == BROKER_RETENTION:
        return NEVER
    return min(now_ms + retention_ms, LATEST_TIME_MS)


def _record(
    group_id: str,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    now_ms: int,
    expires_ms: int,
) -> CoordinatorRecord:
    key = OffsetCommitKey(group=group_id, topic=topic.name, partition=partition.partition_index)
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expires_ms,
        topic_id=topic.topic_id,
    )
    return CoordinatorRecord(key, value)


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The response with the same error for every partition of a request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
