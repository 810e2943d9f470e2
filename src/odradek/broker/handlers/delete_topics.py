"""DeleteTopics: v1-6. Responds when the removals are committed.

Versions: 6 takes topic ids as well as names (KIP-516).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.topics import delete_topics
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: delete_topics(
            image, request, context.version, enabled=broker.config.delete_topic_enable
        ),
        request.timeout_ms,
        lambda error: failed(request, error),
    )


def failed(request: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    asked = request.topics or [
        DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names
    ]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=state.name,
                topic_id=state.topic_id,
                error_code=error,
            )
            for state in asked
        ]
    )
