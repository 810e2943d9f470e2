"""UnregisterBroker: v0. Removes a broker that is gone from the cluster's metadata (KIP-631).

Responds when the records are committed. POLICY_VIOLATION: a partition needs the broker, see
`controller.registration`; Kafka removes any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.controller.registration import unregister
from odradek.model.errors import ErrorCode
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

TIMEOUT_MS = 30_000


def handle(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> CallbackResponse:
    if broker.forwarding is not None:
        broker.controller_service.unregister(request, context.respond)
    else:  # No sessions are kept without other nodes.
        broker.respond_in_parts(
            context,
            lambda image: unregister(image, request, lambda: broker.config),
            TIMEOUT_MS,
            lambda error, message: UnregisterBrokerResponse(
                error_code=error, error_message=message
            ),
        )
    return CALLBACK_RESPONSE


def failed(request: UnregisterBrokerRequest, error: ErrorCode) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error, error_message=error.text)
