"""Requests that tests send through a `RawConnection`, and helpers that wait for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

from clients.wire import RawConnection
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.record_batch_builder import build

BATCH = build([(b"k", b"v", [], 1_700_000_000_000)])


def create(wire: RawConnection, *topics: tuple[str, int]) -> list[int]:
    """Create topics with numbers of partitions; return the error codes in the order of the
    response.
    """
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
            )
            for name, count in topics
        ],
        timeout_ms=120_000,
    )
    answer = wire.ask(request, 7, CreateTopicsResponse)
    return [topic.error_code for topic in answer.topics]


def produce(
    wire: RawConnection, topic: str, partition: int = 0, batch: bytes = BATCH, version: int = 9
) -> int:
    """Produce one batch with `acks=all`; return its error code."""
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = wire.ask(request, version, ProduceResponse)
    return int(answer.responses[0].partition_responses[0].error_code)


def long_poll(topic: str, wait_ms: int = 60_000, index: int = 0) -> FetchRequest:
    """Open a fetch session and wait for the first record."""
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=0,
        session_epoch=0,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def records_in(answer: FetchResponse) -> int:
    """Return the number of bytes of records."""
    return sum(len(p.records or b"") for t in answer.responses for p in t.partitions)


def until(holds: Callable[[], bool], seconds: float = 60) -> bool:
    """Poll a condition for which there is no event; True if it comes to hold."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
