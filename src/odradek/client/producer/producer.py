"""The producer without its face: its parts, and what belongs to the owner thread.

    Intake ─► RecordRouting ─► RecordAccumulator ─► Sender ─► brokers
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

from odradek.client.cluster_image import ClusterImage, TopicInfo
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed
from odradek.client.producer.buffer_pool import BufferPool, MemoryWaiter
from odradek.client.producer.delivery import Face
from odradek.client.producer.metrics import ProducerMetrics
from odradek.client.producer.pending_send import PendingSend, topic_unknown
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.producer_record import ProducerRecord
from odradek.client.producer.producer_settings import ProducerSettings
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.routing import RecordRouting
from odradek.client.producer.sender import Sender
from odradek.client.producer.transaction_manager import TransactionManager
from odradek.client.topic_names import text_of
from odradek.client.waiter import Waiter

log = logging.getLogger(__name__)


@final
class ProducerCore:
    """Of one producer. Owner thread only, but for what `routing` says."""

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
        self.routing = RecordRouting(self.accumulator, settings)
        self.sender = Sender(engine, self.accumulator, settings.sender, self.metrics)
        self.pending: dict[PendingSend, None] = {}
        """Records that could not be taken in yet."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to send, over an engine that was started; `wake`, called on any thread, has
        `sender.run_soon` called on this one."""
        self.accumulator.wake = wake
        self.engine.metadata.listen(self._image_came)
        self.sender.start()

    # Records that have to wait.

    def send_later(self, record: ProducerRecord) -> PendingSend:
        """What `send` could not take in: wait for what is missing."""
        pending = PendingSend(self, record, self.settings.max_block_ms)
        self.pending[pending] = None
        pending.waiter.add_callback(lambda _: self.pending.pop(pending, None))
        pending.start()
        return pending

    def wait_for_memory(self, record: ProducerRecord) -> MemoryWaiter:
        """Stand in the queue for what the record needs, and have others sent for it."""
        size = self.accumulator.room_for(record.key, record.value, record.headers)
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
            lambda: topic_unknown(topic, self.engine.metadata, self.settings.max_block_ms),
        )

        def known(found: Waiter[TopicInfo]) -> None:
            if found.error is not None:
                waiter.fail(found.error)
            else:
                self.topic_known(self.engine.metadata.image, found.result())
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
        self._give_up(
            "the producer was closed before the record was acknowledged; if it had been sent, it "
            "may be written. What to do: give close() more time"
        )
        closed.complete(flushed.result())


def records_open(batches: list[ProducerBatch]) -> int:
    """How many of their records have no outcome yet."""
    return sum(int(batch.count) for batch in batches if not batch.result.done)
