"""IncrementalAlterConfigs: v0-1. Set, delete, append to and subtract from settings (KIP-339).

Responds when the records are committed and, for settings of this broker, in force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.configs import incremental_alter_configs
from odradek.model.errors import ErrorCode
from odradek.protocol.api.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext

TIMEOUT_MS = 30_000


def handle(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: incremental_alter_configs(image, request, broker.config),
        TIMEOUT_MS,
        lambda error: failed(request, error),
    )


def failed(
    request: IncrementalAlterConfigsRequest, error: ErrorCode
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
