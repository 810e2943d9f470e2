"""Makes the rows of the tables of metrics: what is read of one `SampledStat` under Kafka's names.

meter("record-send", ...)    record-send-rate, record-send-total       the sum of the values
counts("request", ...)       request-rate, request-total               the number of values
spread("batch-size", ...)    batch-size-avg, batch-size-max
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.metrics.metric import MetricTemplate, MetricType, Read
from odradek.model.sampled_stat import SampledStat

StatOf = Callable[[Any], SampledStat]

NS_PER_MS = 1_000_000
SECONDS_PER_HOUR = 3600


class Templates:
    """The rows of one group with the same tags."""

    def __init__(self, group: str, *tags: str) -> None:
        self.rows: list[MetricTemplate] = []
        self._group = group
        self._tags = tags

    def _add(
        self,
        name: str,
        kind: MetricType,
        unit: str,
        description: str,
        read: Read,
        in_kafka: bool = True,
    ) -> None:
        self.rows.append(
            MetricTemplate(
                name, self._group, self._tags, kind, unit, description, read, in_kafka=in_kafka
            )
        )

    def gauge(
        self, name: str, unit: str, description: str, read: Read, *, in_kafka: bool = True
    ) -> None:
        """Add a value of the moment."""
        self._add(name, MetricType.GAUGE, unit, description, read, in_kafka)

    def rate(self, name: str, unit: str, description: str, read: Read) -> None:
        """Add a value per second, of a counter that has a row of its own."""
        self._add(name, MetricType.RATE, unit, description, read)

    def counter(
        self, name: str, unit: str, description: str, read: Read, *, in_kafka: bool = True
    ) -> None:
        """Add a value that only grows."""
        self._add(name, MetricType.COUNTER, unit, description, read, in_kafka)

    def meter(self, name: str, unit: str, description: str, stat: StatOf) -> None:
        """Add rate and total of the recorded values."""
        self._add(
            f"{name}-rate",
            MetricType.RATE,
            f"{unit}/s",
            f"{description}, per second.",
            lambda counted, now_ms: stat(counted).rate(now_ms),
        )
        self.counter(
            f"{name}-total",
            unit,
            f"{description}.",
            lambda counted, now_ms: float(stat(counted).total),
        )

    def counts(self, name: str, unit: str, description: str, stat: StatOf) -> None:
        """Add rate and total of the number of recorded values."""
        self._add(
            f"{name}-rate",
            MetricType.RATE,
            f"{unit}/s",
            f"{description}, per second.",
            lambda counted, now_ms: stat(counted).count_rate(now_ms),
        )
        self.counter(
            f"{name}-total",
            unit,
            f"{description}.",
            lambda counted, now_ms: float(stat(counted).count),
        )

    def hourly_counts(self, name: str, unit: str, description: str, stat: StatOf) -> None:
        """Add the rate per hour and the total of the number of recorded values."""
        self._add(
            f"{name}-rate-per-hour",
            MetricType.RATE,
            f"{unit}/h",
            f"{description}, per hour.",
            lambda counted, now_ms: stat(counted).count_rate(now_ms) * SECONDS_PER_HOUR,
        )
        self.counter(
            f"{name}-total",
            unit,
            f"{description}.",
            lambda counted, now_ms: float(stat(counted).count),
        )

    def average(
        self,
        name: str,
        unit: str,
        description: str,
        stat: StatOf,
        *,
        scale: float = 1.0,
        in_kafka: bool = True,
    ) -> None:
        """Add the average; `scale` is what 1 stands for among the recorded values."""
        self.gauge(
            name,
            unit,
            f"{description}: average.",
            lambda counted, now_ms: stat(counted).average(now_ms) / scale,
            in_kafka=in_kafka,
        )

    def maximum(
        self, name: str, unit: str, description: str, stat: StatOf, *, in_kafka: bool = True
    ) -> None:
        """Add the maximum."""
        self.gauge(
            name,
            unit,
            f"{description}: maximum.",
            lambda counted, now_ms: stat(counted).maximum(now_ms),
            in_kafka=in_kafka,
        )

    def spread(self, name: str, unit: str, description: str, stat: StatOf) -> None:
        """Add average and maximum."""
        self.average(f"{name}-avg", unit, description, stat)
        self.maximum(f"{name}-max", unit, description, stat)

    def nanoseconds(self, name: str, description: str, stat: StatOf) -> None:
        """Add the total of times that are recorded in ms, as Kafka gives it."""
        self.counter(
            name, "ns", description, lambda counted, now_ms: float(stat(counted).total * NS_PER_MS)
        )

    def ratio(self, name: str, description: str, stat: StatOf) -> None:
        """Add the part of the time that recorded times in ms took."""
        self.gauge(
            name, "ratio", description, lambda counted, now_ms: stat(counted).rate(now_ms) / 1000
        )
