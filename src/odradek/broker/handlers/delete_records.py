"""DeleteRecords: v0-2.

Raises the log start offset; -1 means the log end. Beyond the log end is OFFSET_OUT_OF_RANGE; a
topic whose `cleanup.policy` has no `delete` gets POLICY_VIOLATION. Responds when every live
replica's log starts there. Of a partition that is listed twice the last one counts, as in Kafka.

Kafka allows offsets up to the high watermark, which in a partition with one replica is the log end.
Here the high watermark follows the disk, so the request first waits for the flush that is under
way. As in Kafka `timeout_ms` limits the wait for other replicas: the broker's own disk has at least
`DISK_TIMEOUT_MS`, also if the client does not want to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from odradek.broker.context import DelayedResponse
from odradek.broker.leader_hints import error_if_missing
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.replication.delete_records import DelayedDeleteRecords, DeleteRecordsStatus

DISK_TIMEOUT_MS = 5_000

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | DelayedResponse:
    asked = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    statuses = [
        delete_records(broker, name, index, offset) for (name, index), offset in asked.items()
    ]
    if not any(status.pending for status in statuses):
        return response(asked, statuses)
    operation = DelayedDeleteRecords(
        max(request.timeout_ms, DISK_TIMEOUT_MS),
        statuses,
        lambda done: context.respond(response(asked, done)),
    )
    keys = [s.partition.topic_partition for s in statuses if s.partition is not None]
    return DelayedResponse(broker.replicas.delete_records_purgatory, operation, keys)


def delete_records(broker: Broker, topic: str, index: int, offset: int) -> DeleteRecordsStatus:
    status = broker.replicas.delete_records(topic, index, offset)
    if status.partition is None:
        status.error = error_if_missing(broker, topic, index)
    return status


def response(
    asked: Iterable[tuple[str, int]], statuses: Sequence[DeleteRecordsStatus]
) -> DeleteRecordsResponse:
    """The results by topic, in the order of the request."""
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for (name, index), status in zip(asked, statuses, strict=True):
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name=name, partitions=[]))
        topic.partitions.append(
            DeleteRecordsPartitionResult(
                partition_index=index,
                low_watermark=status.low_watermark,
                error_code=status.error,
            )
        )
    return DeleteRecordsResponse(topics=list(topics.values()))
