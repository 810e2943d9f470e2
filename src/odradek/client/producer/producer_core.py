"""ProducerCore: the parts of a producer and its work on the owner thread, without threads or loops.

    SendPath ─► RecordRouter ─► RecordAccumulator ─► Sender ─► brokers
                 │ has to wait       ▲
                 └─► PendingSend ────┘

A record that cannot be appended at once becomes a `PendingSend`. It waits for metadata, then for
memory; the blocking producer blocks on it, the awaited producer awaits it:

    start ─► the topic is known? ─► it has the partition? ─► append ─┬─► done: the record's future
      ▲          ▲    no: ask again ─┘                        ▲      └─► no memory: join the queue
      │          └── UNKNOWN_TOPIC_OR_PARTITION: ask again    └─────────  for it ───────┐
      └── the topic was forgotten meanwhile ────────────────────────────────────────────┘

It ends once, with its waiter: in a future, in an error that is final, or after `max.block.ms` for
both waits together. A caller that no longer wants it fails the waiter; then nothing was queued, and
memory granted in the meantime goes back.

`Metadata` keeps the topics that were used lately; every new image updates their queues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import final

from librt.threading import Lock

from odradek.client.arguments import checked_topic, limit_ms, text_of
from odradek.client.engine import Engine
from odradek.client.errors import (
    BufferFull,
    ClientClosed,
    ConfigError,
    IllegalState,
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
from odradek.client.producer.transaction_phases import ProducerTransaction
from odradek.client.producer.transaction_steps import Transactions
from odradek.client.waiter import Waiter, completed
from odradek.model.errors import ErrorCode
from odradek.timing.timer_task import TimerTask

NOT_OF_THE_RECORD = (BufferFull, ClientClosed, ConfigError, IllegalState)
"""Errors of `send` after which the same record may be sent again, or none can."""
NO_LONGER_NEEDED = KafkaError("the memory is no longer needed")


class PendingSend:
    """One record that waits for metadata or memory. Owner thread only."""

    def __init__(self, core: ProducerCore, record: SerializedRecord, max_block_ms: int) -> None:
        self.waiter: Waiter[FutureRecordMetadata] = Waiter()
        self.record = record
        self._core = core
        self._max_block_ms = max_block_ms
        self._memory: MemoryWaiter | None = None
        self._since_ms = 0
        """When the present wait began."""
        self._metadata_wanted = False
        self._task = core.engine.timer.call_later(max_block_ms, self._timed_out)
        self.waiter.add_callback(self._ended)

    def start(self) -> None:
        """Append the record, or wait until that is possible."""
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
            self._waits_for_metadata()
            metadata.newer_than(version).add_callback(self._metadata_updated)
        else:
            core.update_topic_queues(metadata.image, info)
            self._append(None)

    def _waits_for_metadata(self) -> None:
        if not self._metadata_wanted:
            self._metadata_wanted = True
            self._since_ms = self._core.engine.now_ms

    def _record_metadata_wait(self) -> None:
        if self._metadata_wanted:
            self._metadata_wanted = False
            now_ms = self._core.engine.now_ms
            self._core.metrics.metadata_wait.record(now_ms - self._since_ms, now_ms)

    def _metadata_updated(self, waiter: Waiter[ClusterImage]) -> None:
        if waiter.error is not None:
            self.waiter.fail(waiter.error)
        else:
            self.start()

    def _append(self, spare: Buffer | None) -> None:
        self._record_metadata_wait()
        try:
            future = self._core.router.append(self.record, spare)
        except Exception as error:
            self.waiter.fail(error)
            return
        if future is not None:
            self.waiter.complete(future)
            return
        self._since_ms = self._core.engine.now_ms
        self._memory = self._core.wait_for_memory(self.record)
        self._memory.waiter.add_callback(self._memory_granted)

    def _record_memory_wait(self) -> None:
        now_ms = self._core.engine.now_ms
        self._core.metrics.bufferpool_wait.record(now_ms - self._since_ms, now_ms)

    def _memory_granted(self, waiter: Waiter[Buffer]) -> None:
        if self._memory is not None:
            self._record_memory_wait()
        self._memory = None
        if waiter.error is not None:
            self.waiter.fail(waiter.error)
        elif self._core.router.knows_topic(self.record):
            self._append(waiter.result())
        else:
            self._core.accumulator.pool.put_back(waiter.result())
            self.start()

    def _ended(self, waiter: Waiter[FutureRecordMetadata]) -> None:
        """Stop the timer, and leave the queue for memory if it is still in it."""
        self._task.cancel()
        self._record_metadata_wait()
        memory, self._memory = self._memory, None
        if memory is not None:
            self._record_memory_wait()
            self._core.accumulator.pool.give_up(memory, NO_LONGER_NEEDED)

    def _timed_out(self) -> None:
        if self._memory is not None:
            self._core.accumulator.record_refused()
        self.waiter.fail(self._timeout_error())

    def _timeout_error(self) -> KafkaError:
        """Return the error of a record that timed out, by what it waited for."""
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
    """Return the error for a topic that did not become known within `max.block.ms`."""
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
        f"no metadata of topic {topic} {within}: {trouble}. What to do: check "
        "bootstrap.servers and the brokers, or raise max.block.ms"
    )


log = logging.getLogger(__name__)


@final
class ProducerCore:
    """The parts of one producer. Owner thread only, except for `router`."""

    def __init__(
        self, engine: Engine, settings: ProducerSettings, wait_strategy: WaitStrategy
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.metrics = ProducerMetrics()
        self.pool_lock = Lock()
        self.accumulator_lock = Lock()
        pool = BufferPool(settings.buffer_bytes, settings.accumulator.batch_bytes, self.pool_lock)
        self.accumulator = RecordAccumulator(
            settings.accumulator,
            pool,
            self.accumulator_lock,
            wait_strategy,
            engine.env.clock,
            engine.env.random,
            engine.backoff,
            manager := transaction_manager(settings),
        )
        self.router = RecordRouter(self.accumulator, settings)
        self.sender = Sender(engine, self.accumulator, settings.sender, self.metrics)
        self.transactions: Transactions | None = None
        """The producer's transactions; None without a transactional id."""
        if manager is not None and manager.transaction is not None:
            self.transactions = Transactions(
                engine,
                manager,
                self.accumulator,
                self.sender,
                lambda: self.flush(None),
                self.metrics,
            )
        self.pending: dict[PendingSend, None] = {}
        """Records that could not be appended yet."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to send. The engine is started. `wake` may be called on any thread, and calls
        `sender.run_soon` on the owner thread."""
        self.accumulator.wake = wake
        self.engine.metadata.listen(self._image_updated)
        self.sender.start()

    # Records that have to wait.

    def send_later(self, record: SerializedRecord) -> PendingSend:
        """Wait with a record that could not be appended."""
        pending = PendingSend(self, record, self.settings.max_block_ms)
        self.pending[pending] = None
        pending.waiter.add_callback(lambda _: self.pending.pop(pending, None))
        pending.start()
        return pending

    def wait_for_memory(self, record: SerializedRecord) -> MemoryWaiter:
        """Join the queue for the memory that the record needs, and have waiting batches sent."""
        size = self.accumulator.buffer_size_for(record.key, record.value, record.headers)
        waiter = self.accumulator.pool.wait(size)
        self.sender.run_soon()
        return waiter

    # Transactions.

    def breaks_transaction(self, error: KafkaError) -> bool:
        """True if the error of a record that was not queued fails the open transaction, as in
        Java's producer; then `Transactions.record_refused` is called. Any thread."""
        return self.transactions is not None and not isinstance(error, NOT_OF_THE_RECORD)

    @property
    def transactions_or_error(self) -> Transactions:
        """The producer's transactions. Raises `IllegalState` if it has none."""
        if self.transactions is None:
            raise IllegalState(
                "this producer has no transactions. What to do: give it a transactional.id, a name "
                "that no other running producer has"
            )
        return self.transactions

    def timeout_or_max_block_ms(self, timeout_s: float | None) -> int:
        """Return a timeout in ms, which is `max.block.ms` if none is given."""
        return self.settings.max_block_ms if timeout_s is None else limit_ms(timeout_s)

    # Topics.

    def partitions_for(self, name: object) -> Waiter[list[int]]:
        """Return the partitions of a topic, waiting up to `max.block.ms` until it is known. Raises
        `TypeError` for a name that is not text."""
        topic = text_of("topic", name)
        began_ms = self.engine.now_ms
        waiter: Waiter[list[int]] = Waiter()
        found = self.engine.within(
            self.settings.max_block_ms,
            self.engine.wait_for_topic(topic),
            lambda: unknown_topic_error(topic, self.engine.metadata, self.settings.max_block_ms),
        )

        def known(found: Waiter[TopicInfo]) -> None:
            now_ms = self.engine.now_ms
            self.metrics.metadata_wait.record(now_ms - began_ms, now_ms)
            if found.error is not None:
                waiter.fail(found.error)
            else:
                self.update_topic_queues(self.engine.metadata.image, found.result())
                waiter.complete(list(found.result().partitions))

        found.add_callback(known)
        return waiter

    def update_topic_queues(self, image: ClusterImage, info: TopicInfo) -> None:
        """Update the queues of a topic by the leaders of its partitions."""
        leaders = [
            (image.leader(info.name, number), image.leader_epoch(info.name, number))
            for number in range(info.count)
        ]
        self.accumulator.update_topic(info.name, leaders)

    def _image_updated(self, image: ClusterImage) -> None:
        for name in self.accumulator.topics:
            info = image.topics.get(name)
            if info is None:
                if self.accumulator.forget_topic(name):
                    self.metrics.forget_topic(name)
            elif not info.error:
                self.update_topic_queues(image, info)

    # Closing.

    def abandon(self) -> None:
        """End at once, because the producer object was garbage collected."""
        left = self.accumulator.incomplete_records
        if left and not self.engine.closed:
            log.warning(
                "a producer was garbage collected with %d records that were not delivered. What to "
                "do: close it, or use it in a `with` block",
                left,
            )
        self._give_up(
            "the producer was garbage collected. What to do: close it, or use it in a `with` block"
        )

    def break_off(self) -> None:
        """End at once, because the caller of `close` does not wait any more."""
        self._give_up(
            "closing the producer was cancelled before the record was acknowledged; if it had been "
            "sent, it may be written. What to do: let close() finish"
        )

    def _give_up(self, why: str) -> None:
        reason = ClientClosed(why)
        if self.accumulator.closed is None:
            self.accumulator.close(reason)
        self.sender.abort_incomplete(reason)
        self.engine.close()

    def flush(self, timeout_ms: int | None) -> Waiter[int]:
        """Send all present batches without lingering, and wait for their outcome. The waiter
        completes with the number of records without outcome when the time was over."""
        batches = self.accumulator.begin_flush()
        flush = PendingFlush(self, batches)
        waiter = flush.waiter
        for batch in batches:
            batch.result.add_callback(flush.batch_done)
        if not batches:
            flush.end()
        elif timeout_ms is not None and not waiter.done:
            task = self.engine.timer.call_later(timeout_ms, flush.end)
            waiter.add_callback(partial(cancel, task))
        self.sender.run_soon()
        return waiter

    def flush_ended(self, began_ms: int) -> None:
        """Let batches linger again, unless other flushes go on."""
        self.accumulator.end_flush()
        now_ms = self.engine.now_ms
        self.metrics.flush_time.record(now_ms - began_ms, now_ms)

    def close(self, timeout_ms: int | None) -> Waiter[int]:
        """Refuse further records, send the present ones, and end; after `timeout_ms`, fail the
        rest. The waiter completes with their number."""
        reason = ClientClosed("the producer is closed. What to do: make another one")
        if self.accumulator.closed is None:
            self.accumulator.close(reason)
        for pending in list(self.pending):
            pending.waiter.fail(reason)
        closed: Waiter[int] = Waiter()

        def flush(_: Waiter[None]) -> None:
            # Not from within the callback that ends the flush: other callbacks of the batch run
            # first.
            self.flush(timeout_ms).add_callback(
                lambda flushed: self.engine.env.call_soon(lambda: self._end(flushed, closed))
            )

        if self.transactions is None:
            flush(completed(None))
        else:
            self.transactions.finish(timeout_ms).add_callback(flush)
        return closed

    def _end(self, flushed: Waiter[int], closed: Waiter[int]) -> None:
        self._give_up(
            "the producer was closed before the record was acknowledged; if it had been sent, it "
            "may be written. What to do: give close() more time"
        )
        closed.complete(flushed.result())


@final
class PendingFlush:
    """The wait for the outcome of some batches."""

    def __init__(self, core: ProducerCore, batches: list[ProducerBatch]) -> None:
        self._core = core
        self._batches = batches
        self._left = len(batches)
        self._began_ms = core.engine.now_ms
        self.waiter: Waiter[int] = Waiter()
        # Also when a caller that no longer waits fails the waiter.
        self.waiter.add_callback(self._ended)

    def batch_done(self) -> None:
        """Count a batch that has its outcome."""
        self._left -= 1
        if not self._left:
            self.end()

    def end(self) -> None:
        """Complete the waiter with the number of records without outcome."""
        self.waiter.complete(undelivered_records(self._batches))

    def _ended(self, _: Waiter[int]) -> None:
        self._core.flush_ended(self._began_ms)


def cancel(task: TimerTask, _: Waiter[int]) -> None:
    """Cancel the timeout of a flush that has ended."""
    task.cancel()


def transaction_manager(settings: ProducerSettings) -> TransactionManager | None:
    """Return the manager of a producer's sequence numbers; None if it is not idempotent."""
    if settings.transactional_id is not None:
        return TransactionManager(
            ProducerTransaction(settings.transactional_id, settings.transaction_timeout_ms)
        )
    return TransactionManager() if settings.idempotence else None


def undelivered_records(batches: list[ProducerBatch]) -> int:
    """Return how many of their records have no outcome yet."""
    return sum(int(batch.count) for batch in batches if not batch.result.done)
