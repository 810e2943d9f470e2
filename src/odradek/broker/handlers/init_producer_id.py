"""InitProducerId: v0-5, for idempotent and transactional producers (KIP-98, KIP-360).

Without a transactional id every request gets a new producer id with epoch 0, from a block of ids
that the controller has granted. A committed record grants a block, so no id is given twice. With
one, see `coordinator.transaction.init_producer_id`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse, DelayedResponse
from odradek.broker.producer_fenced import FIRST_INIT_PRODUCER_ID, error_for_version
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
) -> InitProducerIdResponse | DelayedResponse | CallbackResponse:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return failed(ErrorCode.INVALID_REQUEST)
    if broker.producer_id_manager.has_ids():
        return with_ids(broker, context, request)

    def committed() -> None:
        answer = with_ids(broker, context, request)
        if isinstance(answer, InitProducerIdResponse):
            context.respond(answer)

    try:
        broker.producer_id_manager.request_block()
    except OSError:
        return failed(ErrorCode.KAFKA_STORAGE_ERROR)
    except NotController:
        return failed(NO_BLOCK_YET)
    return broker.after_grant(WANTED_MS, committed, lambda: context.respond(failed(NO_BLOCK_YET)))


def with_ids(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | CallbackResponse:
    """Handle a request while there are producer ids."""
    if request.transactional_id is None:
        taken = broker.producer_id_manager.next_id()
        return failed(NO_BLOCK_YET) if taken is None else granted(taken)

    def respond(response: InitProducerIdResponse) -> None:
        error = error_for_version(response.error_code, context.version, FIRST_INIT_PRODUCER_ID)
        response.error_code = error
        context.respond(response)

    broker.transactions.init_producer_id(request, respond)
    return CALLBACK_RESPONSE


def granted(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)


def failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
