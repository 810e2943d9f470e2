"""ListOffsets: v1-11.

A timestamp requests the first record at or after it; negative ones are special:

| timestamp | response                                                        | since |
|-----------|-----------------------------------------------------------------|-------|
| -1        | latest: high watermark, or last stable offset for read_committed | 1     |
| -2        | earliest: log start offset                                      | 1     |
| -3        | offset of the record with the largest timestamp (KIP-734)       | 7     |
| -4        | earliest local: log start offset, as nothing is tiered          | 8     |
| -5        | latest tiered: offset -1, as nothing is tiered                  | 9     |
| -6        | earliest pending upload: offset -1, likewise                    | 11    |

The request waits, at most `COMMIT_TIMEOUT_MS`, unless it asks only for log starts:

- With one replica, until the records are committed that were appended before it: so what a client
  has sent with `acks=1`, or `acks=0`, is found and counted.
- At a new leader, until its high watermark has reached its first offset: before that it may know a
  lower one than the leader before it has shown. If that takes too long, the answer is
  OFFSET_NOT_AVAILABLE, below version 5 LEADER_NOT_AVAILABLE.

A partition that is listed twice gets one response, INVALID_REQUEST. A special timestamp below its
version is UNSUPPORTED_VERSION. If nothing is found, offset and timestamp are -1 without an error.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.broker.context import DelayedResponse
from odradek.broker.leader_hints import CUT_OFF, error_if_missing, is_cut_off
from odradek.model.errors import ErrorCode
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.replication.list_offsets import CommitStatus, DelayedListOffsets
from odradek.replication.partition import Isolation, Partition, isolation_of

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
FIRST_VERSION_WITH_EPOCH = 4
FIRST_VERSION_WITH_NOT_AVAILABLE = 5
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}


COMMIT_TIMEOUT_MS = 1_000
STARTS = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING)


def handle(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | DelayedResponse:
    waiting = uncommitted(broker, request)
    if not waiting:
        return response(broker, context, request)
    operation = DelayedListOffsets(
        COMMIT_TIMEOUT_MS,
        [CommitStatus(partition) for partition in waiting],
        lambda _: context.respond(response(broker, context, request)),
    )
    keys = [partition.topic_partition for partition in waiting]
    return DelayedResponse(broker.replicas.list_offsets_purgatory, operation, keys)


def uncommitted(broker: Broker, request: ListOffsetsRequest) -> list[Partition]:
    """The partitions of a request with records that its response would miss."""
    found: dict[Partition, None] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            partition = broker.replicas.by_name.get((topic.name, asked.partition_index))
            if (
                partition is not None
                and asked.timestamp not in STARTS
                and partition.availability() is ErrorCode.NONE
                and partition.must_wait_for_commit
            ):
                found[partition] = None
    return list(found)


def response(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    counts = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    isolation = isolation_of(request.isolation_level)
    topics: dict[str, ListOffsetsTopicResponse] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            times = counts.pop((topic.name, asked.partition_index), 0)
            if times == 0:
                continue
            answers = topics.setdefault(
                topic.name, ListOffsetsTopicResponse(name=topic.name, partitions=[])
            )
            if times > 1:
                answers.partitions.append(failed(asked, ErrorCode.INVALID_REQUEST))
            else:
                found = answer(broker, topic.name, asked, isolation, context.version)
                answers.partitions.append(found)
                if found.error_code == NOT_LEADER and is_cut_off(
                    broker, topic.name, asked.partition_index
                ):
                    context.exchange.end_connection(CUT_OFF)
    return ListOffsetsResponse(topics=list(topics.values()))


def supported(timestamp: int, version: int) -> bool:
    return timestamp >= 0 or version >= SINCE_VERSION.get(timestamp, version + 1)


def failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)


def answer(
    broker: Broker, topic: str, asked: ListOffsetsPartition, isolation: Isolation, version: int
) -> ListOffsetsPartitionResponse:
    if not supported(asked.timestamp, version):
        return failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.replicas.by_name.get((topic, asked.partition_index))
    if partition is None:
        return failed(asked, error_if_missing(broker, topic, asked.partition_index))
    error = partition.availability() or partition.check_epoch(asked.current_leader_epoch)
    if error:
        return failed(asked, error)
    found = find(partition, asked.timestamp, isolation)
    if isinstance(found, ErrorCode):
        if found is ErrorCode.OFFSET_NOT_AVAILABLE and version < FIRST_VERSION_WITH_NOT_AVAILABLE:
            found = ErrorCode.LEADER_NOT_AVAILABLE
        return failed(asked, found)
    timestamp, offset, leader_epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch if version >= FIRST_VERSION_WITH_EPOCH else -1,
    )


def find(
    partition: Partition, timestamp: int, isolation: Isolation
) -> tuple[int, int, int] | ErrorCode:
    """(timestamp, offset, leader epoch), each -1 if there is none; or the error of the search."""
    if timestamp == LATEST:
        if not partition.is_in_epoch:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        if partition.is_cut_off:
            return NOT_LEADER
        return -1, partition.readable_end(isolation), partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log.log_start_offset
        return -1, start, partition.epoch_at(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING):
        return -1, -1, -1
    found = (
        partition.offset_for_max_timestamp(isolation)
        if timestamp == MAX_TIMESTAMP
        else partition.offset_for_timestamp(timestamp, isolation)
    )
    if found is None and not partition.is_in_epoch:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return (-1, -1, -1) if found is None else found
