"""InitProducerId of a transactional id: a producer takes it over, or goes on with a new epoch.

| the request has                       | and the id                  | then              |
|---------------------------------------|-----------------------------|-------------------|
| no id and epoch: a producer starts    | does not exist              | new id, epoch 0   |
|                                       | has epochs left             | epoch + 1         |
|                                       | has none: `LAST_EPOCH`      | new id, epoch 0   |
| those of now: it recovers (KIP-360)   |                             | the same as above |
| those before: the request is repeated | was bumped by this producer | those of now      |
| others                                |                             | PRODUCER_FENCED   |

An open transaction is aborted first, with an epoch that shuts its producer out (KIP-588); the
request gets CONCURRENT_TRANSACTIONS, and is run again when that is done. The id and the timeout of
the request are checked before, in `coordinator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.transaction.end_txn import abort_and_fence
from odradek.coordinator.transaction.transaction_metadata import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from odradek.coordinator.transaction.transaction_state import (
    EMPTY,
    ONGOING,
    Event,
    outcome,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.coordinator.transaction.transaction_shard import TransactionShard

NO_ID_YET = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""There is no producer id to give at the moment; clients ask again upon this error."""
NO_EXPECTATION = (NO_PRODUCER_ID, NO_EPOCH)


def init_error(error: ErrorCode) -> InitProducerIdResponse:
    """The response that carries only an error."""
    return InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH)


class GrantedProducerId(NamedTuple):
    """The id and epoch that a producer gets, and the epoch that a repeated request has."""

    producer_id: int
    epoch: int
    last_epoch: int


def init_producer_id(
    shard: TransactionShard,
    result: OperationResult,
    request: InitProducerIdRequest,
    reply: Reply[InitProducerIdResponse],
) -> None:
    """Give a producer its id and epoch. The request's timeout is valid."""
    transactional_id = request.transactional_id
    assert transactional_id is not None
    metadata = shard.get(transactional_id)
    if metadata is not None and metadata.state is ONGOING:
        error = fenced_by(metadata, request)
        if error is ErrorCode.NONE:
            error = abort_and_fence(shard, result, metadata, Event.INIT_PRODUCER_ID)
        result.answer(reply, init_error(error))
        return
    if metadata is not None:
        after = outcome(Event.INIT_PRODUCER_ID, metadata.state)
        error = after if isinstance(after, ErrorCode) else fenced_by(metadata, request)
        if error is not ErrorCode.NONE:
            result.answer(reply, init_error(error))
            return
    granted = grant(shard, metadata, request)
    if isinstance(granted, ErrorCode):
        result.answer(reply, init_error(granted))
        return
    before = metadata or TransactionMetadata(transactional_id, granted.producer_id)
    timeout_ms = request.transaction_timeout_ms
    following = before.initialized(*granted, timeout_ms, result.now_ms)
    assert following.state is EMPTY
    result.write(following.record())
    response = InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=granted.producer_id, producer_epoch=granted.epoch
    )
    result.answer(reply, response)


def fenced_by(metadata: TransactionMetadata, request: InitProducerIdRequest) -> ErrorCode:
    """PRODUCER_FENCED if the request has a producer id that is neither that of now nor the one that
    was replaced because its epochs were used up; or the epoch of an earlier producer, while a
    transaction is open. Kafka would abort that transaction first.
    """
    expected = request.producer_id, request.producer_epoch
    if expected == NO_EXPECTATION:
        return ErrorCode.NONE
    if metadata.state is ONGOING and request.producer_epoch != metadata.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if request.producer_id == metadata.producer_id:
        return ErrorCode.NONE
    was_replaced = request.producer_id == metadata.previous_producer_id
    if was_replaced and request.producer_epoch >= LAST_EPOCH:
        return ErrorCode.NONE
    return ErrorCode.PRODUCER_FENCED


def grant(
    shard: TransactionShard, metadata: TransactionMetadata | None, request: InitProducerIdRequest
) -> GrantedProducerId | ErrorCode:
    """The id and epoch that the request gets by the module's table, or its error."""
    expected = request.producer_id, request.producer_epoch
    if metadata is None:
        new = shard.environment.next_producer_id()
        return NO_ID_YET if new is None else GrantedProducerId(new, 0, NO_EPOCH)
    present, epoch = metadata.producer_id, metadata.producer_epoch
    recovers = expected != NO_EXPECTATION
    if recovers and request.producer_epoch != epoch:
        if request.producer_epoch == metadata.last_producer_epoch:
            return GrantedProducerId(present, epoch, metadata.last_producer_epoch)
        return ErrorCode.PRODUCER_FENCED
    last = epoch if recovers else NO_EPOCH
    if not metadata.is_exhausted:
        return GrantedProducerId(present, epoch + 1, last)
    new = shard.environment.next_producer_id()
    return NO_ID_YET if new is None else GrantedProducerId(new, 0, last)
