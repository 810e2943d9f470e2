"""The page of the metrics: every row of the broker's table."""

from __future__ import annotations

from odradek.broker import leader_ends
from odradek.broker.metrics.kafka_names import NOT_SERVED
from odradek.broker.metrics.metric import SIZES, TIMES, Metric, MetricsPage
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

A Grafana board and Prometheus alerts are in [docs/metrics](../metrics), and in `share/odradek` of
the environment that pip installed into: import `odradek-board.json`, and list `odradek-alerts.yml`
under `rule_files`.

Counters begin at 0 with the process; a sum over topics keeps what deleted topics counted. The first
{TOPICS_SHOWN:,} topics and {GROUPS_SHOWN:,} groups have series of their own on `/metrics`; sums
include the others. A series of an API appears with its first request. Histograms have the bounds
{2**TIMES.first / 1e3:.0f} µs to {2**TIMES.last / 1e9:.0f} s, each twice the one before, or
{2**SIZES.first} bytes to {2**SIZES.last >> 20} MiB, each four times the one before. The broker
counts with a single thread, so a value is exact when it is read; the values of one scrape may be
some milliseconds apart.
"""

SEVERAL_NODES = f"""
## Several nodes

Scrape each node: a page has what its node counts and leads. Sums over the nodes are those of the
cluster: a record is counted by the leader that appended it, however many replicas it has. What
followers append and fetch is apart, in `odradek_replication_*`. Samples of a partition or a topic
by kafka_exporter's names, and in-sync replicas, are on the page of the leader alone (for a topic:
of its first partition), and if there is none, on that of the active controller.
`odradek_partition_*`, `kafka_log_log_*` and sizes of logs are of each replica.

The offsets and the lag of a consumer group (`kafka_consumergroup_*`) are on the page of the node
that coordinates it. That node asks the leaders of the group's partitions for their ends, every
{leader_ends.REFRESH_MS // 1000} seconds while somebody scrapes the lag at least every
{leader_ends.WANTED_MS // 1000} seconds, for at most {leader_ends.MOST_WANTED:,} partitions. So the
lag of a partition that another node leads may be some seconds old, and the first scrape does not
have it. Where the end is not known, because there is no leader or it does not answer for
{leader_ends.KNOWN_MS // 1000} seconds, `kafka_consumergroup_lag` has no sample of the partition and
`kafka_consumergroup_lag_sum` none of the topic: a sum over the others would be too low. Committed
offsets are always complete.
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
        + SEVERAL_NODES
        + section("The broker: `/metrics`", own, MetricsPage.BROKER)
        + section("Partitions: `/metrics/partitions`", own, MetricsPage.PARTITIONS)
        + KAFKA
        + section("On `/metrics`", kafka, MetricsPage.BROKER, level=3)
        + section("On `/metrics/partitions`", kafka, MetricsPage.PARTITIONS, level=3)
        + NOT_HERE
        + "".join(f"| `{name}` | {reason} |\n" for name, reason in sorted(NOT_SERVED.items()))
    )


def section(title: str, metrics: list[Metric], view: MetricsPage, level: int = 2) -> str:
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
