"""SyncGroup: v0-5. Responds when the leader has assigned: see `coordinator.group.sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: SyncGroupRequest) -> CallbackResponse:
    broker.groups.sync_group(request, context.version, context.respond)
    return CALLBACK_RESPONSE
