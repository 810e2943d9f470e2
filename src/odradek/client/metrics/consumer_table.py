"""The metrics of a consumer: a row for each, and how all are read."""

from __future__ import annotations

from typing import cast

from odradek.client.consumer.consumer_core import ConsumerCore
from odradek.client.consumer.metrics import PartitionMetrics, seconds_ago
from odradek.client.consumer.position.subscription_state import PartitionState
from odradek.client.metrics.metric import Metrics
from odradek.client.metrics.network_table import (
    network_templates,
    new_metrics,
    node_templates,
    read_network,
)
from odradek.client.metrics.templates import StatOf, Templates

NETWORK = network_templates("consumer-metrics")
NODE = node_templates("consumer-node-metrics")


def window_lag(state: PartitionState, now_ms: int) -> float | None:
    """Return the largest lag of the window and of this moment."""
    lag = state.position.lag
    return None if lag is None else max(float(lag), state.position.metrics.lag.maximum(now_ms))


def window_lead(state: PartitionState, now_ms: int) -> float | None:
    """Return the smallest lead of the window and of this moment."""
    lead = state.position.lead
    if lead is None:
        return None
    counted: PartitionMetrics = state.position.metrics
    recorded = counted.lead
    return min(float(lead), recorded.minimum(now_ms)) if recorded.has_values(now_ms) else lead


def largest_lag(core: ConsumerCore, now_ms: int) -> float:
    """Return the largest lag of all assigned partitions; 0 while none is known."""
    lags = [window_lag(state, now_ms) for state in core.subscriptions.states]
    return max((lag for lag in lags if lag is not None), default=0.0)


def smallest_lead(core: ConsumerCore, now_ms: int) -> float | None:
    """Return the smallest lead of all assigned partitions; None while none is known."""
    leads = [window_lead(state, now_ms) for state in core.subscriptions.states]
    return min((lead for lead in leads if lead is not None), default=None)


def listener_calls(event: str) -> StatOf:
    """Return how to read the times of the rebalance listener's calls for an event."""
    return lambda core: cast("ConsumerCore", core).calls.listener[event]


_rows = Templates("consumer-fetch-manager-metrics")
_rows.counts(
    "fetch", "requests", "Fetch requests answered", lambda c: c.fetch_metrics.fetch_latency
)
_rows.spread(
    "fetch-latency",
    "ms",
    "From sending a Fetch request to its response; brokers wait if there is nothing to read",
    lambda c: c.fetch_metrics.fetch_latency,
)
_rows.spread(
    "fetch-throttle-time",
    "ms",
    "Time that a broker throttled a Fetch request",
    lambda c: c.fetch_metrics.fetch_throttle_time,
)
_rows.meter(
    "records-consumed",
    "records",
    "Records that arrived for the application",
    lambda c: c.fetch_metrics.all_topics.records,
)
_rows.meter(
    "bytes-consumed",
    "bytes",
    "Size of their batches as received",
    lambda c: c.fetch_metrics.all_topics.size,
)
_rows.spread(
    "fetch-size",
    "bytes",
    "Size of the batches of a Fetch response",
    lambda c: c.fetch_metrics.all_topics.size,
)
_rows.average(
    "records-per-request-avg",
    "records",
    "Records of a Fetch response",
    lambda c: c.fetch_metrics.all_topics.records,
)
_rows.maximum(
    "records-per-request-max",
    "records",
    "Records of a Fetch response",
    lambda c: c.fetch_metrics.all_topics.records,
    in_kafka=False,
)
_rows.gauge(
    "records-lag-max",
    "records",
    "The largest `records-lag-max` of the assigned partitions.",
    largest_lag,
)
_rows.gauge(
    "records-lead-min",
    "records",
    "The smallest `records-lead-min` of the assigned partitions.",
    smallest_lead,
)
_rows.gauge(
    "buffered-bytes",
    "bytes",
    "Bytes fetched and not returned yet.",
    lambda c, now_ms: sum(state.buffered_bytes for state in c.subscriptions.states),
    in_kafka=False,
)
FETCH = _rows.rows

_topic = Templates("consumer-fetch-manager-metrics", "topic")
_topic.meter("records-consumed", "records", "Records that arrived", lambda t: t.records)
_topic.meter("bytes-consumed", "bytes", "Size of their batches as received", lambda t: t.size)
_topic.spread("fetch-size", "bytes", "Size of its batches in a Fetch response", lambda t: t.size)
_topic.average(
    "records-per-request-avg", "records", "Its records in a Fetch response", lambda t: t.records
)
TOPIC = _topic.rows

_partition = Templates("consumer-fetch-manager-metrics", "topic", "partition")
_partition.gauge(
    "records-lag",
    "records",
    "Offsets from the position of the application to the end of the partition, as of the last "
    "fetch; with `isolation.level=read_committed` to the last stable offset.",
    lambda state, now_ms: state.position.lag,
)
_partition.average(
    "records-lag-avg", "records", "The lag after polls", lambda state: state.position.metrics.lag
)
_partition.gauge("records-lag-max", "records", "The lag after polls, and now: maximum.", window_lag)
_partition.gauge(
    "records-lead",
    "records",
    "Offsets from the start of the partition to the position of the application; near 0, "
    "retention may delete records before they are read.",
    lambda state, now_ms: state.position.lead,
)
_partition.average(
    "records-lead-avg", "records", "The lead after polls", lambda state: state.position.metrics.lead
)
_partition.gauge(
    "records-lead-min", "records", "The lead after polls, and now: minimum.", window_lead
)
PARTITION = _partition.rows

_client = Templates("consumer-metrics")
_client.gauge(
    "requests-in-flight",
    "requests",
    "Requests that are not answered yet.",
    lambda c, now_ms: c.engine.client.in_flight.total,
    in_kafka=False,
)
_client.ratio(
    "poll-idle-ratio-avg",
    "Part of the time that polls waited for records; the rest is the application's.",
    lambda c: c.calls.poll_idle,
)
_client.nanoseconds(
    "commit-sync-time-ns-total",
    "Time that `commit` waited; measured in ms.",
    lambda c: c.calls.commit_sync,
)
_client.nanoseconds(
    "committed-time-ns-total",
    "Time that `committed` waited; measured in ms.",
    lambda c: c.calls.committed,
)
CLIENT = _client.rows

_coordinator = Templates("consumer-coordinator-metrics")
_coordinator.gauge(
    "assigned-partitions",
    "partitions",
    "Partitions that are assigned to this consumer.",
    lambda c, now_ms: len(c.subscriptions.states),
)
for _event in ("assigned", "revoked", "lost"):
    _coordinator.spread(
        f"partition-{_event}-latency",
        "ms",
        f"Time in a rebalance listener that is called for partitions that are {_event}",
        listener_calls(_event),
    )
COORDINATOR = _coordinator.rows

_poll = Templates("consumer-metrics")
_poll.gauge(
    "last-poll-seconds-ago",
    "s",
    "Time since the last poll; noticed up to a twentieth of `max.poll.interval.ms` late.",
    lambda group, now_ms: seconds_ago(group.last_poll_ms, now_ms),
)
_group = Templates("consumer-coordinator-metrics")
_group.counts("commit", "commits", "Commits confirmed", lambda group: group.metrics.commit_latency)
_group.spread(
    "commit-latency",
    "ms",
    "From the start of a commit, through all its attempts",
    lambda group: group.metrics.commit_latency,
)
_group.counter(
    "failed-commit-total",
    "commits",
    "Commits that ended without being confirmed.",
    lambda group, now_ms: group.metrics.failed_commits.count,
    in_kafka=False,
)
_group.counts("join", "joins", "JoinGroup requests that joined", lambda g: g.metrics.join_time)
_group.spread("join-time", "ms", "From JoinGroup to its response", lambda g: g.metrics.join_time)
_group.counts(
    "sync", "syncs", "SyncGroup requests with an assignment", lambda g: g.metrics.sync_time
)
_group.spread("sync-time", "ms", "From SyncGroup to its response", lambda g: g.metrics.sync_time)
_group.hourly_counts(
    "rebalance",
    "rebalances",
    "Rebalances that ended with an assignment",
    lambda g: g.metrics.rebalance_latency,
)
_group.hourly_counts(
    "failed-rebalance",
    "rebalances",
    "Attempts to join that ended without one",
    lambda g: g.metrics.failed_rebalances,
)
_group.spread(
    "rebalance-latency",
    "ms",
    "From the first JoinGroup of a rebalance, through all attempts",
    lambda g: g.metrics.rebalance_latency,
)
_group.counter(
    "rebalance-latency-total",
    "ms",
    "Time spent in rebalances that ended with an assignment.",
    lambda g, now_ms: g.metrics.rebalance_latency.total,
)
_group.gauge(
    "last-rebalance-seconds-ago",
    "s",
    "Time since the last rebalance ended; -1 if there was none.",
    lambda g, now_ms: seconds_ago(g.metrics.rebalanced_ms, now_ms),
)
_group.counts("heartbeat", "heartbeats", "Heartbeats sent", lambda g: g.metrics.heartbeats)
_group.average(
    "heartbeat-response-time-avg",
    "ms",
    "From a heartbeat to its response",
    lambda g: g.metrics.heartbeat_response_time,
    in_kafka=False,
)
_group.maximum(
    "heartbeat-response-time-max",
    "ms",
    "From a heartbeat to its response",
    lambda g: g.metrics.heartbeat_response_time,
)
_group.gauge(
    "last-heartbeat-seconds-ago",
    "s",
    "Time since the last heartbeat was sent; -1 if none was.",
    lambda g, now_ms: seconds_ago(g.metrics.heartbeat_sent_ms, now_ms),
)
GROUP = [*_poll.rows, *_group.rows]


def consumer_metrics(core: ConsumerCore) -> Metrics:
    """Return the metrics of a consumer. Any thread."""
    metrics = new_metrics(core.engine)
    for table in (FETCH, CLIENT, COORDINATOR):
        metrics.read(table, core)
    if core.group.metrics is not None:
        metrics.read(GROUP, core.group)
    read_network(metrics, core.engine, NETWORK, NODE)
    for name, counted in list(core.fetch_metrics.topics.items()):
        metrics.read(TOPIC, counted, name, topic=name)
    for state in core.subscriptions.states:
        topic, partition = state.topic_partition
        tags = {"topic": topic, "partition": str(partition)}
        metrics.read(PARTITION, state, str(state.topic_partition), **tags)
    return metrics
