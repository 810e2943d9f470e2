"""One replica of a partition, on this broker: its log, its role, its high watermark.

                     make_leader                     make_follower
    open (no role) ───────────────► leader ◄───────────────────────────► follower
                                      └──────────► closed: a `failure` ◄─────┘

- The leader alone appends what producers send and answers clients; a follower answers them
  NOT_LEADER_OR_FOLLOWER, appends what its leader sent, and truncates what the leader never had.
  Flushes, checkpoints, retention and compaction serve both.
- An offline partition (its directory failed, or its log is damaged) answers KAFKA_STORAGE_ERROR and
  nothing else.

Invariants:
- log start offset <= high watermark <= log end offset; the high watermark never goes back in one
  leader epoch. It starts at its checkpoint.
- With `log.durability=fsync` the high watermark counts only bytes that are on disk (a replica's
  durable end). With `os` it counts the page cache, which is Kafka's own guarantee, except that
  `flush.messages` records are flushed first.
- A leader without followers (`leadership` is None) is the in-sync set alone, so the high watermark
  is its own (durable) end. With followers it is the least of the in-sync replicas (`leadership`). A
  follower's is the leader's, up to its own (durable) end.

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
from odradek.log.producer_state import TransactionMarker
from odradek.log.transaction_index import AbortedTransaction
from odradek.log.verification import VerificationGuard
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.topics import TopicPartition
from odradek.protocol.validate import BatchRules, InvalidBatch, validate
from odradek.replication.leadership import Leadership

logger = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
TOO_LARGE: Final = ErrorCode.RECORD_LIST_TOO_LARGE
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_LEADER: Final = -1
NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Isolation(IntEnum):
    """The isolation level of a reader: all committed records, or only committed transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2
    """A follower reads everything, committed or not."""


UNCOMMITTED: Final = Isolation.READ_UNCOMMITTED
COMMITTED: Final = Isolation.READ_COMMITTED
LOG_END: Final = Isolation.LOG_END


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


@mypyc_attr(allow_interpreted_subclasses=True)
class PartitionWatcher(ABC):
    """Follows a partition for a follower that fetches it. Called on the owner thread."""

    @abstractmethod
    def changed(self, partition: Partition) -> None:
        """Handle more records, or that this broker does not serve the partition any more."""

    @abstractmethod
    def offsets_moved(self, partition: Partition) -> None:
        """Handle a new high watermark or log start."""


class Partition:
    """One partition: see the module. All methods run on the owner thread; flushes do not."""

    __slots__ = (
        "bytes_from_leader",
        "bytes_to_followers",
        "durability",
        "failed_fetches",
        "failed_produces",
        "failure",
        "fetched_bytes",
        "fetches",
        "has_log",
        "high_watermark",
        "leader_epoch",
        "leader_error",
        "leader_high_watermark",
        "leader_id",
        "leader_log_start",
        "leadership",
        "log",
        "node_id",
        "produces",
        "records_from_leader",
        "rules",
        "topic_id",
        "topic_partition",
        "watchers",
        "went_offline",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        node_id: int,
        went_offline: Callable[[Partition], None],
    ) -> None:
        """An offline partition, without a `log` until `open`: check `availability` before use.

        `went_offline` is called when the partition finds its log damaged.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.went_offline = went_offline
        self.failure: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR
        """Why the partition cannot be used, whatever its role is; NONE if it can."""
        self.leader_error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR
        """The answer to what only a leader answers: NONE if this broker is it."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leadership: Leadership | None = None
        """What this leader knows of its followers; None if it has none, or does not lead."""
        self.leader_high_watermark = 0
        """The last high watermark that a follower was told."""
        self.leader_log_start = 0
        """The last log start that a follower was told."""
        self.watchers: list[PartitionWatcher] = []
        """The sessions of followers that fetch this partition."""
        self.has_log = False
        """True from `open` on, also while the partition is offline."""
        self.produces = self.failed_produces = 0
        """Appends that were requested, and those of them that failed."""
        self.fetches = self.failed_fetches = self.fetched_bytes = 0
        """Reads for fetches of consumers, those of them that failed, and the bytes in their
        responses.
        """
        self.records_from_leader = self.bytes_from_leader = 0
        """What it has appended as a follower, since its log was opened."""
        self.bytes_to_followers = 0
        """The bytes in the responses to fetches of followers."""

    def open(self, log: Log, rules: BatchRules, durability: Durability) -> None:
        """Use `log` from now on, without a role until `make_leader` or `make_follower`."""
        self.log = log
        self.records_from_leader = self.bytes_from_leader = 0
        self.has_log = True
        self.rules = rules
        self.durability = durability
        self.failure = NONE
        self.leader_error = NOT_LEADER
        self.high_watermark = max(log.log_start_offset, min(log.high_watermark, self.durable_end))
        log.high_watermark = self.high_watermark
        log.producers.transactions.replicated_to(self.high_watermark)

    # -- role ----------------------------------------------------------------------------------

    def make_leader(self, leader_epoch: int, leadership: Leadership | None = None) -> bool:
        """Lead in this epoch; `leadership` has the followers. True if the high watermark moved.

        With followers the epoch is noted at once: they ask where an older one ended.
        """
        if leadership is not None:
            self.log.begin_epoch(leader_epoch)
        self.leader_epoch = leader_epoch
        self.leader_id = self.node_id
        self.leadership = leadership
        self.leader_error = self.failure
        return self.advance_high_watermark()

    def make_follower(self, leader_id: int, leader_epoch: int) -> None:
        """Follow `leader_id`, -1 if there is none at the moment, in this epoch."""
        self.leader_epoch = leader_epoch
        self.leader_id = leader_id
        self.leadership = None
        self.leader_high_watermark = self.high_watermark
        self.leader_log_start = 0
        if self.failure is NONE:
            self.leader_error = NOT_LEADER

    @property
    def is_leader(self) -> bool:
        """True if this broker leads the partition, be it online or not."""
        return self.leader_id == self.node_id

    @property
    def durable_end(self) -> int:
        """The end of this replica that counts for the high watermark."""
        return self.log.flushed_offset if self.durability.fsync else self.log.log_end_offset

    # -- state ---------------------------------------------------------------------------------

    def availability(self) -> ErrorCode:
        """NONE while this broker leads the partition and its directory works."""
        return self.leader_error

    def append_error(self) -> ErrorCode:
        """The error of a produce with `acks=-1`, before anything is appended."""
        leadership = self.leadership
        if leadership is None:
            return NONE
        if leadership.is_cut_off():
            return NOT_LEADER
        return ErrorCode.NOT_ENOUGH_REPLICAS if leadership.is_under_min_isr else NONE

    @property
    def is_cut_off(self) -> bool:
        """True of a leader that others may have replaced, without its knowing."""
        return self.leadership is not None and self.leadership.is_cut_off()

    def acknowledgement_error(self) -> ErrorCode:
        """The error for a committed produce with `acks=-1`. Without followers one replica is always
        enough: the effective minimum is `min.insync.replicas`, at most the replication factor.
        """
        leadership = self.leadership
        if leadership is not None and len(leadership.maximal_isr) < leadership.effective_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return NONE

    def close(self, reason: ErrorCode) -> None:
        """Go offline: every request gets `reason` from now on."""
        self.failure = self.leader_error = reason

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
        """The end for read_committed: without transactions the high watermark.

        It is not below the log start, which may pass an open transaction's first offset.
        """
        log = self.log
        unstable = log.producers.transactions.first_unstable
        if unstable >= self.high_watermark:
            return self.high_watermark
        return unstable if unstable > log.log_start_offset else log.log_start_offset

    def readable_end(self, isolation: Isolation) -> int:
        """The offset up to which a reader of this isolation may read, exclusive."""
        if isolation is COMMITTED:
            return self.last_stable_offset
        if isolation is LOG_END:
            return self.log.log_end_offset
        return self.high_watermark

    def advance_high_watermark(self) -> bool:
        """Raise a leader's high watermark to the end of the in-sync replicas. True if it moved."""
        log = self.log
        end = log.log_end_offset
        if self.durability.fsync or end - log.flushed_offset >= log.flush_messages:
            end = log.flushed_offset
        if self.leadership is not None:
            end = self.leadership.committed_end(end)
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        log.high_watermark = end
        if log.producers.transactions.has_unreplicated:
            log.producers.transactions.replicated_to(end)
        return True

    def follow_high_watermark(self, leader_high_watermark: int) -> bool:
        """Raise a follower's high watermark to the leader's, up to the end that counts here. True
        if it moved. Call it after a flush too, with the last one that the leader told.
        """
        self.leader_high_watermark = leader_high_watermark
        end = min(leader_high_watermark, self.durable_end)
        if end <= self.high_watermark:
            return False
        self.high_watermark = self.log.high_watermark = end
        if self.log.producers.transactions.has_unreplicated:
            self.log.producers.transactions.replicated_to(end)
        return True

    @property
    def is_in_epoch(self) -> bool:
        """True if the high watermark has reached the leader's first offset.

        Before that a new leader may know a lower one than its predecessor has shown to clients.
        """
        leadership = self.leadership
        return leadership is None or self.high_watermark >= leadership.epoch_start

    @property
    def must_wait_for_commit(self) -> bool:
        """True if an end offset would miss what this replica alone commits within milliseconds, or
        what the leader before it has committed.
        """
        if self.leadership is None:
            return self.high_watermark < self.log.log_end_offset
        return not self.is_in_epoch

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

    def append(
        self,
        span: ByteRange,
        produce_version: int,
        wall_ms: int,
        guard: VerificationGuard | None = None,
        by_coordinator: bool = False,
    ) -> AppendInfo:
        """Validate a produced batch and append it. The high watermark does not move.

        `guard`: from `start_verification`, for a transactional batch; None if its transaction is
        open. `by_coordinator`: a coordinator of this broker made the batch.
        """
        if self.leader_error is not NONE:
            return AppendInfo(self.leader_error)
        batch = validate(span, self.rules, wall_ms, produce_version, by_coordinator)
        if isinstance(batch, InvalidBatch):
            return AppendInfo(
                batch.error,
                log_start_offset=self.log.log_start_offset if batch.log_start_known else NO_OFFSET,
                record_errors=batch.record_errors,
                error_message=batch.message,
            )
        info = self.log.append(batch, self.leader_epoch, wall_ms, guard)
        if info.error is TOO_LARGE:
            info.log_start_offset = NO_OFFSET  # Kafka leaves it out of this answer.
        return info

    def append_marker(self, marker: TransactionMarker, wall_ms: int) -> AppendInfo:
        """Append a COMMIT or ABORT marker, for which the transaction's coordinator asks (see
        `Log.append_marker`).
        """
        error = self.leader_error if self.leader_error is not NONE else self.append_error()
        if error is not NONE:
            return AppendInfo(error)
        return self.log.append_marker(marker, self.leader_epoch, wall_ms)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True if this leader has an open transaction of the producer, of this epoch."""
        return self.leader_error is NONE and self.log.producers.has_open_transaction(
            producer_id, producer_epoch
        )

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard | ErrorCode | None:
        """Begin to verify a transaction: the guard is needed to append its first batch.

        None: it is open already. An error: the batch is refused. `supports_epoch_bump`: the client
        uses transaction version 2.
        """
        if self.leader_error is not NONE:
            return self.leader_error
        return self.log.producers.start_verification(
            producer_id, producer_epoch, sequence, supports_epoch_bump
        )

    def end_verification(self, producer_id: int, guard: VerificationGuard) -> None:
        """Remove a guard of `start_verification` that nobody will append with."""
        if self.has_log:
            self.log.producers.guards.withdraw(producer_id, guard)

    def guard_stands(self, producer_id: int, guard: VerificationGuard) -> bool:
        """True if a batch can be appended with a guard of `start_verification`."""
        return self.has_log and self.log.producers.guards.stands(producer_id, guard)

    def append_as_follower(self, records: ByteRange, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append what the leader of this epoch has sent; see `Log.append_as_follower`."""
        if self.failure is not NONE:
            return AppendInfo(self.failure)
        log = self.log
        records_before, bytes_before = log.appended_records, log.appended_bytes
        try:
            return log.append_as_follower(records, leader_epoch, now_ms)
        finally:
            self.records_from_leader += log.appended_records - records_before
            self.bytes_from_leader += log.appended_bytes - bytes_before

    @property
    def appended_records(self) -> int:
        """The records that were appended here as the leader, since the log was opened: summed over
        the replicas, each counts once.
        """
        return self.log.appended_records - self.records_from_leader

    @property
    def appended_bytes(self) -> int:
        """The bytes of those."""
        return self.log.appended_bytes - self.bytes_from_leader

    def read(self, offset: int, max_bytes: int, isolation: Isolation, min_one: bool) -> LogRead:
        """Pinned slices of the log from `offset`, up to the end for this isolation."""
        try:
            return self.log.read(offset, max_bytes, self.readable_end(isolation), min_one)
        except (LogDamaged, OSError) as error:
            return LogRead(self.handle_read_error(error), [], 0, None)

    def aborted_transactions(self, read: LogRead) -> list[AbortedTransaction] | ErrorCode:
        """The aborted transactions of which a read for read_committed may have records."""
        try:
            return self.log.aborted_transactions(read, self.last_stable_offset)
        except (LogDamaged, OSError) as error:
            return self.handle_read_error(error)

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

    @property
    def durable_log_start(self) -> int:
        """The log start of this replica that counts for the low watermark."""
        log = self.log
        return log.durable_log_start if self.durability.fsync else log.log_start_offset

    @property
    def low_watermark(self) -> int:
        """The least log start of the replicas that count: what DeleteRecords reports as deleted."""
        own = self.durable_log_start
        return own if self.leadership is None else self.leadership.low_watermark(own)

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
        "bytes_from_leaders",
        "bytes_to_followers",
        "failed_fetches",
        "failed_produces",
        "fetched_bytes",
        "fetches",
        "produces",
    )

    def __init__(self) -> None:
        self.appended_records = self.appended_bytes = self.fetched_bytes = 0
        self.bytes_from_leaders = self.bytes_to_followers = 0
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
        self.bytes_from_leaders += other.bytes_from_leaders
        self.bytes_to_followers += other.bytes_to_followers

    def add(self, partition: Partition) -> None:
        """Add the counts of a partition since its log was opened."""
        self.produces += partition.produces
        self.failed_produces += partition.failed_produces
        self.fetches += partition.fetches
        self.failed_fetches += partition.failed_fetches
        self.fetched_bytes += partition.fetched_bytes
        self.bytes_from_leaders += partition.bytes_from_leader
        self.bytes_to_followers += partition.bytes_to_followers
        if partition.has_log:
            self.appended_records += partition.appended_records
            self.appended_bytes += partition.appended_bytes


@mypyc_attr(allow_interpreted_subclasses=True)
class PartitionListener(ABC):
    """Follows the partitions of a topic; for the coordinator that keeps its state in the topic.

    Registered in `ReplicaManager.listeners` by topic name. Called on the owner thread.
    """

    @abstractmethod
    def opened(self, partition: Partition) -> None:
        """Handle a partition of the topic that this broker leads, and can commit records to."""

    @abstractmethod
    def updated(self, partition: Partition) -> None:
        """Handle a new high watermark of a partition that is open."""

    @abstractmethod
    def ended(self, partition: Partition) -> None:
        """Handle the end of that: it is led elsewhere, cut off, offline, removed, or led in a new
        epoch, for which it is opened again. It may not have been open.
        """
