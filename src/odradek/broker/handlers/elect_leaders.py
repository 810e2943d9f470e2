"""ElectLeaders: v0-2. Responds when the new leaders' records are committed (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.leader_election import elect_leaders, refused
from odradek.model.errors import ErrorCode
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext


def handle(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: elect_leaders(image, request, broker.config),
        request.timeout_ms,
        lambda error: failed(request, error),
    )


def failed(request: ElectLeadersRequest, error: ErrorCode) -> ElectLeadersResponse:
    return refused(request, error)
