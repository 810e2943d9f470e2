"""ListConfigResources: v0-1. See `controller.configs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.configs import list_config_resources
from odradek.protocol.api.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    return list_config_resources(broker.image, request, context.version)
