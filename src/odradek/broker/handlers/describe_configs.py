"""DescribeConfigs: v1-4. Settings of topics and brokers with their source and, on request, synonyms
and documentation (KIP-226, KIP-569).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.configs import describe_configs
from odradek.protocol.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    return describe_configs(broker.image, request, broker.config)
