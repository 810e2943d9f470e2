"""Metadata with a clock of its own, and responses of brokers to it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from odradek.client.metadata.metadata import Metadata
from odradek.model.errors import ErrorCode
from odradek.network_client.backoff import ExponentialBackoff
from odradek.protocol.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NEWEST = 13
MAX_AGE_MS = 300_000
IDLE_MS = 300_000
ORDERS = UUID(int=1)


@dataclass
class Clock:
    now_ms: int = 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        raise AssertionError("deadlines never look at the wall clock")


class Knowing:
    """Metadata with a clock of its own, and responses to it."""

    def __init__(self) -> None:
        self.clock = Clock()
        backoff = ExponentialBackoff(100, 1000, random.Random(1), jitter=0)
        self.metadata = Metadata(self.clock, backoff, MAX_AGE_MS, IDLE_MS)

    def learn(self, *topics: MetadataResponseTopic, **options: Any) -> None:
        """Request an update and take over the response."""
        _, token = self.metadata.topics_to_request()
        self.metadata.updated(response(*topics, **options), NEWEST, token)

    @property
    def wait_ms(self) -> int:
        return self.metadata.time_to_next_update_ms()


def response(
    *topics: MetadataResponseTopic, cluster_id: str | None = "ours", nodes: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n, host=f"broker{n}", port=9092) for n in nodes]
    return MetadataResponse(
        brokers=brokers, cluster_id=cluster_id, controller_id=1, topics=list(topics)
    )


def topic(
    name: str = "orders", *leaders: tuple[int, int], topic_id: UUID = ORDERS, error: int = 0
) -> MetadataResponseTopic:
    """Return a topic of a response; `leaders` are leader and epoch of each partition."""
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        partitions=[
            MetadataResponsePartition(
                error_code=0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=number,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[1],
            )
            for number, (leader, epoch) in enumerate(leaders)
        ],
    )
