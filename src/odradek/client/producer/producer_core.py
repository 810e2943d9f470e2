"""A record that could not be taken in at once: it waits for metadata, then for memory.

    start ─► the topic is known? ─► it has the partition? ─► append ─┬─► done: the record's future
      ▲          ▲    no: ask again ─┘                        ▲      └─► no memory: stand in the
      │          └── UNKNOWN_TOPIC_OR_PARTITION: ask again    └─────────  queue for it ─┐
      └── the topic was forgotten meanwhile ────────────────────────────────────────────┘

It ends once, with its waiter: in a future, in an error that will not pass, or after `max.block.ms`
for both waits together. Who no longer wants it fails the waiter; then nothing was queued, and
whatever memory it was given in the meantime goes back.

Owner thread only.

The producer without its face: its parts, and what belongs to the owner thread.

    SendPath ─► RecordRouter ─► RecordAccumulator ─► Sender ─► brokers
                 │ has to wait       ▲
                 └─► PendingSend ────┘

A record that cannot be taken in at once becomes a `PendingSend`, for which the face waits; blocking
or awaiting, it is the same. The topics that were used lately are kept in `Metadata`; what it learns
of them goes to the queues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

from librt.threading import Lock

from odradek.client.arguments import checked_topic, text_of
from odradek.client.engine import Engine
from odradek.client.errors import (
    ClientClosed,
    KafkaError,
    MaxBlockTimeout,
    UnknownTopicOrPartition,
    error_for,
)
from odradek.client.metadata.cluster_image import ClusterImage, TopicInfo
from odradek.client.metadata.metadata import Metadata
from odradek.client.producer.buffer_pool import Buffer, BufferPool, MemoryWaiter
from odradek.client.producer.futures import FutureRecordMetadata, WaitStrategy
from odradek.client.producer.metrics import ProducerMetrics
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.send_path import RecordRouter, SerializedRecord
from odradek.client.producer.sender import Sender
from odradek.client.producer.settings import ProducerSettings
from odradek.client.producer.transaction_manager import TransactionManager
from odradek.client.waiter import Waiter
from odradek.model.errors import ErrorCode

NO_LONGER_NEEDED = KafkaError("nobody wants this memory any more")


class PendingSend:
    """One record on its way in."""

    def __init__(self, core: ProducerCore, record: SerializedRecord, max_block_ms: int) -> None:
        self.waiter: Waiter[FutureRecordMetadata] = Waiter()
        self.record = record
        self._core = core
        self._max_block_ms = max_block_ms
        self._memory: MemoryWaiter | None = None
        self._task = core.engine.timer.call_later(max_block_ms, self._timed_out)
        self.waiter.add_callback(self._ended)

    def start(self) -> None:
        """Take the record in, or wait until that can be done."""
        if self.waiter.done:
            return
        core, record = self._core, self.record
        try:
            checked_topic(record.topic)
        except KafkaError as error:
            self.waiter.fail(error)
            return
        metadata = core.engine.metadata
        info = metadata.image.topics.get(record.topic)
        if metadata.fatal is not None:
            self.waiter.fail(metadata.fatal)
        elif info is not None and info.error and not info.error.retriable:
            self.waiter.fail(error_for(info.error, f"topic {record.topic}"))
        elif info is None or info.error or record.partition >= info.count:
            version = metadata.image.version
            if info is not None:
                metadata.request_update()
            metadata.add_topic(record.topic)
            metadata.newer_than(version).add_callback(self._metadata_updated)
        else:
            core.update_topic_queues(metadata.image, info)
            self._append(None)

    def _metadata_updated(self, waiter: Waiter[ClusterImage]) -> None:
        if waiter.error is not None:
            self.waiter.fail(waiter.error)
        else:
            self.start()

    def _append(self, spare: Buffer | None) -> None:
        try:
            future = self._core.router.append(self.record, spare)
        except Exception as error:
            self.waiter.fail(error)
            return
        if future is not None:
            self.waiter.complete(future)
            return
        self._memory = self._core.wait_for_memory(self.record)
        self._memory.waiter.add_callback(self._memory_granted)

    def _memory_granted(self, waiter: Waiter[Buffer]) -> None:
        self._memory = None
        if waiter.error is not None:
            self.waiter.fail(waiter.error)
        elif self._core.router.knows_topic(self.record):
            self._append(waiter.result())
        else:
            self._core.accumulator.pool.put_back(waiter.result())
            self.start()

    def _ended(self, waiter: Waiter[FutureRecordMetadata]) -> None:
        """It is in, or somebody has had enough; then it makes way for others who want memory."""
        self._task.cancel()
        memory, self._memory = self._memory, None
        if memory is not None:
            self._core.accumulator.pool.give_up(memory, NO_LONGER_NEEDED)

    def _timed_out(self) -> None:
        self.waiter.fail(self._timeout_error())

    def _timeout_error(self) -> KafkaError:
        """What there was to wait for until the end."""
        record, metadata = self.record, self._core.engine.metadata
        within = f"within max.block.ms={self._max_block_ms}"
        if self._memory is not None:
            pool = self._core.accumulator.pool
            return MaxBlockTimeout(
                f"there was no room {within} for a record for {record.topic}: {pool.charged_bytes} "
                f"of buffer.memory={pool.total_bytes} bytes are in use. What to do: send more "
                "slowly, raise buffer.memory, or see why the brokers do not take more"
            )
        info = metadata.image.topics.get(record.topic)
        if info is None or info.error:
            return unknown_topic_error(record.topic, metadata, self._max_block_ms)
        return UnknownTopicOrPartition(
            f"topic {record.topic} has no partition {record.partition}, but 0 to {info.count - 1}, "
            f"and got none {within}. What to do: give one of those, or none",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )


def unknown_topic_error(topic: str, metadata: Metadata, max_block_ms: int) -> KafkaError:
    """Why a topic did not become known."""
    within = f"within max.block.ms={max_block_ms}"
    info = metadata.image.topics.get(topic)
    if info is not None and info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopicOrPartition(
            f"there is no topic {topic}, and none was made {within}. "
            f"What to do: {UnknownTopicOrPartition.advice}",
            info.error,
        )
    trouble = metadata.last_error or (info.error.name if info is not None else "no answer")
    return MaxBlockTimeout(
        f"nothing could be learnt {within} of topic {topic}: {trouble}. What to do: check "
        "bootstrap.servers and the brokers, or raise max.block.ms"
    )


log = logging.getLogger(__name__)


@final
class ProducerCore:
    """Of one producer. Owner thread only, but for what `router` says."""

    def __init__(
        self, engine: Engine, settings: ProducerSettings, wait_strategy: WaitStrategy
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.metrics = ProducerMetrics()
        pool = BufferPool(settings.buffer_bytes, settings.accumulator.batch_bytes, Lock())
        self.accumulator = RecordAccumulator(
            settings.accumulator,
            pool,
            Lock(),
            wait_strategy,
            engine.env.clock,
            engine.env.random,
            engine.backoff,
            TransactionManager() if settings.idempotence else None,
        )
        self.router = RecordRouter(self.accumulator, settings)
        self.sender = Sender(engine, self.accumulator, settings.sender, self.metrics)
        self.pending: dict[PendingSend, None] = {}
        """Records that could not be taken in yet."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to send, over an engine that was started; `wake`, called on any thread, has
        `sender.run_soon` called on this one."""
        self.accumulator.wake = wake
        self.engine.metadata.listen(self._image_updated)
        self.sender.start()

    # Records that have to wait.

    def send_later(self, record: SerializedRecord) -> PendingSend:
        """What `send` could not take in: wait for what is missing."""
        pending = PendingSend(self, record, self.settings.max_block_ms)
        self.pending[pending] = None
        pending.waiter.add_callback(lambda _: self.pending.pop(pending, None))
        pending.start()
        return pending

    def wait_for_memory(self, record: SerializedRecord) -> MemoryWaiter:
        """Stand in the queue for what the record needs, and have others sent for it."""
        size = self.accumulator.buffer_size_for(record.key, record.value, record.headers)
        waiter = self.accumulator.pool.wait(size)
        self.sender.run_soon()
        return waiter

    # Topics.

    def partitions_for(self, name: object) -> Waiter[list[int]]:
        """The partitions of a topic, waiting for `max.block.ms` until it is known. Raises
        `TypeError` for what is no text."""
        topic = text_of("topic", name)
        waiter: Waiter[list[int]] = Waiter()
        found = self.engine.within(
            self.settings.max_block_ms,
            self.engine.wait_for_topic(topic),
            lambda: unknown_topic_error(topic, self.engine.metadata, self.settings.max_block_ms),
        )

        def known(found: Waiter[TopicInfo]) -> None:
            if found.error is not None:
                waiter.fail(found.error)
            else:
                self.update_topic_queues(self.engine.metadata.image, found.result())
                waiter.complete(list(found.result().partitions))

        found.add_callback(known)
        return waiter

    def update_topic_queues(self, image: ClusterImage, info: TopicInfo) -> None:
        """Metadata has a topic, be it as before: let the queues know."""
        leaders = [
            (image.leader(info.name, number), image.leader_epoch(info.name, number))
            for number in range(info.count)
        ]
        self.accumulator.update_topic(info.name, leaders)

    def _image_updated(self, image: ClusterImage) -> None:
        for name in self.accumulator.topics:
            info = image.topics.get(name)
            if info is None:
                self.accumulator.forget_topic(name)
            elif not info.error:
                self.update_topic_queues(image, info)

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
        self._give_up("the producer was thrown away; close it, or use it in a `with` block")

    def break_off(self) -> None:
        """Nobody waits any more for what `close` would have waited for: end at once."""
        self._give_up(
            "closing the producer was broken off before the record was acknowledged; if it had "
            "been sent, it may be written. What to do: let close() come to its end"
        )

    def _give_up(self, why: str) -> None:
        reason = ClientClosed(why)
        if self.accumulator.closed is None:
            self.accumulator.close(reason)
        self.sender.abort_incomplete(reason)
        self.engine.close()

    def flush(self, timeout_ms: int | None) -> Waiter[int]:
        """Send everything that is there now without lingering, and wait for its outcome; how many
        records had none when time was over."""
        batches = self.accumulator.begin_flush()
        waiter: Waiter[int] = Waiter()
        left = len(batches)

        def end() -> None:
            waiter.complete(undelivered_records(batches))

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
        self._give_up(
            "the producer was closed before the record was acknowledged; if it had been sent, it "
            "may be written. What to do: give close() more time"
        )
        closed.complete(flushed.result())


def undelivered_records(batches: list[ProducerBatch]) -> int:
    """How many of their records have no outcome yet."""
    return sum(int(batch.count) for batch in batches if not batch.result.done)
