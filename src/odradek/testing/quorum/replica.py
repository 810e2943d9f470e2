"""One replica of a quorum as a process: it carries out the effects of the core, in order.

    message, timer, end of a sync ─► core.step ─► effects ─► disk, connections, `Watcher`

An error of the disk ends the process: what a failed sync has written is unknown, and a vote or an
acknowledgement must not rest on it. The machine starts it again.

`Watcher` is told what the rules judge: votes, leaderships, what is committed, what is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from odradek.model.env import Env
from odradek.raft.core import LeaderChange, NotLeader, Raft, RaftConfig
from odradek.raft.effects import (
    AddVoter,
    Answered,
    Append,
    Committed,
    Disconnected,
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
    RemoveVoter,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Resign,
    SaveElection,
    Send,
    SnapshotFetched,
    SnapshotTaken,
    Tick,
    Truncate,
    WriteSnapshot,
)
from odradek.raft.log_state import OffsetAndEpoch, RaftBatch
from odradek.raft.messages import (
    BeginQuorumEpochRequest,
    Destination,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftError,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    VoterChangeResponse,
    VoteRequest,
)
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.testing.machine import VOLUME, host_of
from odradek.testing.network import SimNetwork
from odradek.testing.process import SimProcess
from odradek.testing.quorum.quorum_storage import QuorumStorage, SnapshotFile
from odradek.testing.quorum.quorum_wire import Mailbox, PeerConnection, PeerRequest, serve
from odradek.timing import SystemTimer, TimerTask

PORT = 9093
DIRECTORY = f"{VOLUME}/quorum"
REQUEST_TIMEOUT_MS = 1_500
PIECE_BYTES = 500
"""The size of the pieces in which snapshots are fetched."""
MAX_BATCHES = 20


def address(number: int) -> QuorumEndpoint:
    """Return the address of a replica."""
    return QuorumEndpoint("CLUSTER", host_of(number), PORT)


class Watcher(Protocol):
    """Sees what the replicas of a run do, for the rules."""

    def voted(self, replica: Replica, state: ElectionState) -> None: ...

    def leads(self, replica: Replica, epoch: int) -> None: ...

    def committed(self, replica: Replica, offset: int, epoch: int, content: object) -> None: ...

    def watermark(self, replica: Replica, offset: int) -> None: ...

    def reach(self, site: str) -> None: ...


class CoreTick(TimerTask):
    """Steps the core at its deadline."""

    def __init__(self, delay_ms: int, act: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self._act = act

    def run(self) -> None:
        self._act()


class Replica:
    """A replica of the quorum, numbered like its machine."""

    def __init__(
        self,
        number: int,
        env: Env,
        process: SimProcess,
        mailbox: Mailbox,
        config: RaftConfig,
        first_voters: VoterSet,
        first_directory: UUID,
        watcher: Watcher,
        disk_failed: Callable[[], None],
        snapshot_every: int,
    ) -> None:
        """`first_directory`: the directory id if the disk is empty; `snapshot_every`: records."""
        self.number = number
        self.env = env
        self.process = process
        self.watcher = watcher
        self.applied: list[tuple[int, int, object]] = []
        """The committed records: offset, epoch, content."""
        self._mailbox = mailbox
        self._disk_failed = disk_failed
        self._snapshot_every = snapshot_every
        self._peers: dict[str, PeerConnection] = {}
        self._waiting: dict[int, list[tuple[int, Callable[[bool], None]]]] = {}
        self._fetched = bytearray()
        self._tick: CoreTick | None = None
        self.timer = SystemTimer(env.clock.monotonic_ms())
        process.drive(self.timer)
        assert isinstance(env.network, SimNetwork)
        self._network = env.network
        self.storage = QuorumStorage(
            env.disk,
            DIRECTORY,
            first_voters,
            lambda: watcher.reach("quorum: a torn tail is cut off"),
        )
        log = self.storage.load(first_directory)
        self.applied.extend(self.storage.snapshot.records)
        self._applied_to = self.storage.snapshot.end.offset
        self.core = Raft(
            ReplicaKey(number, self.storage.directory_id),
            config,
            Spread(env),
            self.storage.election,
            log,
            endpoints=(address(number),),
            bootstrap=[v.endpoints[0] for v in first_voters if v.key.id != number],
        )
        serve(self._network, PORT, mailbox, self._request_received)
        self._carry_out(self.core.start(self._now()))

    def _now(self) -> int:
        return self.env.clock.monotonic_ms()

    # The core.

    def step(self, event: Event) -> None:
        """Give the core an event, and carry out its effects."""
        before = type(self.core.role).__name__
        effects = self.core.step(self._now(), event)
        after = type(self.core.role).__name__
        if after != before:
            self.watcher.reach(f"quorum: {before} to {after}")
        self._carry_out(effects)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        try:
            for effect in effects:
                self._do(effect)
        except OSError:
            self._disk_failed()
            return
        self._set_tick()
        self._end_waiting()

    def _set_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        deadline = self.core.deadline
        if deadline is not None:
            self._tick = CoreTick(max(0, deadline - self._now()), lambda: self.step(Tick()))
            self.timer.add(self._tick)

    def _do(self, effect: Effect) -> None:
        match effect:
            case SaveElection(state):
                self.storage.save_election(state)
                self.watcher.voted(self, state)
            case Append(batches):
                self.storage.append([with_text(batch) for batch in batches])
            case Flush(truncations):
                self._flush(truncations)
            case Truncate(offset):
                self.watcher.reach("quorum: the log is truncated")
                self.storage.truncate(offset)
            case InstallSnapshot():
                self._install()
            case WriteSnapshot():
                self._write_snapshot(effect)
            case Send(to, request):
                self._send(to, request)
            case Reply() | ReplyRecords() | ReplySnapshot():
                self._reply(effect)
            case Committed(high_watermark):
                self._apply(high_watermark)
            case LeaderChanged(epoch, leader_id):
                if leader_id == self.number:
                    self.watcher.leads(self, epoch)

    # Disk.

    def _flush(self, truncations: int) -> None:
        end = self.storage.end
        self.env.offload.submit(
            self.storage.sync_task(),
            lambda _: self.step(Flushed(end, truncations)),
            lambda _: self._disk_failed(),
        )

    def _install(self) -> None:
        self.watcher.reach("quorum: a snapshot is installed")
        self.storage.install_snapshot()
        snapshot = self.storage.snapshot
        for offset, epoch, payload in snapshot.records[len(self.applied) :]:
            self.watcher.committed(self, offset, epoch, payload)
        self.applied = list(snapshot.records)
        self._applied_to = snapshot.end.offset

    def _write_snapshot(self, effect: WriteSnapshot) -> None:
        if effect.position == 0:
            self._fetched = bytearray()
        self._fetched += effect.data
        if effect.complete:
            fetched = SnapshotFile.decode(bytes(self._fetched))
            self.storage.save_fetched(fetched)
            found = SnapshotFetched(effect.snapshot, fetched.voters)
            self.env.call_soon(lambda: self.step(found))

    def _take_snapshot(self) -> None:
        log = self.core.log
        end = OffsetAndEpoch(self._applied_to, log.epoch_before(self._applied_to))
        if log.flushed_offset < end.offset:
            return
        self.watcher.reach("quorum: a snapshot is taken")
        taken = SnapshotFile(end, log.voters_at(end.offset), tuple(self.applied))
        self.storage.take_snapshot(taken)
        self.env.call_soon(lambda: self.step(SnapshotTaken(end)))

    def _apply(self, high_watermark: int) -> None:
        self.watcher.watermark(self, high_watermark)
        for batch in self.storage.batches:
            if self._applied_to <= batch.base_offset and batch.end_offset <= high_watermark:
                content = content_of(batch)
                self.applied.append((batch.base_offset, batch.epoch, content))
                self._applied_to = batch.end_offset
                self.watcher.committed(self, batch.base_offset, batch.epoch, content)
        if self._applied_to - self.core.log.start.offset >= self._snapshot_every:
            self._take_snapshot()

    # Network.

    def _send(self, to: Destination, request: RaftRequest) -> None:
        endpoint = to.endpoints[0] if to.endpoints else address(to.replica_id or 0)
        peer = self._peers.get(endpoint.host)
        if peer is None:
            number = next((n for n in range(1, 6) if host_of(n) == endpoint.host), 0)
            peer = self._peers[endpoint.host] = PeerConnection(
                self.process,
                self._network,
                self._mailbox,
                endpoint.host,
                endpoint.port,
                REQUEST_TIMEOUT_MS,
                lambda: self.env.call_soon(lambda: self.step(Disconnected(number))),
            )

        def answered(response: object) -> None:
            self.step(Answered(to, request, response))  # type: ignore[arg-type]

        def failed() -> None:  # Perhaps within a step, when the connection has just broken.
            self.env.call_soon(lambda: self.step(Failed(to, request)))

        peer.call(request, answered, failed)

    def _request_received(self, request: PeerRequest) -> None:
        message = request.message
        assert isinstance(
            message,
            VoteRequest
            | BeginQuorumEpochRequest
            | EndQuorumEpochRequest
            | RaftFetchRequest
            | FetchSnapshotRequest,
        )
        self.step(Received(request, message))

    def _reply(self, effect: Reply | ReplyRecords | ReplySnapshot) -> None:
        response: RaftResponse
        match effect:
            case Reply(response=given):
                response = given
            case ReplyRecords():
                response = self._records(effect)
            case ReplySnapshot():
                response = self._piece(effect)
        token = effect.token
        if isinstance(token, PeerRequest):
            token.answer(response)
        elif isinstance(response, VoterChangeResponse):
            done = response.error is RaftError.NONE
            self.watcher.reach(
                f"quorum: a change of voters is {'committed' if done else 'refused'}"
            )

    def _records(self, effect: ReplyRecords) -> RaftFetchResponse:
        offset = effect.request.fetch_offset
        batches = [batch for batch in self.storage.batches if batch.base_offset >= offset]
        return RaftFetchResponse(
            RaftError.NONE,
            effect.epoch,
            effect.leader_id,
            (address(effect.leader_id),),
            effect.high_watermark,
            tuple(batches[:MAX_BATCHES]),
        )

    def _piece(self, effect: ReplySnapshot) -> FetchSnapshotResponse:
        request, snapshot = effect.request, self.storage.snapshot
        if request.snapshot != snapshot.end:
            return FetchSnapshotResponse(
                RaftError.NONE, effect.epoch, effect.leader_id, missing=True
            )
        data = snapshot.encode()
        piece = data[request.position : request.position + PIECE_BYTES]
        return FetchSnapshotResponse(
            RaftError.NONE, effect.epoch, effect.leader_id, len(data), request.position, piece
        )

    # Its user.

    def propose(self, payload: str, ended: Callable[[bool], None]) -> bool:
        """Propose a record if this replica leads. `ended(True)`: it is committed; `ended(False)`:
        the leadership ended first, and it may or may not be.
        """
        epoch, offset = self.core.epoch, self.core.log.end_offset
        if not self.core.is_leader:
            return False
        self._waiting.setdefault(epoch, []).append((offset, ended))
        try:
            self.step(Propose(epoch, 1, payload))
        except NotLeader as error:
            raise AssertionError("a leader refused a record of its epoch") from error
        return True

    def _end_waiting(self) -> None:
        """Tell the proposals that are committed, or whose outcome is unknown now."""
        for epoch in list(self._waiting):
            waiting = self._waiting.pop(epoch)
            if epoch != self.core.epoch or not self.core.is_leader:
                for _, ended in waiting:
                    self.watcher.reach("quorum: a proposal's outcome is unknown")
                    ended(False)
                continue
            left = []
            for offset, ended in waiting:
                if offset < self.core.log.high_watermark:
                    ended(True)
                else:
                    left.append((offset, ended))
            if left:
                self._waiting.setdefault(epoch, []).extend(left)

    def change_voters(self, key: ReplicaKey) -> None:
        """Remove a voter, or add one, if this replica leads."""
        if key in self.core.log.voters:
            self.step(RemoveVoter("change", key))
        else:
            self.step(AddVoter("change", Voter(key, (address(key.id),))))

    def stop(self, stopped: Callable[[], None]) -> None:
        """Give up a leadership, and end when the others have been told."""
        self.step(Resign())
        self.timer.call_later(50, stopped)


class Spread:
    """The random numbers of elections, from the environment's."""

    def __init__(self, env: Env) -> None:
        self._random = env.random

    def randrange(self, start: int, stop: int, /) -> int:
        """Return a number from `start` up to but not including `stop`."""
        return start + self._random.getrandbits(32) * (stop - start) // (1 << 32)


def with_text(batch: RaftBatch) -> RaftBatch:
    """Return the batch with a payload that can be written."""
    if isinstance(batch.payload, LeaderChange):
        return replace(batch, payload=f"leader {batch.payload.leader_id}")
    return batch


def content_of(batch: RaftBatch) -> object:
    """Return the content of a batch, for comparisons."""
    return batch.payload if batch.voters is None else str(batch.voters)
