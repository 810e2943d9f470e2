"""InitProducerId: v0-5, for idempotent producers (KIP-98, KIP-360).

Without a transactional id every request gets a new producer id with epoch 0, from a block of ids
that the controller has granted. A committed record grants a block, so no id is given twice. A
transactional id needs a transaction coordinator, which this broker does not have:
UNSUPPORTED_VERSION (see `find_coordinator`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import DelayedResponse
from odradek.broker.handlers.find_coordinator import NO_TRANSACTIONS
from odradek.broker.producer_ids import WANTED_MS
from odradek.controller.quorum_controller import NotController
from odradek.model.errors import ErrorCode
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

NO_BLOCK_YET = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""No block of ids was granted in time; clients retry upon this error."""


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | DelayedResponse:
    if request.transactional_id is not None:
        if request.transactional_id == "":
            return failed(ErrorCode.INVALID_REQUEST)
        return failed(NO_TRANSACTIONS)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return failed(ErrorCode.INVALID_REQUEST)
    producer_id = broker.producer_id_manager.next_id()
    if producer_id is not None:
        return granted(producer_id)

    def committed() -> None:
        taken = broker.producer_id_manager.next_id()
        context.respond(failed(NO_BLOCK_YET) if taken is None else granted(taken))

    try:
        broker.producer_id_manager.request_block()
    except OSError:
        return failed(ErrorCode.KAFKA_STORAGE_ERROR)
    except NotController:
        return failed(NO_BLOCK_YET)
    return broker.after_grant(WANTED_MS, committed, lambda: context.respond(failed(NO_BLOCK_YET)))


def granted(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)


def failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
