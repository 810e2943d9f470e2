"""One partition led by this broker: its log, its high watermark, and its readable records.

Invariants:
- log start offset <= high watermark <= log end offset; the high watermark never goes back while the
  process lives.
- With `log.durability=fsync` the high watermark counts only bytes that are on disk (a replica's
  durable end). With `os` it counts the page cache, which is Kafka's own guarantee, except that
  `flush.messages` records are flushed first.
- With one replica the in-sync set is this broker alone, so the high watermark is its own (durable)
  end.
- An offline partition (its directory failed, or its log is damaged) answers KAFKA_STORAGE_ERROR and
  nothing else.

A partition appends and reads. It completes no delayed operation: `ReplicaManager` does that after
an append, a flush or a trim.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from uuid import UUID

from mypy_extensions import mypyc_attr

from odradek.log.fence import REFUSED_FOR_NOW, LogDamaged
from odradek.log.leader_epochs import EpochEndOffset
from odradek.log.log import AppendInfo, Log, TimestampAndOffset
from odradek.log.log_reader import LogOffsetMetadata, LogRead
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.topics import TopicPartition
from odradek.protocol.validate import BatchRules, InvalidBatch, validate

logger = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


class Isolation(IntEnum):
    """The isolation level of a reader: all committed records, or only committed transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


UNCOMMITTED: Final = Isolation.READ_UNCOMMITTED
COMMITTED: Final = Isolation.READ_COMMITTED


def isolation_of(level: int) -> Isolation:
    """The isolation level of a request. Raises `ProtocolError` for an unknown one."""
    if level == 0:
        return UNCOMMITTED
    if level == 1:
        return COMMITTED
    raise ProtocolError(f"isolation level {level}")


@dataclass(slots=True, frozen=True)
class Durability:
    """True `fsync`: the high watermark counts flushed bytes; else bytes in the page cache."""

    fsync: bool


class Partition:
    """One partition: see the module. All methods run on the owner thread; flushes do not."""

    __slots__ = (
        "durability",
        "failed_fetches",
        "failed_produces",
        "failure",
        "fetched_bytes",
        "fetches",
        "has_log",
        "high_watermark",
        "leader_epoch",
        "log",
        "node_id",
        "produces",
        "rules",
        "topic_id",
        "topic_partition",
        "went_offline",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        node_id: int,
        went_offline: Callable[[Partition], None],
    ) -> None:
        """An offline partition, without a `log` until `lead`: check `availability` before use.

        `went_offline` is called when the partition finds its log damaged.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.went_offline = went_offline
        self.failure: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR
        self.has_log = False
        """True from `lead` on, also while the partition is offline."""
        self.produces = self.failed_produces = 0
        """Appends that were requested, and those of them that failed."""
        self.fetches = self.failed_fetches = self.fetched_bytes = 0
        """Reads for fetches, those of them that failed, and the bytes in their responses."""

    def lead(self, log: Log, leader_epoch: int, rules: BatchRules, durability: Durability) -> None:
        """Serve `log` from now on, as its leader."""
        self.log = log
        self.has_log = True
        self.leader_epoch = leader_epoch
        self.rules = rules
        self.durability = durability
        self.failure = ErrorCode.NONE
        self.high_watermark = log.log_start_offset
        self.advance_high_watermark()

    # -- state ---------------------------------------------------------------------------------

    def availability(self) -> ErrorCode:
        """NONE while this broker leads the partition and its directory works."""
        return self.failure

    def acknowledgement_error(self) -> ErrorCode:
        """The error for a committed produce with `acks=-1`. One replica is always enough: the
        effective minimum is `min.insync.replicas`, at most the replication factor."""
        return NONE

    def close(self, reason: ErrorCode) -> None:
        """Go offline: every request gets `reason` from now on."""
        self.failure = reason

    def fail(self, error: Exception) -> None:
        """Go offline because the log cannot be read or trusted. Other partitions stay online."""
        if self.failure is not NONE:
            return
        logger.critical("partition %s is offline: %s", self.topic_partition, error)
        self.close(ErrorCode.KAFKA_STORAGE_ERROR)
        self.went_offline(self)

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """The error if a request's leader epoch is not ours (KIP-320); -1 is not compared."""
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def last_stable_offset(self) -> int:
        """The end for read_committed: without transactions the high watermark."""
        return self.high_watermark

    def readable_end(self, isolation: Isolation) -> int:
        """The offset up to which a reader of this isolation may read, exclusive."""
        if isolation is COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def advance_high_watermark(self) -> bool:
        """Raise the high watermark to the end of the in-sync replicas. True if it moved."""
        log = self.log
        end = log.log_end_offset
        if self.durability.fsync or end - log.flushed_offset >= log.config.flush_messages:
            end = log.flushed_offset
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        log.high_watermark = end
        return True

    def must_flush_first(self) -> bool:
        """True if `flush.messages` is reached: then only `acks=0` does not wait for the flush."""
        log = self.log
        return log.log_end_offset - log.flushed_offset >= log.flush_messages

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Where a leader epoch ends (see `LeaderEpochs`). The current epoch counts as known without
        records, though the log notes an epoch only with its first batch.
        """
        log = self.log
        if epoch == self.leader_epoch:
            return EpochEndOffset(epoch, log.log_end_offset)
        if log.latest_epoch < epoch < self.leader_epoch:
            # Nothing was appended in it. Consumers know it from a Metadata response, and would
            # report lost records if it were unknown here.
            known = epoch if log.latest_epoch == NO_EPOCH else log.latest_epoch
            return EpochEndOffset(known, log.log_end_offset)
        return log.end_offset_for_epoch(epoch)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the batch at `offset`, or of the next batch if there is none."""
        log = self.log
        return self.leader_epoch if log.latest_epoch == NO_EPOCH else log.epochs.epoch_at(offset)

    # -- append and read -----------------------------------------------------------------------

    def append(self, span: ByteRange, produce_version: int, wall_ms: int) -> AppendInfo:
        """Validate a produced batch and append it. The high watermark does not move."""
        if self.failure is not NONE:
            return AppendInfo(self.failure)
        batch = validate(span, self.rules, wall_ms, produce_version)
        if isinstance(batch, InvalidBatch):
            return AppendInfo(
                batch.error,
                log_start_offset=self.log.log_start_offset if batch.log_start_known else NO_OFFSET,
                record_errors=batch.record_errors,
                error_message=batch.message,
            )
        info = self.log.append(batch, self.leader_epoch, wall_ms)
        if info.error is ErrorCode.RECORD_LIST_TOO_LARGE:
            info.log_start_offset = NO_OFFSET  # Kafka leaves it out of this answer.
        return info

    def read(self, offset: int, max_bytes: int, isolation: Isolation, min_one: bool) -> LogRead:
        """Pinned slices of the log from `offset`, up to the end for this isolation."""
        try:
            return self.log.read(offset, max_bytes, self.readable_end(isolation), min_one)
        except (LogDamaged, OSError) as error:
            return LogRead(self.handle_read_error(error), [], 0, None)

    def offset_metadata(self, offset: int) -> LogOffsetMetadata | None:
        """The segment and position of an offset; None if it cannot be read."""
        try:
            return self.log.offset_metadata(offset)
        except (LogDamaged, OSError) as error:
            self.handle_read_error(error)
            return None

    def offset_for_timestamp(
        self, timestamp: int, isolation: Isolation
    ) -> TimestampAndOffset | ErrorCode | None:
        """The first record with this timestamp (ms) or a later one, visible to this isolation.

        None if there is none.
        """
        return self._search(self.log.offset_for_timestamp, timestamp, self.readable_end(isolation))

    def offset_for_max_timestamp(
        self, isolation: Isolation
    ) -> TimestampAndOffset | ErrorCode | None:
        """The first record with the largest timestamp, visible to this isolation; None if none."""
        return self._search(self.log.offset_for_max_timestamp, self.readable_end(isolation))

    def _search(
        self, search: Callable[..., TimestampAndOffset | None], *arguments: int
    ) -> TimestampAndOffset | ErrorCode | None:
        try:
            return search(*arguments)
        except (LogDamaged, OSError) as error:
            return self.handle_read_error(error)

    def handle_read_error(self, error: Exception) -> ErrorCode:
        """Go offline after an error of a read, unless descriptors, space or memory ran out: that
        is temporary. Return the error for the request.
        """
        if isinstance(error, OSError) and error.errno in REFUSED_FOR_NOW:
            logger.error(
                "reading partition %s failed: %s; the partition stays online",
                self.topic_partition,
                error,
            )
        else:
            self.fail(error)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def delete_records(self, offset: int) -> ErrorCode:
        """Raise the log start offset to `offset` (-1: to the high watermark)."""
        if not self.log.config.delete:
            return ErrorCode.POLICY_VIOLATION
        return self.log.delete_records(offset)


class PartitionTotals:
    """Sums of the counts of partitions, for metrics."""

    __slots__ = (
        "appended_bytes",
        "appended_records",
        "failed_fetches",
        "failed_produces",
        "fetched_bytes",
        "fetches",
        "produces",
    )

    def __init__(self) -> None:
        self.appended_records = self.appended_bytes = self.fetched_bytes = 0
        self.produces = self.failed_produces = self.fetches = self.failed_fetches = 0

    def add_totals(self, other: PartitionTotals) -> None:
        """Add other sums."""
        self.appended_records += other.appended_records
        self.appended_bytes += other.appended_bytes
        self.produces += other.produces
        self.failed_produces += other.failed_produces
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches
        self.fetched_bytes += other.fetched_bytes

    def add(self, partition: Partition) -> None:
        """Add the counts of a partition since its log was opened."""
        self.produces += partition.produces
        self.failed_produces += partition.failed_produces
        self.fetches += partition.fetches
        self.failed_fetches += partition.failed_fetches
        self.fetched_bytes += partition.fetched_bytes
        if partition.has_log:
            self.appended_records += partition.log.appended_records
            self.appended_bytes += partition.log.appended_bytes


@mypyc_attr(allow_interpreted_subclasses=True)
class PartitionListener(ABC):
    """Follows the partitions of a topic; for the coordinator that keeps its state in the topic.

    Registered in `ReplicaManager.listeners` by topic name. Called on the owner thread.
    """

    @abstractmethod
    def opened(self, partition: Partition) -> None:
        """Handle a partition of the topic that this broker now leads."""

    @abstractmethod
    def updated(self, partition: Partition) -> None:
        """Handle a new high watermark, or the removal of a partition that has a `failure`."""
