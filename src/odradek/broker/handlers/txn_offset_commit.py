"""TxnOffsetCommit: v0-5. See `coordinator.group.txn_offset_commit`.

Partitions that do not exist are refused here. Before the others are passed on to the group, the
transaction is verified, or with version 5 the group's partition of `__consumer_offsets` is added to
it (`transaction_verification`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.broker.transaction_verification import (
    TransactionalBatches,
    VerificationResult,
    operation_of_txn_offset_commit,
)
from odradek.coordinator.group.txn_offset_commit import txn_commit_error
from odradek.coordinator.shard import RESPONSE_ERRORS
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_THAT_KNOWS_LOADING = 2
NO_SEQUENCE: Final = -1
NONE: Final = ErrorCode.NONE
LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def handle(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> CallbackResponse:
    missing: list[TxnOffsetCommitResponseTopic] = []
    existing = []
    for topic in request.topics:
        found = _existing(broker, topic, missing)
        if found is not None:
            existing.append(found)
    request.topics = existing

    def respond(response: TxnOffsetCommitResponse) -> None:
        topics = {topic.name: topic for topic in missing}
        for topic in response.topics:
            known = topics.setdefault(topic.name, topic)
            if known is not topic:
                known.partitions.extend(topic.partitions)
        for topic in topics.values():
            for partition in topic.partitions:
                if context.version < FIRST_VERSION_THAT_KNOWS_LOADING:
                    partition.error_code = for_old_clients(partition.error_code)
        context.respond(TxnOffsetCommitResponse(topics=list(topics.values())))

    if existing:
        _verify(broker, context, request, respond)
    else:
        respond(TxnOffsetCommitResponse(topics=[]))
    return CALLBACK_RESPONSE


def for_old_clients(error: int) -> int:
    """The error for producers before 2.0, which a coordinator that is loading could crash."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error == LOADING else error


def _existing(
    broker: Broker, topic: TxnOffsetCommitRequestTopic, missing: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitRequestTopic | None:
    """The topic with its existing partitions; the others are refused in `missing`."""
    found = broker.image.topic(topic.name)
    known = {} if found is None else found.partitions
    refused = [each for each in topic.partitions if each.partition_index not in known]
    if refused:
        missing.append(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                    for each in refused
                ],
            )
        )
    partitions = [each for each in topic.partitions if each.partition_index in known]
    if not partitions:
        return None
    return TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions)


def _verify(
    broker: Broker,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    respond: Callable[[TxnOffsetCommitResponse], None],
) -> None:
    groups = broker.groups
    error = ErrorCode.INVALID_GROUP_ID
    partition = None
    if request.group_id:
        error = groups.runtime.error_of(request.group_id)
        number = groups.runtime.partition_of(request.group_id)
        partition = broker.replicas.by_name.get((CONSUMER_OFFSETS, number))
    if error is not NONE or partition is None:
        error = ErrorCode.NOT_COORDINATOR if error is NONE else error
        respond(txn_commit_error(request, error))
        return
    key = partition.topic_partition

    def answered(verified: VerificationResult) -> None:
        error = verified.errors.get(key, NONE)
        if error is NONE:
            groups.commit_transactional_offsets(
                request, context.connection_number, verified.guards.get(key), respond
            )
        else:
            respond(txn_commit_error(request, refusal(error)))

    batches = TransactionalBatches(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(partition, NO_SEQUENCE)],
        operation_of_txn_offset_commit(context.version),
    )
    at_once = broker.transaction_verification.verify(batches, answered)
    if at_once is not None:
        answered(at_once)


def refusal(error: ErrorCode) -> ErrorCode:
    """The error for an offset whose transaction could not be verified, as in Kafka: clients try
    again upon COORDINATOR_LOAD_IN_PROGRESS without looking for another coordinator.
    """
    return LOADING if error is ErrorCode.NETWORK_EXCEPTION else RESPONSE_ERRORS.get(error, error)
