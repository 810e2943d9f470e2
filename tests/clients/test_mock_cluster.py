"""Our clients' core against librdkafka's mock cluster, which supports ApiVersions up to 2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.engine import Engine
from odradek.client.waiter import spawn
from odradek.config.client import ClientConfig
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder

LONG_S = 60.0


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """Two mock brokers, which live as long as the client that started them."""
    owner = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 2})
    brokers = owner.list_topics(timeout=LONG_S).brokers
    yield ",".join(f"{each.host}:{each.port}" for each in brokers.values())
    owner.flush(0)


@pytest.fixture
def thread() -> Iterator[EngineThread]:
    thread = EngineThread("tests")
    thread.start()
    yield thread
    thread.close(lambda: None)


def test_the_core_negotiates_versions_and_produces(bootstrap: str, thread: EngineThread) -> None:
    config = ClientConfig.load({"bootstrap.servers": bootstrap})
    environment = thread.environment
    engine = thread.call(
        lambda: Engine(environment.env, environment.timer, config, allow_auto_topic_creation=True)
    )
    thread.call(engine.start)
    topic = thread.wait(lambda: engine.wait_for_topic("mocked"), LONG_S)
    image = thread.wait(lambda: spawn(engine.cluster_image()), LONG_S)
    assert len(image.nodes) == 2
    assert engine.client.api_versions_version <= 2, "the mock supports no newer one"
    builder = RecordBatchBuilder(0)
    builder.append(b"key", b"value", (), 1_700_000_000_000)
    leader = topic.partitions[0].leader
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="mocked",
                partition_data=[PartitionProduceData(index=0, records=builder.build())],
            )
        ],
    )
    answer = thread.wait(lambda: engine.call(leader, request, ProduceResponse), LONG_S)
    (outcome,) = answer.responses[0].partition_responses
    assert (outcome.error_code, outcome.base_offset) == (0, 0)
    thread.close(engine.close)
