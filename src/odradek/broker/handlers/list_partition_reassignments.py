"""ListPartitionReassignments: v0. See `controller.reassignments`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.reassignments import list_partition_reassignments
from odradek.model.errors import ErrorCode
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return list_partition_reassignments(broker.image, request)


def failed(
    request: ListPartitionReassignmentsRequest, error: ErrorCode
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error, error_message=error.text, topics=[])
