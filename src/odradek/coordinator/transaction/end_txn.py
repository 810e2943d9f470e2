"""The end of a transaction: by EndTxn, its timeout, or a producer that takes the id over.

    decide ──► PREPARE record committed ──► answered ──► markers written ──► COMPLETE record
                                               │
                                    (the client may go on: its next request waits a little)

**Late requests.** Before transaction version 2 the transactions of one producer have one epoch. An
EndTxn whose client gave up its connection and asked again may still be in the buffer of that old
connection; it would end the next transaction, which the client has begun over a newer connection,
half way (KAFKA-17754). So an EndTxn below version 5 ends nothing if it comes over an older
connection than the newest one that added a partition or a group to the transaction: the client is
told to try again (COORDINATOR_LOAD_IN_PROGRESS). Nobody reads that from a connection that was given
up. A client with several connections at once, such as kafka-go, does, and an EndTxn over the same
connection is taken `ANSWER_READ_MS` later; what comes sooner may have been sent with the first one.
A client that has connected again has a newer one and is not affected. What a coordinator knows of
connections ends with its leadership, and with that the old connections to it do not count.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from odradek.coordinator.answered_connection import AnsweredConnection
from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.transaction.add_partitions import (
    NO_CONNECTION,
    ProducerIdentity,
    producer_error,
)
from odradek.coordinator.transaction.markers import RETRY_MS, TransactionEnd
from odradek.coordinator.transaction.transaction_metadata import (
    EPOCH_BUMP_VERSION,
    LAST_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from odradek.coordinator.transaction.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ENDING,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TIMEOUT,
    Event,
    TransactionState,
    outcome,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.end_txn import EndTxnResponse

if TYPE_CHECKING:
    from odradek.coordinator.transaction.transaction_shard import TransactionShard

log = logging.getLogger(__name__)


def end_error(error: ErrorCode) -> EndTxnResponse:
    """The response that carries only an error, or success of a version without an epoch."""
    return EndTxnResponse(error_code=error)


def end_txn(
    shard: TransactionShard,
    result: OperationResult,
    producer: ProducerIdentity,
    committed: bool,
    bumps_epoch: bool,
    connection: int,
    arrived_ms: int,
    reply: Reply[EndTxnResponse],
) -> None:
    """Commit or abort the producer's transaction. `bumps_epoch`: the request has version 5.

    `connection`: the number of the client's connection. `arrived_ms`: by the timer's clock.
    """
    metadata = shard.get(producer.transactional_id)
    if metadata is None:
        result.answer(reply, end_error(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        return
    if bumps_epoch:
        after = outcome_with_bump(metadata, producer, committed)
    else:
        error = producer_error(metadata, producer)
        event = Event.COMMIT if committed else Event.ABORT
        after = outcome(event, metadata.state) if error is ErrorCode.NONE else error
        if isinstance(after, TransactionState) and is_late(shard, metadata, connection, arrived_ms):
            after = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if isinstance(after, ErrorCode):
        if after is ErrorCode.NONE and bumps_epoch:
            result.answer(reply, end_success(metadata))
        else:
            if after is ErrorCode.INVALID_TXN_STATE:
                log_wrong_state(metadata, committed)
            result.answer(reply, end_error(after))
        return
    version = EPOCH_BUMP_VERSION if bumps_epoch else 0
    following = decided(shard, metadata, after, version, result.now_ms)
    if isinstance(following, ErrorCode):
        result.answer(reply, end_error(following))
        return
    prepare(shard, result, following)
    following = following.completed(result.now_ms)
    result.answer(reply, end_success(following) if bumps_epoch else end_error(ErrorCode.NONE))


def end_success(metadata: TransactionMetadata) -> EndTxnResponse:
    """The response with the id and epoch of the next transaction."""
    return EndTxnResponse(
        error_code=ErrorCode.NONE,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
    )


def log_wrong_state(metadata: TransactionMetadata, committed: bool) -> None:
    log.warning(
        "a producer asked to %s the transaction of %r, which is %s",
        "commit" if committed else "abort",
        metadata.transactional_id,
        metadata.state.text,
    )


def outcome_with_bump(
    metadata: TransactionMetadata, producer: ProducerIdentity, committed: bool
) -> TransactionState | ErrorCode:
    """The state that an EndTxn of version 5 leads to, or the error that answers it."""
    state, epoch = metadata.state, metadata.producer_epoch
    if state in ENDING:
        return outcome(Event.COMMIT_AND_BUMP, state)
    # Only an end of version 5 gives its producer the next epoch. After one below it, the epoch
    # before is that of an earlier producer, which another one has fenced.
    has_bumped = metadata.transaction_version >= EPOCH_BUMP_VERSION
    was_bumped = has_bumped and producer.epoch + 1 == epoch
    was_rotated = (
        has_bumped
        and producer.producer_id == metadata.previous_producer_id
        and producer.epoch == LAST_EPOCH
        and epoch == 0
    )
    if producer.producer_id != metadata.producer_id and not was_rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if was_bumped or was_rotated:
        return outcome(Event.COMMIT_AGAIN if committed else Event.ABORT_AGAIN, state)
    if producer.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return outcome(Event.COMMIT_AND_BUMP if committed else Event.ABORT_AND_BUMP, state)


def is_late(
    shard: TransactionShard, metadata: TransactionMetadata, connection: int, now_ms: int
) -> bool:
    """True if a newer connection added to the transaction, and the client is to try again: see the
    module.
    """
    transactional_id = metadata.transactional_id
    newest = shard.newest_connections.get(transactional_id, NO_CONNECTION)
    if connection == NO_CONNECTION or connection >= newest:
        return False
    answered = shard.answered_connections.get(transactional_id)
    if answered is not None and answered.connection == connection:
        return not answered.is_read(now_ms)
    shard.answered_connections[transactional_id] = AnsweredConnection(connection, now_ms)
    return True


def decided(
    shard: TransactionShard,
    metadata: TransactionMetadata,
    state: TransactionState,
    transaction_version: int,
    now_ms: int,
) -> TransactionMetadata | ErrorCode:
    """The state after the decision; an error if it needs a producer id and there is none now."""
    if transaction_version < EPOCH_BUMP_VERSION or not metadata.is_exhausted:
        return metadata.ending(state, transaction_version, NO_PRODUCER_ID, now_ms)
    next_id = shard.environment.next_producer_id()
    if next_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return metadata.ending(state, transaction_version, next_id, now_ms)


def prepare(shard: TransactionShard, result: OperationResult, ending: TransactionMetadata) -> None:
    """Write a decision; when it is committed, write the markers."""
    result.write(ending.record())
    result.after_append(partial(decision_appended, shard, result, ending.transactional_id))
    result.when_committed(partial(resume_end, shard, ending))


def decision_appended(
    shard: TransactionShard, result: OperationResult, transactional_id: str
) -> None:
    """Forget what counts until a transaction is decided."""
    result.cancel((TIMEOUT, transactional_id))
    shard.newest_connections.pop(transactional_id, None)
    shard.answered_connections.pop(transactional_id, None)


def resume_end(shard: TransactionShard, ending: TransactionMetadata) -> None:
    """Write the markers of a transaction whose decision is committed."""
    shard.environment.write_markers(
        TransactionEnd(
            ending.transactional_id,
            shard.number,
            shard.coordinator_epoch,
            ending.producer_id,
            ending.producer_epoch,
            ending.state is PREPARE_COMMIT,
            ending.transaction_version,
            ending.partitions,
        )
    )


def abort_and_fence(
    shard: TransactionShard,
    result: OperationResult,
    metadata: TransactionMetadata,
    event: Event,
) -> ErrorCode:
    """Abort an open transaction with an epoch that shuts its producer out.

    Return the answer to the request that caused it.
    """
    assert outcome(event, metadata.state) is PREPARE_ABORT
    version = shard.environment.transaction_version()
    if version < EPOCH_BUMP_VERSION:
        metadata, version = metadata.fenced(), 0
    following = decided(shard, metadata, PREPARE_ABORT, version, result.now_ms)
    if isinstance(following, ErrorCode):
        return following
    prepare(shard, result, following)
    return ErrorCode.CONCURRENT_TRANSACTIONS


def timed_out(shard: TransactionShard, result: OperationResult, transactional_id: str) -> None:
    """Abort a transaction whose timeout has passed."""
    metadata = shard.get(transactional_id)
    if metadata is None or metadata.state is not ONGOING:
        return
    # For an abort that is not appended, as one without a producer id is; `prepare` cancels it.
    result.schedule((TIMEOUT, transactional_id), RETRY_MS)
    error = abort_and_fence(shard, result, metadata, Event.TIMED_OUT)
    if error is ErrorCode.CONCURRENT_TRANSACTIONS:

        def appended() -> None:
            log.info(
                "the transaction of %r is aborted: it was open for %d ms",
                transactional_id,
                metadata.timeout_ms,
            )
            shard.environment.count_timeout()

        result.after_append(appended)


def complete(
    shard: TransactionShard, result: OperationResult, end: TransactionEnd, reply: Reply[ErrorCode]
) -> None:
    """Note that all markers of a transaction are written. `reply` is answered when that is
    committed, or refused.
    """
    metadata = shard.get(end.transactional_id)
    if metadata is not None and metadata.state in ENDING and is_of(end, metadata):
        state = outcome(Event.MARKERS_WRITTEN, metadata.state)
        following = metadata.completed(result.now_ms)
        assert following.state is state and state in (COMPLETE_COMMIT, COMPLETE_ABORT)
        result.write(following.record())
        result.after_append(partial(completion_appended, shard, end))
    result.answer(reply, ErrorCode.NONE)


def completion_appended(shard: TransactionShard, end: TransactionEnd) -> None:
    """Count the end of a transaction, and go on with what waits for it."""
    shard.environment.count_end(end.committed)
    shard.environment.ended(end.transactional_id)


def is_of(end: TransactionEnd, metadata: TransactionMetadata) -> bool:
    """True if these are the markers of the end that is under way."""
    return (metadata.producer_id, metadata.producer_epoch) == (end.producer_id, end.producer_epoch)
