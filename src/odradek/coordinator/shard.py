"""One partition of a coordinator's topic, with the state that its records make.

    loading ──► active ──► gone
       └──────► failed

*Loading* replays the log up to the end that it had when loading began, `READ_BYTES` at a time, so
that the broker serves other requests meanwhile; then `StateMachine.loaded` sets the timers. Only
committed records are replayed: when the high watermark is behind (after a crash the tail may have
to be flushed first), loading pauses until it moves. A shard whose log cannot be read or decoded is
*failed* and serves nothing until the partition is opened again.

Records of a transaction are in batches with its producer id. They are pending until its marker, a
control batch, says whether it was committed (`StateMachine.replay_marker`).

An *active* shard runs operations one after the other (see `operation`). Responses wait for the high
watermark, which with `log.durability=fsync` means the disk. They are sent in the order of their
operations, also those of operations without records. So no client learns of a state that a crash
could take back, and reads need no second copy of the state. A response that waits for longer than
`offsets.commit.timeout.ms` is replaced by COORDINATOR_NOT_AVAILABLE, because the client gives up as
well: the records stay in the log and in the state, and may still be committed.

Kafka collects the records of several operations into one batch
(`group.coordinator.append.linger.ms`) and reverts the state if the append fails. Here each
operation is appended before it is replayed, and many operations share an fsync.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from mypy_extensions import mypyc_attr

from odradek.coordinator.operation import (
    CANCELLED,
    Operation,
    OperationResult,
    Reply,
    TimerKey,
)
from odradek.coordinator.records import CoordinatorRecord, CoordinatorRecordCodec
from odradek.coordinator.timers import KeyedTimers
from odradek.log.producer_state import TransactionMarker, marker_of
from odradek.log.retention import RetentionClock
from odradek.model.byte_ranges import ByteRange
from odradek.model.env import Clock
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.record_batch import (
    NO_PRODUCER_ID,
    CorruptBatch,
    RecordBatchHeader,
    batches,
    is_intact,
    records_of,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.records import InvalidRecords
from odradek.replication.partition import Isolation, Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import SystemTimer
from odradek.timing.timer_task import TimerTask

READ_BYTES = 256 * 1024
"""Read at a time by the loader: a few milliseconds of the owner thread."""


class LoadingFailed(Exception):
    """The log cannot be read, or a record in it is not a coordinator's."""


class CoordinatorLoader:
    """Replays one partition from its start to its end, some records at a time."""

    def __init__(self, partition: Partition, state_machine: StateMachine) -> None:
        self._partition = partition
        self._state_machine = state_machine
        self._position = partition.log.log_start_offset
        self.end_offset = partition.log.log_end_offset
        self.records = 0
        self.skipped = 0

    @property
    def done(self) -> bool:
        """True if all records have been replayed."""
        return self._position >= self.end_offset

    def load_some(self) -> bool:
        """Replay the next records. Return True if there are more that are committed."""
        if self.done or self._position >= self._partition.high_watermark:
            return False
        for piece in self._read():
            self._replay_batches(piece)
        return not self.done and self._position < self._partition.high_watermark

    def _read(self) -> list[bytes]:
        found = self._partition.read(
            self._position, READ_BYTES, Isolation.READ_UNCOMMITTED, min_one=True
        )
        try:
            if found.error is not ErrorCode.NONE:
                raise LoadingFailed(f"reading at offset {self._position}: {found.error.name}")
            if not found.slices:
                # Compaction removed everything up to the high watermark.
                self._position = self._partition.high_watermark
            return [piece.read() for piece in found.slices]
        except OSError as error:
            raise LoadingFailed(str(error)) from error
        finally:
            found.release()

    def _replay_batches(self, data: bytes) -> None:
        try:
            for header in batches(data):
                if not is_intact(data, header):
                    raise LoadingFailed(f"the batch at offset {header.base_offset} is damaged")
                if header.next_offset > self._position:
                    self._replay_batch(data, header)
                self._position = max(self._position, header.next_offset)
        except (CorruptBatch, CorruptCompression, SectionTooLarge, InvalidRecords) as error:
            raise LoadingFailed(str(error)) from error
        except ProtocolError as error:
            raise LoadingFailed(f"after offset {self._position}: {error}") from error

    def _replay_batch(self, data: bytes, header: RecordBatchHeader) -> None:
        if header.is_control:
            marker = marker_of(data, header)
            if marker is not None:
                self._state_machine.replay_marker(header.producer_id, marker.committed)
            return
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        codec = self._state_machine.codec
        for each in records_of(data, header):
            record = codec.decode(each.key, each.value)
            if record is None:
                self.skipped += 1
            else:
                self.records += 1
                replay(self._state_machine, record, producer_id)


def replay(state_machine: StateMachine, record: CoordinatorRecord, producer_id: int) -> None:
    """Apply a record of a batch; `producer_id` is -1 unless the batch is of a transaction."""
    if producer_id == NO_PRODUCER_ID:
        state_machine.replay(record)
    else:
        state_machine.replay_transactional(record, producer_id)


log = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
PRODUCE_VERSION = 13
Answers = list[tuple[Reply[Any], Any]]

RESPONSE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of an append and the errors that clients get for them; others are passed on."""


class StateMachine(Protocol):
    """The state of a shard. The coordinator passes operations on it to `Shard.run`."""

    @property
    def codec(self) -> CoordinatorRecordCodec:
        """The codec of its records."""
        ...

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record to the state: while loading, and after an append."""
        ...

    def replay_transactional(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Keep a record of a transaction until its marker. Raises `ProtocolError` if the topic has
        no transactions.
        """
        ...

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Apply the pending records of a transaction that was committed, or forget them."""
        ...

    def loaded(self, result: OperationResult) -> None:
        """Run the first operation, after all records were replayed."""
        ...

    def expired(self, key: TimerKey, result: OperationResult) -> None:
        """Run the operation of a timer that expired."""
        ...

    def unloaded(self, error: ErrorCode) -> None:
        """Answer all requests that wait in this state with `error`: the shard was unloaded."""
        ...


class ShardState(Enum):
    """The states of the module's diagram."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    GONE = "gone"


ACTIVE: Final = ShardState.ACTIVE


@mypyc_attr(allow_interpreted_subclasses=True)
class Shard:
    """Runs operations on the state of one partition. All methods run on the owner thread."""

    def __init__(
        self,
        partition: Partition,
        state_machine: StateMachine,
        replicas: ReplicaManager,
        clock: Clock,
        retention_clock: RetentionClock,
        timer: SystemTimer,
        call_soon: Callable[[Callable[[], None]], None],
        answer_timeout_ms: int,
    ) -> None:
        """`retention_clock`: has run since the process started, with all of its shards.
        `answer_timeout_ms`: how long a response may wait for the commit of its records."""
        self.partition = partition
        self.state_machine = state_machine
        self.state = ShardState.LOADING
        self._replicas = replicas
        self._clock = clock
        self._retention_clock = retention_clock
        self._call_soon = call_soon
        self._timer = timer
        self._timers = KeyedTimers(timer, self._expired, call_soon)
        self._answer_timeout_ms = answer_timeout_ms
        self._waiting: deque[tuple[int, int, Answers]] = deque()
        self._committed_steps: deque[tuple[int, list[Callable[[], None]]]] = deque()
        self._timeout: TimerTask | None = None
        self._last_written_offset = 0

    def error(self) -> ErrorCode:
        """The error for requests while the shard is not active; NONE if it is."""
        if self.state is ACTIVE:
            return NONE
        if self.state is ShardState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    # -- loading ---------------------------------------------------------------------------------

    def load(self) -> None:
        """Start to replay the log. An empty log is loaded when this returns."""
        self._loading = CoordinatorLoader(self.partition, self.state_machine)

        def load_next() -> None:
            if self.state is not ShardState.LOADING:
                return
            try:
                more = self._loading.load_some()
            except LoadingFailed as failure:
                log.critical(
                    "loading the coordinator's state from %s failed: %s; what it keeps is not "
                    "served until the partition is opened again",
                    self.partition.topic_partition,
                    failure,
                )
                self.state = ShardState.FAILED
                return
            if more:
                self._call_soon(load_next)
            elif self._loading.done:
                self._loaded()

        self._continue_loading = load_next
        load_next()

    def _loaded(self) -> None:
        self.state = ShardState.ACTIVE
        self._last_written_offset = self._loading.end_offset
        self.run(self.state_machine.loaded)

    # -- operations ------------------------------------------------------------------------------

    def run(self, operation: Operation) -> None:
        """Run an operation and append, replay and answer what it returns. The shard is active."""
        result = OperationResult(self._clock.wall_ms())
        operation(result)
        if result.records:
            error = self._append(result)
            if error is not NONE:
                self._set_timers(result)
                self._refuse(result, RESPONSE_ERRORS.get(error, error))
                return
            transaction = result.transaction
            producer_id = NO_PRODUCER_ID if transaction is None else transaction.producer_id
            for record in result.records:
                replay(self.state_machine, record, producer_id)
            for step in result.steps:
                step()
            result.steps.clear()  # A step may hold the result: a cycle, which only a GC would free.
        self._set_timers(result)
        self._release(result.answers)
        if result.records:
            if result.committed_steps:
                self._committed_steps.append((self._last_written_offset, result.committed_steps))
            self._replicas.appended(self.partition)
            if result.committed_steps:
                self._run_committed_steps()

    def complete_transaction(self, marker: TransactionMarker, reply: Reply[ErrorCode]) -> None:
        """Append the marker of a transaction, apply it, and answer when it is committed.

        A marker may come again, and for a transaction that left nothing here. Errors of the append
        are the log's own: the sender of markers knows which of them pass.
        """
        error = self.partition.append_error()
        info = None
        if error is NONE:
            info = self._replicas.append_marker(self.partition, marker)
            error = info.error
        if info is None or error is not NONE:
            reply.refuse(error)
            return
        self._last_written_offset = max(self._last_written_offset, info.required_offset)
        self.state_machine.replay_marker(marker.producer_id, marker.committed)
        self._release([(reply, NONE)])
        self._replicas.appended(self.partition)

    def timer_left_ms(self, key: TimerKey) -> int | None:
        """Return the time until a timer fires; None if it is not running."""
        return self._timers.left_ms(key)

    def _expired(self, key: TimerKey) -> None:
        retention_now_ms = self._retention_clock.now_ms()

        def operation(result: OperationResult) -> None:
            result.retention_now_ms = retention_now_ms
            self.state_machine.expired(key, result)

        self.run(operation)

    def _append(self, result: OperationResult) -> ErrorCode:
        error = self.partition.append_error()
        if error is not NONE:
            return error
        codec, transaction = self.state_machine.codec, result.transaction
        builder, guard = RecordBatchBuilder(), None
        if transaction is not None:
            guard = transaction.guard
            builder = RecordBatchBuilder(
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transactional=True,
            )
        try:
            for record in result.records:
                key, value = codec.key_bytes(record), codec.value_bytes(record)
                builder.append(key, value, timestamp=result.now_ms)
        except ValueError as error:  # A name is longer than the field's length can encode.
            log.warning("encoding records for %s failed: %s", self.partition.topic_partition, error)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        data = builder.build()
        info = self._replicas.append(
            self.partition,
            ByteRange(data, 0, len(data)),
            PRODUCE_VERSION,
            guard,
            by_coordinator=True,
        )
        if info.error is NONE:
            self._last_written_offset = info.required_offset
        elif info.error is not ErrorCode.KAFKA_STORAGE_ERROR:  # The log has reported that one.
            log.error(
                "append of %d records to %s was refused: %s %s",
                len(result.records),
                self.partition.topic_partition,
                info.error.name,
                info.error_message or "",
            )
        return info.error

    def _refuse(self, result: OperationResult, error: ErrorCode) -> None:
        refuse(result.answers, error)
        for reply in result.deferred_replies:
            reply.refuse(error)

    def _set_timers(self, result: OperationResult) -> None:
        timers = self._timers
        for key, delay_ms in result.timers:
            if delay_ms == CANCELLED:
                timers.cancel(key)
            else:
                timers.schedule(key, delay_ms)

    # -- answers ---------------------------------------------------------------------------------

    def _release(self, answers: Answers) -> None:
        if not answers:
            return
        if not self._waiting and self.partition.high_watermark >= self._last_written_offset:
            for reply, response in answers:
                reply.send(response)
        else:
            deadline_ms = self._timer.now_ms + self._answer_timeout_ms
            self._waiting.append((self._last_written_offset, deadline_ms, answers))
            if self._timeout is None:
                self._timeout = self._timer.call_later(self._answer_timeout_ms, self._time_out)

    def _time_out(self) -> None:
        """Refuse the responses that have waited for too long. The task runs once per timeout, not
        once per response.
        """
        self._timeout = None
        waiting, now_ms = self._waiting, self._timer.now_ms
        while waiting and waiting[0][1] <= now_ms:
            _, _, answers = waiting.popleft()
            refuse(answers, RESPONSE_ERRORS[ErrorCode.REQUEST_TIMED_OUT])
        if waiting:
            self._timeout = self._timer.call_later(waiting[0][1] - now_ms, self._time_out)

    def high_watermark_moved(self) -> None:
        """Send the responses that are committed now, or continue to load."""
        if self.state is ShardState.LOADING:
            self._continue_loading()
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.partition.high_watermark:
            for reply, response in waiting.popleft()[2]:
                reply.send(response)
        if self._committed_steps:
            self._run_committed_steps()

    def _run_committed_steps(self) -> None:
        """Run what waited for the commit of records that are committed now."""
        waiting = self._committed_steps
        while waiting and waiting[0][0] <= self.partition.high_watermark:
            for step in waiting.popleft()[1]:
                step()

    def unload(self, error: ErrorCode) -> None:
        """Cancel the timers and answer waiting requests with `error`: the partition was removed."""
        self.state = ShardState.GONE
        self._timers.clear()
        if self._timeout is not None:
            self._timeout.cancel()
        self._committed_steps.clear()
        while self._waiting:
            refuse(self._waiting.popleft()[2], error)
        self.state_machine.unloaded(error)


def refuse(answers: Answers, error: ErrorCode) -> None:
    """Answer all of these requests with `error`."""
    for reply, _ in answers:
        reply.refuse(error)
