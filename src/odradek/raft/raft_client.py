"""RaftClient: runs the quorum's core over a real log, and offers what Kafka's client of that name
offers to a controller and to every node.

    requests, answers, ticks, flushes ─► core.step ─► effects, carried out in order:
        SaveElection                the file `quorum-state`, on a worker
        Append, Flush               the log; a flush at the end of the event, on a worker
        Truncate, InstallSnapshot   the log, on a worker
        Send, Reply...              the sender, and the caller of `receive`
        WriteSnapshot               a fetched snapshot, on a worker
        Committed, LeaderChanged    the listener

What must be on disk first holds up everything behind it: while a worker is at it, later effects
wait in their order, and `held_up` is true. Requests are taken meanwhile, their replies wait.

The listener gets committed records in order, once. A leader's own records are handed over as they
were given to `append`; all others are read from the log again, in slices of a few turns, so that a
node that catches up does not hold its loop.

If the disk fails, the log is fenced: `failed` is called once, a leader of several voters resigns,
and nothing is appended or committed any more. If the disk is full, `append` raises its error and
nothing was appended; a leader of several voters resigns, as others may have room. What another
leader sent is appended later.

All methods are the owner thread's. Before the loop runs, `start` may block; nothing else does.

It is one long class, because every effect is carried out in one order, over one log: a part of it
would need all of its state.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from odradek.log.durable_ends import DurableEnds
from odradek.log.fence import NO_ROOM, LogDamaged, LogDirFailure
from odradek.log.flush import LogFlush
from odradek.log.log import Log
from odradek.log.truncation import LogTruncation
from odradek.model.byte_ranges import FileSlice
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.validate import ValidBatch
from odradek.raft import quorum_state
from odradek.raft.core import NotLeader, Raft
from odradek.raft.effects import (
    Answered,
    Append,
    Committed,
    Effect,
    ElectionState,
    Event,
    Failed,
    Flush,
    Flushed,
    InstallSnapshot,
    LeaderChanged,
    Propose,
    Received,
    ReplicaDisconnected,
    ReplyRecords,
    ReplySnapshot,
    Resign,
    Respond,
    SaveElection,
    Send,
    SnapshotFetched,
    SnapshotTaken,
    Tick,
    Truncate,
    WriteSnapshot,
)
from odradek.raft.leader import Leader
from odradek.raft.log_state import RaftBatch
from odradek.raft.messages import (
    Destination,
    FetchSnapshotResponse,
    RaftError,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
)
from odradek.raft.raft_records import BatchData, control_data, read_batches
from odradek.raft.replicas import UNKNOWN_DIRECTORY, VoterSet
from odradek.raft.snapshot_files import (
    FetchedSnapshot,
    SnapshotId,
    SnapshotPiece,
    read_piece,
    recorded_voters,
)
from odradek.raft.value import value
from odradek.timing.timer import CallTask, SystemTimer

logger = logging.getLogger(__name__)

MAX_FETCH_BYTES: Final = 1 << 20
"""What one answer to a fetch has at most, unless one batch is larger."""
MAX_PIECE_BYTES: Final = 1 << 20
SLICE_BYTES: Final = 16 << 10
"""How much the listener gets in one turn, unless one batch is larger: some 400 changes of
partitions, which take it 20 ms."""
MAX_UNCOMMITTED_BYTES: Final = 64 << 20
DISK_FULL_PAUSE_MS: Final = 1_000
CHANGES_LOG: Final = (SaveElection, Append, Truncate, InstallSnapshot)


class UncommittedLimit(Exception):
    """So much is not committed that a leader takes no more records: it lost the others."""


class RaftSender(Protocol):
    """Sends requests to other replicas."""

    def send(
        self,
        to: Destination,
        request: RaftRequest,
        answered: Callable[[RaftResponse], None],
        failed: Callable[[], None],
    ) -> None:
        """Send a request; exactly one of the callbacks is called, later."""
        ...


class RaftListener(Protocol):
    """What happens to the log, for whoever applies its records."""

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Take committed batches, which follow those before."""
        ...

    def handle_leader_change(self, epoch: int, leader_id: int | None) -> None:
        """Another leader, or none, is known. For this node itself: it may `append`."""
        ...

    def read_snapshot(self, data: bytes) -> object:
        """Decode a snapshot; on a worker. Raises `ValueError` if it is damaged."""
        ...

    def handle_snapshot(self, snapshot: SnapshotId, contents: object) -> None:
        """Go on from a snapshot; `contents` is what `read_snapshot` returned."""
        ...


@value
class CommittedBatch:
    """One committed batch: the records that were given to `append`, or else its encoded form."""

    base_offset: int
    end_offset: int
    size: int
    records: Sequence[object] | None
    encoded: BatchData | None = None


@value
class OwnRecords:
    """Records that this leader has appended to its log."""

    records: Sequence[object]
    size: int


ReplyTo = Callable[[RaftResponse, Sequence[FileSlice]], None]
"""Gets the response to a request, and the records of a fetch, which the caller releases."""


class RaftClient:
    """A replica of the metadata quorum. Made by `raft_log.open_raft_client`."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        core: Raft,
        log: Log,
        durable_ends: DurableEnds,
        *,
        applied_offset: int,
        sender: RaftSender | None,
        failed: Callable[[OSError], None],
    ) -> None:
        """`applied_offset`: the listener has everything before it. Without a `sender` nobody else
        can be asked.
        """
        self.core = core
        self.log = log
        self.failure: OSError | None = None
        self.applied_offset = applied_offset
        self.stopped = False
        self._env = env
        self._timer = timer
        self._durable_ends = durable_ends
        self._sender = sender
        self._failed = failed
        self._listener: RaftListener | None = None
        self._effects: deque[Effect] = deque()
        self._announced = -1
        """The last epoch that the listener knows this replica to lead."""
        self._performing = False
        self._blocking = False
        self._held_up = False
        self._own: deque[CommittedBatch] = deque()
        """The batches of this leader that are not delivered."""
        self._own_bytes = 0
        self._deliver_scheduled = False
        self._flush_scheduled = False
        self._flushing = False
        self._flush_due = False
        self._flush_number = 0
        """The core's count of truncations at the last `Flush`."""
        self._waits_for_flush = False
        self._syncing = False
        self._alarm = CallTask(0, self._tick)
        self._alarm_ms: int | None = None
        self._fetched: FetchedSnapshot | None = None
        self._fetched_contents: object = None
        self._reading = 0

    # What others ask

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.core.log.end_offset

    @property
    def epoch(self) -> int:
        """The epoch of this replica."""
        return self.core.epoch

    @property
    def is_leader(self) -> bool:
        """True while this replica leads, has that on disk, and its disk works."""
        core = self.core
        return core.is_leader and self._announced == core.epoch and self.failure is None

    @property
    def has_applied_epoch(self) -> bool:
        """True if the listener of this leader has everything that was committed before its epoch,
        and nothing before it can be undone.
        """
        role = self.core.role
        return isinstance(role, Leader) and self.applied_offset >= role.start_offset

    @property
    def held_up(self) -> bool:
        """True while effects wait for a worker."""
        return self._held_up

    @property
    def idle(self) -> bool:
        """True if nothing waits for the disk and no work is on a worker."""
        work = self._flushing or self._syncing or self._held_up or self._reading
        return not (work or self._own or self._flush_scheduled or self._deliver_scheduled)

    # Starting and stopping

    def start(self, listener: RaftListener) -> None:
        """Begin. Blocks for the file `quorum-state`: before the loop runs."""
        self._listener = listener
        self._blocking = True
        try:
            if self.applied_offset < self.core.log.high_watermark:
                self._deliver_all()
            self._take(self.core.start(self._now_ms))
        finally:
            self._blocking = False
        self._set_alarm()

    def flush_now(self) -> None:
        """Flush what was appended, and commit what that commits. Blocks: before the loop runs."""
        flush = self._log_flush()
        if flush is not None:
            flush.run()
            self._flushed(flush, self._flush_number, None)

    def resign(self) -> None:
        """Give up the leadership, if others can take it."""
        if self.core.is_leader and len(self.core.log.voters) > 1:
            self._step(Resign())

    def stop(self) -> None:
        """Take no more events. What is on workers ends by itself."""
        self.stopped = True
        self._alarm.cancel()
        self._alarm_ms = None

    def close(self) -> None:
        """Flush and close the files. Blocks."""
        self.stop()
        self.log.close()
        if self.failure is None:
            self._durable_ends.sync()
        self._durable_ends.close()

    # Leading

    def append(self, epoch: int, records: Sequence[object], data: bytes) -> int:
        """Append the batch `data`, which has these records, as the leader of `epoch`; return the
        log's end. It is committed when the listener gets it.

        Raises `NotLeader`; `UncommittedLimit`; `OSError`, after which nothing was appended.
        """
        if self.failure is not None:
            raise self.failure
        core = self.core
        # Effects that change the log come first; then this leader has only just been elected.
        later = any(isinstance(effect, CHANGES_LOG) for effect in self._effects)
        if not self.is_leader or epoch != core.epoch or later:
            raise NotLeader(f"replica {core.me} does not lead epoch {epoch}")
        if self._own_bytes + len(data) > MAX_UNCOMMITTED_BYTES:
            raise UncommittedLimit(f"{self._own_bytes} bytes of records are not committed")
        # The log first: if it has no room, the core must not know of the records.
        try:
            base_offset = self._append_to_log(data, epoch)
        except OSError as error:
            has_failed = isinstance(error, LogDirFailure)
            if not has_failed and error.errno in NO_ROOM and len(core.log.voters) > 1:
                logger.error("the metadata log has no room: %s; another node may lead", error)
                self._env.call_soon(self.resign)
                raise NotLeader(f"replica {core.me} has no room for records") from error
            raise
        self._keep(CommittedBatch(base_offset, self.log.log_end_offset, len(data), records))
        self._step(Propose(epoch, len(records), OwnRecords(records, len(data))))
        return core.log.end_offset

    def snapshot_taken(self, snapshot: SnapshotId) -> None:
        """The log begins after `snapshot` from now on, which is on disk."""
        self._step(SnapshotTaken(snapshot.end))

    def recorded_voters_at(self, offset: int) -> VoterSet | None:
        """Return the voters as of `offset`, None if only the settings name them."""
        voters = self.core.log.voters_at(offset)
        known = all(v.key.directory_id != UNKNOWN_DIRECTORY and v.endpoints for v in voters)
        return voters if len(voters) and known else None

    # Requests and events

    def receive(self, request: RaftRequest, reply: ReplyTo) -> None:
        """Take a request of another replica; `reply` is called once, perhaps later."""
        if self.failure is None and not self.stopped:
            self._step(Received(reply, request))

    def change_voters(self, change: Event) -> None:
        """Take an `AddVoter`, `RemoveVoter` or `UpdateVoter`, whose token is a `ReplyTo`."""
        self._step(change)

    def disconnected(self, replica_id: int) -> None:
        """The connection to or from a replica was closed by the other end."""
        self._step(ReplicaDisconnected(replica_id))

    def _tick(self) -> None:
        self._alarm_ms = None
        deadline = self.core.deadline
        if deadline is not None and deadline <= self._now_ms:
            self._step(Tick())
        else:
            self._set_alarm()

    @property
    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ms()

    def _step(self, event: Event) -> None:
        if self.stopped or (self.failure is not None and not isinstance(event, Resign)):
            return
        self._take(self.core.step(self._now_ms, event))
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Set the alarm if it would be late; an alarm that is early looks again."""
        deadline = self.core.deadline
        if deadline is None or self.stopped or self.failure is not None:
            return
        if self._alarm_ms is None or deadline < self._alarm_ms:
            self._alarm.cancel()
            self._alarm = CallTask(0, self._tick)
            self._alarm_ms = deadline
            self._timer.schedule(self._alarm, deadline)

    # Effects

    def _take(self, effects: list[Effect]) -> None:
        self._effects.extend(effects)
        if not self._performing:
            self._perform_all()

    def _perform_all(self) -> None:
        self._performing = True
        try:
            while self._effects and not self._held_up:
                self._perform(self._effects.popleft())
        finally:
            self._performing = False

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Append(batches):
                self._append_batches(batches)
            case Flush(truncations):
                self._flush_number = truncations
                self._schedule_flush()
            case Committed(high_watermark):
                self.log.high_watermark = max(self.log.high_watermark, high_watermark)
                self._deliver()
            case Send(to, request):
                self._send(to, request)
            case Respond(token, response):
                self._reply(token, response, ())
            case ReplyRecords():
                self._reply_records(effect)
            case ReplySnapshot():
                self._reply_snapshot(effect)
            case SaveElection(state):
                self._save(state)
            case Truncate() | InstallSnapshot():
                self._truncate(effect)
            case WriteSnapshot():
                self._write_snapshot(effect)
            case LeaderChanged(epoch, leader_id):
                self._leader_changed(epoch, leader_id)

    def _hold_up(
        self,
        work: Callable[[], object],
        done: Callable[[], None],
        again: Effect | None = None,
        repeats: bool = False,
    ) -> None:
        """Do work before the effects that follow: at once in `start`, else on a worker. If the disk
        was full, `again` is an effect to perform, or the same work is repeated.
        """
        if self._blocking:
            work()
            done()
            return
        self._held_up = True

        def ended(_: object) -> None:
            self._held_up = False
            done()
            self._resume()

        def failed(error: BaseException) -> None:
            self._held_up = False
            if not isinstance(error, OSError):
                raise error
            if isinstance(error, LogDirFailure):
                self.fail(error)
                return
            if again is not None:
                self._effects.appendleft(again)
            self._wait_for_room(error, repeat if repeats else self._resume)

        def repeat() -> None:
            if not self.stopped:
                self._hold_up(work, done, repeats=True)

        self._env.offload.submit(work, ended, failed)

    def _resume(self) -> None:
        if not self._performing:
            self._perform_all()
            self._set_alarm()

    def _save(self, state: ElectionState) -> None:
        while self._effects and isinstance(later := self._effects[0], SaveElection):
            state = later.state
            self._effects.popleft()
        disk, log = self._env.disk, self.log

        def work() -> None:
            log.fence.check()
            try:
                quorum_state.save(disk, log.directory, state)
            except OSError as error:
                raise log.fence.classify(error) from error

        self._hold_up(work, lambda: None, SaveElection(state))

    def _send(self, to: Destination, request: RaftRequest) -> None:
        def failed() -> None:
            self._step(Failed(to, request))

        if self._sender is None:
            self._env.call_soon(failed)
        else:
            self._sender.send(
                to, request, lambda response: self._step(Answered(to, request, response)), failed
            )

    @staticmethod
    def _reply(token: object, response: RaftResponse, records: Sequence[FileSlice]) -> None:
        assert callable(token), "a token is what replies"
        token(response, records)

    def _leader_changed(self, epoch: int, leader_id: int | None) -> None:
        if leader_id == self.core.me.id:
            self._announced = epoch
        else:
            # What is committed of it later is read from the log.
            self._own.clear()
            self._own_bytes = 0
        assert self._listener is not None
        self._listener.handle_leader_change(epoch, leader_id)

    # The log

    def _append_to_log(self, data: bytes, epoch: int) -> int:
        header = RecordBatchHeader(data, 0)
        base_offset = self.log.log_end_offset
        batch = ValidBatch(data, header, 0, False)
        info = self.log.append(batch, epoch, self._env.clock.wall_ms())
        assert info.error is ErrorCode.NONE, f"the metadata log refused a batch: {info}"
        return base_offset

    def _append_batches(self, batches: Sequence[RaftBatch]) -> None:
        for number, batch in enumerate(batches):
            if isinstance(batch.payload, OwnRecords):
                continue  # `append` has written it.
            try:
                self._append_batch(batch)
            except LogDirFailure as error:
                self.fail(error)
                return
            except OSError as error:
                self._effects.appendleft(Append(tuple(batches[number:])))
                self._wait_for_room(error, self._resume)
                return

    def _append_batch(self, batch: RaftBatch) -> None:
        payload = batch.payload
        if isinstance(payload, BatchData):
            header = payload.header
            at = ValidBatch(payload.data, header, header.position, False)
            info = self.log.append(at, batch.epoch, self._env.clock.wall_ms())
            assert info.error is ErrorCode.NONE, f"the metadata log refused a batch: {info}"
        else:
            data = control_data(batch, self._env.clock.wall_ms())
            self._append_to_log(data, batch.epoch)
            if self.core.is_leader:
                self._keep(CommittedBatch(batch.base_offset, batch.end_offset, len(data), ()))
        assert self.log.log_end_offset == batch.end_offset, f"{batch} is elsewhere in the log"

    def _wait_for_room(self, error: OSError, then: Callable[[], None]) -> None:
        logger.error("the metadata log takes no records: %s; trying again", error)
        self._held_up = True

        def again() -> None:
            self._held_up = False
            then()

        self._timer.call_later(DISK_FULL_PAUSE_MS, again)

    def _schedule_flush(self) -> None:
        self._flush_due = True
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._env.call_soon(self._begin_flush)

    def flush_soon(self) -> None:
        """Flush at the end of the event: the log was rolled."""
        self._schedule_flush()

    def _log_flush(self) -> LogFlush | None:
        try:
            flush = self.log.begin_flush()
        except OSError as error:
            self._fail_or_retry(error)
            return None
        self._flush_due = False
        self._flushing = flush is not None
        return flush

    def _begin_flush(self) -> None:
        self._flush_scheduled = False
        if self._flushing or self.failure is not None or self.stopped or self.log.truncating:
            return
        flush = self._log_flush()
        if flush is None:
            if self.failure is None and self.core.log.flushed_offset < self.log.flushed_offset:
                self._step(Flushed(self.log.flushed_offset, self._flush_number))
            return
        number = self._flush_number
        self._env.offload.submit(
            flush.run,
            lambda _: self._flushed(flush, number, None),
            lambda error: self._flushed(flush, number, error),
        )

    def _flushed(self, flush: LogFlush, number: int, error: BaseException | None) -> None:
        self._flushing = False
        try:
            durable = self.log.end_flush(flush)
        except OSError as failure:
            self.fail(failure)
            return
        if error is not None:
            raise error
        self._step(Flushed(durable, number))
        if self._flush_due:
            self._schedule_flush()
        self._sync_durable_ends()
        if self._waits_for_flush:
            self._waits_for_flush = self._held_up = False
            self._resume()

    def _sync_durable_ends(self) -> None:
        """Sync `durable-ends`, which tells damage from a torn tail after a power loss.

        Nothing waits for it.
        """
        if self._syncing:
            return
        self._syncing = True

        def synced(_: None) -> None:
            self._syncing = False

        def failed(error: BaseException) -> None:
            self._syncing = False
            if not isinstance(error, OSError):
                raise error
            self.fail(self.log.fence.fail(error))

        self._env.offload.submit(self._durable_ends.sync, synced, failed)

    def _truncate(self, effect: Truncate | InstallSnapshot) -> None:
        """Shorten the log, once no flush is under way."""
        if not self.log.may_truncate:
            self._effects.appendleft(effect)
            self._held_up = self._waits_for_flush = True
            return
        log = self.log
        if isinstance(effect, InstallSnapshot):
            snapshot = SnapshotId(*effect.snapshot)
            restart = log.begin_restart(snapshot.end_offset)
            self._hold_up(restart.run, lambda: self._installed(snapshot, restart), repeats=True)
            return
        truncation = log.begin_truncation(effect.offset)
        if truncation is not None:
            self._hold_up(truncation.run, lambda: log.end_truncation(truncation))

    def _installed(self, snapshot: SnapshotId, restart: LogTruncation) -> None:
        self.log.end_truncation(restart)
        self.applied_offset = snapshot.end_offset
        contents, self._fetched_contents = self._fetched_contents, None
        assert self._listener is not None
        self._listener.handle_snapshot(snapshot, contents)

    # Committed records

    def _deliver(self) -> None:
        """Give the listener what is committed: its own records at once, others in slices."""
        if self._blocking:
            self._deliver_all()
        elif not self._deliver_scheduled:
            self._deliver_slice()

    def _deliver_all(self) -> None:
        while self._deliver_next():
            pass

    def _deliver_slice(self) -> None:
        self._deliver_scheduled = False
        if self.stopped or self.failure is not None:
            return
        if self._deliver_next():
            self._deliver_scheduled = True
            self._env.call_soon(self._deliver_slice)

    def _deliver_next(self) -> bool:
        """Deliver one slice; return True if more is committed."""
        end = self._committed_end
        batches: list[CommittedBatch] = []
        size = 0
        while self._own and self._own[0].end_offset <= end and size < SLICE_BYTES:
            if not batches and self._own[0].base_offset > self.applied_offset:
                break
            own = self._own.popleft()
            self._own_bytes -= own.size
            size += own.size
            batches.append(own)
        if not batches and self.applied_offset < end and not self.log.truncating:
            try:
                batches = self._read_slice(min(end, self._own[0].base_offset) if self._own else end)
            except (LogDamaged, OSError) as error:
                if self._blocking:
                    raise
                self._read_failed(error)
        if not batches:
            return False
        self.applied_offset = batches[-1].end_offset
        assert self._listener is not None
        self._listener.handle_commit(batches)
        return self.applied_offset < self._committed_end

    def _read_failed(self, error: LogDamaged | OSError) -> None:
        """What is committed cannot be read: fail with the disk, or read again later."""
        if isinstance(error, LogDamaged):
            error = OSError(errno.EIO, str(error))
        failure = self.log.fence.classify(error)
        if isinstance(failure, LogDirFailure):
            self.fail(failure)
            return
        logger.error("the metadata log cannot be read: %s; trying again", error)
        self._deliver_scheduled = True
        self._timer.call_later(DISK_FULL_PAUSE_MS, self._deliver_slice)

    @property
    def _committed_end(self) -> int:
        """The end of what is committed and in the log on this disk."""
        return min(self.core.log.high_watermark, self.log.log_end_offset)

    def _keep(self, batch: CommittedBatch) -> None:
        self._own.append(batch)
        self._own_bytes += batch.size

    def _read_slice(self, until: int) -> list[CommittedBatch]:
        return [
            CommittedBatch(
                batch.base_offset,
                batch.end_offset,
                batch.payload.header.size,
                None,
                batch.payload,
            )
            for batch in read_batches(self.log, self.applied_offset, until, SLICE_BYTES)
            if isinstance(batch.payload, BatchData)
        ]

    # Answers that need the disk

    def _reply_records(self, effect: ReplyRecords) -> None:
        """Answer a fetch with slices of the log's files; they are pinned until they are sent."""
        core, offset = self.core, effect.request.fetch_offset
        response = RaftFetchResponse(
            RaftError.NONE,
            effect.epoch,
            effect.leader_id,
            core.endpoints,
            effect.high_watermark,
            counts_from=effect.counts_from,
        )
        try:
            read = self.log.read(offset, MAX_FETCH_BYTES, self.log.log_end_offset)
        except (LogDamaged, OSError) as error:
            logger.error("the metadata log cannot be read for a follower: %s", error)
            self._reply(effect.token, response, ())
            return
        self._reply(effect.token, response, read.slices)

    def _reply_snapshot(self, effect: ReplySnapshot) -> None:
        request, disk = effect.request, self._env.disk
        snapshot = SnapshotId(*request.snapshot)
        path = f"{self.log.directory}/{snapshot.file_name}"
        self._reading += 1

        def reply(piece: SnapshotPiece | None) -> None:
            self._reading -= 1
            head = (RaftError.NONE, effect.epoch, effect.leader_id)
            if piece is None:
                response = FetchSnapshotResponse(*head, missing=True)
            else:
                response = FetchSnapshotResponse(*head, piece.size, request.position, piece.data)
            self._reply(effect.token, response, ())

        def failed(error: BaseException) -> None:
            if not isinstance(error, OSError):
                raise error
            logger.error("a snapshot cannot be read for a follower: %s", error)
            reply(None)

        self._env.offload.submit(
            lambda: read_piece(path, disk, request.position, MAX_PIECE_BYTES), reply, failed
        )

    def _write_snapshot(self, effect: WriteSnapshot) -> None:
        snapshot = SnapshotId(*effect.snapshot)
        if self._fetched is None or self._fetched.id != snapshot:
            self._fetched = FetchedSnapshot(self._env.disk, self.log.directory, snapshot)
        fetched, listener = self._fetched, self._listener
        assert listener is not None
        found: list[tuple[VoterSet, object]] = []

        def work() -> None:
            try:
                fetched.write(effect.position, effect.data)
                if effect.complete:
                    found.append(self._read_fetched(fetched, listener))
            except ValueError as error:
                logger.error("a fetched snapshot is not used: %s", error)
            except OSError as error:
                raise self.log.fence.classify(error) from error

        def done() -> None:
            if effect.complete:
                self._fetched = None
            if found:
                voters, self._fetched_contents = found[0]
                self._step(SnapshotFetched(effect.snapshot, voters))

        self._hold_up(work, done)

    @staticmethod
    def _read_fetched(fetched: FetchedSnapshot, listener: RaftListener) -> tuple[VoterSet, object]:
        data = fetched.complete()
        try:
            contents = listener.read_snapshot(data)
        except ValueError:
            fetched.remove()
            raise
        return recorded_voters(data) or VoterSet(), contents

    # Failures

    def _fail_or_retry(self, error: OSError) -> None:
        """Fail with the disk; with a full disk, flush again later."""
        if isinstance(error, LogDirFailure):
            self.fail(error)
            return
        logger.error("the metadata log cannot be flushed: %s; trying again", error)
        self._timer.call_later(DISK_FULL_PAUSE_MS, self._schedule_flush)

    def fail(self, error: OSError) -> None:
        """Take no more records: the disk failed."""
        if self.failure is not None:
            return
        self._effects.clear()
        self._held_up = False
        self._alarm.cancel()
        self.failure = error
        if self.core.is_leader and len(self.core.log.voters) > 1:
            # Others can lead: tell them, and those who wait here.
            told = self.core.step(self._now_ms, Resign())
            self._take([each for each in told if isinstance(each, Send | Respond | LeaderChanged)])
        self._failed(error)
