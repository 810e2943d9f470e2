"""The pages of the metrics over HTTP, with real clients at work, read by Prometheus' own parser."""

from __future__ import annotations

import urllib.request
from typing import Any

from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from odradek.broker.metrics.metric import Kind, MetricsPage
from odradek.broker.metrics.table import METRICS
from odradek.testing import Broker

RECORDS = 50


def read(broker: Broker, view: MetricsPage) -> dict[str, Any]:
    with urllib.request.urlopen(f"{broker.http_url}/{view}", timeout=30) as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def sample(family: Any, **labels: str) -> float:
    (found,) = (
        each.value
        for each in family.samples
        if labels.items() <= each.labels.items() and not each.name.endswith("_created")
    )
    return float(found)


def test_a_prometheus_client_reads_every_family_with_type_help_and_true_values():
    with Broker(http=0) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce("t", value=str(number))
        assert producer.flush(30) == 0
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        left = RECORDS
        while left:
            left -= consumer.poll(30) is not None
        consumer.commit(asynchronous=False)
        families = {view: read(broker, view) for view in MetricsPage}
        for metric in METRICS:
            name = (
                metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name
            )
            family = families[metric.view].get(name)
            if family is not None:
                assert (family.type, family.documentation) == (metric.kind, metric.help)
        page, partitions = families[MetricsPage.BROKER], families[MetricsPage.PARTITIONS]
        log = broker.node.replicas.by_name["t", 0].log
        assert sample(page["odradek_topic_appended_records"], topic="t") == RECORDS
        assert sample(page["kafka_server_brokertopicmetrics_bytesin"], topic="t") == log.size
        assert sample(page["kafka_server_brokertopicmetrics_bytesout"], topic="t") == log.size
        assert sample(page["odradek_groups"], state="Stable") == 1
        assert sample(page["kafka_consumergroup_lag_sum"], consumergroup="g", topic="t") == 0
        assert sample(partitions["kafka_log_log_logendoffset"], topic="t") == RECORDS
        assert sample(page["odradek_loop_turn_seconds"], le="+Inf") > 0
        assert sample(page["odradek_connections"], listener="PLAINTEXT") == len(
            broker.node.sockets.connections
        )
        assert sample(page["process_open_fds"]) > 3
        consumer.close()
