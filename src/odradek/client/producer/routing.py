"""From a serialized record to its place in the accumulator: size, partition, append.

    send ─► topic known? ─► size ─► partition ─► accumulator.append ─► future
               │ no                                   │ no memory
               └──────────► ProducerRecord ◄──────────┘    it has to wait: see `pending_send`

Which partition: the one given; else the one that the user's partitioner names; else by the key, as
the Java client does, unless `partitioner.ignore.keys`; else the sticky one of the topic. That is
decided once for each record, and goes with it while it waits: a partitioner may count.

Any thread. A compiled leaf: the inner loop of every producer.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from odradek.client.errors import BufferFull, RecordTooLarge
from odradek.client.producer.buffer_pool import Buffer
from odradek.client.producer.deliveries import Deliveries
from odradek.client.producer.delivery import FutureRecordMetadata
from odradek.client.producer.partition_queue import TopicQueues
from odradek.client.producer.partitioner import partition_of
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_record import ProducerRecord
from odradek.client.producer.producer_settings import Partitioner, ProducerSettings
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.record_source import RecordSource
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.protocol.records import size_upper_bound

ANY_PARTITION: Final[i64] = -1
"""Not decided yet."""
STICKY_PARTITION: Final[i64] = -2
"""Decided: where the topic's built-in partitioner is when the record is taken in."""


@final
class RecordRouting:
    """Of one producer."""

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
    ) -> FutureRecordMetadata | ProducerRecord:
        """Take a record in; or what is to wait, if that is not possible now. Raises `KafkaError`.

        `partition` may be `ANY_PARTITION`; `headers` are encoded.
        """
        queues = self.accumulator.topics.get(topic)
        if queues is None or partition >= queues.partition_count:
            if self.accumulator.closed is not None:
                raise self.accumulator.closed
        else:
            partition = self._choose(queues, partition, key, value, headers)
            result, index = self.accumulator.append(
                queues, partition, timestamp_ms, key, value, headers, callback, None
            )
            if result is not None:
                return FutureRecordMetadata(result, index, timestamp_ms)
        return ProducerRecord(topic, partition, timestamp_ms, key, value, headers, callback)

    def _choose(
        self,
        queues: TopicQueues,
        partition: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
    ) -> i64:
        """The partition of a record that is not too large."""
        size = size_upper_bound(key, value, headers)
        if size + HEADER_BYTES > self._max_record_bytes:
            raise self._too_large(queues.name, size + HEADER_BYTES)
        if partition != ANY_PARTITION:
            return partition
        if self._partitioner is not None:
            partition = self._ask(self._partitioner, queues, key, value)
            if partition >= 0:
                return partition
        if key is not None and self._by_key:
            return partition_of(key, queues.partition_count)
        return STICKY_PARTITION

    def _ask(
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
        source: RecordSource,
        first: i64,
        partition: i64,
        timestamp_ms: i64,
        deliveries: Deliveries,
    ) -> tuple[i64, ProducerRecord | None]:
        """Take in records from the one at `first` on, until one has to wait: its index, and itself;
        their number and None if none has to. `partition` and `timestamp_ms` are for those that have
        none of their own. Raises `KafkaError`; those before were taken in."""
        index = first
        accumulator = self.accumulator
        queues = accumulator.topics.get(topic)
        while index < source.count:
            chosen, time_ms = source.partition(index), source.timestamp_ms(index)
            if chosen < 0:
                chosen = partition
            if time_ms < 0:
                time_ms = timestamp_ms
            key, value, headers = source.key(index), source.value(index), source.headers(index)
            if queues is not None and chosen < queues.partition_count:
                chosen = self._choose(queues, chosen, key, value, headers)
                result, place = accumulator.append(
                    queues, chosen, time_ms, key, value, headers, None, None
                )
                if result is not None:
                    deliveries.add(result, place)
                    index += 1
                    continue
            elif accumulator.closed is not None:
                raise accumulator.closed
            return index, ProducerRecord(topic, chosen, time_ms, key, value, headers, None)
        return index, None

    def append(self, record: ProducerRecord, spare: Buffer | None) -> FutureRecordMetadata | None:
        """Take in a record whose topic is known, with the memory it was given; None if it needs
        some. Memory is given only to a record that has its partition (`_choose` decides and
        refuses before), so nothing but the accumulator can raise then, and it gives it back."""
        queues = self.accumulator.topics[record.topic]
        key, value, headers = record.key, record.value, record.headers
        record.partition = self._choose(queues, record.partition, key, value, headers)
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
        return None if result is None else FutureRecordMetadata(result, index, record.timestamp_ms)

    def knows_topic(self, record: ProducerRecord) -> bool:
        """Whether a record that could not be taken in lacks memory; otherwise it is metadata."""
        queues = self.accumulator.topics.get(record.topic)
        return queues is not None and record.partition < queues.partition_count

    def cannot_take(self, record: ProducerRecord) -> BufferFull:
        """For who does not want to wait."""
        if not self.knows_topic(record):
            return BufferFull(
                f"a record for {record.topic} cannot be queued yet: the topic, or its partition, "
                "is not known. What to do: await partitions_for(topic) first, or enqueue()"
            )
        return BufferFull(
            f"there is no room for a record for {record.topic}: "
            f"{self.accumulator.pool.charged_bytes} of buffer.memory={self._settings.buffer_bytes} "
            f"bytes are in use. What to do: {BufferFull.advice}"
        )
