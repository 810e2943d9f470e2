"""The queues of one topic: `TopicQueues` with a `PartitionQueue` for each of its partitions.

The accumulator's lock guards them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from odradek.client.producer.partitioner import BuiltInPartitioner
from odradek.client.producer.producer_batch import NO_LEADER_EPOCH, ORDINAL_STEP, ProducerBatch
from odradek.model.topics import TopicPartition

NO_LEADER: Final = -1


@final
class PartitionQueue:
    """The batches of one partition that are not in flight, in order, and its leader."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        """The last batch, while records may be appended to it."""
        self.last_ordinal: i64 = 0
        self.muted = False
        self.leader_id: i64 = NO_LEADER
        self.leader_epoch: i64 = NO_LEADER_EPOCH

    def next_ordinal(self) -> i64:
        """Return the ordinal of a new batch."""
        self.last_ordinal += ORDINAL_STEP
        return self.last_ordinal

    def begin(self, batch: ProducerBatch) -> None:
        """Add a new batch, to which records are appended from now on."""
        self.batches.append(batch)
        self.open = batch

    def insert(self, batch: ProducerBatch) -> None:
        """Put a batch that was taken out, or a part of one, back in its place."""
        batches = self.batches
        passed: list[ProducerBatch] = []
        while batches and batches[0].ordinal < batch.ordinal:
            passed.append(batches.popleft())
        batches.appendleft(batch)
        batches.extendleft(reversed(passed))

    def take_first(self) -> ProducerBatch:
        batch = self.batches.popleft()
        if self.open is batch:
            self.open = None
        return batch

    def delay_ms(self, hurry: bool, linger_ms: i64, now_ms: i64) -> i64:
        """Return how many ms the first batch still has to wait. `hurry`: no batch lingers."""
        batch = self.batches[0]
        batch.maybe_update_leader_epoch(self.leader_epoch)
        if batch.in_retry:
            return batch.backoff_left_ms(now_ms)
        if hurry or self.open is not batch or batch.is_full:
            return 0
        return batch.created_ms + linger_ms - now_ms


@final
class TopicQueues:
    """The queues of one topic. The list of queues only grows."""

    def __init__(self, name: str, partitioner: BuiltInPartitioner) -> None:
        self.name = name
        self.partitioner = partitioner
        self.partition_count: i64 = 0
        self.available: list[int] = []
        """The partitions that have a leader."""
        self.queues: list[PartitionQueue] = []
        self._load_stats_ms: i64 = -1

    def update(self, leaders: Sequence[tuple[int, int]]) -> None:
        """Set the leader's id and epoch of every partition."""
        while len(self.queues) < len(leaders):
            self.queues.append(PartitionQueue(TopicPartition(self.name, len(self.queues))))
        available: list[int] = []
        for queue in self.queues:
            number = queue.topic_partition.partition
            leader, epoch = leaders[number] if number < len(leaders) else (NO_LEADER, -1)
            queue.leader_id, queue.leader_epoch = leader, epoch
            if leader != NO_LEADER:
                available.append(number)
        self.available = available
        self.partition_count = len(leaders)
        self.partitioner.update_partitions(len(leaders), available)

    def update_load_stats(self, slow: set[int], now_ms: i64) -> None:
        """Give the partitioner, if it is in use, the lengths of the queues, without those of slow
        nodes."""
        if self.partition_count < 2 or self.partitioner.partition < 0:
            return
        if now_ms == self._load_stats_ms:
            return
        self._load_stats_ms = now_ms
        sizes: list[int] = []
        partitions: list[int] = []
        for number in self.available:
            queue = self.queues[number]
            if queue.leader_id not in slow:
                sizes.append(len(queue.batches))
                partitions.append(number)
        self.partitioner.update_load_stats(sizes, partitions)
