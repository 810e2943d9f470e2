"""BrokerRegistration: v0-4. A broker joins the cluster, or comes back to it (KIP-631).

Answered by the active controller once its records are committed; other nodes answer NOT_CONTROLLER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.broker_registration import BrokerRegistrationRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: BrokerRegistrationRequest
) -> CallbackResponse:
    broker.controller_service.register(request, context.respond)
    return CALLBACK_RESPONSE
