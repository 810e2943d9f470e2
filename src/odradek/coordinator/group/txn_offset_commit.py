"""TxnOffsetCommit: offsets of a group become pending, until their transaction ends.

The transaction fences producers. Consumers are fenced by what the request says of them (KIP-447):

    nothing (before version 3, or a group   accepted, whatever the state of the group
    that is not used)
    generation, member id, instance id      as for OffsetCommit: UNKNOWN_MEMBER_ID,
                                            FENCED_INSTANCE_ID, ILLEGAL_GENERATION
    a generation of a group that does not   ILLEGAL_GENERATION
    exist

A rebalance does not refuse them: the member has still its generation, and the next reader of the
partition waits for stable offsets. They are no heartbeat either.

Records are in one batch of the producer, so they are bound to its epoch, and to the coordinator's
knowledge of the transaction, which the broker has verified before.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState, member_error
from odradek.coordinator.group.group_records import OffsetCommitKey, OffsetCommitValue
from odradek.coordinator.group.offsets import TopicId
from odradek.coordinator.operation import OperationResult, Reply, TransactionalWrite
from odradek.coordinator.records import CoordinatorRecord
from odradek.log.verification import VerificationGuard
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def commit_transactional_offsets(
    groups: Groups,
    topic_id: TopicId,
    result: OperationResult,
    request: TxnOffsetCommitRequest,
    guard: VerificationGuard | None,
    reply: Reply[TxnOffsetCommitResponse],
) -> None:
    """The operation of a TxnOffsetCommit. `guard`: see `TransactionalWrite`."""
    error = _validate(groups.get(request.group_id), request)
    if error is not ErrorCode.NONE:
        result.answer(reply, txn_commit_error(request, error))
        return
    result.transaction = TransactionalWrite(request.producer_id, request.producer_epoch, guard)
    longest = groups.config.offset_metadata_max_bytes
    topics = []
    for topic in request.topics:
        partitions, known_id = [], topic_id(topic.name) or ZERO_UUID
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            error = ErrorCode.NONE
            if len(metadata) > longest:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                index = partition.partition_index
                key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index)
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=result.now_ms,
                    topic_id=known_id,
                )
                result.write(CoordinatorRecord(key, value))
            partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    result.answer(reply, TxnOffsetCommitResponse(topics=topics))


def _validate(group: ClassicGroup | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """The error if this consumer may not commit; NONE if it may."""
    generation = request.generation_id
    if group is None:
        # It exists once its first record is replayed.
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    return error


def txn_commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The response with the same error for every partition of a request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
