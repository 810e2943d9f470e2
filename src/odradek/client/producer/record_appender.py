"""RecordAppender: the producer's queues as those see them who send records.

    append ─► TopicQueues ─► PartitionQueue:  [ batch | batch | open batch ]

Records are appended to the last batch of their partition while it has room for them; then a new one
is begun in a buffer of the pool. That has two steps, so that the lock is not held while memory is
asked for: try; if there is no room, allocate a buffer; try again, as another thread may have begun
a batch meanwhile, and only then begin one.

The map of topics is copied when it is written, so it is read without the lock. All else is guarded
by the lock, an argument; it is held for moments only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from librt.threading import Lock
from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.buffer_pool import Buffer, BufferPool
from odradek.client.producer.built_in_partitioner import BuiltInPartitioner
from odradek.client.producer.delivery import Face, ProduceRequestResult
from odradek.client.producer.partition_queue import PartitionQueue, TopicQueues
from odradek.client.producer.producer_batch import DeliveryCallback, ProducerBatch
from odradek.model.env import Clock, Random
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.records import size_upper_bound


class AccumulatorSettings:
    """What of the producer's settings concerns the queues; times in ms."""

    def __init__(
        self,
        *,
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
        delivery_timeout_ms: int = 120_000,
        codec: int = 0,
        level: int | None = None,
        adaptive: bool = True,
        availability_timeout_ms: int = 0,
    ) -> None:
        self.batch_bytes: i64 = max(1, batch_bytes)
        self.linger_ms: i64 = linger_ms
        self.delivery_timeout_ms: i64 = delivery_timeout_ms
        self.codec = codec
        self.level = level
        self.adaptive = adaptive
        self.availability_timeout_ms: i64 = availability_timeout_ms


def nobody() -> None:
    """There is no sender yet."""


class RecordAppender:
    """What the user's threads use of the `RecordAccumulator`."""

    def __init__(
        self,
        settings: AccumulatorSettings,
        pool: BufferPool,
        lock: Lock,
        face: Face,
        clock: Clock,
        random: Random,
    ) -> None:
        self.settings = settings
        self.pool = pool
        self.topics: dict[str, TopicQueues] = {}
        """By name; replaced, never changed."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """All batches that are not done, oldest first."""
        self.closed: KafkaError | None = None
        self.wake: Callable[[], None] = nobody
        """Called when there may be something to send; any thread."""
        self._lock = lock
        self._face = face
        self._clock = clock
        self._random = random
        self._active: dict[PartitionQueue, None] = {}
        """The queues that are not empty, in rotation."""

    # Topics.

    def update_topic(self, name: str, leaders: Sequence[tuple[int, int]]) -> TopicQueues:
        """What metadata says: leader's id and epoch of every partition; `NO_LEADER` for none."""
        with self._lock:
            topic = self.topics.get(name)
            if topic is None:
                topic = TopicQueues(
                    name, BuiltInPartitioner(self.settings.batch_bytes, self._random)
                )
                self.topics = {**self.topics, name: topic}
            topic.update(leaders)
        return topic

    def forget_topic(self, name: str) -> bool:
        """Nobody uses the topic any more; False if there are still records for it."""
        with self._lock:
            topic = self.topics.get(name)
            # Batches under way count too: their queue is where they go when they are sent again.
            if topic is None or any(b.topic_partition.topic == name for b in self.incomplete):
                return topic is None
            self.topics = {other: info for other, info in self.topics.items() if other != name}
            return True

    # Records.

    def append(
        self,
        topic: TopicQueues,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        encoded_headers: bytes,
        callback: DeliveryCallback | None,
        spare: Buffer | None,
    ) -> tuple[ProduceRequestResult | None, i64]:
        """Take a record in; `partition` -1 leaves the choice to the topic's partitioner.

        Answers with the result that will tell its outcome, and its index there. None: there is no
        memory; come back with a `spare` buffer, of `room_for` the record. It goes back if it is not
        needed, also when this raises what the producer was closed with.
        """
        try:
            with self._lock:
                result, index, full = self._try_append(
                    topic, partition, timestamp_ms, key, value, encoded_headers, callback
                )
        except Exception:
            if spare is not None:
                self.pool.put_back(spare)
            raise
        if result is not None:
            if spare is not None:
                self.pool.put_back(spare)
            if full:
                self.wake()
            return result, index
        if spare is None:
            spare = self.pool.allocate(self.room_for(key, value, encoded_headers))
            if spare is None:
                return None, 0
        now_ms: i64 = self._clock.monotonic_ms()
        unused = True
        try:
            with self._lock:
                result, index, _ = self._try_append(
                    topic, partition, timestamp_ms, key, value, encoded_headers, callback
                )
                if result is None:
                    self._begin_batch(topic, partition, spare, now_ms)
                    unused = False
                    result, index, _ = self._try_append(
                        topic, partition, timestamp_ms, key, value, encoded_headers, callback
                    )
        finally:
            if unused:
                self.pool.put_back(spare)
        self.wake()
        return result, index

    def _try_append(
        self,
        topic: TopicQueues,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        encoded_headers: bytes,
        callback: DeliveryCallback | None,
    ) -> tuple[ProduceRequestResult | None, i64, bool]:
        """Append to the open batch of the partition, if there is one with room; the last of the
        answer is whether that batch is full."""
        if self.closed is not None:
            raise self.closed
        partitioner = topic.partitioner
        while True:
            queue = topic.queues[partition if partition >= 0 else partitioner.peek()]
            batch = queue.open
            if batch is None:
                return None, 0, False
            before: i64 = batch.size
            index = batch.try_append(timestamp_ms, key, value, encoded_headers)
            if index >= 0:
                if callback is not None:
                    batch.on_delivery(index, timestamp_ms, callback)
                full = batch.is_full
                if partition < 0:
                    partitioner.update(batch.size - before, full)
                return batch.result, index, full
            queue.open = None
            if partition >= 0 or not partitioner.update(0, True):
                return None, 0, True

    def _begin_batch(self, topic: TopicQueues, partition: i64, buffer: Buffer, now_ms: i64) -> None:
        queue = topic.queues[partition if partition >= 0 else topic.partitioner.peek()]
        name, number = queue.topic_partition
        settings = self.settings
        batch = ProducerBatch(
            queue.topic_partition,
            ProduceRequestResult(name, number, self._face, self._lock),
            RecordBatchBuilder(settings.codec, level=settings.level, writer=buffer.writer),
            buffer,
            buffer.size,
            now_ms,
            queue.next_ordinal(),
        )
        queue.begin(batch)
        self._active[queue] = None
        self.incomplete[batch] = None
        topic.used = True

    def room_for(self, key: bytes | None, value: bytes | None, encoded_headers: bytes) -> i64:
        """How large a buffer a batch needs that begins with this record."""
        size: i64 = HEADER_BYTES + size_upper_bound(key, value, encoded_headers)
        return size if size > self.settings.batch_bytes else self.settings.batch_bytes
