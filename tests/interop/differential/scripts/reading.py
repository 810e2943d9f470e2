"""Reads topics back, to compare what brokers stored."""

from __future__ import annotations

from uuid import UUID

from interop.differential.peer import Peer
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic

LATEST_FETCH = 17


def fetching(
    name: str,
    topic_id: UUID,
    partitions: list[tuple[int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
    partition_max_bytes: int = 10_000_000,
    isolation_level: int = 0,
) -> FetchRequest:
    """Return a sessionless fetch of (partition, offset) pairs of one topic."""
    wanted = [
        FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes
        )
        for index, offset in partitions
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=wanted)],
    )


def read_all(peer: Peer, label: str, name: str, topic_id: UUID, partitions: int = 1) -> None:
    """Return all records of a topic."""
    request = fetching(name, topic_id, [(index, 0) for index in range(partitions)])
    peer.call(label, request, LATEST_FETCH)
