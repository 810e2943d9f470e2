"""InitProducerId: v0-5, for idempotent producers (KIP-98, KIP-360).

Without a transactional id every request gets a new producer id with epoch 0, out of a block of ids
that the controller has granted; a block is granted by a committed record, so no id is ever given
twice. A transactional id needs a transaction coordinator, which this broker does not have:
UNSUPPORTED_VERSION (see `find_coordinator`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import Waiting
from odradek.broker.handlers.find_coordinator import NO_TRANSACTIONS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

TIMEOUT_MS = 30_000
LATER = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""Clients ask again: there was no block of ids in time."""


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Waiting:
    if request.transactional_id is not None:
        if request.transactional_id == "":
            return failed(ErrorCode.INVALID_REQUEST)
        return failed(NO_TRANSACTIONS)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return failed(ErrorCode.INVALID_REQUEST)
    producer_id = broker.producer_ids.take()
    if producer_id is not None:
        return granted(producer_id)

    def committed() -> None:
        taken = broker.producer_ids.take()
        context.respond(failed(LATER) if taken is None else granted(taken))

    try:
        offset = broker.producer_ids.refill()
    except OSError:
        return failed(ErrorCode.KAFKA_STORAGE_ERROR)
    return broker.after_commit(
        offset, TIMEOUT_MS, committed, lambda: context.respond(failed(LATER))
    )


def granted(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)


def failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
