"""Heartbeat: v0-4. See `coordinator.group.heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> CallbackResponse:
    broker.groups.heartbeat(request, context.respond)
    return CALLBACK_RESPONSE
