"""ProducerBatch: records for one partition, on their way from the first append to the last word.

    OPEN ──seal──► SEALED ──► in flight ──┬─► SUCCEEDED
      │               ▲           │       ├─► FAILED
      │               └─ retried ─┘       └─► split: smaller batches go on
      └── abort, expiry: FAILED without being sent

Open, it writes records into a pooled buffer, through a `RecordBatchBuilder`. Sealed, it is bytes
that never change; a retry sends the same bytes. Only when the producer's epoch was bumped does it
get a new header, with the new epoch and sequence.

It is done exactly once, whoever is first: a response, expiry, or abort. What comes later about it
is ignored. Being done and being in flight are independent of each other: a batch may expire, and
its callbacks run, while a request still carries it.

`ordinal` is what order means when batches of a partition come back to be sent again, whatever has
become of their sequence numbers.

Splitting a batch that the broker found too large (KIP-126).

Its records are read back from the bytes that were sent and written into batches of at most half the
size, before compression; a record that is larger than that stands alone. So every split makes
progress, however the broker's limit and `batch.size` relate, and ends at the latest with batches of
one record each. The parts are sealed, and live on the memory of the batch they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.buffer_pool import Buffer, BufferPool
from odradek.client.producer.futures import Delivery, ProduceRequestResult, run_callback
from odradek.model.topics import TopicPartition
from odradek.protocol.record_batch import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RecordBatchHeader,
    records_of,
    with_producer_state,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.records import encode_headers, size_upper_bound

DeliveryCallback = Callable[[KafkaError | None, Delivery], object]

BatchCallback = tuple[int, int, DeliveryCallback]
"""Index and timestamp of a record, and whom to tell."""

SEQUENCE_MASK: Final = 0x7FFFFFFF
ORDINAL_STEP: Final[i64] = 1 << 32
"""Parts of a batch stand between it and the next one."""
NO_LEADER_EPOCH: Final = -1


@final
class ProducerBatch:
    """One batch. `limit` is how large it may become, header included and before compression.

    `buffer` is where the builder writes, if that is the pool's. `ordinal` is its place among the
    batches of the partition, in steps of `ORDINAL_STEP`.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        result: ProduceRequestResult,
        builder: RecordBatchBuilder,
        buffer: Buffer | None,
        limit: i64,
        created_ms: i64,
        ordinal: i64,
    ) -> None:
        self.topic_partition = topic_partition
        self.result = result
        self.ordinal = ordinal
        self.created_ms = created_ms
        self.last_attempt_ms = created_ms
        self.drained_ms = created_ms
        self.backoff_ms: i64 = 0
        """How long it waits after the last attempt."""
        self.attempts: i64 = 0
        """How often it came back to be sent again."""
        self.limit = limit
        self.charged: i64 = limit if buffer is not None else 0
        """Bytes of the pool that are held for it."""
        self.data = b""
        """The whole batch, once sealed."""
        self.count: i64 = 0
        self.size: i64 = HEADER_BYTES
        """Bytes, before compression; once sealed, of what is sent."""
        self.uncompressed_bytes: i64 = 0
        """Once sealed."""
        self.producer_id: i64 = NO_PRODUCER_ID
        self.producer_epoch: i64 = NO_PRODUCER_EPOCH
        self.base_sequence: i64 = NO_SEQUENCE
        self.drain_index: i64 = 0
        """How many batches of the partition got a sequence number before it."""
        self.in_flight = False
        """A request carries it."""
        self.may_be_written = False
        """It was sent, and no answer tells that it is not written."""
        self.may_arrive = False
        """A request that carried it got no answer, and may be carried out at any time."""
        self.is_unwritten = False
        """It is not written and never will be, under the sequence that it has."""
        self.done = False
        self.leader_epoch: i64 = NO_LEADER_EPOCH
        """Of the newest leader that was known while it was waiting."""
        self.attempts_when_leader_changed: i64 = 0
        self.max_record_bytes: i64 = 0
        self.last_error = ""
        """What the last attempt failed with."""
        self._buffer = buffer
        self._builder: RecordBatchBuilder | None = builder
        self._callbacks: list[BatchCallback] = []

    # Open.

    def try_append(
        self,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        encoded_headers: bytes,
    ) -> i64:
        """Add a record if there is room for it (for the first one there is): its index, or -1."""
        builder = self._builder
        assert builder is not None
        index: i64 = self.count
        before: i64 = self.size
        if index > 0 and before + size_upper_bound(key, value, encoded_headers) > self.limit:
            return -1
        after: i64 = builder.append_raw(key, value, encoded_headers, timestamp_ms)
        self.size = after
        if after - before > self.max_record_bytes:
            self.max_record_bytes = after - before
        self.count = index + 1
        return index

    def on_delivery(self, index: i64, timestamp_ms: i64, callback: DeliveryCallback) -> None:
        """Call it when the outcome of the record just appended is known."""
        self._callbacks.append((index, timestamp_ms, callback))

    @property
    def is_full(self) -> bool:
        """Not even the smallest record goes in."""
        return self.size >= self.limit

    @property
    def is_sealed(self) -> bool:
        return self._builder is None

    # Sealed.

    def seal(self, pool: BufferPool | None) -> None:
        """No more records: the bytes are final, and the buffer goes back."""
        builder, buffer = self._builder, self._buffer
        assert builder is not None
        builder.producer_id = self.producer_id
        builder.producer_epoch = self.producer_epoch
        builder.base_sequence = self.base_sequence
        self.data = builder.build()
        self.uncompressed_bytes = self.size
        self.size = len(self.data)
        self._builder = self._buffer = None
        if buffer is not None and pool is not None:
            self.charged = pool.keep(buffer, self.size)

    def release(self, pool: BufferPool) -> None:
        """It is done and nothing carries it: all its memory goes back."""
        buffer, charged = self._buffer, self.charged
        self._builder = self._buffer = None
        self.charged = 0
        self.data = b""
        if buffer is not None:
            charged = pool.keep(buffer, charged)
        pool.deallocate(charged)

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def set_producer_state(self, producer_id: i64, epoch: i64, base_sequence: i64) -> None:
        """Its place among all that the producer sends to the partition; another one after the epoch
        was bumped."""
        self.may_be_written = self.may_arrive = self.is_unwritten = False
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = base_sequence
        if self.is_sealed:
            self.data = with_producer_state(self.data, producer_id, epoch, base_sequence)

    @property
    def in_doubt(self) -> bool:
        """Whether it may be written, or come to be, without having been acknowledged."""
        return not self.is_unwritten and (self.may_be_written or self.in_flight)

    def response_lost(self) -> None:
        """The request that carried it will get none."""
        self.may_be_written = self.may_arrive = True

    def reenqueued(self, now_ms: i64, backoff_ms: i64) -> None:
        """It failed and will be sent again."""
        self.attempts += 1
        self.backoff_ms = backoff_ms
        self.last_attempt_ms = now_ms
        self.in_flight = False

    @property
    def in_retry(self) -> bool:
        return self.attempts > 0

    def maybe_update_leader_epoch(self, leader_epoch: i64) -> None:
        """Take note of the leader that is known now (KIP-951)."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.attempts_when_leader_changed = self.attempts

    @property
    def leader_changed_for_this_retry(self) -> bool:
        """Whether another leader than the one that failed is known: no need to back off."""
        return self.attempts > 0 and self.attempts == self.attempts_when_leader_changed

    def backoff_left_ms(self, now_ms: i64) -> i64:
        """How long it has to wait before it is sent again; not for a leader that is new."""
        if self.leader_changed_for_this_retry:
            return 0
        return self.last_attempt_ms + self.backoff_ms - now_ms

    def has_expired(self, delivery_timeout_ms: i64, now_ms: i64) -> bool:
        """Whether its records should have been acknowledged by now."""
        return now_ms - self.created_ms >= delivery_timeout_ms

    # The end.

    def complete(self, base_offset: i64, log_append_time_ms: i64) -> bool:
        """The records were written. False if the outcome was known already."""
        if self.done:
            return False
        self.result.complete(base_offset, log_append_time_ms)
        self._finish()
        return True

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None) -> bool:
        """They were not, or nobody knows. False if the outcome was known already."""
        if self.done:
            return False
        self.result.fail(error, record_errors)
        self._finish()
        return True

    def _finish(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for index, timestamp_ms, callback in callbacks:
            self._tell(index, timestamp_ms, callback)
        self.result.finish()

    def _tell(self, index: int, timestamp_ms: int, callback: DeliveryCallback) -> None:
        result = self.result
        error = result.error_of(index)
        delivery = result.delivery(index, timestamp_ms)
        run_callback(lambda: callback(error, delivery))

    def split_into(self, parts: list[ProducerBatch]) -> None:
        """These are sent instead, each with its share of the records, callbacks and memory."""
        first: i64 = 0
        results: list[tuple[int, ProduceRequestResult]] = []
        callbacks, self._callbacks = self._callbacks, []
        for part in parts:
            end = first + part.count
            part._callbacks = [(i - first, t, c) for i, t, c in callbacks if first <= i < end]
            part.charged = min(part.size, self.charged)
            self.charged -= part.charged
            results.append((first, part.result))
            first = end
        self.done = True
        self.result.split(results)


def split(big: ProducerBatch, codec: int, level: int | None) -> list[ProducerBatch]:
    """The parts, in order; neither callbacks nor memory are theirs yet."""
    limit: i64 = big.max_record_bytes + HEADER_BYTES
    half: i64 = big.uncompressed_bytes // 2
    if half > limit:
        limit = half
    parts: list[ProducerBatch] = []
    header = RecordBatchHeader(big.data, 0)
    for first, record in enumerate(records_of(big.data, header)):
        headers = encode_headers(record.headers)
        index: i64 = -1
        if parts:
            index = parts[-1].try_append(record.timestamp, record.key, record.value, headers)
        if index < 0:
            part = new_part(big, RecordBatchBuilder(codec, level=level), limit, first)
            part.try_append(record.timestamp, record.key, record.value, headers)
            parts.append(part)
    for part in parts:
        part.seal(None)
    return parts


def new_part(
    big: ProducerBatch, builder: RecordBatchBuilder, limit: i64, first: i64
) -> ProducerBatch:
    """An empty batch for the records of `big` from `first` on."""
    name, number = big.topic_partition
    result = ProduceRequestResult(name, number, big.result.wait_strategy, big.result.lock)
    part = ProducerBatch(
        big.topic_partition, result, builder, None, limit, big.created_ms, big.ordinal + first
    )
    part.leader_epoch = big.leader_epoch
    part.last_error = big.last_error
    part.may_be_written = big.in_doubt
    return part
