"""AlterPartitionReassignments: v0-1. Responds when the records are committed (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.reassignments import (
    alter_partition_reassignments,
    is_too_long,
    refused,
    too_long,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.apis import Handle
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext


def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | DelayedResponse:
    return broker.respond_when_committed(
        context,
        lambda image: alter_partition_reassignments(image, request, broker.config),
        request.timeout_ms,
        refused,
    )


def whole_refusal(broker: Broker, request: AlterPartitionReassignmentsRequest) -> Handle | None:
    """Return what handles each part of a long request that names too many partitions."""
    return refuse if is_too_long(request) else None


def refuse(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Refuse a part, and so the whole request."""
    return too_long()


def failed(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    return refused(error)
