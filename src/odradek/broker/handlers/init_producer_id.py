"""InitProducerId: v0-5, for idempotent and transactional producers (KIP-98, KIP-360).

Without a transactional id every request gets a new producer id with epoch 0, from a block of ids
that the controller has granted. A committed record grants a block, so no id is given twice. With
one, see `coordinator.transaction.init_producer_id`; it may need no new id.
"""

from __future__ import annotations

from collections.abc import Callable
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
    if request.transactional_id is not None:
        return transactional(broker, context, request)
    if broker.producer_id_manager.has_ids():
        return next_id(broker)
    return when_granted(broker, context, lambda: context.respond(next_id(broker)))


def next_id(broker: Broker) -> InitProducerIdResponse:
    taken = broker.producer_id_manager.next_id()
    return failed(NO_BLOCK_YET) if taken is None else granted(taken)


def transactional(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> CallbackResponse:
    """Let the coordinator answer; if it has no producer id to give, again when there are some."""
    transactions, transactional_id = broker.transactions, request.transactional_id
    assert transactional_id is not None

    def respond(response: InitProducerIdResponse) -> None:
        error = error_for_version(response.error_code, context.version, FIRST_INIT_PRODUCER_ID)
        response.error_code = error
        context.respond(response)

    def answered(response: InitProducerIdResponse) -> None:
        is_loading = transactions.runtime.error_of(transactional_id) is not ErrorCode.NONE
        if response.error_code != NO_BLOCK_YET or is_loading:
            respond(response)
            return
        # Not at once: this may come from within an operation.
        waiting = when_granted(broker, context, lambda: broker.env.call_soon(again))
        if isinstance(waiting, InitProducerIdResponse):
            respond(waiting)
        else:
            waiting.purgatory.try_complete_else_watch(waiting.operation, waiting.keys)

    def again() -> None:
        transactions.init_producer_id(request, respond)

    transactions.init_producer_id(request, answered)
    return CALLBACK_RESPONSE


def when_granted(
    broker: Broker, context: RequestContext, answer: Callable[[], None]
) -> InitProducerIdResponse | DelayedResponse:
    """Call `answer` once there are producer ids; or return why there will be none."""
    try:
        broker.producer_id_manager.request_block()
    except OSError:
        return failed(ErrorCode.KAFKA_STORAGE_ERROR)
    except NotController:
        return failed(NO_BLOCK_YET)
    return broker.after_grant(WANTED_MS, answer, lambda: context.respond(failed(NO_BLOCK_YET)))


def granted(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)


def failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
