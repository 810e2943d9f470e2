"""PrometheusCollector: shows the metrics of clients to prometheus_client.

    collector = PrometheusCollector(producer, consumer)

    scrape ─► collect ─► metrics() of each client that is open ─► families of counters and gauges

The collector holds weak references: a client that is closed or garbage collected is no longer
shown. Scrapes run on threads of the application's HTTP server and only read what the engines count,
so they never wait for a client. Needs prometheus-client (`odradek[prometheus]`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Protocol

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "metrics for Prometheus need prometheus-client: pip install 'odradek[prometheus]'",
        name=error.name,
    ) from None

from odradek.client.errors import ClientClosed
from odradek.client.metrics import consumer_table, network_table, producer_table
from odradek.client.metrics.metric import Metrics, MetricTemplate, MetricType

__all__ = ["PrometheusCollector"]

BASE_UNITS = {
    "ns": ("seconds", 1e-9),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "bytes": ("bytes", 1.0),
    "ratio": ("ratio", 1.0),
}
"""By units of the tables: Prometheus' unit, and what to multiply with."""
TABLES = (
    producer_table.PRODUCER,
    producer_table.TOPIC,
    producer_table.NETWORK,
    producer_table.NODE,
    consumer_table.FETCH,
    consumer_table.CLIENT,
    consumer_table.COORDINATOR,
    consumer_table.GROUP,
    consumer_table.TOPIC,
    consumer_table.PARTITION,
    consumer_table.NETWORK,
    consumer_table.NODE,
    network_table.ADMIN,
    network_table.ADMIN_NODE,
)
SCOPES = {"node-id": "node_", "topic": "topic_", "partition": "partition_"}


def family_name(template: MetricTemplate) -> str | None:
    """Return the name of a metric in Prometheus; None for rates, which Prometheus makes itself.

    producer-topic-metrics byte-total  ─►  odradek_producer_topic_bytes_total
    """
    if template.type is MetricType.RATE:
        return None
    words = ["bytes" if word == "byte" else word for word in template.name.split("-")]
    if template.unit == "ns":
        words.remove("ns")
    is_counter = template.type is MetricType.COUNTER
    if is_counter:
        words.remove("total")
    unit, _ = BASE_UNITS.get(template.unit, ("", 1.0))
    if unit and unit not in words:
        words.append(unit)
    if is_counter:
        words.append("total")
    kind = template.group.partition("-")[0]
    scope = SCOPES[template.tags[-1]] if template.tags else ""
    return f"odradek_{kind}_{scope}{'_'.join(words)}"


Family = CounterMetricFamily | GaugeMetricFamily


def empty_family(name: str, template: MetricTemplate) -> Family:
    """Return the family of a metric, without samples."""
    labels = ["client_id", *(tag.replace("-", "_") for tag in template.tags)]
    if template.type is MetricType.COUNTER:
        return CounterMetricFamily(name, template.description, labels=labels)
    return GaugeMetricFamily(name, template.description, labels=labels)


class ExporterSettings(Protocol):
    """What an exporter reads of a client's settings."""

    @property
    def client_id(self) -> str: ...


class MeteredClient(Protocol):
    """A producer, consumer or admin client, for threads or for asyncio."""

    @property
    def config(self) -> ExporterSettings: ...

    def metrics(self) -> Metrics: ...


class PrometheusCollector(Collector):
    """Shows the metrics of clients; `add` shows further ones.

    It registers itself in `registry`, by default that of prometheus_client; with None, nowhere.
    Raises `ValueError` if the registry has a `PrometheusCollector` already.
    """

    def __init__(
        self, *clients: MeteredClient, registry: CollectorRegistry | None = REGISTRY
    ) -> None:
        self._lock = Lock()
        self._clients: list[tuple[str, str, weakref.ref[MeteredClient]]] = []
        """Kind, label and client."""
        for client in clients:
            self.add(client)
        if registry is not None:
            try:
                registry.register(self)
            except ValueError as error:
                raise ValueError(
                    f"{error}. What to do: make one PrometheusCollector for a registry, and add "
                    "further clients to it with add()"
                ) from None

    def add(self, client: MeteredClient) -> None:
        """Show the metrics of another client, as long as it is open. Any thread."""
        kind, client_id = type(client).__name__, client.config.client_id
        with self._lock:
            self._clients = [each for each in self._clients if each[2]() is not None]
            used = {label for other, label, _ in self._clients if other == kind}
            label, number = client_id, 2
            while label in used:
                label, number = f"{client_id}-{number}", number + 1
            self._clients.append((kind, label, weakref.ref(client)))

    def describe(self) -> Iterable[Family]:
        """Return all families without samples."""
        return self._families().values()

    def _families(self) -> dict[str, Family]:
        found: dict[str, Family] = {}
        for table in TABLES:
            for template in table:
                name = family_name(template)
                if name is not None:
                    found[name] = empty_family(name, template)
        return found

    def collect(self) -> Iterator[Family]:
        """Return the families that have samples. Any thread, several at once."""
        families = self._families()
        with self._lock:
            clients = list(self._clients)
        for _, label, reference in clients:
            client = reference()
            if client is None:
                continue
            try:
                metrics = client.metrics()
            except ClientClosed:  # Or not started yet.
                continue
            for metric in metrics.entries:
                name = family_name(metric.template)
                if name is not None:
                    tags = [metric.tags[tag] for tag in metric.template.tags]
                    _, factor = BASE_UNITS.get(metric.template.unit, ("", 1.0))
                    families[name].add_metric([label, *tags], metric.value * factor)
        for family in families.values():
            if family.samples:
                yield family
