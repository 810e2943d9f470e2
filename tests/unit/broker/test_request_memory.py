"""The memory of a request is freed when it is answered, without the garbage collector."""

from __future__ import annotations

import gc
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek import Producer
from odradek.broker.context import RequestContext
from odradek.network.connection import Exchange
from odradek.protocol.api.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.codec import encode
from odradek.protocol.frame import request_parts
from odradek.protocol.generated_writer import joined
from odradek.protocol.record_batch_builder import build
from odradek.testing.broker import Broker

REQUESTS = 40
PRODUCE, FETCH, CREATE = (0, 9), (1, 12), (19, 7)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


KINDS = (Exchange, RequestContext, ProduceRequest, FetchRequest)


def alive() -> Counter[type]:
    """The number of objects of requests in the process, those of other tests included."""
    return Counter(type(each) for each in gc.get_objects() if isinstance(each, KINDS))


def exchanged(client: socket.socket, api: tuple[int, int], request: object) -> None:
    """Send a request and decode its response."""
    client.sendall(joined(request_parts(*api, 1, "test", encode(request, api[1]))))
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
    assert len(client.recv(size, socket.MSG_WAITALL)) == size


def produce(topic: str) -> ProduceRequest:
    """A produce that waits for the fsync of two partitions."""
    data = [
        PartitionProduceData(index=index, records=build([(None, b"." * 1000, (), 1)]))
        for index in range(2)
    ]
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch(topic: str) -> FetchRequest:
    """A fetch that waits for its deadline."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000)
        for index in range(2)
    ]
    return FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=partitions)]
    )


@pytest.mark.usefixtures("no_collector")
def test_answered_requests_leave_no_garbage(tmp_path: Path) -> None:
    before = alive()
    with Broker(data_dir=tmp_path) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            names = ("t", "empty")
            topics = [
                CreatableTopic(
                    name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]
                )
                for name in names
            ]
            exchanged(client, CREATE, CreateTopicsRequest(topics=topics, timeout_ms=30_000))
            for _ in range(REQUESTS):
                exchanged(client, PRODUCE, produce("t"))
                exchanged(client, FETCH, fetch("empty"))
            # The last of each may still be on its way out. Operations stay in the lists of their
            # other keys until these are purged, but nothing of the requests does.
            left = alive() - before
            assert max(left.values(), default=0) < 5, left


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("transactional_id", [None, "orders"], ids=["flushed", "transactions"])
def test_records_leave_no_garbage_in_producer_or_broker(
    tmp_path: Path, transactional_id: str | None
) -> None:
    with (
        Broker(data_dir=tmp_path) as broker,
        Producer(brokers=broker.bootstrap, transactional_id=transactional_id) as producer,
    ):

        def write() -> None:
            if transactional_id is None:
                producer.send("t", b"x")
                producer.flush()
            else:
                with producer.transaction():
                    producer.send("t", b"x")

        write()  # What comes with the first one is made once.
        gc.collect()
        for _ in range(REQUESTS):
            write()
        # Less than one object for each: what ends late, such as a marker, may still be there.
        assert gc.collect() < REQUESTS
