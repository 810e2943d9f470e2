"""What is counted for the metrics of a producer, for all topics together and for each.

    send, flush, partitions_for,                         │
    steps of transactions ─► times waited ───────────────┤
    Sender, BatchCompletion ─► batches and requests ─────┼─► ProducerMetrics, TopicMetrics
    `metrics()` ─► `producer_table`, which reads them ◄────┘

Everything is recorded once per batch, request or wait, never per record. Times are in ms. Owner
thread only, except for reading.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from odradek.client.producer.producer_batch import ProducerBatch
from odradek.model.sampled_stat import SampledStat

RATIO_UNITS: Final[i64] = 1_000_000
"""A compression ratio is recorded as a whole number of millionths."""


@final
class TopicMetrics:
    """What a producer sent to one topic."""

    def __init__(self) -> None:
        self.record_send = SampledStat()
        """Records by batch; retries are not counted again."""
        self.byte = SampledStat()
        """Bytes by batch, after compression."""
        self.compression = SampledStat()
        """Size by size before compression, in `RATIO_UNITS`."""
        self.record_retry = SampledStat()
        self.record_error = SampledStat()

    def batch_sent(self, batch: ProducerBatch, ratio: i64, now_ms: i64) -> None:
        """Record a batch that is sent for the first time."""
        self.record_send.record(batch.count, now_ms)
        self.byte.record(batch.size, now_ms)
        self.compression.record(ratio, now_ms)


@final
class ProducerMetrics:
    """What one producer sent, and how long its application waited."""

    def __init__(self) -> None:
        self.all_topics = TopicMetrics()
        self.topics: dict[str, TopicMetrics] = {}
        self.record_expired_total: i64 = 0
        self.batch_split = SampledStat()
        self.batch_size = SampledStat()
        self.record_size = SampledStat()
        """The largest record of each batch, before compression."""
        self.records_per_request = SampledStat()
        self.record_queue_time = SampledStat()
        """From the creation of a batch until it is sent."""
        self.request_latency = SampledStat()
        self.produce_throttle_time = SampledStat()
        self.bufferpool_wait = SampledStat()
        self.metadata_wait = SampledStat()
        self.flush_time = SampledStat()
        self.txn_init_time = SampledStat()
        self.txn_begin_time = SampledStat()
        self.txn_send_offsets_time = SampledStat()
        self.txn_commit_time = SampledStat()
        self.txn_abort_time = SampledStat()

    def topic(self, name: str) -> TopicMetrics:
        """Return the metrics of a topic, new if it has none."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicMetrics()
        return found

    def forget_topic(self, name: str) -> None:
        """Drop the metrics of a topic that the producer has not used for long."""
        self.topics.pop(name, None)

    def batch_sent(self, batch: ProducerBatch, now_ms: i64) -> None:
        """Record a batch that is sent for the first time."""
        plain = batch.uncompressed_bytes
        ratio: i64 = batch.size * RATIO_UNITS // plain if plain else RATIO_UNITS
        self.all_topics.batch_sent(batch, ratio, now_ms)
        self.topic(batch.topic_partition.topic).batch_sent(batch, ratio, now_ms)
        self.batch_size.record(batch.size, now_ms)
        self.record_size.record(batch.max_record_bytes, now_ms)
        self.record_queue_time.record(now_ms - batch.created_ms, now_ms)

    def request_sent(self, batches: list[ProducerBatch], now_ms: i64) -> None:
        """Record the batches of one request."""
        records: i64 = 0
        for batch in batches:
            records += batch.count
        self.records_per_request.record(records, now_ms)

    def batch_retried(self, batch: ProducerBatch, now_ms: i64) -> None:
        """Record a batch that will be sent again."""
        self.all_topics.record_retry.record(batch.count, now_ms)
        self.topic(batch.topic_partition.topic).record_retry.record(batch.count, now_ms)

    def batch_failed(self, batch: ProducerBatch, now_ms: i64) -> None:
        """Record a batch that was not acknowledged and is not sent again."""
        self.all_topics.record_error.record(batch.count, now_ms)
        self.topic(batch.topic_partition.topic).record_error.record(batch.count, now_ms)
