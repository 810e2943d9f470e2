"""All partitions of this broker: who they are, what is asked of them, and who is woken by what.

Requests wait in three purgatories, keyed by topic-partition. They are checked when the high
watermark moved, which an append does (`log.durability=os`) or the flush after it (`fsync`); when
the log start moved; and when a partition went away. Nothing else wakes them but their deadline. A
coordinator that keeps its state in a topic is told of the same events as its listener.

Failures: an fsync or a write that failed fences the whole data directory, so every partition goes
offline (KAFKA_STORAGE_ERROR) and nothing is acked; damage found in one log takes that partition
offline; a full disk refuses the one append that met it, and the next may succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from odradek.log.fence import LogDamaged, LogDirFailure
from odradek.log.log import AppendInfo, Log
from odradek.model.byte_ranges import ByteRange
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.validate import BatchRules
from odradek.replication.delete_records import DeleteRecordsStatus, LogStarts
from odradek.replication.flusher import Flusher
from odradek.replication.partition import Durability, Partition, PartitionListener
from odradek.timing import DelayedOperationPurgatory, SystemTimer

log = logging.getLogger(__name__)

HIGH_WATERMARK: Final = -1
"""What DeleteRecords calls it."""
REFUSED_LOG_MS = 10_000
"""At most one line about refused appends in this time."""


def nothing() -> None:
    """Whom nobody tells."""


class ReplicaManager:
    """The registry and its purgatories. Everything runs on the owner thread."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        node_id: int,
        durability: Durability,
        purge_intervals: tuple[int, int, int] = (1000, 1000, 1),
    ) -> None:
        produce, fetch, delete = purge_intervals
        self.env = env
        self._wall_ms = env.clock.wall_ms
        self.node_id = node_id
        self.durability = durability
        self.by_name: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[UUID, int], Partition] = {}
        self.produce_purgatory = DelayedOperationPurgatory("Produce", timer, produce)
        self.fetch_purgatory = DelayedOperationPurgatory("Fetch", timer, fetch)
        self.delete_records_purgatory = DelayedOperationPurgatory("DeleteRecords", timer, delete)
        self.flusher = Flusher(
            env, self._flushed, lambda partition, failure: self.fail_directory(failure)
        )
        self.listeners: dict[str, PartitionListener] = {}
        self.log_starts = LogStarts(env, self.log_start_moved, self.fail_directory)
        self.unflushed: Callable[[], object] = nothing
        """Told of each append that nobody flushes at once (`log.durability=os`)."""
        self.directory_failed = False
        self._refused = 0
        self._refused_told_ms: int | None = None

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.by_name.values())

    # -- which partitions there are --------------------------------------------------------------

    def add(
        self, key: TopicPartition, topic_id: UUID, opened: Log, leader_epoch: int, rules: BatchRules
    ) -> Partition:
        """Lead this partition from now on."""
        partition = Partition(key, topic_id, self.node_id, self._went_offline)
        partition.lead(opened, leader_epoch, rules, self.durability)
        self._register(partition)
        if self.directory_failed:
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        elif opened.dirty:
            self.flusher.wants(partition)
        listener = self.listeners.get(key.topic)
        if listener is not None:
            listener.opened(partition)
        return partition

    def add_offline(self, key: TopicPartition, topic_id: UUID) -> None:
        """A partition whose log could not be opened: known, and answering KAFKA_STORAGE_ERROR."""
        self._register(Partition(key, topic_id, self.node_id, self._went_offline))

    def _register(self, partition: Partition) -> None:
        self.by_name[partition.topic_partition] = partition
        self.by_id[partition.topic_id, partition.topic_partition.partition] = partition

    def remove(self, key: TopicPartition) -> Partition | None:
        """The partition was deleted; whoever waits for it is answered now."""
        partition = self.by_name.pop(key, None)
        if partition is None:
            return None
        del self.by_id[partition.topic_id, key.partition]
        partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.flusher.forget(partition)
        self._wake(partition)
        return partition

    # -- produce ---------------------------------------------------------------------------------

    def append(self, partition: Partition, records: ByteRange, produce_version: int) -> AppendInfo:
        """Check and append one batch; wakes nobody yet (see `appended`)."""
        try:
            return partition.append(records, produce_version, self._wall_ms())
        except LogDirFailure as failure:
            self.fail_directory(failure)
        except LogDamaged as damage:
            partition.fail(damage)
        except OSError as error:
            self._tell_refused(partition, error)
        return AppendInfo(ErrorCode.KAFKA_STORAGE_ERROR)

    def _tell_refused(self, partition: Partition, error: OSError) -> None:
        """A full disk refuses thousands of appends in a second, and has no room for their lines."""
        self._refused += 1
        now_ms = self.env.clock.monotonic_ms()
        if self._refused_told_ms is None or now_ms - self._refused_told_ms >= REFUSED_LOG_MS:
            count, self._refused = self._refused, 0
            self._refused_told_ms = now_ms
            log.error("%d appends failed, last to %s: %s", count, partition.topic_partition, error)

    def appended(self, partition: Partition) -> None:
        """An append is done: get it to disk, or let whoever waits for it go on."""
        if self.durability.fsync or partition.flush_comes_first():
            self.flusher.wants(partition)
        else:
            self.unflushed()
            if partition.advance_high_watermark():
                self._wake(partition)

    def _flushed(self, partition: Partition) -> None:
        if partition.advance_high_watermark():
            self._wake(partition)

    def _wake(self, partition: Partition) -> None:
        """The high watermark moved, or the partition went away. Each purgatory has its turn,
        whatever another one raises.
        """
        key = partition.topic_partition
        try:
            self.produce_purgatory.check_and_complete(key)
        finally:
            try:
                self.fetch_purgatory.check_and_complete(key)
            finally:
                try:
                    self.delete_records_purgatory.check_and_complete(key)
                finally:
                    self._tell(partition)

    def _went_offline(self, partition: Partition) -> None:
        """Whoever waits for it is answered, but not within the read that found it damaged."""
        self.env.call_soon(lambda: self._wake(partition))

    def _tell(self, partition: Partition) -> None:
        listener = self.listeners.get(partition.topic_partition.topic)
        if listener is not None:
            listener.moved(partition)

    # -- delete records --------------------------------------------------------------------------

    def delete_records(self, topic: str, index: int, offset: int) -> DeleteRecordsStatus:
        """Raise the log start offset of one partition; -1 means to its high watermark. The status
        is pending while that may be lost.
        """
        partition = self.by_name.get((topic, index))
        if partition is None:
            return DeleteRecordsStatus(None, -1, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = partition.availability()
        if error is ErrorCode.NONE:
            try:
                error = partition.delete_records(offset)
            except LogDirFailure as failure:
                self.fail_directory(failure)
                error = ErrorCode.KAFKA_STORAGE_ERROR
            except OSError as refused:
                log.error("records of %s stay: %s", partition.topic_partition, refused)
                error = ErrorCode.KAFKA_STORAGE_ERROR
        if error is not ErrorCode.NONE:
            return DeleteRecordsStatus(partition, -1, False, error)
        opened = partition.log
        start = opened.log_start_offset
        target = start if offset == HIGH_WATERMARK else offset
        if self.durability.fsync and opened.durable_log_start < target:
            self.log_starts.moved(partition)
            return DeleteRecordsStatus(partition, target, True, ErrorCode.REQUEST_TIMED_OUT)
        return DeleteRecordsStatus(partition, -1, False, ErrorCode.NONE, start)

    def log_start_moved(self, partition: Partition) -> None:
        """The log start of a trim is durable."""
        self.delete_records_purgatory.check_and_complete(partition.topic_partition)

    # -- failure ---------------------------------------------------------------------------------

    def fail_directory(self, failure: LogDirFailure) -> None:
        """The data directory is fenced: every partition in it goes offline."""
        if self.directory_failed:
            return
        self.directory_failed = True
        log.critical(
            "%s. All partitions are offline and nothing is acknowledged; check the disk, then "
            "restart the broker",
            failure,
        )
        for partition in list(self.by_name.values()):
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
            self._wake(partition)
