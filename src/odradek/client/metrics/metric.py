"""Metrics: the figures of one client at one moment, by the names of Kafka's own clients.

producer.metrics()["record-send-total"]                   of the whole client
producer.metrics()["orders.record-send-total"]            of a topic
consumer.metrics()["orders-0.records-lag"]                of a partition
producer.metrics()["node-1.request-latency-avg"]          of a node

for metric in producer.metrics().entries:                 with Kafka's groups and tags
    print(metric.group, metric.name, metric.tags, metric.value)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


class MetricType(Enum):
    """What a metric does between two readings."""

    COUNTER = "counter"
    """Only grows while the client lives."""
    GAUGE = "gauge"
    RATE = "rate"
    """A counter per second (or hour), over the last 30 to 60 seconds."""


Read = Callable[[Any, int], float | None]
"""(what is counted, now in ms) -> the value; None: not known yet, and left out."""


@dataclass(frozen=True, slots=True)
class MetricTemplate:
    """One metric of a kind of clients: its names, its meaning, and how it is read."""

    name: str
    """Kafka's name; it ends in `-total` for counters and in `-rate` for rates."""
    group: str
    """Kafka's group, such as `producer-topic-metrics`."""
    tags: tuple[str, ...]
    """The names of the tags beside `client-id`: `node-id`, `topic`, `partition`."""
    type: MetricType
    unit: str
    description: str
    read: Read
    in_kafka: bool = True
    """False if Kafka's clients have no metric of this name."""


class Metric(NamedTuple):
    """One figure, with the group and the tags that Kafka's own client gives it."""

    template: MetricTemplate
    tags: Mapping[str, str]
    """`client-id` always; `node-id`, `topic` and `partition` where the metric is of one."""
    value: float

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def group(self) -> str:
        return self.template.group


class Metrics(dict[str, float]):
    """Figures by name; those of a topic, a partition or a node with its name before a dot."""

    def __init__(self, client_id: str, now_ms: int) -> None:
        super().__init__()
        self.entries: list[Metric] = []
        """All figures, with groups and tags."""
        self._client_id = client_id
        self._now_ms = now_ms

    def read(
        self, table: Iterable[MetricTemplate], counted: Any, of: str = "", **tags: str
    ) -> None:
        """Add what a table reads of `counted`; `of` is the name before the dot."""
        prefix = f"{of}." if of else ""
        labels = {"client-id": self._client_id}
        labels.update((name.replace("_", "-"), value) for name, value in tags.items())
        for template in table:
            value = template.read(counted, self._now_ms)
            if value is not None:
                self[prefix + template.name] = value
                self.entries.append(Metric(template, labels, value))
