"""RecordAccumulator: the queues between the application's threads and the `Sender`.

    append ─► TopicQueues ─► PartitionQueue:  [ batch | batch | open batch ]  ─► ready ─► drain
                                                ▲                                       │
                                                └──────── reenqueue, split ◄── Sender ◄─┘

The application's side. Records are appended to the last batch of their partition while it has room
for them; then a new batch is begun in a buffer of the pool. That takes two steps, because the lock
is not held while memory is allocated: try to append; if there is no room, allocate a buffer; try
again, because another thread may have begun a batch meanwhile, and only then begin one.

The sender's side. A batch is ready when it is full (another one was begun behind it, or nothing
more fits), when it has lingered `linger.ms`, when somebody waits for memory, during a flush, or
when the producer is closing. A batch that failed waits for its back-off.

`drain` takes at most one batch of each partition whose leader is ready, because the protocol allows
one batch per partition in a request. The queues are in rotation: a drained queue goes to the end,
so no partition starves when the size of a request is the limit. Muted partitions are skipped.

A queue is always sorted: a batch that comes back is put in its old place. Sealing, with the
compression, is done outside of the lock.

The map of topics is copied when it changes, so it is read without the lock. The lock guards all
else, and is held for moments only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from librt.threading import Lock
from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.buffer_pool import Buffer, BufferPool
from odradek.client.producer.futures import (
    Deliveries,
    ProduceRequestResult,
    WaitStrategy,
    serialized_size,
)
from odradek.client.producer.partition_queue import NO_LEADER, PartitionQueue, TopicQueues
from odradek.client.producer.partitioner import BuiltInPartitioner
from odradek.client.producer.producer_batch import DeliveryCallback, ProducerBatch, split
from odradek.client.producer.record_input import ColumnInput
from odradek.client.producer.settings import AccumulatorSettings
from odradek.client.producer.transaction_manager import TransactionManager
from odradek.model.env import Clock, Random
from odradek.model.topics import TopicPartition
from odradek.network_client.backoff import ExponentialBackoff
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.records import size_upper_bound

NEVER_MS: Final[i64] = 1 << 60


@final
class ReadyCheckResult:
    """The nodes that have something to be sent, when to check again if nothing happens before, and
    the topics with partitions without a leader."""

    def __init__(self) -> None:
        self.ready_nodes: dict[int, None] = {}
        self.next_check_delay_ms: i64 = NEVER_MS
        self.unknown_leader_topics: dict[str, None] = {}


@final
class NodeLatencyStats:
    """The times when batches for a node were last ready, and last drained."""

    def __init__(self, now_ms: i64) -> None:
        self.ready_ms = now_ms
        self.drained_ms = now_ms

    @property
    def waiting_ms(self) -> i64:
        return self.ready_ms - self.drained_ms


def no_sender() -> None:
    """The `wake` of an accumulator without a sender."""


@final
class RecordAccumulator:
    """The batches of one producer that no request carries. Without a `transaction_manager` the
    producer is not idempotent."""

    def __init__(
        self,
        settings: AccumulatorSettings,
        pool: BufferPool,
        lock: Lock,
        wait_strategy: WaitStrategy,
        clock: Clock,
        random: Random,
        retry_backoff: ExponentialBackoff,
        transaction_manager: TransactionManager | None = None,
    ) -> None:
        self.settings = settings
        self.pool = pool
        self.topics: dict[str, TopicQueues] = {}
        """By name; replaced, never changed."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """All batches that are not done, oldest first."""
        self.closed: KafkaError | None = None
        self.refusal: KafkaError | None = None
        """Why no records are taken: the producer is closed, or has no open transaction."""
        self.wake: Callable[[], None] = no_sender
        """Called when there may be something to send; any thread."""
        self.transaction_manager = transaction_manager
        self._transactional = (
            transaction_manager is not None and transaction_manager.transaction is not None
        )
        self.lock = lock
        self._wait_strategy = wait_strategy
        self._clock = clock
        self._random = random
        self._retry_backoff = retry_backoff
        self._active: dict[PartitionQueue, None] = {}
        """The queues that are not empty, in rotation."""
        self._flushes: i64 = 0
        self._latencies: dict[int, NodeLatencyStats] = {}

    # Topics.

    def update_topic(self, name: str, leaders: Sequence[tuple[int, int]]) -> TopicQueues:
        """Set the leader's id and epoch of every partition of a topic; `NO_LEADER` for none."""
        with self.lock:
            topic = self.topics.get(name)
            if topic is None:
                topic = TopicQueues(
                    name, BuiltInPartitioner(self.settings.batch_bytes, self._random)
                )
                self.topics = {**self.topics, name: topic}
            topic.update(leaders)
        return topic

    def forget_topic(self, name: str) -> bool:
        """Drop an unused topic; False if there are still records for it."""
        with self.lock:
            topic = self.topics.get(name)
            # Batches in flight count too: they return to the queue when they are sent again.
            if topic is None or any(b.topic_partition.topic == name for b in self.incomplete):
                return topic is None
            self.topics = {other: info for other, info in self.topics.items() if other != name}
            return True

    # Records.

    def record_refused(self) -> None:
        """Record that a record was refused for want of room. Any thread."""
        self.pool.record_refused(self._clock.monotonic_ms())

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
        """Append a record; `partition` -1 leaves the choice to the topic's partitioner.

        Returns the result of the record's batch, and the record's index in it. None: there is no
        memory; call again with a `spare` buffer, of `buffer_size_for` the record. If the buffer is
        not needed it goes back to the pool, also when this raises because the producer is closed.
        """
        try:
            with self.lock:
                result, index, full = self.try_append(
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
            spare = self.pool.allocate(self.buffer_size_for(key, value, encoded_headers))
            if spare is None:
                return None, 0
        now_ms: i64 = self._clock.monotonic_ms()
        unused = True
        try:
            with self.lock:
                result, index, _ = self.try_append(
                    topic, partition, timestamp_ms, key, value, encoded_headers, callback
                )
                if result is None:
                    self._begin_batch(topic, partition, spare, now_ms)
                    unused = False
                    result, index, _ = self.try_append(
                        topic, partition, timestamp_ms, key, value, encoded_headers, callback
                    )
        finally:
            if unused:
                self.pool.put_back(spare)
        self.wake()
        return result, index

    def try_append(
        self,
        topic: TopicQueues,
        partition: i64,
        timestamp_ms: i64,
        key: bytes | None,
        value: bytes | None,
        encoded_headers: bytes,
        callback: DeliveryCallback | None,
    ) -> tuple[ProduceRequestResult | None, i64, bool]:
        """Append to the open batch of the partition, if there is one with room. Returns the batch's
        result, the record's index, and whether the batch is full. The caller holds `lock`, and
        calls `wake` afterwards if it is."""
        if self.refusal is not None:
            raise self.refusal
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
                    batch.on_delivery(
                        callback, timestamp_ms, serialized_size(key), serialized_size(value)
                    )
                full = batch.is_full
                if partition < 0:
                    partitioner.update(batch.size - before, full)
                return batch.result, index, full
            queue.open = None
            if partition >= 0 or not partitioner.update(0, True):
                return None, 0, True

    def append_columns(
        self,
        topic: TopicQueues,
        partition: i64,
        columns: ColumnInput,
        first: i64,
        end: i64,
        timestamp_ms: i64,
        max_record_bytes: i64,
        deliveries: Deliveries,
    ) -> i64:
        """Append records of plain columns from index `first` on to the open batch of a partition,
        as `ProducerBatch.append_columns` does; return the index at which it stopped. The caller
        holds `lock`.

        No batch becomes full, as the upper bound of a record is larger than its size: the sender
        need not be woken."""
        if self.refusal is not None:
            raise self.refusal
        partitioner = topic.partitioner
        batch = topic.queues[partition if partition >= 0 else partitioner.peek()].open
        if batch is None:
            return first
        count, size = batch.count, batch.size
        max_bytes = batch.limit if partition >= 0 else partitioner.bytes_left
        index = batch.append_columns(columns, first, end, timestamp_ms, max_record_bytes, max_bytes)
        if index > first:
            deliveries.add(batch.result, count, index - first)
            if partition < 0:
                partitioner.update(batch.size - size, False)
        return index

    def _begin_batch(self, topic: TopicQueues, partition: i64, buffer: Buffer, now_ms: i64) -> None:
        queue = topic.queues[partition if partition >= 0 else topic.partitioner.peek()]
        name, number = queue.topic_partition
        settings = self.settings
        batch = ProducerBatch(
            queue.topic_partition,
            ProduceRequestResult(name, number, self._wait_strategy, self.lock),
            RecordBatchBuilder(
                settings.codec,
                level=settings.level,
                transactional=self._transactional,
                writer=buffer.writer,
            ),
            buffer,
            buffer.size,
            now_ms,
            queue.next_ordinal(),
        )
        queue.begin(batch)
        self._active[queue] = None
        self.incomplete[batch] = None

    def buffer_size_for(
        self, key: bytes | None, value: bytes | None, encoded_headers: bytes
    ) -> i64:
        """Return the buffer size of a batch that begins with this record."""
        size: i64 = HEADER_BYTES + size_upper_bound(key, value, encoded_headers)
        return size if size > self.settings.batch_bytes else self.settings.batch_bytes

    # Sending.

    def ready(self, now_ms: i64) -> ReadyCheckResult:
        """Return the nodes that have something to be sent now."""
        result = ReadyCheckResult()
        if self.settings.adaptive:
            self._update_load_stats(now_ms)
        with self.lock:
            hurry = self.closed is not None or self._flushes > 0 or bool(self.pool.waiters)
            for queue in self._active:
                if queue.leader_id == NO_LEADER:
                    result.unknown_leader_topics[queue.topic_partition.topic] = None
                elif not queue.muted:
                    delay_ms = queue.delay_ms(hurry, self.settings.linger_ms, now_ms)
                    if delay_ms <= 0:
                        result.ready_nodes[queue.leader_id] = None
                    elif delay_ms < result.next_check_delay_ms:
                        result.next_check_delay_ms = delay_ms
        return result

    def _update_load_stats(self, now_ms: i64) -> None:
        """Give the partitioners in use the lengths of the queues, once in a millisecond."""
        slow: set[int] = set()
        for node_id, latency in self._latencies.items():
            if latency.waiting_ms > self.settings.availability_timeout_ms:
                slow.add(node_id)
        with self.lock:
            for topic in {queue.topic_partition.topic: None for queue in self._active}:
                self.topics[topic].update_load_stats(slow, now_ms)

    def update_node_latency(self, node_id: int, now_ms: i64, can_drain: bool) -> None:
        """Note that there are batches for a node, and whether it can be sent some."""
        if self.settings.availability_timeout_ms > 0:
            latency = self._latencies.get(node_id)
            if latency is None:
                latency = self._latencies[node_id] = NodeLatencyStats(now_ms)
            latency.ready_ms = now_ms
            if can_drain:
                latency.drained_ms = now_ms

    def drain(
        self, nodes: Sequence[int], max_bytes: i64, now_ms: i64
    ) -> dict[int, list[ProducerBatch]]:
        """Take out and seal the batches to send to these nodes: at most `max_bytes` for each, or a
        single batch."""
        drained: dict[int, list[ProducerBatch]] = {node: [] for node in nodes}
        sizes: dict[int, int] = dict.fromkeys(nodes, 0)
        with self.lock:
            for queue in list(self._active):
                node: int = queue.leader_id
                batches = drained.get(node)
                if batches is None or queue.muted:
                    continue
                batch = queue.batches[0]
                size = sizes[node] + batch.size
                if (batches and size > max_bytes) or not self._may_drain(batch, node, now_ms):
                    continue
                self._take_first(queue)
                batch.node_id = node
                batches.append(batch)
                sizes[node] = size
        for batches in drained.values():
            for batch in batches:
                batch.drained_ms = now_ms
                if not batch.is_sealed:
                    batch.seal(self.pool)
        return drained

    def _may_drain(self, batch: ProducerBatch, node_id: i64, now_ms: i64) -> bool:
        if batch.in_retry and batch.backoff_left_ms(now_ms) > 0:
            return False
        manager = self.transaction_manager
        if manager is not None:
            if not manager.may_drain(batch, node_id):
                return False
            manager.assign_sequence(batch)
        return True

    def _take_first(self, queue: PartitionQueue) -> ProducerBatch:
        """Take out the first batch of a queue and put the queue at the end of the rotation."""
        del self._active[queue]
        batch = queue.take_first()
        if queue.batches:
            self._active[queue] = None
        return batch

    def mute(self, partition: TopicPartition, muted: bool) -> None:
        """Mute or unmute a partition. `drain` skips muted partitions."""
        self.topics[partition.topic].queues[partition.partition].muted = muted

    def expired_batches(self, now_ms: i64) -> list[ProducerBatch]:
        """Take out the batches that have waited for `delivery.timeout.ms`."""
        timeout_ms = self.settings.delivery_timeout_ms
        expired: list[ProducerBatch] = []
        with self.lock:
            for queue in list(self._active):
                while queue.batches and queue.batches[0].has_expired(timeout_ms, now_ms):
                    expired.append(self._take_first(queue))
        return expired

    def next_expiry_ms(self) -> i64:
        """Return the time at which the oldest waiting batch expires."""
        oldest_ms = NEVER_MS
        with self.lock:
            for queue in self._active:
                created_ms = queue.batches[0].created_ms
                if created_ms < oldest_ms:
                    oldest_ms = created_ms
        return oldest_ms + self.settings.delivery_timeout_ms

    def reenqueue(self, batch: ProducerBatch, now_ms: i64) -> None:
        """Put a failed batch back, to be sent again after its back-off."""
        batch.reenqueued(now_ms, self._retry_backoff.backoff_ms(batch.attempts))
        with self.lock:
            self._insert(batch)

    def split_and_reenqueue(self, big: ProducerBatch) -> int:
        """Replace a batch that is too large for the broker by smaller ones; return how many."""
        parts = split(big, self.settings.codec, self.settings.level)
        if self.transaction_manager is not None:
            self.transaction_manager.replace_by_parts(big, parts)
        with self.lock:
            for part in parts:
                self.incomplete[part] = None
                self._insert(part)
        big.split_into(parts)
        self.deallocate(big)
        return len(parts)

    def _insert(self, batch: ProducerBatch) -> None:
        name, number = batch.topic_partition
        queue = self.topics[name].queues[number]
        queue.insert(batch)
        self._active[queue] = None

    # Completion, flushing and closing.

    def deallocate(self, batch: ProducerBatch) -> None:
        """Forget a batch that is done, and free its memory unless a request still carries it."""
        with self.lock:
            self.incomplete.pop(batch, None)
        if not batch.in_flight:
            batch.release(self.pool)

    def begin_flush(self) -> list[ProducerBatch]:
        """Let no batch linger until `end_flush`; return the batches to wait for."""
        with self.lock:
            self._flushes += 1
            return list(self.incomplete)

    def end_flush(self) -> None:
        with self.lock:
            self._flushes -= 1

    def close(self, reason: KafkaError) -> None:
        """Refuse further records with `reason`, and let no batch linger."""
        with self.lock:
            self.closed = self.refusal = reason
        self.pool.close(reason)

    def refuse(self, reason: KafkaError) -> None:
        """Refuse records with `reason` until `accept`: no transaction is open, or it failed."""
        with self.lock:
            if self.closed is None:
                self.refusal = reason

    def accept(self) -> None:
        """Take records again, unless the producer is closed."""
        with self.lock:
            self.refusal = self.closed

    def take_all(self) -> list[ProducerBatch]:
        """Take out all waiting batches, to be failed."""
        with self.lock:
            taken = [batch for queue in self._active for batch in queue.batches]
            for queue in self._active:
                queue.batches.clear()
                queue.open = None
            self._active = {}
        return taken

    @property
    def incomplete_records(self) -> int:
        """The number of records whose outcome is not known."""
        with self.lock:
            return sum(int(batch.count) for batch in self.incomplete if not batch.done)

    @property
    def has_undrained(self) -> bool:
        """True if there is a batch that waits to be sent."""
        return len(self._active) > 0
