"""DescribeWaiting: v0. What waits in this broker. Odradek's own: see `broker.waiting`.

It is listed only to clients with our software name (`api_versions`). It is answered to whoever asks
with its key, because that name is no proof of anything: permissions decide, as for all APIs. At
most five answers a second; above that THROTTLING_QUOTA_EXCEEDED with the time to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.broker.waiting import describe_waiting
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_waiting import DescribeWaitingRequest, DescribeWaitingResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeWaitingRequest
) -> DescribeWaitingResponse | CallbackResponse:
    wait_ms = broker.waiting_answers.wait_ms()
    if wait_ms:
        return DescribeWaitingResponse(
            error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            error_message=f"At most 5 answers a second; the next one in {wait_ms} ms.",
            throttle_time_ms=wait_ms,
        )
    connections = [
        connection
        for _, sockets in broker.node.servers
        for connection in sockets.connections.values()
    ]
    broker.waiting_answers.begin(
        context, describe_waiting(broker, connections, request, context.exchange)
    )
    return CALLBACK_RESPONSE
