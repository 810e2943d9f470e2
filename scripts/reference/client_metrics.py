"""The page of the clients' metrics, rendered from the tables of `odradek.client.metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.client.metrics import consumer_table, network_table, producer_table
from odradek.client.metrics.metric import MetricTemplate
from odradek.prometheus import family_name
from scripts.reference.python_source import table_cell

Table = Sequence[MetricTemplate]

TABLES: dict[str, tuple[str, tuple[Table, ...]]] = {
    "Producer": ("", (producer_table.PRODUCER, producer_table.NETWORK)),
    "Producer, per topic": ("orders.", (producer_table.TOPIC,)),
    "Producer, per node": ("node-1.", (producer_table.NODE,)),
    "Consumer": (
        "",
        (
            consumer_table.FETCH,
            consumer_table.CLIENT,
            consumer_table.COORDINATOR,
            consumer_table.NETWORK,
        ),
    ),
    "Consumer, as a member of a group": ("", (consumer_table.GROUP,)),
    "Consumer, per topic": ("orders.", (consumer_table.TOPIC,)),
    "Consumer, per partition": ("orders-0.", (consumer_table.PARTITION,)),
    "Consumer, per node": ("node-1.", (consumer_table.NODE,)),
    "Admin": ("", (network_table.ADMIN,)),
    "Admin, per node": ("node-1.", (network_table.ADMIN_NODE,)),
}
"""Heading, what stands before the name, and the rows."""

LEFT_OUT: dict[str, tuple[tuple[str, ...], str]] = {
    "Authentication": (
        (
            "failed-authentication-",
            "failed-reauthentication-",
            "reauthentication-latency-",
            "successful-authentication-",
            "successful-reauthentication-",
        ),
        "connections have no security protocol.",
    ),
    "Prepared transactions": (
        ("txn-prepare-time-ns-total",),
        "Kafka 4.3 cannot keep them (KIP-939), and no client has a method for it.",
    ),
    "The network thread": (
        ("io-", "select-"),
        "they need two more readings of the clock for each wake-up of the engine; in asyncio the "
        "loop does the waiting, for other tasks too.",
    ),
    "Time between polls": (
        ("time-between-poll-",),
        "a poll that finds a record reads no clock. `last-poll-seconds-ago` and "
        "`poll-idle-ratio-avg` show a slow application.",
    ),
    "The preferred replica": (
        ("preferred-read-replica",),
        "the consumer reads from leaders only.",
    ),
    "Queues between Java's threads": (
        (
            "application-event-",
            "background-event-",
            "application-events-",
            "time-between-network-thread-poll-",
            "unsent-requests-queue-",
        ),
        "Kafka has them for `group.protocol=consumer`, whose consumer is built of two threads.",
    ),
    "Information about the program": (
        ("commit-id", "start-time-ms", "version", "count"),
        "they are no measurements: see `odradek.__version__`, and `len(metrics())`.",
    ),
}
"""Kafka's metrics that these clients do not have: beginnings of their names, and why."""

INTRODUCTION = """\
# Metrics of clients

<!-- Rendered from the code: `make reference` writes this page again. -->

`metrics()` of a producer, consumer or admin client returns a dictionary of numbers, by the names of
Kafka's own clients. The numbers of a topic, a partition or a node have its name before a dot. It
may be called on any thread and does not wait for the client.

```python
producer.metrics()["record-send-total"]
producer.metrics()["orders.record-send-total"]
consumer.metrics()["orders-0.records-lag"]
for metric in consumer.metrics().entries:  # with Kafka's groups and tags
    print(metric.group, metric.name, metric.tags, metric.value)
```

Totals count since the client was made. Rates, averages, maxima and minima are of the last 30 to 60
seconds, as with Kafka's defaults; without values they are 0, where Java's clients say NaN. A node
is called as in Kafka: `node-1` is broker 1, `node--1` a bootstrap server, and `node-2147483646` the
connection of its own that a group's coordinator gets, here broker 1. A node that left the cluster
is only part of the client's totals, and a topic that a producer has not used for
`metadata.max.idle.ms` is only part of the producer's.

Nothing is counted per record: all numbers are added to by batch, request or wait.

`odradek.prometheus.PrometheusCollector` shows them to Prometheus: see [below](#prometheus). Rows
with a star are Odradek's own.
"""
PROMETHEUS = """\
## Prometheus

```python
from prometheus_client import start_http_server
from odradek.prometheus import PrometheusCollector

collector = PrometheusCollector(producer, consumer)  # in prometheus_client's default registry
start_http_server(8000)
collector.add(another_consumer)
```

It needs `pip install 'odradek[prometheus]'`. Each scrape reads the clients that are open at that
moment; the collector does not keep them alive, and a client that is closed is no longer shown. The
label `client_id` is the setting; of several clients with one id, the second is `id-2` and so on.
Further labels are `topic`, `partition` and `node_id`. Counters and gauges have the names in the
tables above, in seconds and bytes. Rates have none: use Prometheus' `rate()` on the totals.
"""
OTHERS = """\
## Kafka's metrics that are not here
"""


def page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for heading, (before, tables) in TABLES.items():
        yield f"## {heading}\n"
        groups = dict.fromkeys(template.group for table in tables for template in table)
        shown = ", ".join(f"`{group}`" for group in groups)
        yield f"Kafka's group{'s' if len(groups) > 1 else ''} {shown}.\n"
        yield "| name | unit | meaning | in Prometheus |"
        yield "|---|---|---|---|"
        for table in tables:
            for template in table:
                own = "" if template.in_kafka else " \\*"
                family = family_name(template)
                in_prometheus = f"`{family}`" if family else ""
                text = table_cell(template.description)
                name = f"`{before}{template.name}`{own}"
                yield f"| {name} | {template.unit} | {text} | {in_prometheus} |"
        yield ""
    yield PROMETHEUS
    yield OTHERS
    for subject, (beginnings, reason) in LEFT_OUT.items():
        names = ", ".join(
            f"`{each}…`" if each.endswith("-") else f"`{each}`" for each in beginnings
        )
        yield f"- {subject} ({names}): {reason}"
    yield ""
