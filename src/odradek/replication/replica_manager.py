"""All partitions of this broker, their roles, and the purgatories of requests that wait for them.

Four purgatories hold delayed requests by topic-partition. They are checked when the high watermark
moved, after an append (`log.durability=os`) or after its flush (`fsync`); when a log start became
durable; and when a partition was removed or failed. Only these events and the deadlines complete
a request. A coordinator that keeps its state in a topic gets the same events as a listener.

Roles: `apply` gives a partition the role that the committed metadata says. A partition that is
being truncated gets it afterwards. Who waits for a leader is answered as soon as this broker is not
it any more.

The ISR: a follower's fetch may propose it (`follower_fetched`), a periodic check proposes to leave
out who has not caught up for `replica.lag.time.max.ms`. `Replication` has what this needs of the
cluster; without it every partition has one replica.

Failures: an fsync or write that failed fences the whole data directory: every partition goes
offline (KAFKA_STORAGE_ERROR), and nothing is acknowledged. Damage in one log takes only that
partition offline. A full disk refuses the append that met it; the next one may succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol
from uuid import UUID

from odradek.controller.image import PartitionRegistration
from odradek.log.fence import NO_ROOM, REFUSED_FOR_NOW, LogDamaged, LogDirFailure
from odradek.log.log import AppendInfo, Log
from odradek.log.producer_state import TransactionMarker
from odradek.log.truncation import LogTruncation
from odradek.log.verification import VerificationGuard
from odradek.model.byte_ranges import ByteRange
from odradek.model.env import Env, do_nothing
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.validate import BatchRules
from odradek.replication.alter_partition_manager import AlterPartitionManager, IsrCommitted
from odradek.replication.delete_records import DeleteRecordsStatus
from odradek.replication.flusher import Flusher
from odradek.replication.leadership import IsrProposal, Leadership
from odradek.replication.log_start_sync import LogStartSyncer
from odradek.replication.partition import (
    NO_EPOCH,
    Durability,
    Partition,
    PartitionListener,
    PartitionTotals,
)
from odradek.replication.quota import ReplicationQuota
from odradek.timing import DelayedOperationPurgatory, SystemTimer

log = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
HIGH_WATERMARK: Final = -1
"""The offset in DeleteRecords that means the high watermark: that of the present log end."""
ISRS_AT_ONCE = 500
TRUNCATION_RETRY_MS = 2
REFUSED_RETRY_MS = 1_000
WITHDRAWN_CHECK_MS = 500
REFUSED_LOG_MS = 10_000
"""At most one log line about refused appends in this time."""


def do_nothing_with(partition: Partition) -> None:
    """The default callback about a partition."""


class Followers(Protocol):
    """The fetchers of this broker: they follow the leaders of partitions elsewhere."""

    def follow(self, partition: Partition, in_sync: bool) -> None:
        """Fetch from the partition's leader in its epoch, or stop if there is none. `in_sync`: this
        replica is in the ISR, so others wait for it.
        """
        ...

    def forget(self, partition: Partition) -> None:
        """Stop fetching: this broker leads the partition, or has lost it."""
        ...

    def flushed(self, partition: Partition) -> None:
        """Tell the leader the new durable end, or durable log start."""
        ...


class Replication:
    """What replicas on several brokers need of the cluster.

    `may_join(broker id, broker epoch)`: the controller would take that broker into an ISR;
    `is_alive(broker id)`: it is registered and not fenced. `lag_ms`: replica.lag.time.max.ms.
    `session_ended()`: the controller may have fenced this broker, as nothing is heard of it.
    `silent_ms`: a follower is silent that does not fetch for so long.
    `quotas`: of what this broker sends as a leader, and fetches as a follower.
    """

    def __init__(
        self,
        alter_partition: AlterPartitionManager,
        followers: Followers,
        may_join: Callable[[int, int], bool],
        is_alive: Callable[[int], bool],
        lag_ms: int,
        quotas: tuple[ReplicationQuota, ReplicationQuota],
        session_ended: Callable[[], bool],
        silent_ms: int,
    ) -> None:
        self.leader_quota, self.follower_quota = quotas
        self.session_ended = session_ended
        self.silent_ms = silent_ms
        self.alter_partition = alter_partition
        self.followers = followers
        self.may_join = may_join
        self.is_alive = is_alive
        self.lag_ms = lag_ms


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
        self._timer = timer
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
        self.replication: Replication | None = None
        self._roles_to_come: dict[Partition, tuple[PartitionRegistration, int]] = {}
        self._truncations_to_come: dict[Partition, Callable[[], None]] = {}
        self._unannounced: dict[Partition, None] = {}
        self._cut_off: dict[Partition, None] = {}
        """Partitions of coordinators that ended as this leader is cut off: they begin again when
        its session has resumed, at the latest."""
        self._checking: list[Partition] = []
        self._check_scheduled = False
        self.log_start_syncer = LogStartSyncer(env, self.log_start_moved, self.fail_directory)
        self.on_unflushed: Callable[[], object] = do_nothing
        """Called after each append that is not flushed at once (`log.durability=os`)."""
        self.on_damaged: Callable[[Partition], object] = do_nothing_with
        """Called with a partition whose log was found damaged while it was in use."""
        self.on_no_room: Callable[[Partition], object] = do_nothing_with
        """Called with a partition that took no records, as the disk is full."""
        self.on_truncated: Callable[[Partition], object] = do_nothing_with
        """Called with a partition after a truncation, before its log is appended to again."""
        self.on_directory_failed: Callable[[], object] = do_nothing
        self.heard_ms: dict[int, int] = {}
        """When each broker last fetched anything from this one; monotonic time."""
        self.directory_failed = False
        self._verifies_transactions = True
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
        """Add a partition that this broker leads without followers, with its opened log."""
        partition = self.open(key, topic_id, opened, rules)
        partition.make_leader(leader_epoch)
        self._announce(partition)
        return partition

    def open(
        self, key: TopicPartition, topic_id: UUID, opened: Log, rules: BatchRules
    ) -> Partition:
        """Add a partition with its opened log, which has no role until `apply`."""
        partition = Partition(key, topic_id, self.node_id, self._went_offline)
        opened.verifies_transactions = self._verifies_transactions
        partition.open(opened, rules, self.durability)
        self._register(partition)
        if self.directory_failed:
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        elif opened.dirty:
            # A checkpoint spares the next recovery the records that this one has read.
            self.flusher.request_for_recovered(partition, opened.checkpointed_bytes > 0)
        return partition

    @property
    def verifies_transactions(self) -> bool:
        """True if transactional batches are taken only with the guard of a verification."""
        return self._verifies_transactions

    def verify_transactions(self, required: bool) -> None:
        """Take transactional batches only with the guard of a verification, or without."""
        if required != self._verifies_transactions:
            self._verifies_transactions = required
            for partition in self:
                if partition.has_log:
                    partition.log.verifies_transactions = required

    def add_offline(self, key: TopicPartition, topic_id: UUID) -> Partition:
        """Add a partition whose log could not be opened: requests get KAFKA_STORAGE_ERROR."""
        partition = Partition(key, topic_id, self.node_id, self._went_offline)
        self._register(partition)
        return partition

    def _register(self, partition: Partition) -> None:
        replaced = self.by_name.get(partition.topic_partition)
        if replaced is not None:
            self.removed.add(replaced)
        self.by_name[partition.topic_partition] = partition
        self.by_id[partition.topic_id, partition.topic_partition.partition] = partition

    def remove(
        self, key: TopicPartition, reason: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ) -> Partition | None:
        """Remove a partition that is deleted, or that has no replica here any more, and answer the
        requests that wait for it with `reason`.
        """
        partition = self.by_name.pop(key, None)
        if partition is None:
            return None
        self._roles_to_come.pop(partition, None)
        self._truncations_to_come.pop(partition, None)
        if self.replication is not None:
            self._stop_leading(partition)
            self.replication.followers.forget(partition)
        del self.by_id[partition.topic_id, key.partition]
        self.removed.add(partition)
        partition.close(reason)
        self.flusher.forget(partition)
        self._check_delayed(partition)
        self._tell_followers(partition)
        return partition

    # -- roles -----------------------------------------------------------------------------------

    def apply(
        self, partition: Partition, registration: PartitionRegistration, min_isr: int
    ) -> None:
        """Give the partition the role of the committed metadata; `min_isr`: min.insync.replicas."""
        if registration.leader_epoch < partition.leader_epoch:
            return
        if not partition.has_log:
            partition.leader_epoch, partition.leader_id = (
                registration.leader_epoch,
                registration.leader,
            )
            return
        if partition.log.truncating:
            # Its end is not known until then; clients are answered by the role that is to come.
            self._roles_to_come[partition] = registration, min_isr
            partition.leader_error = partition.failure or ErrorCode.NOT_LEADER_OR_FOLLOWER
            return
        waiting = self._truncations_to_come.pop(partition, None)
        if waiting is not None:  # it was for another leader
            waiting()
        if registration.leader == self.node_id:
            self._make_leader(partition, registration, min_isr)
        else:
            self._make_follower(partition, registration)

    def _make_leader(
        self, partition: Partition, registration: PartitionRegistration, min_isr: int
    ) -> None:
        fresh = partition.leader_epoch == NO_EPOCH
        new = not partition.is_leader or registration.leader_epoch > partition.leader_epoch
        leadership = None if new else partition.leadership
        if len(registration.replicas) == 1:
            leadership = None
        elif leadership is None:
            leadership = self._leadership(partition, registration.leader_epoch, new)
        if leadership is not None:
            leadership.min_isr = min_isr
            if registration.partition_epoch >= leadership.partition_epoch:
                leadership.assign(
                    registration.replicas, registration.isr, registration.adding_replicas
                )
                # The controller's answer may have been here first, and another proposal since.
                if registration.partition_epoch > leadership.partition_epoch:
                    leadership.committed(registration.isr, registration.partition_epoch)
                self.delete_records_purgatory.check_and_complete(partition.topic_partition)
        if new or leadership is not partition.leadership:
            if new and self.replication is not None:
                self._stop_leading(partition)
                self.replication.followers.forget(partition)
            moved = partition.make_leader(registration.leader_epoch, leadership)
            if partition.log.dirty:
                self.flusher.request(partition)
        else:
            moved = partition.advance_high_watermark()
        if new:
            self._announce(partition)
        if not fresh and (moved or new):
            self._check_delayed(partition)
            self._tell_followers(partition)

    def _leadership(self, partition: Partition, leader_epoch: int, new: bool) -> Leadership:
        replication = self.replication
        assert replication is not None, f"{partition.topic_partition} has replicas elsewhere"
        return Leadership(
            self.node_id,
            leader_epoch,
            # A leader that was alone has committed what it has appended in its epoch.
            partition.log.log_end_offset if new else partition.high_watermark,
            min_isr=1,
            lag_ms=replication.lag_ms,
            may_join=replication.may_join,
            is_alive=replication.is_alive,
            session_ended=replication.session_ended,
            silent_ms=replication.silent_ms,
            now_ms=self.env.clock.monotonic_ms,
            heard_ms=self.heard_ms,
        )

    def _make_follower(self, partition: Partition, registration: PartitionRegistration) -> None:
        replication = self.replication
        led = partition.is_leader
        self._stop_leading(partition)
        partition.make_follower(registration.leader, registration.leader_epoch)
        self._tell_followers(partition)
        if led:
            self._check_delayed(partition)
        if replication is not None and not partition.failure:
            replication.followers.follow(partition, self.node_id in registration.isr)

    def _stop_leading(self, partition: Partition) -> None:
        """Drop what a leader has asked of the controller."""
        if self.replication is not None:
            key = partition.topic_id, partition.topic_partition.partition
            self.replication.alter_partition.forget(key)

    def _announce(self, partition: Partition) -> None:
        """Tell the coordinator of its topic that this broker leads the partition in a new epoch: at
        once that the one before has ended, and that it is open as soon as the high watermark has
        everything that may have been committed before.
        """
        listener = self.listeners.get(partition.topic_partition.topic)
        if listener is not None:
            listener.ended(partition)
            self._unannounced[partition] = None
            self._notify_listener(partition)

    def session_resumed(self) -> None:
        """Begin again with the coordinators of partitions that are not cut off any more."""
        cut_off, self._cut_off = self._cut_off, {}
        for partition in cut_off:
            self._notify_listener(partition)

    # -- followers of this leader ----------------------------------------------------------------

    def follower_fetched(
        self,
        partition: Partition,
        broker_id: int,
        broker_epoch: int,
        fetch_offset: int,
        durable_end: int,
        log_start_offset: int,
    ) -> ErrorCode:
        """Take what a follower tells with a fetch that found its log to be a prefix of this one.

        `durable_end` -1: it did not tell. It counts though this broker has `log.durability=os`: a
        follower with `fsync` stays eligible after an unclean stop. The error if it is no replica of
        this partition.
        """
        leadership = partition.leadership
        replica = None if leadership is None else leadership.replicas.get(broker_id)
        if leadership is None or replica is None:
            return ErrorCode.UNKNOWN_LEADER_EPOCH  # it may know a newer assignment: try again
        if broker_epoch < replica.broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # sent before its broker was restarted
        before = leadership.low_watermark(partition.log.log_start_offset)
        counts_durable = self.durability.fsync or durable_end >= 0
        replica.update(
            fetch_offset,
            min(durable_end, fetch_offset) if counts_durable else fetch_offset,
            log_start_offset,
            broker_epoch,
            partition.log.log_end_offset,
            self.env.clock.monotonic_ms(),
        )
        proposal = leadership.propose_expansion(
            replica,
            partition.log.log_end_offset,
            partition.high_watermark,
            partition.log.log_start_offset,
        )
        if proposal is not None:
            self._propose(partition, proposal)
        if partition.advance_high_watermark():
            self._high_watermark_moved(partition)
        elif leadership.low_watermark(partition.log.log_start_offset) > before:
            self.log_start_moved(partition)
        return NONE

    def _propose(self, partition: Partition, proposal: IsrProposal) -> None:
        replication = self.replication
        assert replication is not None, "only replicas elsewhere change an ISR"
        key = partition.topic_id, partition.topic_partition.partition
        log.info("%s: proposing the ISR %s", partition.topic_partition, proposal.isr)
        replication.alter_partition.submit(key, proposal, self)

    def leave_isr(self, partition: Partition, *, is_damaged: bool) -> None:
        """Ask to be out of the ISR of a partition, and not to lead it: its log is damaged, or else
        has no room for records.
        """
        replication = self.replication
        assert replication is not None, "a replica that is alone is the ISR"
        key = partition.topic_id, partition.topic_partition.partition
        reason = "the log is damaged" if is_damaged else "the disk is full"
        log.warning("%s: leaving the ISR, as %s", partition.topic_partition, reason)
        leaves = IsrProposal(
            (),
            partition.leader_epoch,
            NO_EPOCH,
            is_damaged=is_damaged,
            has_no_room=not is_damaged,
        )
        replication.alter_partition.submit(key, leaves, self)

    def isr_committed(self, key: tuple[UUID, int], answer: IsrCommitted) -> None:
        """Take the ISR that the controller answers, unless this leader's epoch is over."""
        partition = self.by_id.get(key)
        leadership = None if partition is None else partition.leadership
        if partition is None or leadership is None:
            return
        if answer.leader_epoch > partition.leader_epoch:
            self._superseded(partition)
            return
        if answer.leader_epoch != partition.leader_epoch or not leadership.committed(
            answer.isr, answer.partition_epoch, answer.leader_recovery_state
        ):
            return
        if partition.advance_high_watermark():
            self._high_watermark_moved(partition)
        self._check_isr(partition, leadership)

    def _superseded(self, partition: Partition) -> None:
        """Answer no client any more: another leader was elected, before the metadata tells it here.
        A node with a full disk may learn that late.
        """
        partition.leader_error = partition.failure or ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._check_delayed(partition)
        self._tell_followers(partition)

    def set_min_isr(self, partition: Partition, min_isr: int) -> None:
        """Take a changed min.insync.replicas: a lower one may commit what waits."""
        leadership = partition.leadership
        if leadership is not None and leadership.min_isr != min_isr:
            leadership.min_isr = min_isr
            if partition.advance_high_watermark():
                self._high_watermark_moved(partition)

    def isr_withdrawn(self, key: tuple[UUID, int], proposal: IsrProposal) -> None:
        """Drop a proposal that was refused; a check soon makes it again if it still holds."""
        partition = self.by_id.get(key)
        if partition is not None and partition.leadership is not None:
            partition.leadership.withdrawn(proposal)
            if not self._check_scheduled:
                self._check_scheduled = True
                self._timer.call_later(WITHDRAWN_CHECK_MS, self.check_isrs)
            if partition.advance_high_watermark():
                self._high_watermark_moved(partition)

    def check_isrs(self) -> None:
        """Propose to remove the replicas that do not keep up, and to take in those that do, of all
        partitions led here.

        Call it every half of replica.lag.time.max.ms, and when brokers were fenced or may join
        again: a follower that has everything tells nothing new. It takes a few partitions in an
        event.
        """
        self._check_scheduled = False
        # A check under way begins again: partitions that it has looked at may have changed.
        under_way = bool(self._checking)
        self._checking = [each for each in self if each.leadership is not None]
        if not under_way:
            self._check_some_isrs()

    def _check_some_isrs(self) -> None:
        some, self._checking = self._checking[:ISRS_AT_ONCE], self._checking[ISRS_AT_ONCE:]
        for partition in some:
            leadership = partition.leadership
            if leadership is not None and not partition.failure:
                self._check_isr(partition, leadership)
                # A broker that is not alive any more holds no DeleteRecords back.
                self.delete_records_purgatory.check_and_complete(partition.topic_partition)
                if leadership.is_cut_off():
                    self._check_delayed(partition)
        if self._checking:
            self.env.call_soon(self._check_some_isrs)

    def _check_isr(self, partition: Partition, leadership: Leadership) -> None:
        """Propose what has to change in the ISR of one partition.

        While another change was pending, a replica may have caught up that tells nothing new.
        """
        proposal = leadership.propose_change(
            partition.log.log_end_offset, partition.high_watermark, partition.log.log_start_offset
        )
        if proposal is not None:
            self._propose(partition, proposal)

    def _high_watermark_moved(self, partition: Partition) -> None:
        for watcher in partition.watchers:
            watcher.offsets_moved(partition)
        self._check_delayed(partition)

    # -- following -------------------------------------------------------------------------------

    def append_as_follower(self, partition: Partition, records: ByteRange) -> AppendInfo:
        """Append what the leader of the partition's epoch has sent, and have it flushed."""
        try:
            info = partition.append_as_follower(records, partition.leader_epoch, self._wall_ms())
        except (LogDamaged, OSError) as error:
            return AppendInfo(self._append_failed(partition, error))
        if info.error is NONE and info.base_offset >= 0:
            if self.durability.fsync or partition.must_flush_first():
                self.flusher.request(partition)
            else:
                self.on_unflushed()
        return info

    def follow_offsets(
        self, partition: Partition, high_watermark: int, log_start_offset: int
    ) -> None:
        """Take the high watermark and the log start that the leader told."""
        partition.leader_high_watermark = high_watermark
        partition.leader_log_start = log_start_offset
        self._follow_offsets(partition)

    def _follow_offsets(self, partition: Partition) -> None:
        """Raise high watermark and log start to the leader's, as far as the log's end that counts
        allows it: after an answer of the leader, and after a flush.
        """
        if partition.failure:
            return
        partition.follow_high_watermark(partition.leader_high_watermark)
        try:
            moved = partition.log.follow_log_start(partition.leader_log_start)
            if moved and self.durability.fsync:
                self.log_start_syncer.request(partition)
        except LogDirFailure as failure:
            self.fail_directory(failure)
        except OSError as error:
            log.error("the log start of %s was not raised: %s", partition.topic_partition, error)

    def truncate(
        self, partition: Partition, offset: int, restart: bool, done: Callable[[], None]
    ) -> None:
        """Remove everything from `offset` on, or with `restart` everything; `done` is called when
        that is durable. It waits for a flush of the log, and runs on a worker. A change of the
        partition's role cancels one that waits; `done` is called then, too.
        """
        opened = partition.log
        if partition.failure:
            return
        if not opened.may_truncate:
            self._truncations_to_come[partition] = done

            def again() -> None:
                if self._truncations_to_come.get(partition) is done:
                    del self._truncations_to_come[partition]
                    self.truncate(partition, offset, restart, done)

            self._timer.call_later(TRUNCATION_RETRY_MS, again)
            return
        try:
            work = opened.begin_restart(offset) if restart else opened.begin_truncation(offset)
        except LogDirFailure as failure:
            self.fail_directory(failure)
            return
        if work is None:
            self._truncated(partition, done)
            return
        self._run_truncation(partition, work, done)

    def _run_truncation(
        self, partition: Partition, truncation: LogTruncation, done: Callable[[], None]
    ) -> None:
        """Truncate on a worker; once more after some time where the disk has no room."""
        opened = partition.log

        def ended(error: BaseException | None) -> None:
            if truncation.abandoned:
                return
            if isinstance(error, LogDirFailure):
                self.fail_directory(error)
            elif isinstance(error, OSError) and error.errno in REFUSED_FOR_NOW:
                log.error("truncating %s: %s; trying again", partition.topic_partition, error)
                self._timer.call_later(REFUSED_RETRY_MS, run)
            elif isinstance(error, (LogDamaged, OSError)):
                partition.fail(error)
            else:
                assert error is None, f"truncating {partition.topic_partition}: {error!r}"
                opened.end_truncation(truncation)
                self._truncated(partition, done)

        def run() -> None:
            if not truncation.abandoned:
                self.env.offload.submit(truncation.run, lambda _: ended(None), ended)

        run()

    def _truncated(self, partition: Partition, done: Callable[[], None]) -> None:
        partition.high_watermark = partition.log.high_watermark
        partition.log.producers.transactions.replicated_to(partition.high_watermark)
        if partition.log.dirty:
            self.flusher.request(partition)
        self.on_truncated(partition)
        done()
        role = self._roles_to_come.pop(partition, None)
        if role is not None:
            self.apply(partition, *role)

    # -- produce ---------------------------------------------------------------------------------

    def append(
        self,
        partition: Partition,
        records: ByteRange,
        produce_version: int,
        guard: VerificationGuard | None = None,
        by_coordinator: bool = False,
    ) -> AppendInfo:
        """Validate and append one batch. Call `appended` when all of a request are done.

        `guard`: from `start_verification`, for a transactional batch.
        """
        partition.produces += 1
        try:
            info = partition.append(
                records, produce_version, self._wall_ms(), guard, by_coordinator
            )
            if info.error is not NONE:
                partition.failed_produces += 1
            return info
        except (LogDamaged, OSError) as error:
            partition.failed_produces += 1
            return AppendInfo(self._append_failed(partition, error))

    def append_marker(self, partition: Partition, marker: TransactionMarker) -> AppendInfo:
        """Append the marker that ends a transaction; call `appended` afterwards.

        It is committed when the high watermark has reached `required_offset` of the result.
        """
        try:
            return partition.append_marker(marker, self._wall_ms())
        except (LogDamaged, OSError) as error:
            return AppendInfo(self._append_failed(partition, error))

    def _append_failed(self, partition: Partition, error: LogDamaged | OSError) -> ErrorCode:
        if isinstance(error, LogDirFailure):
            self.fail_directory(error)
        elif isinstance(error, LogDamaged):
            partition.fail(error)
        else:
            self._log_refused(partition, error)
            if error.errno in NO_ROOM:
                self.on_no_room(partition)
        return ErrorCode.KAFKA_STORAGE_ERROR

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
        if partition.watchers:
            self._tell_followers(partition)

    def _tell_followers(self, partition: Partition) -> None:
        for watcher in partition.watchers:
            watcher.changed(partition)

    def _flushed(self, partition: Partition) -> None:
        if partition.is_leader:
            if partition.advance_high_watermark():
                self._high_watermark_moved(partition)
        elif self.replication is not None:
            self._follow_offsets(partition)
            self.replication.followers.flushed(partition)

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

        def answer() -> None:
            self._check_delayed(partition)
            self.on_damaged(partition)

        self.env.call_soon(answer)
        if self.replication is not None:
            self.replication.followers.forget(partition)
        self._tell_followers(partition)

    def _notify_listener(self, partition: Partition) -> None:
        listener = self.listeners.get(partition.topic_partition.topic)
        if listener is None:
            return
        if partition.availability():
            self._unannounced.pop(partition, None)
            listener.ended(partition)
        elif partition.is_cut_off:
            self._cut_off[partition] = None
            self._unannounced[partition] = None
            listener.ended(partition)
        elif partition not in self._unannounced:
            listener.updated(partition)
        elif partition.is_in_epoch:
            del self._unannounced[partition]
            listener.opened(partition)

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
        for watcher in partition.watchers:
            watcher.offsets_moved(partition)
        if error is not ErrorCode.NONE:
            status.pending, status.error = False, error
        elif self.durability.fsync and opened.durable_log_start < target:
            self.log_start_syncer.request(partition)
        elif partition.low_watermark >= target:
            status.pending, status.error = False, ErrorCode.NONE
            status.low_watermark = partition.low_watermark

    def log_start_raised(self, partition: Partition) -> None:
        """Retention has raised the log start: tell the followers, and once it counts the leader."""
        for watcher in partition.watchers:
            watcher.offsets_moved(partition)
        if self.durability.fsync:
            self.log_start_syncer.request(partition)
        else:
            self.log_start_moved(partition)

    def log_start_moved(self, partition: Partition) -> None:
        """A raised log start is durable, or the low watermark rose: check the delayed requests, or
        tell the leader.
        """
        if partition.is_leader:
            self.delete_records_purgatory.check_and_complete(partition.topic_partition)
        elif self.replication is not None:
            self.replication.followers.flushed(partition)

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
            if self.replication is not None:
                self.replication.followers.forget(partition)
            self._check_delayed(partition)
            self._tell_followers(partition)
        self.on_directory_failed()
