"""ProducerBatch: records for one partition, from the first append to the final outcome.

    OPEN ──seal──► SEALED ──► in flight ──┬─► SUCCEEDED
      │               ▲           │       ├─► FAILED
      │               └─ retried ─┘       └─► split: smaller batches go on
      └── abort, expiry: FAILED without being sent

An open batch writes records into a pooled buffer, through a `RecordBatchBuilder`. A sealed batch is
bytes that never change; a retry sends the same bytes. Only when the producer's epoch was bumped
does it get a new header, with the new epoch and sequence.

A batch is done exactly once, by whatever comes first: a response, expiry, or abort. Later outcomes
are ignored. Being done and being in flight are independent: a batch may expire, and its callbacks
run, while a request still carries it.

`ordinal` is the order of the batches of a partition when they are sent again, independent of their
sequence numbers.

`split` divides a batch that the broker found too large (KIP-126). The records are read back from
the sent bytes and written into batches of at most half the size, before compression; a record that
is larger stands alone. So every split makes progress, however the broker's limit and `batch.size`
relate, and ends at the latest with batches of one record each. The parts are sealed, and share the
memory charged for the batch they come from.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, final

from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.buffer_pool import Buffer, BufferPool
from odradek.client.producer.futures import Delivery, ProduceRequestResult
from odradek.client.producer.record_input import NO_SLICE, ColumnInput
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
from odradek.protocol.records import MAX_OVERHEAD_BYTES, encode_headers, size_upper_bound

log = logging.getLogger(__name__)

DeliveryCallback = Callable[[KafkaError | None, Delivery], object]

SEQUENCE_MASK: Final = 0x7FFFFFFF
ORDINAL_STEP: Final[i64] = 1 << 32
"""The parts of a split batch get the ordinals between it and the next batch."""
NO_LEADER_EPOCH: Final = -1
NO_NODE: Final = -1


@final
class CallbackRun:
    """Consecutive records of a batch with one callback, which is told the outcome of each.

    What each `Delivery` says besides the batch's is kept in one list of numbers: objects that live
    until the batch is acknowledged would be looked at by the garbage collector again and again.
    """

    def __init__(self, callback: DeliveryCallback, first: i64) -> None:
        self.callback = callback
        self.first = first
        """The index of the first record in the batch."""
        self.end = first
        self._numbers: list[int] = []

    def add(self, timestamp_ms: i64, key_size: i64, value_size: i64) -> None:
        """Add the next record."""
        numbers = self._numbers
        numbers.append(timestamp_ms)
        numbers.append(key_size)
        numbers.append(value_size)
        self.end += 1

    def run(self, result: ProduceRequestResult) -> None:
        """Tell the outcome that the batch has now. Exceptions of the callback are logged, because
        there is no caller to raise them to; so is SystemExit, which would end the sending thread
        rather than the process."""
        callback, numbers = self.callback, self._numbers
        at: i64 = 0
        index: i64 = self.first
        while index < self.end:
            error = result.error_of(index)
            delivery = result.delivery(index, numbers[at], numbers[at + 1], numbers[at + 2])
            index += 1
            at += 3
            try:
                callback(error, delivery)
            except (Exception, SystemExit):
                log.exception("a delivery callback raised")

    def cut(self, end: i64) -> CallbackRun:
        """Take out the records before index `end` of the batch, as a run of their own."""
        taken = CallbackRun(self.callback, self.first)
        count: i64 = min(end, self.end) - self.first
        taken.end = self.first + count
        taken._numbers = self._numbers[: 3 * count]
        del self._numbers[: 3 * count]
        self.first += count
        return taken

    @property
    def is_empty(self) -> bool:
        return self.first == self.end

    def move(self, records: i64) -> None:
        """Count the indexes from another record on."""
        self.first -= records
        self.end -= records


@final
class ProducerBatch:
    """One batch. `limit` is its maximum size, with header and before compression.

    `buffer` is the pool's buffer that the builder writes to, if any. `ordinal` is its place among
    the batches of the partition, in steps of `ORDINAL_STEP`.
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
        """The back-off after the last attempt."""
        self.attempts: i64 = 0
        """The number of retries so far."""
        self.limit = limit
        self.charged: i64 = limit if buffer is not None else 0
        """Bytes of the pool that are charged for it."""
        self.data = b""
        """The whole batch, once sealed."""
        self.count: i64 = 0
        self.size: i64 = HEADER_BYTES
        """Bytes before compression; once sealed, the bytes that are sent."""
        self.uncompressed_bytes: i64 = 0
        """Once sealed."""
        self.producer_id: i64 = NO_PRODUCER_ID
        self.producer_epoch: i64 = NO_PRODUCER_EPOCH
        self.base_sequence: i64 = NO_SEQUENCE
        self.drain_index: i64 = 0
        """The number of batches of the partition that got a sequence number before it."""
        self.in_flight = False
        """A request carries it."""
        self.node_id: i64 = NO_NODE
        """The node to which it was last drained."""
        self.may_be_written = False
        """It was sent, and no response says that it is not written."""
        self.may_arrive = False
        """A request that carried it got no response, and a broker may process it at any time."""
        self.is_unwritten = False
        """It is not written, and never will be under its present sequence."""
        self.done = False
        self.leader_epoch: i64 = NO_LEADER_EPOCH
        """The epoch of the newest leader that was known while it was waiting."""
        self.attempts_when_leader_changed: i64 = 0
        self.max_record_bytes: i64 = 0
        self.last_error = ""
        """Why the last attempt failed."""
        self._buffer = buffer
        self._builder: RecordBatchBuilder | None = builder
        self._callbacks: list[CallbackRun] = []

    # Open.

    def try_append(
        self,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        encoded_headers: bytes,
    ) -> i64:
        """Append a record if there is room; the first record always fits. Returns its index, or
        -1."""
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

    def append_columns(
        self,
        columns: ColumnInput,
        first: i64,
        end: i64,
        timestamp_ms: i64,
        max_record_bytes: i64,
        max_bytes: i64,
    ) -> i64:
        """Append records of plain columns from index `first` on. Return the index at which it
        stopped: `end`, or that of a record that does not fit, may be larger than
        `max_record_bytes`, or has wrong edges, or of the first one after `max_bytes` were appended.

        `timestamp_ms` is for records that have none of their own."""
        builder = self._builder
        assert builder is not None
        keys, values, headers = columns.keys, columns.values, columns.encoded_headers
        index, limit, size = first, self.limit, self.size
        stop = size + max_bytes
        while index < end and size < stop:
            key, key_size = keys.slice(index)
            value, value_size = values.slice(index)
            if key_size == NO_SLICE or value_size == NO_SLICE:
                break
            bound: i64 = MAX_OVERHEAD_BYTES + len(headers)
            if key_size > 0:
                bound += key_size
            if value_size > 0:
                bound += value_size
            if bound > max_record_bytes or (self.count > 0 and size + bound > limit):
                break
            time_ms = columns.timestamp_ms(index)
            if time_ms < 0:
                time_ms = timestamp_ms
            before: i64 = size
            size = builder.append_slices(
                keys.data, key, key_size, values.data, value, value_size, headers, time_ms
            )
            if size - before > self.max_record_bytes:
                self.max_record_bytes = size - before
            self.count += 1
            index += 1
        self.size = size
        return index

    def on_delivery(
        self, callback: DeliveryCallback, timestamp_ms: i64, key_size: i64, value_size: i64
    ) -> None:
        """Add the callback for the outcome of the record just appended."""
        runs = self._callbacks
        index: i64 = self.count - 1
        run = runs[-1] if runs else None
        if run is None or run.callback is not callback or run.end != index:
            run = CallbackRun(callback, index)
            runs.append(run)
        run.add(timestamp_ms, key_size, value_size)

    @property
    def is_full(self) -> bool:
        """True if not even the smallest record fits."""
        return self.size >= self.limit

    @property
    def is_sealed(self) -> bool:
        return self._builder is None

    # Sealed.

    def seal(self, pool: BufferPool | None) -> None:
        """Make the bytes final, and return the buffer to the pool."""
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
        """Return all memory to the pool. The batch is done, and no request carries it."""
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
        """Set producer id, epoch and sequence; again, with others, after the epoch was bumped."""
        self.may_be_written = self.may_arrive = self.is_unwritten = False
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = base_sequence
        if self.is_sealed:
            self.data = with_producer_state(self.data, producer_id, epoch, base_sequence)

    @property
    def in_doubt(self) -> bool:
        """True if it may be written, now or later, without having been acknowledged."""
        return not self.is_unwritten and (self.may_be_written or self.in_flight)

    def response_lost(self) -> None:
        """Note that the request that carried it will get no response."""
        self.may_be_written = self.may_arrive = True

    def reenqueued(self, now_ms: i64, backoff_ms: i64) -> None:
        """Note that it failed and will be sent again."""
        self.attempts += 1
        self.backoff_ms = backoff_ms
        self.last_attempt_ms = now_ms
        self.in_flight = False

    @property
    def in_retry(self) -> bool:
        return self.attempts > 0

    def maybe_update_leader_epoch(self, leader_epoch: i64) -> None:
        """Note the epoch of the leader that is known now (KIP-951)."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.attempts_when_leader_changed = self.attempts

    @property
    def leader_changed_for_this_retry(self) -> bool:
        """True if a newer leader is known than at the last attempt: no back-off is needed."""
        return self.attempts > 0 and self.attempts == self.attempts_when_leader_changed

    def backoff_left_ms(self, now_ms: i64) -> i64:
        """Return the ms until it may be sent again; 0 for a new leader."""
        if self.leader_changed_for_this_retry:
            return 0
        return self.last_attempt_ms + self.backoff_ms - now_ms

    def has_expired(self, delivery_timeout_ms: i64, now_ms: i64) -> bool:
        """True if its records should have been acknowledged by now."""
        return now_ms - self.created_ms >= delivery_timeout_ms

    # Outcome.

    def complete(self, base_offset: i64, log_append_time_ms: i64) -> bool:
        """Complete with the offset of the written records; False if the batch was done already."""
        if self.done:
            return False
        self.result.complete(base_offset, log_append_time_ms)
        self._finish()
        return True

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None) -> bool:
        """Fail the records that were not written, or may not be; False if the batch was done
        already."""
        if self.done:
            return False
        self.result.fail(error, record_errors)
        self._finish()
        return True

    def _finish(self) -> None:
        self.done = True
        runs, self._callbacks = self._callbacks, []
        for run in runs:
            run.run(self.result)
        self.result.finish()

    def split_into(self, parts: list[ProducerBatch]) -> None:
        """End this batch in favour of its parts, which take over the callbacks and the memory."""
        first: i64 = 0
        results: list[tuple[int, ProduceRequestResult]] = []
        runs, self._callbacks = deque(self._callbacks), []
        for part in parts:
            end = first + part.count
            while runs and runs[0].first < end:
                run = runs[0].cut(end)
                if runs[0].is_empty:
                    runs.popleft()
                run.move(first)
                part._callbacks.append(run)
            part.charged = min(part.size, self.charged)
            self.charged -= part.charged
            results.append((first, part.result))
            first = end
        self.done = True
        self.result.split(results)


def split(big: ProducerBatch, codec: int, level: int | None) -> list[ProducerBatch]:
    """Return the parts, in order. `ProducerBatch.split_into` gives them callbacks and memory."""
    limit: i64 = big.max_record_bytes + HEADER_BYTES
    half: i64 = big.uncompressed_bytes // 2
    if half > limit:
        limit = half
    parts: list[ProducerBatch] = []
    header = RecordBatchHeader(big.data, 0)
    is_transactional = header.is_transactional
    for first, record in enumerate(records_of(big.data, header)):
        headers = encode_headers(record.headers)
        index: i64 = -1
        if parts:
            index = parts[-1].try_append(record.timestamp, record.key, record.value, headers)
        if index < 0:
            builder = RecordBatchBuilder(codec, level=level, transactional=is_transactional)
            part = new_part(big, builder, limit, first)
            part.try_append(record.timestamp, record.key, record.value, headers)
            parts.append(part)
    for part in parts:
        part.seal(None)
    return parts


def new_part(
    big: ProducerBatch, builder: RecordBatchBuilder, limit: i64, first: i64
) -> ProducerBatch:
    """Return an empty batch for the records of `big` from `first` on."""
    name, number = big.topic_partition
    result = ProduceRequestResult(name, number, big.result.wait_strategy, big.result.lock)
    part = ProducerBatch(
        big.topic_partition, result, builder, None, limit, big.created_ms, big.ordinal + first
    )
    part.leader_epoch = big.leader_epoch
    part.last_error = big.last_error
    part.may_be_written = big.in_doubt
    return part
