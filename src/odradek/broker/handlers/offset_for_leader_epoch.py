"""OffsetForLeaderEpoch: v2-4.

Returns where an epoch ends: the start offset of the next larger epoch, or the log end for the
current one (KIP-101, KIP-279). A consumer compares the end with its position to detect a truncation
of the log (KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.leader_hints import error_if_missing
from odradek.protocol.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[end_of(broker, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def end_of(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.replicas.by_name.get((topic, asked.partition))
    if partition is None:
        error = error_if_missing(broker, topic, asked.partition)
    else:
        error = partition.availability() or partition.check_epoch(asked.current_leader_epoch)
    if partition is None or error:
        return EpochEndOffset(error_code=error, partition=asked.partition)
    epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(
        error_code=0, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )
