"""CreateTopics: v2-7. Responds when the topics' records are committed.

Versions: 5 returns the topic's configuration (KIP-525); 7 its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.topics import all_refused, asks_for_too_much, create_topics
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.apis import Handle
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext


def handle(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: create_topics(image, request, broker.config, broker.random),
        request.timeout_ms,
        lambda error: failed(request, error),
    )


def whole_refusal(broker: Broker, request: CreateTopicsRequest) -> Handle | None:
    """Return what handles each part of a long request that asks for too much, as a whole."""
    return refuse if asks_for_too_much(request.topics, broker.config) else None


def refuse(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Refuse all topics of a part: they are too many together with those of the others."""
    return all_refused(request.topics)


def failed(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=topic.name,
                error_code=error,
                error_message=error.text,
            )
            for topic in request.topics
        ]
    )
