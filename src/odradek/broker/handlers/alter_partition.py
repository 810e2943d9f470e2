"""AlterPartition: v2-3. A leader proposes in-sync replicas of its partitions (KIP-497).

Answered by the active controller once its records are committed; other nodes answer NOT_CONTROLLER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.alter_partition import AlterPartitionRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionRequest
) -> CallbackResponse:
    broker.controller_service.alter_partition(request, context.respond, context.version)
    return CALLBACK_RESPONSE
