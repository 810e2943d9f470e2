"""The rows of the table: their form, and that each reads the fields of the object at work."""

from __future__ import annotations

import re
from typing import Any

import pytest

from odradek.broker.metrics import odradek_metrics, scrape
from odradek.broker.metrics.metric import PAUSE, Kind, Metric, MetricsPage
from odradek.broker.metrics.reading import metrics_of, samples_of
from odradek.broker.metrics.scrape import Scrape
from odradek.broker.metrics.table import BY_NAME, METRICS
from odradek.broker.node import Node
from odradek.model.histogram import Histogram
from odradek.network.http_server import HttpServer
from odradek.network.loop_load import LoopLoad
from odradek.network.process_usage import process_usage
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from unit.broker.group_requests import commit, serving, stable_member
from unit.broker.memory_broker import MemoryBroker

NAME = re.compile(r"(odradek|process|kafka)_[a-z0-9_]+")
UNITS = {"seconds": "_seconds", "bytes": "_bytes"}


def values(node: Node) -> dict[str, dict[tuple[Any, ...], Any]]:
    """All present values by name and labels."""
    found: dict[str, dict[tuple[Any, ...], Any]] = {}
    for view in MetricsPage:
        read = Scrape(node)
        for metric in metrics_of(view):
            for step in metric.read(read):
                for labels, value in samples_of(step):
                    assert len(labels) == len(metric.labels), metric.name
                    of_metric = found.setdefault(metric.name, {})
                    assert labels not in of_metric, f"{metric.name}{labels} twice"
                    of_metric[labels] = value
    return found


@pytest.fixture
def broker() -> MemoryBroker:
    return at_work(MemoryBroker())


@pytest.fixture
def coordinator() -> MemoryBroker:
    """A broker that also has groups."""
    return at_work(serving())


def at_work(made: MemoryBroker) -> MemoryBroker:
    made.create("t", 3)
    made.node.loop_load = LoopLoad(0)
    made.node.usage = process_usage
    env = made.node.env
    made.node.http = HttpServer(env.network, env.call_soon, made.node.timer, env.clock, {})
    return made


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_row_is_well_formed(metric: Metric) -> None:
    assert NAME.fullmatch(metric.name)
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    assert metric.help.endswith(".") and "\n" not in metric.help
    assert (metric.buckets is not None) == (metric.kind in (Kind.HISTOGRAM, Kind.SUMMARY))
    if metric.name.startswith("odradek_") and metric.unit in UNITS:
        assert metric.name.removesuffix("_total").endswith(UNITS[metric.unit])


def test_no_two_metrics_have_the_same_name() -> None:
    assert len(BY_NAME) == len(METRICS)


def test_each_row_of_a_broker_at_work_has_a_value(coordinator: MemoryBroker) -> None:
    broker = coordinator
    broker.produce_and_wait("t")
    assert commit(broker, "other", {("t", 0): 1}) == {0}
    broker.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    stable_member(broker, "g", "t")
    only_after_an_event = {
        "odradek_request_errors_total",
        "odradek_unserved_requests_total",
        "kafka_network_requestmetrics_errors_total",
        "odradek_data_volume_free_bytes",  # of a disk, not of memory
        "odradek_data_volume_size_bytes",
    }
    assert set(BY_NAME) - set(values(broker.node)) <= only_after_an_event


def test_values_are_those_of_the_objects_at_work(broker: MemoryBroker) -> None:
    for _ in range(4):
        broker.produce_and_wait("t", index=1)
    found, node = values(broker.node), broker.node
    log = node.replicas.by_name["t", 1].log
    metrics = node.broker.request_metrics.by_key
    assert found["odradek_topic_appended_records_total"]["t",] == log.appended_records == 4
    assert found["odradek_appended_bytes_total"][()] == log.appended_bytes == log.size
    assert found["odradek_partition_log_end_offset"]["t", 1] == log.log_end_offset
    assert found["odradek_partition_high_watermark"]["t", 2] == 0
    assert found["kafka_log_log_size"]["t", 1] == log.size
    assert found["kafka_server_brokertopicmetrics_messagesin_total"]["",] == 4
    assert found["odradek_request_seconds"]["Produce",].counts == metrics[0].total.counts
    assert found["kafka_network_requestmetrics_requests_total"]["Produce",] == 4
    assert found["odradek_flush_seconds"][()].count >= 4
    assert found["odradek_flushed_bytes_total"][()] >= log.size
    assert found["odradek_purgatory_completed_total"]["Produce",] == 4
    assert (
        found["odradek_timer_tasks"]["other",]
        + sum(
            value for labels, value in found["odradek_timer_tasks"].items() if labels != ("other",)
        )
        == node.timer.size
    )
    assert found["kafka_topic_partitions"] == {("t",): 3}
    assert found["process_cpu_seconds_total"][()] > 0


def test_one_node_is_neither_under_replicated_nor_without_a_leader(broker: MemoryBroker) -> None:
    found = values(broker.node)
    assert found["kafka_server_replicamanager_underreplicatedpartitions"][()] == 0
    assert found["kafka_server_replicamanager_atminisrpartitioncount"][()] == 3
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"][()] == 0
    assert found["kafka_server_replicamanager_leadercount"][()] == 3
    broker.node.replicas.by_name["t", 0].fail(ValueError("damaged"))
    found = values(broker.node)
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"][()] == 1
    assert found["odradek_offline_partitions"][()] == 1
    assert found["kafka_server_replicamanager_leadercount"][()] == 2
    assert ("t", 0) not in found["odradek_partition_log_end_offset"]


def test_sum_over_topics_keeps_what_a_deleted_topic_counted(broker: MemoryBroker) -> None:
    broker.produce_and_wait("t", index=0)
    broker.node.replicas.remove(broker.node.replicas.by_name["t", 0].topic_partition)
    found = values(broker.node)
    assert found["odradek_appended_records_total"][()] == 1
    assert found["odradek_topic_appended_records_total"]["t",] == 0


def test_partition_removed_during_a_scrape_counts_once(broker: MemoryBroker) -> None:
    broker.produce_and_wait("t", index=0)
    begun = Scrape(broker.node)
    broker.node.replicas.remove(broker.node.replicas.by_name["t", 0].topic_partition)
    assert set(begun.count_topics()) == {PAUSE}
    assert begun.all_topics.counts.appended_records == 1


def test_topics_beyond_a_number_are_only_in_the_sums(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "TOPICS_SHOWN", 2)
    for number in range(4):
        broker.create(f"more-{number}")
    broker.produce_and_wait("more-3")
    found = values(broker.node)
    shown = {("t",), ("more-0",)}
    assert set(found["odradek_topic_log_size_bytes"]) == shown
    assert set(found["kafka_topic_partitions"]) == shown
    assert found["odradek_topics_without_series"][()] == 3
    assert found["odradek_appended_records_total"][()] == 1
    assert len(found["odradek_partition_log_end_offset"]) == 7


def test_groups_beyond_a_number_are_only_in_the_counts(
    coordinator: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "GROUPS_SHOWN", 2)
    monkeypatch.setattr(odradek_metrics, "GROUPS_SHOWN", 2)
    for name in ("a", "b", "c"):
        assert commit(coordinator, name, {("t", 0): 0}) == {0}
    found = values(coordinator.node)
    assert set(found["kafka_consumergroup_members"]) == {("a",), ("b",)}
    assert set(found["kafka_consumergroup_lag_sum"]) == {("a", "t"), ("b", "t")}
    assert found["odradek_groups_without_series"][()] == 1
    assert sum(found["odradek_groups"].values()) == 3
    assert len(found["kafka_consumergroup_lag"]) == 3


def test_lag_of_a_group_is_what_it_has_yet_to_commit(coordinator: MemoryBroker) -> None:
    coordinator.produce_and_wait("t", index=0, count=10)
    coordinator.produce_and_wait("t", index=1, count=5)
    assert commit(coordinator, "g", {("t", 0): 4, ("t", 1): 5}) == {0}
    found = values(coordinator.node)
    assert found["kafka_consumergroup_lag"] == {("g", "t", 0): 6, ("g", "t", 1): 0}
    assert found["kafka_consumergroup_lag_sum"] == {("g", "t"): 6}
    assert found["kafka_consumergroup_current_offset_sum"] == {("g", "t"): 9}
    assert found["odradek_committed_offsets"][()] == 2


def test_rebalance_and_sessions_are_seen_as_kafkas_purgatories(coordinator: MemoryBroker) -> None:
    stable_member(coordinator, "g", "t")
    found = values(coordinator.node)
    assert found["odradek_groups"]["Stable",] == found["odradek_group_members"][()] == 1
    assert found["odradek_group_rebalances_total"][()] == 1
    sizes = found["kafka_server_delayedoperationpurgatory_purgatorysize"]
    assert set(sizes) == {
        (name,) for name in ("Produce", "Fetch", "DeleteRecords", "Rebalance", "Heartbeat")
    }
    assert sizes["Heartbeat",] >= 1


def test_histogram_is_shown_only_of_apis_that_were_asked_for(broker: MemoryBroker) -> None:
    broker.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    found = values(broker.node)["odradek_request_handling_seconds"]
    assert ("ApiVersions",) in found and ("Fetch",) not in found
    assert all(isinstance(value, Histogram) for value in found.values())
