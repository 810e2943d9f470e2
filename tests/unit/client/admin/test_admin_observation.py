"""What brokers show of themselves, over the Kafka connection."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from odradek.client.admin.admin import AdminCalls
from odradek.client.admin.results import MetricHistogram, WaitingReport
from odradek.client.aio.admin import Admin as AioAdmin
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.consumer import Consumer
from odradek.client.blocking.producer import Producer
from odradek.client.errors import UnknownTopicOrPartition, UnsupportedVersion
from odradek.client.waiter import spawn
from odradek.model.topics import TopicPartition
from odradek.testing import Broker
from odradek.testing.scripted import ScriptedCluster

DESCRIBE_WAITING, DESCRIBE_METRICS = 20_000, 20_001


def only(found: dict[int, WaitingReport]) -> WaitingReport:
    (waiting,) = found.values()
    return waiting


def test_a_consumers_fetch_and_group_are_shown(admin: Admin, broker: Broker) -> None:
    admin.create_topic("shown")
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send("shown", b"value").result()
    with Consumer(
        "shown",
        brokers=broker.bootstrap,
        group="watchers",
        client_id="the watcher",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=30_000,
    ) as consumer:
        assert consumer.poll(10) is not None
        consumer.poll(0.1)
        deadline = time.monotonic() + 20
        found = only(admin.describe_waiting(kinds="Fetch", transitions=10))
        while not found.operations and time.monotonic() < deadline:
            found = only(admin.describe_waiting(kinds="Fetch", transitions=10))
        (fetch,) = found.operations
    assert (fetch.client_id, fetch.keys, fetch.key_count) == ("the watcher", ("shown-0",), 1)
    assert fetch.left_ms is not None and 0 < fetch.left_ms <= 30_000
    assert found.by_kind["Fetch"] == found.operations_total == found.timers["Fetch"] == 1
    states = [each.to_state for each in found.transitions if each.group_id == "watchers"]
    assert states == ["Stable", "CompletingRebalance", "PreparingRebalance"]
    assert sum(level.timers for level in found.levels) > 0


def test_segments_and_ends_of_topics_are_shown(admin: Admin, broker: Broker) -> None:
    admin.create_topic("logs", partitions=2)
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send("logs", b"value", partition=1).result()
    found = only(admin.describe_waiting(topics=["logs"], segments=10, durable_ends=10))
    ends = {each.partition: each for each in found.durable_ends}
    second = ends[TopicPartition("logs", 1)]
    assert (second.durable_end, second.log_end, second.error_code) == (1, 1, 0)
    assert [(each.partition.partition, each.active) for each in found.segments] == [
        (0, True),
        (1, True),
    ]
    page = only(admin.describe_waiting(topics="logs", durable_ends=1, skip_durable_ends=1))
    assert page.durable_ends_total == 2 and page.durable_ends == (second,)


def test_more_calls_than_a_broker_answers_wait_for_their_turn(admin: Admin, broker: Broker) -> None:
    found: list[WaitingReport] = []
    threads = [
        threading.Thread(target=lambda: found.append(only(admin.describe_waiting())))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12


def test_the_awaited_client_has_the_call_too(broker: Broker) -> None:
    async def main() -> WaitingReport:
        async with AioAdmin(brokers=broker.bootstrap) as admin:
            return only(await admin.describe_waiting())

    assert asyncio.run(main()).levels


def test_a_broker_that_does_not_exist_is_named(admin: Admin) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="what waits of broker 99"):
        admin.describe_waiting(99)


def test_another_broker_is_said_not_to_answer() -> None:
    cluster = ScriptedCluster()
    del cluster[1].versions[DESCRIBE_WAITING], cluster[1].versions[DESCRIBE_METRICS]
    side = cluster.client()
    calls = AdminCalls(side.engine(), 5_000)
    with pytest.raises(UnsupportedVersion, match="only Odradek brokers answer DescribeWaiting"):
        side.wait(lambda: spawn(calls.describe_waiting()))
    with pytest.raises(UnsupportedVersion, match="only Odradek brokers answer DescribeMetrics"):
        side.wait(lambda: spawn(calls.describe_metrics()))


def test_metrics_are_read_with_labels_and_histograms(admin: Admin, broker: Broker) -> None:
    admin.create_topic("measured")
    (found,) = admin.describe_metrics().values()
    metrics = {each.name: each for each in found}
    assert metrics["odradek_connections"].kind == "gauge"
    (connections,) = metrics["odradek_connections"].samples
    assert isinstance(connections.value, float) and connections.value >= 1
    (lag,) = metrics["odradek_loop_lag_seconds"].samples
    assert isinstance(lag.value, MetricHistogram) and lag.value.count >= lag.value.buckets[-1][1]
    (of_partitions,) = admin.describe_metrics(
        names="odradek_partition_log_end_offset", partitions=True
    ).values()
    labels = [dict(each.labels) for each in of_partitions[0].samples]
    assert {"topic": "measured", "partition": "0"} in labels


def test_a_metric_that_a_broker_has_not_is_named_beside_those_that_it_has(admin: Admin) -> None:
    (found,) = admin.describe_metrics(names=["odradek_connections", "odradek_wishes"]).values()
    by_name = {each.name: each for each in found}
    assert by_name["odradek_connections"].samples
    assert by_name["odradek_connections"].error is None
    unknown = by_name["odradek_wishes"]
    assert unknown.samples == ()
    assert unknown.error is not None and "odradek_wishes" in str(unknown.error)
