"""DescribeQuorum: v0-2. Leader, epoch, high watermark and voters of the metadata log (KIP-595).

This node is the only voter and the leader. Only the request for exactly the partition of the
metadata log is answered; another one gets UNKNOWN_TOPIC_OR_PARTITION for each of its partitions.

Versions: 1 has the times at which voters were caught up, for the leader the present time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.model.topics import METADATA_TOPIC
from odradek.protocol.api.describe_quorum import (
    DescribedQuorumPartition,
    DescribedQuorumTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    ReplicaState,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

MESSAGES_SINCE = 2


def handle(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    no_message = "" if context.version >= MESSAGES_SINCE else None
    named = [
        [topic.topic_name, *(each.partition_index for each in topic.partitions)]
        for topic in request.topics
    ]
    if named != [[METADATA_TOPIC, 0]]:
        return DescribeQuorumResponse(
            error_code=0, error_message=no_message, topics=unknown(request)
        )
    topic = DescribedQuorumTopic(
        topic_name=METADATA_TOPIC, partitions=[described(broker, no_message)]
    )
    registered = broker.image.brokers[broker.node_id]
    node = QuorumNode(
        node_id=broker.node_id,
        listeners=[
            QuorumListener(name=each.name, host=each.host, port=each.port)
            for each in registered.endpoints
        ],
    )
    return DescribeQuorumResponse(
        error_code=0, error_message=no_message, topics=[topic], nodes=[node]
    )


def failed(request: DescribeQuorumRequest, error: ErrorCode) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error, error_message=error.text, topics=[])


def described(broker: Broker, no_message: str | None) -> DescribedQuorumPartition:
    now_ms = broker.clock.wall_ms()
    voter = ReplicaState(
        replica_id=broker.node_id,
        replica_directory_id=broker.image.brokers[broker.node_id].default_directory,
        log_end_offset=broker.metadata.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return DescribedQuorumPartition(
        partition_index=0,
        error_code=0,
        error_message=no_message,
        leader_id=broker.node_id,
        leader_epoch=broker.metadata.epoch,
        high_watermark=broker.metadata.committed_offset,
        current_voters=[voter],
    )


def unknown(request: DescribeQuorumRequest) -> list[DescribedQuorumTopic]:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        DescribedQuorumTopic(
            topic_name=topic.topic_name,
            partitions=[
                DescribedQuorumPartition(
                    partition_index=each.partition_index,
                    error_code=error,
                    error_message=error.text,
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
