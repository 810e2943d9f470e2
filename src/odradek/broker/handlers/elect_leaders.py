"""ElectLeaders: v0-2. Responds when the new leaders' records are committed (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.controller.leader_election import (
    elect_everywhere,
    elect_leaders,
    is_too_long,
    refused,
    too_long,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from odradek.broker.apis import Handle
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext


def handle(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | DelayedResponse | CallbackResponse:
    if request.topic_partitions is not None:
        return broker.respond_when_committed(
            context,
            lambda image: elect_leaders(image, request, broker.config),
            request.timeout_ms,
            lambda error: failed(request, error),
        )
    broker.respond_in_parts(
        context,
        lambda image: elect_everywhere(image, request, lambda: broker.config),
        request.timeout_ms,
        lambda error, message: refused(request, error, message),
    )
    return CALLBACK_RESPONSE


def whole_refusal(broker: Broker, request: ElectLeadersRequest) -> Handle | None:
    """Return what handles each part of a long request that names too many partitions."""
    return refuse if is_too_long(request) else None


def refuse(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Refuse all partitions of a part."""
    return too_long(request)


def failed(request: ElectLeadersRequest, error: ErrorCode) -> ElectLeadersResponse:
    return refused(request, error)
