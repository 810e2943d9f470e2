"""DeleteRecords: v0-2.

Raises the log start offset; -1 means the high watermark. Beyond the high watermark is
OFFSET_OUT_OF_RANGE; a topic whose `cleanup.policy` has no `delete` refuses with POLICY_VIOLATION.
Answers when every live replica's log starts there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.broker.context import Waiting
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.replication.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsStatus

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Waiting:
    statuses = [
        broker.replicas.delete_records(topic.name, asked.partition_index, asked.offset)
        for topic in request.topics
        for asked in topic.partitions
    ]
    if not any(status.pending for status in statuses):
        return response(request, statuses)
    operation = DelayedDeleteRecords(
        request.timeout_ms, statuses, lambda settled: context.respond(response(request, settled))
    )
    keys = [s.partition.topic_partition for s in statuses if s.partition is not None]
    return Waiting(broker.replicas.delete_records_purgatory, operation, keys)


def response(
    request: DeleteRecordsRequest, statuses: Sequence[DeleteRecordsStatus]
) -> DeleteRecordsResponse:
    remaining = iter(statuses)
    topics = []
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            status = next(remaining)
            results.append(
                DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index,
                    low_watermark=status.low_watermark,
                    error_code=status.error,
                )
            )
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return DeleteRecordsResponse(topics=topics)
