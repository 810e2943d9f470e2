"""All partitions of this broker, and the purgatories of the requests that wait for them.

Four purgatories hold delayed requests by topic-partition. They are checked when the high watermark
moved, after an append (`log.durability=os`) or after its flush (`fsync`); when a log start became
durable; and when a partition was removed or failed. Only these events and the deadlines complete
a request. A coordinator that keeps its state in a topic gets the same events as a listener.

Failures: an fsync or write that failed fences the whole data directory: every partition goes
offline (KAFKA_STORAGE_ERROR), and nothing is acknowledged. Damage in one log takes only that
partition offline. A full disk refuses the append that met it; the next one may succeed.
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
from odradek.replication.delete_records import DeleteRecordsStatus
from odradek.replication.flusher import Flusher
from odradek.replication.log_start_sync import LogStartSyncer
from odradek.replication.partition import (
    Durability,
    Partition,
    PartitionListener,
    PartitionTotals,
)
from odradek.timing import DelayedOperationPurgatory, SystemTimer

log = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
HIGH_WATERMARK: Final = -1
"""The offset in DeleteRecords that means the high watermark: that of the present log end."""
REFUSED_LOG_MS = 10_000
"""At most one log line about refused appends in this time."""


def do_nothing() -> None:
    """The default callback."""


class ReplicaManager:
    """The partitions and their purgatories. All methods run on the owner thread."""

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
        self.list_offsets_purgatory = DelayedOperationPurgatory("ListOffsets", timer)
        self.flusher = Flusher(
            env, self._flushed, lambda partition, failure: self.fail_directory(failure)
        )
        self.listeners: dict[str, PartitionListener] = {}
        self.log_start_syncer = LogStartSyncer(env, self.log_start_moved, self.fail_directory)
        self.on_unflushed: Callable[[], object] = do_nothing
        """Called after each append that is not flushed at once (`log.durability=os`)."""
        self.directory_failed = False
        self.removed = PartitionTotals()
        """The counts of partitions that are gone, so that sums over all never go down."""
        self._refused = 0
        self._refused_logged_ms: int | None = None

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.by_name.values())

    # -- partitions ------------------------------------------------------------------------------

    def add(
        self, key: TopicPartition, topic_id: UUID, opened: Log, leader_epoch: int, rules: BatchRules
    ) -> Partition:
        """Add a partition that this broker leads, with its opened log."""
        partition = Partition(key, topic_id, self.node_id, self._went_offline)
        partition.lead(opened, leader_epoch, rules, self.durability)
        self._register(partition)
        if self.directory_failed:
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        elif opened.dirty:
            self.flusher.request(partition)
        listener = self.listeners.get(key.topic)
        if listener is not None:
            listener.opened(partition)
        return partition

    def add_offline(self, key: TopicPartition, topic_id: UUID) -> None:
        """Add a partition whose log could not be opened: requests get KAFKA_STORAGE_ERROR."""
        self._register(Partition(key, topic_id, self.node_id, self._went_offline))

    def _register(self, partition: Partition) -> None:
        replaced = self.by_name.get(partition.topic_partition)
        if replaced is not None:
            self.removed.add(replaced)
        self.by_name[partition.topic_partition] = partition
        self.by_id[partition.topic_id, partition.topic_partition.partition] = partition

    def remove(self, key: TopicPartition) -> Partition | None:
        """Remove a deleted partition and answer the requests that wait for it."""
        partition = self.by_name.pop(key, None)
        if partition is None:
            return None
        del self.by_id[partition.topic_id, key.partition]
        self.removed.add(partition)
        partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.flusher.forget(partition)
        self._check_delayed(partition)
        return partition

    # -- produce ---------------------------------------------------------------------------------

    def append(self, partition: Partition, records: ByteRange, produce_version: int) -> AppendInfo:
        """Validate and append one batch. Call `appended` when all of a request are done."""
        partition.produces += 1
        try:
            info = partition.append(records, produce_version, self._wall_ms())
            if info.error is not NONE:
                partition.failed_produces += 1
            return info
        except LogDirFailure as failure:
            self.fail_directory(failure)
        except LogDamaged as damage:
            partition.fail(damage)
        except OSError as error:
            self._log_refused(partition, error)
        partition.failed_produces += 1
        return AppendInfo(ErrorCode.KAFKA_STORAGE_ERROR)

    def _log_refused(self, partition: Partition, error: OSError) -> None:
        """Count a refused append and log at times: a full disk has no space for many lines."""
        self._refused += 1
        now_ms = self.env.clock.monotonic_ms()
        if self._refused_logged_ms is None or now_ms - self._refused_logged_ms >= REFUSED_LOG_MS:
            count, self._refused = self._refused, 0
            self._refused_logged_ms = now_ms
            log.error(
                "%d appends failed, the last to %s: %s", count, partition.topic_partition, error
            )

    def appended(self, partition: Partition) -> None:
        """After an append: request a flush, or raise the high watermark and check who waits."""
        if self.durability.fsync or partition.must_flush_first():
            self.flusher.request(partition)
        else:
            self.on_unflushed()
            if partition.advance_high_watermark():
                self._check_delayed(partition)

    def _flushed(self, partition: Partition) -> None:
        if partition.advance_high_watermark():
            self._check_delayed(partition)

    def _check_delayed(self, partition: Partition) -> None:
        """Check the delayed requests of a partition. Each purgatory is checked, even if the check
        of another one raises.
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
                    try:
                        self.list_offsets_purgatory.check_and_complete(key)
                    finally:
                        self._notify_listener(partition)

    def _went_offline(self, partition: Partition) -> None:
        """Answer the requests that wait for it, but not within the read that found the damage."""
        self.env.call_soon(lambda: self._check_delayed(partition))

    def _notify_listener(self, partition: Partition) -> None:
        listener = self.listeners.get(partition.topic_partition.topic)
        if listener is not None:
            listener.updated(partition)

    # -- delete records --------------------------------------------------------------------------

    def delete_records(self, topic: str, index: int, offset: int) -> DeleteRecordsStatus:
        """Raise the log start offset of one partition; -1 means to its end.

        The status is pending until the records are committed and the new log start is durable.
        """
        partition = self.by_name.get((topic, index))
        if partition is None:
            return DeleteRecordsStatus(None, -1, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = partition.availability()
        if error is not ErrorCode.NONE:
            return DeleteRecordsStatus(partition, -1, False, error)
        end = partition.log.log_end_offset
        target = end if offset == HIGH_WATERMARK else offset
        status = DeleteRecordsStatus(partition, target, True, ErrorCode.REQUEST_TIMED_OUT)
        if partition.high_watermark < target <= end and partition.log.config.delete:
            status.delete = self._delete_records
        else:
            self._delete_records(status)
        return status

    def _delete_records(self, status: DeleteRecordsStatus) -> None:
        """Raise the log start offset to the target of a pending status."""
        partition, target = status.partition, status.target
        assert partition is not None, "a pending status has a partition"
        try:
            error = partition.delete_records(target)
        except LogDirFailure as failure:
            self.fail_directory(failure)
            error = ErrorCode.KAFKA_STORAGE_ERROR
        except OSError as refused:
            log.error("deleting records of %s failed: %s", partition.topic_partition, refused)
            error = ErrorCode.KAFKA_STORAGE_ERROR
        opened = partition.log
        if error is not ErrorCode.NONE:
            status.pending, status.error = False, error
        elif self.durability.fsync and opened.durable_log_start < target:
            self.log_start_syncer.request(partition)
        else:
            status.pending, status.error = False, ErrorCode.NONE
            status.low_watermark = opened.log_start_offset

    def log_start_moved(self, partition: Partition) -> None:
        """A raised log start is durable: check the delayed requests."""
        self.delete_records_purgatory.check_and_complete(partition.topic_partition)

    # -- failure ---------------------------------------------------------------------------------

    def fail_directory(self, failure: LogDirFailure) -> None:
        """The data directory is fenced: take all partitions offline."""
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
            self._check_delayed(partition)
