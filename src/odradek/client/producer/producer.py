"""The producer without its face: what happens to a record until it is in the accumulator.

    send ─► metadata known? ─► size ─► partition ─► accumulator.append ─► future
               │ no                                      │ no memory
               └────────► send_later: a PendingSend ◄────┘

`send` takes the record in at once, on the thread of the caller, or answers None. Then the face has
`send_later` run on the owner thread, and waits for its waiter; blocking or awaiting, it is the
same.

Which partition: the one given; else the one that the user's partitioner names; else by the key, as
the Java client does, unless `partitioner.ignore.keys`; else the sticky one of the topic.

The topics that were used lately are kept in `Metadata`; what it learns of them goes to the queues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

from librt.threading import Lock
from mypy_extensions import i64

from odradek.client.cluster_image import ClusterImage, TopicInfo
from odradek.client.engine import Engine
from odradek.client.errors import BufferFull, ClientClosed, RecordTooLarge
from odradek.client.producer.buffer_pool import Buffer, BufferPool, MemoryWaiter
from odradek.client.producer.delivery import Face, FutureRecordMetadata
from odradek.client.producer.metrics import ProducerMetrics
from odradek.client.producer.partition_queue import TopicQueues
from odradek.client.producer.partitioner import partition_of
from odradek.client.producer.pending_send import PendingSend, ProducerRecord, topic_unknown
from odradek.client.producer.producer_batch import DeliveryCallback, ProducerBatch
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.record_appender import AccumulatorSettings
from odradek.client.producer.sender import Sender, SenderSettings
from odradek.client.producer.transaction_manager import TransactionManager
from odradek.client.waiter import Waiter
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.protocol.record_writer import size_upper_bound

Partitioner = Callable[[str, bytes | None, bytes | None, int], int | None]
"""(topic, key, value, number of partitions) -> partition; None: as if there were no partitioner."""

log = logging.getLogger(__name__)

ANY_PARTITION = -1


@final
class ProducerSettings:
    """All that a producer needs to be told; times in ms, sizes in bytes."""

    def __init__(
        self,
        accumulator: AccumulatorSettings,
        sender: SenderSettings,
        *,
        buffer_bytes: int = 33_554_432,
        max_block_ms: int = 60_000,
        idempotence: bool = True,
        ignore_keys: bool = False,
        partitioner: Partitioner | None = None,
    ) -> None:
        accumulator.batch_bytes = min(accumulator.batch_bytes, max(1, buffer_bytes))
        self.accumulator = accumulator
        self.sender = sender
        self.buffer_bytes = buffer_bytes
        self.max_block_ms = max_block_ms
        self.idempotence = idempotence
        self.ignore_keys = ignore_keys
        self.partitioner = partitioner


@final
class ProducerCore:
    """Of one producer. `send` on any thread, all else on the owner thread."""

    def __init__(self, engine: Engine, settings: ProducerSettings, face: Face) -> None:
        self.engine = engine
        self.settings = settings
        self.metrics = ProducerMetrics()
        pool = BufferPool(settings.buffer_bytes, settings.accumulator.batch_bytes, Lock())
        self.accumulator = RecordAccumulator(
            settings.accumulator,
            pool,
            Lock(),
            face,
            engine.env.clock,
            engine.env.random,
            engine.backoff,
            TransactionManager() if settings.idempotence else None,
        )
        self.sender = Sender(engine, self.accumulator, settings.sender, self.metrics)
        self.pending: dict[PendingSend, None] = {}
        """Records that could not be taken in yet."""
        self._max_record_bytes: i64 = min(settings.sender.max_request_bytes, settings.buffer_bytes)
        self._by_key = not settings.ignore_keys
        self._partitioner = settings.partitioner

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to send, over an engine that was started; `wake`, called on any thread, has
        `sender.run_soon` called on this one."""
        self.accumulator.wake = wake
        self.engine.metadata.listen(self._image_came)
        self.sender.start()

    # Records.

    def send(
        self,
        topic: str,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: DeliveryCallback | None,
    ) -> FutureRecordMetadata | None:
        """Take a record in, unless that means waiting: None. Raises `KafkaError`.

        `partition` may be `ANY_PARTITION`; `headers` are encoded.
        """
        queues = self.accumulator.topics.get(topic)
        if queues is None or partition >= queues.partition_count:
            if self.accumulator.closed is not None:
                raise self.accumulator.closed
            return None
        return self._take_in(queues, partition, timestamp_ms, key, value, headers, callback, None)

    def _take_in(
        self,
        queues: TopicQueues,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: DeliveryCallback | None,
        spare: Buffer | None,
    ) -> FutureRecordMetadata | None:
        size = size_upper_bound(key, value, headers)
        if size + HEADER_BYTES > self._max_record_bytes:
            raise self._too_large(queues.name, size + HEADER_BYTES)
        if partition < 0:
            if self._partitioner is not None:
                partition = self._ask(self._partitioner, queues, key, value)
            if partition < 0 and key is not None and self._by_key:
                partition = partition_of(key, queues.partition_count)
        return self.accumulator.append(
            queues, partition, timestamp_ms, key, value, headers, callback, spare
        )

    def _ask(
        self, partitioner: Partitioner, queues: TopicQueues, key: bytes | None, value: bytes | None
    ) -> i64:
        count: int = queues.partition_count
        chosen = partitioner(queues.name, key, value, count)
        if chosen is None:
            return ANY_PARTITION
        if 0 <= chosen < count:
            return chosen
        raise ValueError(
            f"the partitioner chose partition {chosen} of topic {queues.name}, which has 0 to "
            f"{count - 1}"
        )

    def _too_large(self, topic: str, size: int) -> RecordTooLarge:
        return RecordTooLarge(
            f"a record for {topic} takes up to {size} bytes, more than max.request.size="
            f"{self.settings.sender.max_request_bytes} or buffer.memory="
            f"{self.settings.buffer_bytes}. What to do: {RecordTooLarge.advice}"
        )

    def send_later(self, record: ProducerRecord) -> PendingSend:
        """What `send` could not take in: wait for what is missing."""
        pending = PendingSend(self, record, self.settings.max_block_ms)
        self.pending[pending] = None
        pending.waiter.add_callback(lambda _: self.pending.pop(pending, None))
        pending.start()
        return pending

    def append(self, record: ProducerRecord, spare: Buffer | None) -> FutureRecordMetadata | None:
        """Take in a record whose topic is known, with the memory it was given; None if it needs
        some."""
        return self._take_in(
            self.accumulator.topics[record.topic],
            record.partition,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
            record.callback,
            spare,
        )

    def wait_for_memory(self, record: ProducerRecord) -> MemoryWaiter:
        """Stand in the queue for what the record needs, and have others sent for it."""
        size = self.accumulator.room_for(record.key, record.value, record.headers)
        waiter = self.accumulator.pool.wait(size)
        self.sender.run_soon()
        return waiter

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
            f"{self.accumulator.pool.charged_bytes} of buffer.memory={self.settings.buffer_bytes} "
            f"bytes are in use. What to do: {BufferFull.advice}"
        )

    # Topics.

    def partitions_for(self, topic: str) -> Waiter[list[int]]:
        """The partitions of a topic, waiting for `max.block.ms` until it is known."""
        waiter: Waiter[list[int]] = Waiter()
        found = self.engine.within(
            self.settings.max_block_ms,
            self.engine.wait_for_topic(topic),
            lambda: topic_unknown(topic, self.engine.metadata, self.settings.max_block_ms),
        )

        def known(found: Waiter[TopicInfo]) -> None:
            if found.error is not None:
                waiter.fail(found.error)
            else:
                waiter.complete(list(found.result().partitions))

        found.add_callback(known)
        return waiter

    def topic_known(self, image: ClusterImage, info: TopicInfo) -> None:
        """Metadata has a topic, be it as before: let the queues know."""
        leaders = [
            (image.leader(info.name, number), image.leader_epoch(info.name, number))
            for number in range(info.count)
        ]
        self.accumulator.update_topic(info.name, leaders)

    def _image_came(self, image: ClusterImage) -> None:
        for name in self.accumulator.topics:
            info = image.topics.get(name)
            if info is None:
                self.accumulator.forget_topic(name)
            elif not info.error:
                self.topic_known(image, info)

    # Looking.

    def snapshot(self) -> dict[str, float]:
        """The metrics."""
        found = self.metrics.snapshot(self.engine.env.clock.monotonic_ms())
        pool = self.accumulator.pool
        found["requests-in-flight"] = self.engine.client.in_flight.total
        found["buffer-total-bytes"] = int(pool.total_bytes)
        found["buffer-available-bytes"] = pool.unallocated_bytes
        found["waiting-threads"] = len(self.pending)
        found["records-in-queue"] = self.accumulator.incomplete_records
        return found

    # The end.

    def abandon(self) -> None:
        """Nobody will ask any more: end at once."""
        left = self.accumulator.incomplete_records
        if left and not self.engine.closed:
            log.warning(
                "a producer was thrown away with %d records that were not delivered. What to do: "
                "close it, or use it in a `with` block",
                left,
            )
        self.engine.close()

    def flush(self, timeout_ms: int | None) -> Waiter[int]:
        """Send everything that is there now without lingering, and wait for its outcome; how many
        records had none when time was over."""
        batches = self.accumulator.begin_flush()
        waiter: Waiter[int] = Waiter()
        left = len(batches)

        def end() -> None:
            waiter.complete(records_open(batches))

        def one_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                end()

        # However it ends: who no longer waits for a flush fails its waiter.
        waiter.add_callback(lambda _: self.accumulator.end_flush())
        for batch in batches:
            batch.result.add_callback(one_done)
        if not batches:
            end()
        elif timeout_ms is not None and not waiter.done:
            task = self.engine.timer.call_later(timeout_ms, end)
            waiter.add_callback(lambda _: task.cancel())
        self.sender.run_soon()
        return waiter

    def close(self, timeout_ms: int | None) -> Waiter[int]:
        """Take in nothing more, send what there is, and end; after `timeout_ms`, give up the rest.
        How many records that were.
        """
        reason = ClientClosed("the producer is closed. What to do: make another one")
        if self.accumulator.closed is None:
            self.accumulator.close(reason)
        for pending in list(self.pending):
            pending.waiter.fail(reason)
        closed: Waiter[int] = Waiter()
        # Not from within the callback that ends the flush: others of its batch are to be told yet.
        self.flush(timeout_ms).add_callback(
            lambda flushed: self.engine.env.call_soon(lambda: self._end(flushed, closed))
        )
        return closed

    def _end(self, flushed: Waiter[int], closed: Waiter[int]) -> None:
        self.sender.abort_incomplete(
            ClientClosed(
                "the producer was closed before the record was acknowledged; if it had been sent, "
                "it may be written. What to do: give close() more time"
            )
        )
        self.engine.close()
        closed.complete(flushed.result())


def records_open(batches: list[ProducerBatch]) -> int:
    """How many of their records have no outcome yet."""
    return sum(int(batch.count) for batch in batches if not batch.result.done)
