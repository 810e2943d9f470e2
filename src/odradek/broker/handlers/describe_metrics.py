"""DescribeMetrics: v0. The broker's metrics with their values: see `broker.metrics`.

Odradek's own: listed only to clients with our software name, answered to whoever asks with its key,
at most five times a second (see `describe_waiting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.broker.metrics.description import describe_metrics
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_metrics import DescribeMetricsRequest, DescribeMetricsResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeMetricsRequest
) -> DescribeMetricsResponse | CallbackResponse:
    wait_ms = broker.metrics_answers.wait_ms()
    if wait_ms:
        return DescribeMetricsResponse(
            error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            error_message=f"At most 5 answers a second; the next one in {wait_ms} ms.",
            throttle_time_ms=wait_ms,
        )
    broker.metrics_answers.begin(context, describe_metrics(broker.node, request))
    return CALLBACK_RESPONSE
