"""The metrics of a producer, by the names of Kafka's own producer.

Totals count from the start. Averages and maxima are of the last 30 to 60 seconds (`SampledStat`).
Times are in ms.

Values are recorded once per batch or request, never per record. Owner thread only; `snapshot` may
be taken on any thread, and is then as consistent as the moment allows.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.sampled_stat import SampledStat


@final
class ProducerMetrics:
    """The metrics of one producer."""

    def __init__(self) -> None:
        self.record_send_total = 0
        """Records sent to a broker; retries are not counted again."""
        self.record_retry_total = 0
        self.record_error_total = 0
        self.record_expired_total = 0
        self.batch_split_total = 0
        self.byte_total = 0
        """Bytes of the batches sent, after compression."""
        self.request_total = 0
        self.batch_size = SampledStat()
        self.records_per_request = SampledStat()
        self.record_queue_time = SampledStat()
        """From the creation of a batch until it is sent."""
        self.request_latency = SampledStat()
        self.produce_throttle_time = SampledStat()
        self.uncompressed_total = 0

    def batch_sent(self, batch: ProducerBatch, now_ms: i64) -> None:
        """Record a batch that is sent for the first time."""
        self.record_send_total += batch.count
        self.byte_total += batch.size
        self.uncompressed_total += batch.uncompressed_bytes
        self.batch_size.record(batch.size, now_ms)
        self.record_queue_time.record(now_ms - batch.created_ms, now_ms)

    def request_sent(self, batches: list[ProducerBatch], now_ms: i64) -> None:
        """Record the batches of one request."""
        records: i64 = 0
        for batch in batches:
            records += batch.count
        self.request_total += 1
        self.records_per_request.record(records, now_ms)

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """Return all metrics by Kafka's names."""
        ratio = self.byte_total / self.uncompressed_total if self.uncompressed_total else 1.0
        found: dict[str, float] = {
            "record-send-total": self.record_send_total,
            "record-retry-total": self.record_retry_total,
            "record-error-total": self.record_error_total,
            "record-expired-total": self.record_expired_total,
            "batch-split-total": self.batch_split_total,
            "byte-total": self.byte_total,
            "request-total": self.request_total,
            "compression-rate-avg": ratio,
        }
        for name, stat in (
            ("batch-size", self.batch_size),
            ("records-per-request", self.records_per_request),
            ("record-queue-time", self.record_queue_time),
            ("request-latency", self.request_latency),
            ("produce-throttle-time", self.produce_throttle_time),
        ):
            found[f"{name}-avg"] = stat.average(now_ms)
            found[f"{name}-max"] = stat.maximum(now_ms)
        return found
