"""Metrics of clients as prometheus_client serves and parses them."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

import odradek
from clients.asking import until
from odradek.prometheus import PrometheusCollector
from odradek.testing.broker import Broker

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
NOWHERE = "127.0.0.1:1"


def scraped(registry: CollectorRegistry) -> Samples:
    """Return all samples of a scrape by name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        assert family.type in ("counter", "gauge")
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, "a series has one value"
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def clients_of(samples: Samples) -> set[str]:
    return {dict(labels)["client_id"] for _, labels in samples}


def test_producer_consumer_and_admin_are_scraped_in_base_units(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic, registry = new_topic(), CollectorRegistry()
    with (
        odradek.Producer(brokers=broker.bootstrap, client_id="p") as producer,
        odradek.Consumer(
            topic, brokers=broker.bootstrap, client_id="c", auto_offset_reset="earliest"
        ) as consumer,
        odradek.Admin(brokers=broker.bootstrap, client_id="a") as admin,
    ):
        PrometheusCollector(producer, consumer, admin, registry=registry)
        producer.send_many(topic, [b"x"] * 20)
        producer.flush()
        assert len(next(consumer.batches(20, max_wait=20))) == 20
        admin.topics()
        # A consumer that is not waiting may have records a moment before its engine counts them.
        consumed = "odradek_consumer_records_consumed_total"
        assert until(lambda: value(scraped(registry), consumed, client_id="c") == 20)
        found = scraped(registry)
        assert value(found, "odradek_producer_record_send_total", client_id="p") == 20
        assert value(found, "odradek_producer_topic_record_send_total", client_id="p", topic=topic)
        lag = {"client_id": "c", "topic": topic, "partition": "0"}
        assert value(found, "odradek_consumer_partition_records_lag", **lag) == 0
        node = {"client_id": "a", "node_id": "node-1"}
        assert value(found, "odradek_admin_node_request_total", **node) > 0
        latency_ms = producer.metrics()["request-latency-max"]
        latency_s = value(found, "odradek_producer_request_latency_max_seconds", client_id="p")
        assert latency_s == pytest.approx(latency_ms / 1000)
        assert not any("rate" in name and "compression" not in name for name, _ in found)


def test_the_page_is_also_valid_openmetrics(broker: Broker, new_topic: Callable[..., str]) -> None:
    registry = CollectorRegistry()
    with odradek.Producer(brokers=broker.bootstrap) as producer:
        PrometheusCollector(producer, registry=registry)
        producer.send(new_topic(), b"x").result(20)
        families = list(parse_openmetrics(generate_openmetrics(registry).decode()))
    assert "odradek_producer_record_send" in {family.name for family in families}


def test_closed_and_collected_clients_vanish_and_new_ones_are_added() -> None:
    registry = CollectorRegistry()
    closed = odradek.Producer(brokers=NOWHERE, client_id="closed")
    dropped = odradek.Producer(brokers=NOWHERE, client_id="dropped")
    collector = PrometheusCollector(closed, dropped, registry=registry)
    assert clients_of(scraped(registry)) == {"closed", "dropped"}
    closed.close(0)
    assert clients_of(scraped(registry)) == {"dropped"}
    del dropped
    gc.collect()
    assert scraped(registry) == {}
    with odradek.Producer(brokers=NOWHERE, client_id="new") as new:
        collector.add(new)
        assert clients_of(scraped(registry)) == {"new"}


def test_clients_of_one_id_are_told_apart() -> None:
    registry = CollectorRegistry()
    producers = [odradek.Producer(brokers=NOWHERE, client_id="same") for _ in range(3)]
    consumer = odradek.Consumer(brokers=NOWHERE, client_id="same")
    PrometheusCollector(*producers, consumer, registry=registry)
    found = scraped(registry)
    counts = {dict(labels)["client_id"] for name, labels in found if "_record_send" in name}
    assert counts == {"same", "same-2", "same-3"}
    value(found, "odradek_consumer_assigned_partitions", client_id="same")
    for producer in producers:
        producer.close(0)
    consumer.close(0)


def test_an_asyncio_client_is_scraped_from_another_thread(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    registry, topic = CollectorRegistry(), new_topic()

    async def live() -> None:
        producer = odradek.aio.Producer(brokers=broker.bootstrap, client_id="a")
        PrometheusCollector(producer, registry=registry)
        assert scraped(registry) == {}, "it is not started"
        async with producer:
            await producer.send(topic, b"x")
            found = await asyncio.to_thread(scraped, registry)
            assert value(found, "odradek_producer_record_send_total", client_id="a") == 1

    asyncio.run(live())
    assert scraped(registry) == {}


def test_scrapes_on_many_threads_while_the_client_works(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    registry, topic = CollectorRegistry(), new_topic(partitions=3)
    failures: list[BaseException] = []
    over = threading.Event()

    def scrape() -> None:
        last = 0.0
        try:
            while not over.is_set():
                sent = scraped(registry).get(
                    ("odradek_producer_record_send_total", frozenset({("client_id", "busy")})), 0.0
                )
                assert sent >= last, "a counter never falls"
                last = sent
        except BaseException as failure:
            failures.append(failure)

    with odradek.Producer(brokers=broker.bootstrap, client_id="busy") as producer:
        PrometheusCollector(producer, registry=registry)
        threads = [threading.Thread(target=scrape) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            producer.send_many(topic, [b"x" * 100] * 500)
        producer.flush()
        over.set()
        for thread in threads:
            thread.join()
        assert (
            scraped(registry)[
                "odradek_producer_record_send_total", frozenset({("client_id", "busy")})
            ]
            == 10_000
        )
    assert failures == []


def test_a_second_collector_of_a_registry_is_refused_with_what_to_do() -> None:
    registry = CollectorRegistry()
    PrometheusCollector(registry=registry)
    with pytest.raises(ValueError, match=r"Duplicated timeseries.*add\(\)"):
        PrometheusCollector(registry=registry)


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "try:\n    import odradek.prometheus\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'odradek[prometheus]'" in said.stdout
