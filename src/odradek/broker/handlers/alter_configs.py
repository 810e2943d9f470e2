"""AlterConfigs: v0-2. Replaces all settings of a resource by those given (KIP-133).

Responds when the records are committed and, for settings of this broker, in force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.configs import alter_configs
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext

TIMEOUT_MS = 30_000


def handle(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: alter_configs(image, request, broker.config),
        TIMEOUT_MS,
        lambda error: failed(request, error),
    )


def failed(request: AlterConfigsRequest, error: ErrorCode) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
