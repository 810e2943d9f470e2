"""The page of the metrics: every row of the broker's table."""

from __future__ import annotations

from odradek.broker.metrics.kafka_names import NOT_SERVED
from odradek.broker.metrics.metric import SIZES, TIMES, Metric, View
from odradek.broker.metrics.scrape import GROUPS_SHOWN, TOPICS_SHOWN
from odradek.broker.metrics.table import METRICS

HEAD = f"""# Metrics

<!-- Rendered from the code: `make reference` writes this page again. -->

`odradek up` serves the metrics of the broker over HTTP as Prometheus text: on `/metrics` those of
the broker, its topics and groups, on `/metrics/partitions` those of single partitions. The second
page is long on a large broker: scrape it less often, or not at all.

```yaml
scrape_configs:
  - job_name: odradek
    static_configs: [{{targets: ["127.0.0.1:9404"]}}]
  - job_name: odradek-partitions
    metrics_path: /metrics/partitions
    scrape_interval: 1m
    static_configs: [{{targets: ["127.0.0.1:9404"]}}]
```

A Grafana board and Prometheus alerts are in [docs/metrics](../metrics): import
`odradek-board.json`, and list `odradek-alerts.yml` under `rule_files`.

Counters begin at 0 with the process; a sum over topics keeps what deleted topics counted. The first
{TOPICS_SHOWN:,} topics and {GROUPS_SHOWN:,} groups have series of their own on `/metrics`; sums
include the others. A series of an API appears with its first request. Histograms have the bounds
{2**TIMES.first / 1e3:.0f} µs to {2**TIMES.last / 1e9:.0f} s, each twice the one before, or
{2**SIZES.first} bytes to {2**SIZES.last >> 20} MiB, each four times the one before. The broker
counts with a single thread, so a value is exact when it is read; the values of one scrape may be
some milliseconds apart.
"""

KAFKA = """
## Kafka's names

Beside its own, the broker serves the metrics that boards and alerts for Kafka query: by the names
that the Prometheus JMX exporter makes with Strimzi's rules, and by those of kafka_exporter
(Grafana's board 7589, which needs `/metrics/partitions` too). A topic's sample has its name, the
one without `topic` is the sum of all.
"""

NOT_HERE = """
## What boards for Kafka query and Odradek does not have

| metric | why |
|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    kafka = [metric for metric in METRICS if metric.name.startswith("kafka_")]
    own = [metric for metric in METRICS if metric not in kafka]
    return (
        HEAD
        + section("The broker: `/metrics`", own, View.BROKER)
        + section("Partitions: `/metrics/partitions`", own, View.PARTITIONS)
        + KAFKA
        + section("On `/metrics`", kafka, View.BROKER, level=3)
        + section("On `/metrics/partitions`", kafka, View.PARTITIONS, level=3)
        + NOT_HERE
        + "".join(f"| `{name}` | {reason} |\n" for name, reason in sorted(NOT_SERVED.items()))
    )


def section(title: str, metrics: list[Metric], view: View, level: int = 2) -> str:
    """A table of the metrics of a view."""
    lines = [
        f"| `{metric.name}` | {metric.kind} | {metric.unit} "
        f"| {', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |\n"
        for metric in metrics
        if metric.view is view
    ]
    head = (
        f"\n{'#' * level} {title}\n\n| metric | kind | unit | labels | |\n|---|---|---|---|---|\n"
    )
    return head + "".join(lines)
