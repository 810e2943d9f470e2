"""BrokerHeartbeat: v0-2. A broker keeps its session, and learns if it is fenced (KIP-631).

Answered by the active controller once its records are committed; other nodes answer NOT_CONTROLLER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: BrokerHeartbeatRequest
) -> CallbackResponse:
    broker.controller_service.heartbeat(request, context.respond, context.exchange.connection)
    return CALLBACK_RESPONSE
