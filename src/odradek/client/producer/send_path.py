"""The path of a record from `send` to its place in the accumulator.

    key, value ─► serializers ─► bytes ┐
    headers ─► checked, encoded ───────┼─► RecordRouter.send
    timestamp ─► ms, or now ───────────┘        │
                                                ▼
       topic known? ─► size ─► partition ─► accumulator.append ─► FutureRecordMetadata
          │ no                                  │ no memory
          └───────────► SerializedRecord ◄──────┘   it has to wait: see `producer_core`

The partition is the one given; else the one that the application's partitioner returns; else by the
key, as the Java client chooses it, unless `partitioner.ignore.keys`; else the sticky partition of
the topic. It is chosen once for each record and kept while the record waits: a partitioner may
count its calls.

Any thread. This is the inner loop of every producer, so it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, final

from mypy_extensions import i64

from odradek.client.arguments import text_of
from odradek.client.errors import BufferFull, RecordTooLarge, SerializationError
from odradek.client.producer.buffer_pool import Buffer
from odradek.client.producer.futures import Deliveries, FutureRecordMetadata, serialized_size
from odradek.client.producer.partition_queue import TopicQueues
from odradek.client.producer.partitioner import partition_for_key, partition_for_slice
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.record_input import NO_SLICE, ColumnInput, ListInput, RecordInput
from odradek.client.producer.settings import Partitioner, ProducerSettings
from odradek.client.serializers import Serializer, headers_of
from odradek.model.env import Clock
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.protocol.records import NO_HEADERS, Header, encode_headers, size_upper_bound


@final
class SerializedRecord:
    """A serialized record that has to wait. `partition` -1: any; `headers` are encoded."""

    def __init__(
        self,
        topic: str,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: DeliveryCallback | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.callback = callback


LOCKED_RECORDS: Final[i64] = 64
"""So many records of columns are appended under one lock: the sender waits for them at most."""
ANY_PARTITION: Final[i64] = -1
"""Not chosen yet."""
STICKY_PARTITION: Final[i64] = -2
"""Chosen: the sticky partition of the topic at the time of the append."""


@final
class RecordRouter:
    """Checks the size of records, chooses their partitions and appends them, for one producer."""

    def __init__(self, accumulator: RecordAccumulator, settings: ProducerSettings) -> None:
        self.accumulator = accumulator
        self._settings = settings
        self._max_record_bytes: i64 = min(settings.sender.max_request_bytes, settings.buffer_bytes)
        self._by_key = not settings.ignore_keys
        self._partitioner = settings.partitioner

    def send(
        self,
        topic: str,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: DeliveryCallback | None,
    ) -> FutureRecordMetadata | SerializedRecord:
        """Append a record and return its future, or a record that has to wait. Raises `KafkaError`.

        `partition` may be `ANY_PARTITION`; `headers` are encoded.
        """
        queues = self.accumulator.topics.get(topic)
        if queues is None or partition >= queues.partition_count:
            if self.accumulator.refusal is not None:
                raise self.accumulator.refusal
        else:
            partition = self._choose_partition(queues, partition, key, value, headers)
            result, index = self.accumulator.append(
                queues, partition, timestamp_ms, key, value, headers, callback, None
            )
            if result is not None:
                return FutureRecordMetadata(
                    result, index, timestamp_ms, serialized_size(key), serialized_size(value)
                )
        return SerializedRecord(topic, partition, timestamp_ms, key, value, headers, callback)

    def _choose_partition(
        self,
        queues: TopicQueues,
        partition: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
    ) -> i64:
        """Return the partition of a record. Raises `RecordTooLarge`."""
        size = size_upper_bound(key, value, headers)
        if size + HEADER_BYTES > self._max_record_bytes:
            raise self._too_large(queues.name, size + HEADER_BYTES)
        if partition != ANY_PARTITION:
            return partition
        if self._partitioner is not None:
            partition = self._ask_partitioner(self._partitioner, queues, key, value)
            if partition >= 0:
                return partition
        if key is not None and self._by_key:
            return partition_for_key(key, queues.partition_count)
        return STICKY_PARTITION

    def _ask_partitioner(
        self, partitioner: Partitioner, queues: TopicQueues, key: bytes | None, value: bytes | None
    ) -> i64:
        count: int = queues.partition_count
        chosen = partitioner(queues.name, key, value, count)
        if chosen is None:
            return STICKY_PARTITION
        if 0 <= chosen < count:
            return chosen
        raise ValueError(
            f"the partitioner chose partition {chosen} of topic {queues.name}, which has 0 to "
            f"{count - 1}"
        )

    def _too_large(self, topic: str, size: int) -> RecordTooLarge:
        return RecordTooLarge(
            f"a record for {topic} takes up to {size} bytes, more than max.request.size="
            f"{self._settings.sender.max_request_bytes} or buffer.memory="
            f"{self._settings.buffer_bytes}. What to do: {RecordTooLarge.advice}"
        )

    def send_many(
        self,
        topic: str,
        source: RecordInput,
        first: i64,
        partition: i64,
        timestamp_ms: i64,
        deliveries: Deliveries,
    ) -> tuple[i64, SerializedRecord | None]:
        """Append records from index `first` on, until one has to wait; return its index and that
        record, or `source.count` and None when all were appended.

        `partition` and `timestamp_ms` are for records that have none of their own. Raises
        `KafkaError`; the records before the one at fault were appended."""
        index = first
        accumulator = self.accumulator
        queues = accumulator.topics.get(topic)
        columns: ColumnInput | None = None
        if isinstance(source, ColumnInput) and source.is_plain and self._partitioner is None:
            columns = source
        while index < source.count:
            if columns is not None and queues is not None:
                end = index + LOCKED_RECORDS
                if end > source.count:
                    end = source.count
                index = self._append_columns(
                    queues, columns, index, end, partition, timestamp_ms, deliveries
                )
                if index == end:
                    continue
            chosen, time_ms = source.partition(index), source.timestamp_ms(index)
            if chosen < 0:
                chosen = partition
            if time_ms < 0:
                time_ms = timestamp_ms
            key, value, headers = source.key(index), source.value(index), source.headers(index)
            if queues is not None and chosen < queues.partition_count:
                chosen = self._choose_partition(queues, chosen, key, value, headers)
                result, place = accumulator.append(
                    queues, chosen, time_ms, key, value, headers, None, None
                )
                if result is not None:
                    deliveries.add(result, place)
                    index += 1
                    continue
            elif accumulator.refusal is not None:
                raise accumulator.refusal
            return index, SerializedRecord(topic, chosen, time_ms, key, value, headers, None)
        return index, None

    def _append_columns(
        self,
        queues: TopicQueues,
        columns: ColumnInput,
        first: i64,
        end: i64,
        partition: i64,
        timestamp_ms: i64,
        deliveries: Deliveries,
    ) -> i64:
        """Append records up to index `end` to open batches, under one lock: columns call nothing of
        the application's. Return the index of the first one that needs more than that; `end` if
        there is none. Raises the accumulator's `refusal`."""
        accumulator = self.accumulator
        max_record_bytes = self._max_record_bytes - HEADER_BYTES
        count = queues.partition_count
        index = first
        with accumulator.lock:
            while index < end:
                chosen = partition
                same_until = end  # The records before this index go to the same partition.
                if columns.has_partitions:
                    same_until = index + 1
                    own = columns.partition(index)
                    if own >= 0:
                        chosen = own
                if chosen >= count:
                    return index
                if chosen < 0 and count == 1:
                    chosen = 0
                elif chosen < 0 and self._by_key and columns.has_keys:
                    same_until = index + 1
                    start, size = columns.keys.slice(index)
                    if size == NO_SLICE:
                        return index
                    chosen = STICKY_PARTITION
                    if size >= 0:
                        chosen = partition_for_slice(columns.keys.data, start, size, count)
                reached = accumulator.append_columns(
                    queues,
                    chosen,
                    columns,
                    index,
                    same_until,
                    timestamp_ms,
                    max_record_bytes,
                    deliveries,
                )
                if reached == index:
                    return index
                index = reached
        return index

    def append(self, record: SerializedRecord, spare: Buffer | None) -> FutureRecordMetadata | None:
        """Append a record whose topic is known, into `spare` memory if it got some; return its
        future, or None if it needs memory.

        A record gets memory only when its partition is chosen and its size is checked. So with
        `spare` only the accumulator can raise, and the accumulator returns `spare` to the pool."""
        queues = self.accumulator.topics[record.topic]
        key, value, headers = record.key, record.value, record.headers
        record.partition = self._choose_partition(queues, record.partition, key, value, headers)
        result, index = self.accumulator.append(
            queues,
            record.partition,
            record.timestamp_ms,
            key,
            value,
            headers,
            record.callback,
            spare,
        )
        if result is None:
            return None
        return FutureRecordMetadata(
            result, index, record.timestamp_ms, serialized_size(key), serialized_size(value)
        )

    def knows_topic(self, record: SerializedRecord) -> bool:
        """True if the record waits for memory, False if it waits for metadata."""
        queues = self.accumulator.topics.get(record.topic)
        return queues is not None and record.partition < queues.partition_count

    def buffer_full_error(self, record: SerializedRecord) -> BufferFull:
        """Return the error for an application that does not wait for room."""
        if not self.knows_topic(record):
            return BufferFull(
                f"a record for {record.topic} cannot be queued yet: the topic, or its partition, "
                "is not known. What to do: await partitions_for(topic) first, or enqueue()"
            )
        self.accumulator.record_refused()
        return BufferFull(
            f"there is no room for a record for {record.topic}: "
            f"{self.accumulator.pool.charged_bytes} of buffer.memory={self._settings.buffer_bytes} "
            f"bytes are in use. What to do: {BufferFull.advice}"
        )


Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""Headers as applications give them."""

NO_HEADER_LIST: list[Header] = []
NOW: Final = -1
"""No timestamp was given: records get the time at which their `RecordInput` is begun."""


@final
class SendPath:
    """Serializes the records of one producer and hands them to its `RecordRouter`. Any thread."""

    def __init__(
        self, router: RecordRouter, key: Serializer, value: Serializer, clock: Clock
    ) -> None:
        self._router = router
        self._key = key
        self._value = value
        self._clock = clock

    def send(
        self,
        topic: object,
        value: object,
        key: object,
        headers: Any,
        partition: int | None,
        timestamp: datetime | int | None,
        callback: DeliveryCallback | None,
    ) -> FutureRecordMetadata | SerializedRecord:
        """Return the record's future, or the serialized record if it has to wait.

        Raises `KafkaError`, `ValueError` for an invalid partition or time, and `TypeError` for a
        topic that is not text."""
        # All other checks of a name are made when the topic turns out to be unknown.
        name = topic if isinstance(topic, str) else text_of("topic", topic)
        encoded = NO_HEADERS
        pairs = NO_HEADER_LIST
        if headers:
            pairs = headers_of(headers)
            encoded = encode_headers(pairs)
        key_bytes = None if key is None else self._key.to_bytes(name, pairs, key)
        value_bytes = None if value is None else self._value.to_bytes(name, pairs, value)
        chosen: i64 = ANY_PARTITION
        if partition is not None:
            chosen = checked_partition(partition)
        timestamp_ms = self._clock.wall_ms() if timestamp is None else timestamp_ms_of(timestamp)
        return self._router.send(
            name, chosen, timestamp_ms, key_bytes, value_bytes, encoded, callback
        )

    def send_many(
        self,
        topic: object,
        values: Sequence[object],
        keys: Sequence[object] | None,
        headers: Any,
        partition: int | str | None,
        timestamp: datetime | int | str | None,
    ) -> BulkSend:
        """Return a `BulkSend` of many objects; every record has these `headers`. Raises as `send`
        does, and `TypeError` for values that are not several."""
        source = self.source(topic, values, keys, headers)
        return self.bulk(topic, [source], partition, timestamp)

    def source(
        self, topic: object, values: Sequence[object], keys: Sequence[object] | None, headers: Any
    ) -> RecordInput:
        """Return many objects as one input; every record has these `headers`."""
        pairs = headers_of(headers) if headers else NO_HEADER_LIST
        name = text_of("topic", topic)
        return ListInput(name, values, keys, self._key, self._value, pairs)

    def send_arrow(
        self,
        make_inputs: Callable[..., Iterable[RecordInput]],
        topic: object,
        data: Any,
        key: object,
        value: object,
        headers: object,
        partition: int | str | None,
        timestamp: datetime | int | str | None,
        common_headers: Sequence[Header] = (),
    ) -> BulkSend:
        """Return a `BulkSend` of the rows of Arrow data. `make_inputs` is `record_inputs` of
        `arrow_input`, which can only be imported where pyarrow is installed. It checks the names
        of columns, with better messages than a compiled parameter."""
        rows = make_inputs(data, key, value, headers, partition, timestamp, common_headers)
        return self.bulk(topic, rows, partition, timestamp)

    def bulk(
        self,
        topic: object,
        sources: Iterable[RecordInput],
        partition: int | str | None,
        timestamp: datetime | int | str | None,
    ) -> BulkSend:
        """Return a `BulkSend` of all records of these inputs. A partition or timestamp of text is
        the name of a column that the inputs have themselves."""
        chosen: i64 = ANY_PARTITION
        if isinstance(partition, int):
            chosen = checked_partition(partition)
        timestamp_ms: i64 = NOW
        if timestamp is not None and not isinstance(timestamp, str):
            timestamp_ms = timestamp_ms_of(timestamp)
        name = text_of("topic", topic)
        return BulkSend(self._router, self._clock, name, iter(sources), chosen, timestamp_ms)


@final
class BulkSend:
    """Appends many records. Call `step` until it returns None, and wait for each record it
    returns."""

    def __init__(
        self,
        router: RecordRouter,
        clock: Clock,
        topic: str,
        sources: Iterator[RecordInput],
        partition: i64,
        timestamp_ms: i64,
    ) -> None:
        self.deliveries = Deliveries()
        """The outcome of the records appended so far."""
        self.on_end: Callable[[BaseException | None], object] | None = None
        """Called by `end`."""
        self._router = router
        self._clock = clock
        self._topic = topic
        self._sources = sources
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._now_ms: i64 = NOW
        self._next: i64 = 0
        self._source: RecordInput | None = None

    def step(self) -> SerializedRecord | None:
        """Append as many records as there is room for; return the one that has to wait, or None
        when all are appended.

        Raises as `SendPath.send`; the records before the one at fault are appended.
        """
        source = self._next_input() if self._source is None else self._source
        while source is not None:
            self._next, record = self._router.send_many(
                self._topic,
                source,
                self._next,
                self._partition,
                self._now_ms,
                self.deliveries,
            )
            if record is not None:
                return record
            source = self._next_input()
        return None

    def _next_input(self) -> RecordInput | None:
        """Begin the next input and return it."""
        self._source = next(self._sources, None)
        self._next = 0
        given = self._timestamp_ms
        self._now_ms = self._clock.wall_ms() if given == NOW else given
        return self._source

    def add_queued(self, future: FutureRecordMetadata) -> None:
        """Take note that the record that had to wait is appended."""
        self.deliveries.add_future(future)
        self._next += 1

    def end(self, error: BaseException | None) -> None:
        """Take note that no more records are appended, because of an error if not all are."""
        if self.on_end is not None:
            self.on_end(error)


def checked_partition(partition: int) -> int:
    """Return the partition. Raises `ValueError` for a number that no partition has."""
    if not 0 <= partition < 2**31:
        raise ValueError(f"there is no partition {partition}: give one from 0 on, or None for any")
    return partition


def timestamp_ms_of(timestamp: object) -> int:
    """Return a time as ms since 1970. Raises `SerializationError`."""
    if isinstance(timestamp, datetime):
        timestamp = round(timestamp.timestamp() * 1000)
    if not isinstance(timestamp, int) or not 0 <= timestamp < 2**61:
        raise SerializationError(
            f"a timestamp cannot be {timestamp!r}: give a datetime, or milliseconds since 1970"
        )
    return timestamp
