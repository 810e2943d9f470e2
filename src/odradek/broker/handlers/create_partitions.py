"""CreatePartitions: v0-3. Responds when the new partitions' records are committed (KIP-195)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.topics import create_partitions
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext


def handle(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: create_partitions(image, request, broker.random),
        request.timeout_ms,
        lambda error: failed(request, error),
    )


def failed(request: CreatePartitionsRequest, error: ErrorCode) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error)
            for topic in request.topics
        ]
    )
