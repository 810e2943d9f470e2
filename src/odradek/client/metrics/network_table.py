"""The metrics of connections, which producers, consumers and admin clients all have."""

from __future__ import annotations

from odradek.client.engine import Engine
from odradek.client.metrics.metric import Metrics, MetricTemplate
from odradek.client.metrics.templates import Templates
from odradek.network_client.network_client import COORDINATOR_BASE, is_coordinator

INT_MAX = 2**31 - 1


def network_templates(group: str) -> list[MetricTemplate]:
    """Return the rows of one kind of client, about all its connections."""
    rows = Templates(group)
    rows.counts(
        "connection-creation", "connections", "Connections opened", lambda n: n.connections_created
    )
    rows.counts(
        "connection-close", "connections", "Connections closed", lambda n: n.connections_closed
    )
    rows.gauge(
        "connection-count",
        "connections",
        "Connections that are open.",
        lambda n, now_ms: n.connection_count,
    )
    rows.rate(
        "network-io-rate", "1/s", "Reads and writes, per second.", lambda n, now: n.io_rate(now)
    )
    rows.counter("network-io-total", "", "Reads and writes.", lambda n, now_ms: n.io_count)
    add_traffic(rows)
    return rows.rows


def node_templates(group: str) -> list[MetricTemplate]:
    """Return the rows of one kind of client, about one node."""
    rows = Templates(group, "node-id")
    add_traffic(rows)
    rows.spread(
        "request-latency",
        "ms",
        "From sending a Produce or Fetch request to its response",
        lambda n: n.request_latency,
    )
    return rows.rows


def add_traffic(rows: Templates) -> None:
    """Add the rows that nodes and the whole client share."""
    rows.meter("incoming-byte", "bytes", "Bytes received", lambda n: n.incoming)
    rows.meter("outgoing-byte", "bytes", "Bytes sent", lambda n: n.outgoing)
    rows.counts("request", "requests", "Requests sent", lambda n: n.requests)
    rows.spread("request-size", "bytes", "Size of a request", lambda n: n.requests)
    rows.counts("response", "responses", "Responses received", lambda n: n.responses)


def node_name(node_id: int) -> str:
    """Return Kafka's name of a connection: `node-1`; `node--1` of a bootstrap server; of a
    coordinator's own connection, `node-2147483646` for broker 1."""
    if is_coordinator(node_id):
        return f"node-{INT_MAX - (node_id - COORDINATOR_BASE)}"
    return f"node-{node_id}"


ADMIN = network_templates("admin-client-metrics")
ADMIN_NODE = node_templates("admin-client-node-metrics")


def new_metrics(engine: Engine) -> Metrics:
    """Return a client's metrics, with nothing read yet."""
    return Metrics(engine.config.client_id, engine.env.clock.monotonic_ms())


def read_network(
    metrics: Metrics,
    engine: Engine,
    whole: list[MetricTemplate],
    node: list[MetricTemplate],
) -> None:
    """Add the metrics of all connections together, and of each node."""
    metrics.read(whole, engine.client.metrics)
    for node_id, counted in engine.client.metrics_by_node.items():
        name = node_name(node_id)
        metrics.read(node, counted, name, node_id=name)


def admin_metrics(engine: Engine) -> Metrics:
    """Return the metrics of an admin client. Any thread."""
    metrics = new_metrics(engine)
    read_network(metrics, engine, ADMIN, ADMIN_NODE)
    return metrics
