"""DescribeLogDirs: v1-5. The data directory, its volume, and the size of each partition in it
(KIP-113, KIP-827).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.protocol.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """A null topic list requests all partitions. Offline partitions are left out."""
    requested = None
    if request.topics is not None:
        requested = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    topics: dict[str, DescribeLogDirsTopic] = {}
    for name, partition in sorted(broker.replicas.by_name.items()):
        if partition.failure or (requested is not None and name not in requested):
            continue
        topic = topics.setdefault(name[0], DescribeLogDirsTopic(name=name[0], partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=name[1],
                partition_size=partition.log.size,
                offset_lag=max(0, partition.leader_high_watermark - partition.log.log_end_offset),
                is_future_key=False,
            )
        )
    usable, total = broker.disk_space()
    result = DescribeLogDirsResult(
        error_code=broker.log_directory_error(),
        log_dir=broker.log_directory_path,
        topics=list(topics.values()),
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=broker.config.directory_is_cordoned,
    )
    return DescribeLogDirsResponse(results=[result])
