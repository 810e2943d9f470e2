"""The boards and alerts: every metric and label that they query is in the table."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.metrics.kafka_names import NOT_SERVED
from odradek.broker.metrics.metric import Kind, Metric, MetricsPage
from odradek.broker.metrics.table import METRICS
from unit.broker.metrics.promql import Query, parse

BOARDS = Path(__file__).parents[4] / "docs" / "metrics"
SAMPLES: dict[str, Metric] = {name: metric for metric in METRICS for name in metric.sample_names}
yaml: Any = importlib.import_module("yaml")  # It has no types.
OF_THE_TARGET = {"instance", "job"}
"""Labels that Prometheus adds to all that it scrapes from an address."""


def board_queries() -> list[str]:
    board = json.loads((BOARDS / "odradek-board.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    variables = board["templating"]["list"]
    return queries + [each["query"]["query"] for each in variables if each["type"] == "query"]


def alerts() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((BOARDS / "odradek-alerts.yml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("query", [*board_queries(), *(rule["expr"] for rule in alerts())])
def test_query_names_only_metrics_and_labels_of_the_table(query: str) -> None:
    found = parse(query)
    assert found.selectors
    known: set[str] = set(OF_THE_TARGET)
    for name, labels in found.selectors:
        metric = SAMPLES[name]
        assert metric.view is MetricsPage.BROKER, "the boards need one page"
        known |= set(metric.sample_labels)
        assert labels <= {*metric.sample_labels, *OF_THE_TARGET}
    assert found.grouping <= known


def test_counters_are_queried_as_rates_and_nothing_else_is() -> None:
    for query in [*board_queries(), *(rule["expr"] for rule in alerts())]:
        for name, _ in parse(query).selectors:
            metric = SAMPLES[name]
            grows = metric.kind is Kind.COUNTER or metric.kind is Kind.HISTOGRAM
            assert grows == (f"rate({name}" in query or f"increase({name}" in query), query


def test_alert_says_what_happened_and_what_to_do() -> None:
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())


OF_SEVERAL_NODES = """
    kafka_controller_kafkacontroller_activecontrollercount
    kafka_controller_kafkacontroller_fencedbrokercount
    kafka_controller_kafkacontroller_offlinepartitionscount
    kafka_server_replicamanager_underminisrpartitioncount
    kafka_server_replicamanager_underreplicatedpartitions
"""


@pytest.mark.parametrize("name", OF_SEVERAL_NODES.split())
def test_what_may_fail_among_several_nodes_has_an_alert_and_a_panel(name: str) -> None:
    for queries in ([rule["expr"] for rule in alerts()], board_queries()):
        assert any(name == each for query in queries for each, _ in parse(query).selectors)


def test_panels_of_the_board_do_not_overlap() -> None:
    board = json.loads((BOARDS / "odradek-board.json").read_text())
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) == 23
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


# The names that other people's boards query, which are facts.

STRIMZI_KAFKA = """
    container_cpu_usage_seconds_total container_memory_usage_bytes jvm_gc_collection_seconds_count
    jvm_gc_collection_seconds_sum jvm_memory_bytes_used jvm_memory_used_bytes jvm_threads_current
    kafka_cluster_partition_atminisr kafka_cluster_partition_replicascount
    kafka_cluster_partition_underminisr
    kafka_controller_controllerstats_uncleanleaderelections_total
    kafka_controller_kafkacontroller_activecontrollercount
    kafka_controller_kafkacontroller_offlinepartitionscount kafka_log_log_size
    kafka_network_socketserver_networkprocessoravgidle_percent
    kafka_server_brokertopicmetrics_bytesin_total kafka_server_brokertopicmetrics_bytesout_total
    kafka_server_brokertopicmetrics_failedfetchrequests_total
    kafka_server_brokertopicmetrics_failedproducerequests_total
    kafka_server_brokertopicmetrics_messagesin_total
    kafka_server_brokertopicmetrics_totalfetchrequests_total
    kafka_server_brokertopicmetrics_totalproducerequests_total
    kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
    kafka_server_kafkaserver_linux_disk_read_bytes kafka_server_kafkaserver_linux_disk_write_bytes
    kafka_server_replicamanager_leadercount kafka_server_replicamanager_partitioncount
    kafka_server_replicamanager_underreplicatedpartitions
    kafka_server_socket_server_metrics_connection_count kubelet_volume_stats_available_bytes
    process_open_fds
"""
STRIMZI_KRAFT = """
    kafka_server_raftchannelmetrics_incoming_byte_total
    kafka_server_raftchannelmetrics_outgoing_byte_total
    kafka_server_raftchannelmetrics_request_total kafka_server_raftchannelmetrics_response_total
    kafka_server_raftmetrics_append_records_rate kafka_server_raftmetrics_commit_latency_avg
    kafka_server_raftmetrics_current_epoch kafka_server_raftmetrics_current_leader
    kafka_server_raftmetrics_current_state kafka_server_raftmetrics_current_vote
    kafka_server_raftmetrics_fetch_records_rate kafka_server_raftmetrics_high_watermark
    kafka_server_raftmetrics_log_end_offset
"""
STRIMZI_KAFKA_EXPORTER = """
    kafka_cluster_partition_atminisr kafka_cluster_partition_underminisr
    kafka_consumergroup_current_offset kafka_consumergroup_lag
    kafka_topic_partition_current_offset kafka_topic_partition_in_sync_replica
    kafka_topic_partition_leader_is_preferred kafka_topic_partition_oldest_offset
    kafka_topic_partition_replicas kafka_topic_partition_under_replicated_partition
    kafka_topic_partitions
"""
STRIMZI_ALERTS = """
    container_last_seen kafka_controller_kafkacontroller_activecontrollercount
    kafka_controller_kafkacontroller_offlinepartitionscount
    kafka_log_logmanager_offlinelogdirectorycount
    kafka_server_replicamanager_underminisrpartitioncount
    kafka_server_replicamanager_underreplicatedpartitions kubelet_volume_stats_available_bytes
    kubelet_volume_stats_capacity_bytes
"""
GRAFANA_7589 = """
    kafka_consumergroup_current_offset kafka_consumergroup_lag
    kafka_topic_partition_current_offset kafka_topic_partitions
"""
BOARDS_FOR_KAFKA = {
    "strimzi-kafka": STRIMZI_KAFKA,
    "strimzi-kraft": STRIMZI_KRAFT,
    "strimzi-kafka-exporter": STRIMZI_KAFKA_EXPORTER,
    "strimzi alerts": STRIMZI_ALERTS,
    "grafana 7589": GRAFANA_7589,
}


@pytest.mark.parametrize("board", BOARDS_FOR_KAFKA)
def test_board_for_kafka_finds_what_it_queries_or_a_reason(board: str) -> None:
    for name in BOARDS_FOR_KAFKA[board].split():
        assert (name in SAMPLES) != (name in NOT_SERVED), name


def test_reason_is_given_for_nothing_else() -> None:
    asked = {name for names in BOARDS_FOR_KAFKA.values() for name in names.split()}
    assert asked >= set(NOT_SERVED)


def test_parser_finds_selectors_labels_and_grouping() -> None:
    query = 'sum by (a, b) (rate(m_total{c=~"x{y}",d!="z"}[5m])) * 1e9 > 2 and on (e) n'
    assert parse(query) == Query([("m_total", {"c", "d"}), ("n", set())], {"a", "b", "e"})
    assert parse('label_values(m{c="x"}, d)') == Query([("m", {"c"})], {"d"})
