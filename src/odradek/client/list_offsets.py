"""ListOffsets requests: the offset for a timestamp, or a special offset, of partitions on any
nodes.

`send_list_offsets` sends one request to one node; the caller handles its results and retries.
`list_offsets` asks the leaders of all partitions, and retries until it has all offsets: give it a
time limit (`Engine.within`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import index
from typing import NamedTuple, SupportsIndex

from odradek.client.engine import Engine
from odradek.client.errors import KafkaError, UnknownTopicOrPartition, error_for
from odradek.client.metadata.cluster_image import NO_EPOCH, PartitionInfo
from odradek.client.waiter import Waiter, gather
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

ISOLATION_VERSION = 2
MAX_TIMESTAMP_VERSION = 7


def lookup_timestamp_ms(moment: object) -> int:
    """Return a time to look up as ms since 1970. It is given as a `datetime` (without a zone it is
    local, as everywhere in Python), or in ms since 1970. Raises `TypeError`, and `ValueError` for
    a time before 1970: negative numbers mean special offsets."""
    if isinstance(moment, datetime):
        at = round(moment.timestamp() * 1000)
    elif isinstance(moment, SupportsIndex) and not isinstance(moment, bool):
        at = index(moment)
    else:
        raise TypeError(
            f"{moment!r} is no time of records. What to do: give a datetime, or milliseconds since "
            "1970 as an int, such as int(time.time() * 1000)"
        )
    if at < 0:
        raise ValueError(
            f"times of records begin with 1970: {moment} is none. What to do: for the first record "
            "there is, ask for the beginning"
        )
    return at


def is_retriable(code: ErrorCode | None) -> bool:
    """True if a retry may help; as in Kafka's client, also after an unknown server error."""
    return code is not None and (code.retriable or code == ErrorCode.UNKNOWN_SERVER_ERROR)


class ListedOffset(NamedTuple):
    """The offset found, -1 if there is none. `timestamp_ms` is that of the record, -1 for special
    offsets."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


class OffsetLookup(NamedTuple):
    """The timestamp to look up, and the expected epoch of the leader."""

    timestamp: int
    current_leader_epoch: int = NO_EPOCH


def send_list_offsets(
    engine: Engine,
    node_id: int,
    wanted: Mapping[TopicPartition, OffsetLookup],
    read_committed: bool,
) -> Waiter[ListOffsetsResponse]:
    """Send one request to one node."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition, lookup in wanted.items():
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=lookup.current_leader_epoch,
                timestamp=lookup.timestamp,
            )
        )
    needs_max = any(lookup.timestamp <= MAX_TIMESTAMP for lookup in wanted.values())
    lowest = ISOLATION_VERSION if read_committed else 0
    request = RequestBuilder(
        ListOffsetsRequest,
        lambda _: ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[ListOffsetsTopic(name=name, partitions=p) for name, p in topics.items()],
            timeout_ms=engine.config.request_timeout_ms,
        ),
        min_version=MAX_TIMESTAMP_VERSION if needs_max else lowest,
    )
    return engine.call(node_id, request, ListOffsetsResponse)


def offsets_in(
    response: ListOffsetsResponse,
) -> Iterable[tuple[TopicPartition, ErrorCode, ListedOffset]]:
    """Yield the result of each partition in a response."""
    for topic in response.topics:
        for found in topic.partitions:
            yield (
                TopicPartition(topic.name, found.partition_index),
                error_code(found.error_code),
                ListedOffset(found.offset, found.timestamp, found.leader_epoch),
            )


async def list_offsets(
    engine: Engine, wanted: Mapping[TopicPartition, int], read_committed: bool = False
) -> dict[TopicPartition, ListedOffset]:
    """Return the offsets for timestamps. Raises errors that are not retriable."""
    found: dict[TopicPartition, ListedOffset] = {}
    attempts = 0
    while True:
        left = {p: timestamp for p, timestamp in wanted.items() if p not in found}
        nodes = await _by_leader(engine, left)
        waiters = [
            send_list_offsets(engine, node_id, lookup, read_committed)
            for node_id, lookup in nodes.items()
        ]
        for waiter in await gather(waiters):
            _take(waiter, found)
        if len(found) == len(wanted):
            return {partition: found[partition] for partition in wanted}
        engine.metadata.request_update()
        await engine.sleep(max(1, engine.backoff.backoff_ms(attempts)))
        attempts += 1


async def _by_leader(
    engine: Engine, wanted: Mapping[TopicPartition, int]
) -> dict[int, dict[TopicPartition, OffsetLookup]]:
    """Return the lookups by leader, without partitions that have no leader now."""
    nodes: dict[int, dict[TopicPartition, OffsetLookup]] = {}
    for partition, timestamp in wanted.items():
        info = await _partition(engine, partition)
        leader = engine.metadata.image.leader(*partition)
        if leader >= 0:
            lookup = OffsetLookup(timestamp, info.leader_epoch)
            nodes.setdefault(leader, {})[partition] = lookup
    return nodes


async def _partition(engine: Engine, partition: TopicPartition) -> PartitionInfo:
    topic = await engine.topic(partition.topic)
    if partition.partition not in topic.partitions:
        await engine.fresh_image()  # The partition may be new.
        topic = await engine.topic(partition.topic)
    info = topic.partitions.get(partition.partition)
    if info is None:
        raise UnknownTopicOrPartition(
            f"{partition}: topic {topic.name} has {topic.count} partitions, numbered from 0. What "
            f"to do: {UnknownTopicOrPartition.advice}",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    return info


def _take(waiter: Waiter[ListOffsetsResponse], found: dict[TopicPartition, ListedOffset]) -> None:
    """Store the offsets of a response. Raises errors that are not retriable."""
    if waiter.error is not None:
        if isinstance(waiter.error, KafkaError) and waiter.error.retriable:
            return
        raise waiter.error
    for partition, code, offset in offsets_in(waiter.result()):
        if code == ErrorCode.NONE:
            found[partition] = offset
        elif not is_retriable(code):
            raise error_for(code, f"looking up an offset of {partition}")
