"""UpdateFeatures: v0-2. Responds when the new levels' records are committed (KIP-584)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.features import refused, update_features
from odradek.model.errors import ErrorCode
from odradek.protocol.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext


def handle(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: update_features(
            image, request, context.version, broker.supported_features, broker.node_id
        ),
        request.timeout_ms,
        refused,
    )


def failed(request: UpdateFeaturesRequest, error: ErrorCode) -> UpdateFeaturesResponse:
    return refused(error)
