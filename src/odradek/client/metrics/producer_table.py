"""The metrics of a producer: a row for each, and how all are read."""

from __future__ import annotations

from odradek.client.metrics.metric import Metrics
from odradek.client.metrics.network_table import (
    network_templates,
    new_metrics,
    node_templates,
    read_network,
)
from odradek.client.metrics.templates import Templates
from odradek.client.producer.metrics import RATIO_UNITS
from odradek.client.producer.producer_core import ProducerCore

NETWORK = network_templates("producer-metrics")
NODE = node_templates("producer-node-metrics")

_rows = Templates("producer-metrics")
_rows.meter(
    "record-send",
    "records",
    "Records sent to a broker, without retries",
    lambda p: p.metrics.all_topics.record_send,
)
_rows.meter(
    "record-retry",
    "records",
    "Records whose batch failed and will be sent again",
    lambda p: p.metrics.all_topics.record_retry,
)
_rows.meter(
    "record-error",
    "records",
    "Records that were not acknowledged, for good",
    lambda p: p.metrics.all_topics.record_error,
)
_rows.counter(
    "record-expired-total",
    "records",
    "Records of `record-error-total` that were not acknowledged within `delivery.timeout.ms`.",
    lambda p, now_ms: p.metrics.record_expired_total,
    in_kafka=False,
)
_rows.counter(
    "byte-total",
    "bytes",
    "Bytes of the batches sent, after compression; Kafka has it per topic only.",
    lambda p, now_ms: p.metrics.all_topics.byte.total,
    in_kafka=False,
)
_rows.spread("batch-size", "bytes", "Size of a batch as it is sent", lambda p: p.metrics.batch_size)
_rows.counts(
    "batch-split",
    "batches",
    "Batches that a broker found too large and that were split",
    lambda p: p.metrics.batch_split,
)
_rows.spread(
    "record-size",
    "bytes",
    "Size of the largest record of a batch, before compression",
    lambda p: p.metrics.record_size,
)
_rows.average(
    "compression-rate-avg",
    "ratio",
    "Size of a batch by its size before compression",
    lambda p: p.metrics.all_topics.compression,
    scale=float(RATIO_UNITS),
)
_rows.average(
    "records-per-request-avg",
    "records",
    "Records in a Produce request",
    lambda p: p.metrics.records_per_request,
)
_rows.maximum(
    "records-per-request-max",
    "records",
    "Records in a Produce request",
    lambda p: p.metrics.records_per_request,
    in_kafka=False,
)
_rows.spread(
    "record-queue-time",
    "ms",
    "From the first record of a batch until the batch is sent",
    lambda p: p.metrics.record_queue_time,
)
_rows.spread(
    "request-latency",
    "ms",
    "From sending a Produce request to its response",
    lambda p: p.metrics.request_latency,
)
_rows.spread(
    "produce-throttle-time",
    "ms",
    "Time that a broker throttled a Produce request",
    lambda p: p.metrics.produce_throttle_time,
)
_rows.gauge(
    "requests-in-flight",
    "requests",
    "Requests that are not answered yet.",
    lambda p, now_ms: p.engine.client.in_flight.total,
)
_rows.gauge(
    "metadata-age",
    "s",
    "Time since the last metadata of the cluster arrived.",
    lambda p, now_ms: p.engine.metadata.age_ms(now_ms) / 1000,
)
_rows.gauge(
    "buffer-total-bytes",
    "bytes",
    "`buffer.memory`.",
    lambda p, now_ms: p.accumulator.pool.total_bytes,
)
_rows.gauge(
    "buffer-available-bytes",
    "bytes",
    "The part of it that no record occupies.",
    lambda p, now_ms: p.accumulator.pool.unallocated_bytes,
)
_rows.counts(
    "buffer-exhausted",
    "records",
    "Records refused because there was no room for them, at once or within `max.block.ms`",
    lambda p: p.accumulator.pool.exhausted,
)
_rows.ratio(
    "bufferpool-wait-ratio",
    "Part of the time that sends waited for room; more than 1 if several waited at once.",
    lambda p: p.metrics.bufferpool_wait,
)
_rows.nanoseconds(
    "bufferpool-wait-time-ns-total",
    "Time that sends waited for room; measured in ms.",
    lambda p: p.metrics.bufferpool_wait,
)
_rows.gauge(
    "waiting-threads",
    "sends",
    "Sends that wait for room, or for the metadata of their topic.",
    lambda p, now_ms: len(p.pending),
)
_rows.nanoseconds(
    "metadata-wait-time-ns-total",
    "Time that sends and `partitions_for` waited for metadata; measured in ms.",
    lambda p: p.metrics.metadata_wait,
)
_rows.nanoseconds(
    "flush-time-ns-total",
    "Time that `flush` and `close` waited for records to be sent; measured in ms.",
    lambda p: p.metrics.flush_time,
)
_rows.nanoseconds(
    "txn-init-time-ns-total",
    "Time that `init_transactions` took; measured in ms, as are the next four.",
    lambda p: p.metrics.txn_init_time,
)
_rows.nanoseconds(
    "txn-begin-time-ns-total",
    "Time that `begin_transaction` took: it waits for an abort under way.",
    lambda p: p.metrics.txn_begin_time,
)
_rows.nanoseconds(
    "txn-send-offsets-time-ns-total",
    "Time that `send_offsets_to_transaction` and `tx.commit_offsets` took.",
    lambda p: p.metrics.txn_send_offsets_time,
)
_rows.nanoseconds(
    "txn-commit-time-ns-total",
    "Time that `commit_transaction`, or leaving a transaction, took.",
    lambda p: p.metrics.txn_commit_time,
)
_rows.nanoseconds(
    "txn-abort-time-ns-total",
    "Time that `abort_transaction`, or leaving a transaction by an exception, took.",
    lambda p: p.metrics.txn_abort_time,
)
_rows.gauge(
    "records-in-queue",
    "records",
    "Records without an outcome.",
    lambda p, now_ms: p.accumulator.incomplete_records,
    in_kafka=False,
)
PRODUCER = _rows.rows

_topic = Templates("producer-topic-metrics", "topic")
_topic.meter("record-send", "records", "Records sent, without retries", lambda t: t.record_send)
_topic.meter("byte", "bytes", "Bytes of the batches sent, after compression", lambda t: t.byte)
_topic.average(
    "compression-rate",
    "ratio",
    "Size of a batch by its size before compression",
    lambda t: t.compression,
    scale=float(RATIO_UNITS),
)
_topic.meter("record-retry", "records", "Records to be sent again", lambda t: t.record_retry)
_topic.meter("record-error", "records", "Records not acknowledged", lambda t: t.record_error)
TOPIC = _topic.rows


def producer_metrics(core: ProducerCore) -> Metrics:
    """Return the metrics of a producer. Any thread."""
    metrics = new_metrics(core.engine)
    metrics.read(PRODUCER, core)
    read_network(metrics, core.engine, NETWORK, NODE)
    for name, counted in list(core.metrics.topics.items()):
        metrics.read(TOPIC, counted, name, topic=name)
    return metrics
