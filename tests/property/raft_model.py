"""A quorum in simulated time: replicas, their disks, a network that loses, and rules that hold.

Nothing here waits or runs in parallel: one seed is one run. A crash loses what was not flushed, a
random part of it; a vote is on disk before its answer is sent, because effects are carried out in
order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from odradek.raft.core import NotLeader, Raft, RaftConfig
from odradek.raft.effects import (
    AddVoter,
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
    RemoveVoter,
    ReplicaDisconnected,
    ReplyRecords,
    ReplySnapshot,
    Respond,
    SaveElection,
    Send,
    SnapshotFetched,
    SnapshotTaken,
    Tick,
    Truncate,
    WriteSnapshot,
)
from odradek.raft.log_state import LogState, OffsetAndEpoch, RaftBatch
from odradek.raft.messages import (
    FetchSnapshotResponse,
    RaftError,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftResponse,
)
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet

CONFIG = RaftConfig(
    election_timeout_ms=200,
    election_backoff_max_ms=200,
    fetch_timeout_ms=400,
    fetch_max_wait_ms=100,
    retry_backoff_ms=10,
    stagger_ms=10,
)
REQUEST_TIMEOUT_MS = 150
SNAPSHOT = b"snapshot"
PIECE = 3
NO_SNAPSHOT = OffsetAndEpoch(0, 0)


def address(node_id: int) -> QuorumEndpoint:
    """The address of a simulated node."""
    return QuorumEndpoint("CLUSTER", "node", node_id)


def voter(key: ReplicaKey) -> Voter:
    """A voter at its simulated address."""
    return Voter(key, (address(key.id),))


@dataclass
class RaftMachine:
    """A replica and its disk."""

    key: ReplicaKey
    election: ElectionState
    snapshot: OffsetAndEpoch
    snapshot_voters: VoterSet
    batches: list[RaftBatch] = field(default_factory=list)
    durable_end: int = 0
    core: Raft | None = None
    life: int = 0
    truncations: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.snapshot.offset


@dataclass(frozen=True)
class Faults:
    """Probabilities and times of what goes wrong, and until when."""

    until_ms: int = 0
    loss: float = 0.0
    slow_ms: int = 5
    crashes: float = 0.0
    cuts: float = 0.0
    changes: float = 0.0
    snapshots: float = 0.0
    wipes: float = 0.0


class Quorum:
    """Replicas 1 to `voters`, and observers after them, on one network. `configured`: the voters
    are named by settings, without their directories.
    """

    def __init__(
        self, seed: int, voters: int, observers: int, faults: Faults, *, configured: bool = False
    ) -> None:
        self.random = Random(seed)
        self.faults = faults
        self.now = 0
        self._sequence = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        keys = [ReplicaKey(n, UUID(int=n << 8)) for n in range(1, voters + observers + 1)]
        self.first_voters = first = VoterSet(
            voter(ReplicaKey(key.id) if configured else key) for key in keys[:voters]
        )
        self.configured = configured and voters > 1
        self.wiped: RaftMachine | None = None
        """The one whose disk was lost last."""
        self.wipes = 0
        self.machines = {
            key.id: RaftMachine(key, self._nothing(key), NO_SNAPSHOT, first) for key in keys
        }
        self.cut: set[tuple[int, int]] = set()
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.committed: list[RaftBatch] = []
        self.proposed = 0
        self.changed = 0
        for machine in self.machines.values():
            self.start(machine)

    def _nothing(self, key: ReplicaKey) -> ElectionState:
        """What a replica with an empty disk knows of elections."""
        return ElectionState(is_new=self.configured and key.id in self.first_voters.ids)

    # Time

    def at(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now + delay_ms, self._sequence, what))

    def run(self, until_ms: int) -> None:
        """Let simulated time pass."""
        while True:
            due = self._events[0][0] if self._events else until_ms + 1
            ticking = None
            for machine in self.machines.values():
                deadline = machine.core.deadline if machine.core is not None else None
                if deadline is not None and deadline < due:
                    due, ticking = max(deadline, self.now), machine
            if due > until_ms:
                break
            self.now = due
            if ticking is not None:
                self.step(ticking, Tick())
            else:
                heapq.heappop(self._events)[2]()
        self.now = until_ms

    # Replicas

    def start(self, machine: RaftMachine) -> None:
        machine.life += 1
        log = LogState(machine.snapshot_voters, machine.snapshot)
        log.load(machine.batches)
        machine.durable_end = machine.end
        core = Raft(
            machine.key,
            CONFIG,
            self.random,
            machine.election,
            log,
            endpoints=(address(machine.key.id),),
            bootstrap=[address(1), address(2)],
        )
        machine.core = core
        self.perform(machine, core.start(self.now))

    def crash(self, machine: RaftMachine) -> None:
        machine.core = None
        machine.life += 1
        keep = self.random.randint(machine.durable_end, machine.end)
        machine.batches = [b for b in machine.batches if b.end_offset <= keep]
        for other in self.machines.values():
            if other is not machine:
                self.later(other, self.random.randint(1, 10), ReplicaDisconnected(machine.key.id))

    def wipe(self, machine: RaftMachine) -> None:
        """Lose the disk of a replica, unless one that was lost before is not made good."""
        lost = self.wiped
        if (
            lost is not None and lost.election.is_new
        ) or machine.key.id not in self.first_voters.ids:
            return
        self.crash(machine)
        self.wipes += 1
        self.wiped = machine
        machine.key = ReplicaKey(machine.key.id, UUID(int=machine.key.directory_id.int + 1))
        machine.election = self._nothing(machine.key)
        machine.snapshot, machine.snapshot_voters = NO_SNAPSHOT, self.first_voters
        machine.batches = []

    def step(self, machine: RaftMachine, event: Event) -> None:
        if machine.core is not None:
            self.perform(machine, machine.core.step(self.now, event))

    def later(self, machine: RaftMachine, delay_ms: int, event: Event) -> None:
        """Give a replica an event, unless its process ends before."""
        life = machine.life

        def arrive() -> None:
            if machine.life == life:
                self.step(machine, event)

        self.at(delay_ms, arrive)

    def perform(self, machine: RaftMachine, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._perform(machine, effect)

    def _perform(self, machine: RaftMachine, effect: Effect) -> None:
        match effect:
            case SaveElection(state):
                self._save(machine, state)
            case Append() | Flush() | Truncate() | InstallSnapshot() | WriteSnapshot():
                self._write(machine, effect)
            case Send():
                self._send(machine, effect)
            case Respond(token, response):
                self._reply(machine, token, response)
            case ReplyRecords():
                self._reply(machine, effect.token, self._records(machine, effect))
            case ReplySnapshot():
                self._reply(machine, effect.token, self._piece(machine, effect))
            case Committed(high_watermark):
                self._check_committed(machine, high_watermark)
            case LeaderChanged(epoch, leader_id):
                if leader_id == machine.key.id:
                    self._check_leader(machine, epoch)

    def _write(
        self,
        machine: RaftMachine,
        effect: Append | Flush | Truncate | InstallSnapshot | WriteSnapshot,
    ) -> None:
        core = machine.core
        assert core is not None
        match effect:
            case Append(batches):
                for batch in batches:
                    assert batch.base_offset == machine.end
                    machine.batches.append(batch)
            case Flush(truncations):
                self._flush(machine, truncations)
            case Truncate(offset):
                machine.batches = [b for b in machine.batches if b.end_offset <= offset]
                assert machine.end == offset
                machine.durable_end = min(machine.durable_end, offset)
                machine.truncations += 1
            case InstallSnapshot(snapshot):
                machine.batches = []
                machine.snapshot, machine.snapshot_voters = snapshot, core.log.voters
                machine.durable_end = snapshot.offset
                machine.truncations += 1
            case WriteSnapshot(snapshot, position, data, complete):
                assert SNAPSHOT[position : position + len(data)] == data
                if complete:
                    voters = self.voters_at(snapshot.offset)
                    self.later(machine, 5, SnapshotFetched(snapshot, voters))

    def _flush(self, machine: RaftMachine, truncations: int) -> None:
        end, life, cut_back = machine.end, machine.life, machine.truncations

        def flushed() -> None:
            if machine.life == life:
                if machine.truncations == cut_back:
                    machine.durable_end = max(machine.durable_end, end)
                self.step(machine, Flushed(end, truncations))

        self.at(self.random.randint(0, 8), flushed)

    def _records(self, machine: RaftMachine, effect: ReplyRecords) -> RaftFetchResponse:
        offset = effect.request.fetch_offset
        batches = [batch for batch in machine.batches if batch.base_offset >= offset]
        return RaftFetchResponse(
            RaftError.NONE,
            effect.epoch,
            effect.leader_id,
            (),
            effect.high_watermark,
            tuple(batches[: self.random.randint(1, 5)]),
            counts_from=effect.counts_from,
        )

    @staticmethod
    def _piece(machine: RaftMachine, effect: ReplySnapshot) -> FetchSnapshotResponse:
        request, epoch, leader_id = effect.request, effect.epoch, effect.leader_id
        if request.snapshot != machine.snapshot:
            return FetchSnapshotResponse(RaftError.NONE, epoch, leader_id, missing=True)
        data = SNAPSHOT[request.position : request.position + PIECE]
        return FetchSnapshotResponse(
            RaftError.NONE, epoch, leader_id, len(SNAPSHOT), request.position, data
        )

    # Network

    def _delay(self) -> int | None:
        """The time of one message, None if it is lost."""
        faulty = self.now < self.faults.until_ms
        if faulty and self.random.random() < self.faults.loss:
            return None
        return self.random.randint(1, self.faults.slow_ms if faulty else 5)

    def _reaches(self, source: int, target: int) -> bool:
        return (source, target) not in self.cut or self.now >= self.faults.until_ms

    def _send(self, machine: RaftMachine, send: Send) -> None:
        if isinstance(send.request, RaftFetchRequest):
            assert send.request.fetch_offset <= machine.durable_end, "acknowledged, not on disk"
        target = send.to.replica_id or send.to.endpoints[0].port
        other = self.machines[target]
        answered = [False]
        self.later_once(machine, REQUEST_TIMEOUT_MS, Failed(send.to, send.request), answered)
        delay = self._delay()
        if delay is None or not self._reaches(machine.key.id, target):
            return
        token = (machine, machine.life, send, answered)
        self.later(other, delay, Received(token, send.request))

    def later_once(
        self, machine: RaftMachine, delay_ms: int, event: Event, done: list[bool]
    ) -> None:
        """Give a replica the first of several events that exclude each other."""
        life = machine.life

        def arrive() -> None:
            if machine.life == life and not done[0]:
                done[0] = True
                self.step(machine, event)

        self.at(delay_ms, arrive)

    def _reply(self, machine: RaftMachine, token: object, response: RaftResponse) -> None:
        if not isinstance(token, tuple):
            if response.error is RaftError.NONE:
                self.changed += 1
            return
        asker, life, send, answered = token
        delay = self._delay()
        if delay is None or not self._reaches(machine.key.id, asker.key.id) or asker.life != life:
            return
        self.later_once(asker, delay, Answered(send.to, send.request, response), answered)

    # Rules

    def _save(self, machine: RaftMachine, state: ElectionState) -> None:
        assert state.epoch >= machine.election.epoch, "an epoch went back"
        if state.voted is not None:
            known = self.votes.setdefault((machine.key, state.epoch), state.voted)
            assert known == state.voted, "two votes in one epoch"
        machine.election = state

    def _check_leader(self, machine: RaftMachine, epoch: int) -> None:
        known = self.leaders.setdefault(epoch, machine.key.id)
        assert known == machine.key.id, f"two leaders in epoch {epoch}"
        self._check_prefix(machine, self.committed)

    def _check_prefix(self, machine: RaftMachine, prefix: list[RaftBatch]) -> None:
        """Everything committed is in this log, or in its snapshot."""
        kept = [batch for batch in prefix if batch.end_offset > machine.snapshot.offset]
        assert machine.batches[: len(kept)] == kept, "a committed record is missing"

    def _check_committed(self, machine: RaftMachine, high_watermark: int) -> None:
        known = self.committed[-1].end_offset if self.committed else 0
        for batch in machine.batches:
            if known <= batch.base_offset and batch.end_offset <= high_watermark:
                assert batch.base_offset == known, "records were committed that nobody has"
                self.committed.append(batch)
                known = batch.end_offset
        self._check_prefix(
            machine, [batch for batch in self.committed if batch.end_offset <= high_watermark]
        )

    def voters_at(self, offset: int) -> VoterSet:
        """The voter set as of the committed records before `offset`."""
        voters = self.first_voters
        for batch in self.committed:
            if batch.voters is not None and batch.base_offset < offset:
                voters = batch.voters
        return voters

    # What happens to it

    @property
    def leader(self) -> RaftMachine | None:
        """The live leader of the highest epoch."""
        leading = [m for m in self.machines.values() if m.core is not None and m.core.is_leader]
        return max(leading, key=lambda m: m.election.epoch) if leading else None

    def propose(self) -> None:
        for machine in self.machines.values():
            core = machine.core
            if core is not None and core.is_leader:
                self.proposed += 1
                records = self.random.randint(1, 3)
                try:
                    self.step(machine, Propose(core.epoch, records, f"r{self.proposed}"))
                except NotLeader:
                    raise AssertionError("a leader refused records of its epoch") from None

    def snapshot(self, machine: RaftMachine) -> None:
        """Take a snapshot of what this replica knows to be committed."""
        core = machine.core
        if core is None or core.log.high_watermark <= core.log.start.offset:
            return
        offset = core.log.high_watermark
        if offset > machine.durable_end:
            return
        taken = OffsetAndEpoch(offset, core.log.epoch_before(offset))
        machine.snapshot_voters = core.log.voters_at(offset)
        machine.snapshot = taken
        machine.batches = [b for b in machine.batches if b.base_offset >= offset]
        self.step(machine, SnapshotTaken(taken))

    def change_voters(self) -> None:
        leader = self.leader
        if leader is None or leader.core is None:
            return
        machine = self.random.choice(list(self.machines.values()))
        token = f"change at {self.now}"
        if machine.key in leader.core.log.voters:
            self.step(leader, RemoveVoter(token, machine.key))
        else:
            self.step(leader, AddVoter(token, voter(machine.key)))

    def make_trouble(self) -> None:
        """Do one random thing every few milliseconds while there are faults."""
        faults, draw = self.faults, self.random.random
        if self.now >= faults.until_ms:
            return
        machine = self.random.choice(list(self.machines.values()))
        if draw() < faults.crashes and machine.core is not None:
            if draw() < faults.wipes:
                self.wipe(machine)
            if machine.core is not None:
                self.crash(machine)
            self.at(self.random.randint(1, 900), lambda: self._restart(machine))
        if draw() < faults.cuts:
            other = self.random.choice(list(self.machines.values()))
            pair = (machine.key.id, other.key.id)
            self.cut ^= {pair} if draw() < 0.5 else {pair, pair[::-1]}
        if draw() < faults.changes:
            self.change_voters()
        if draw() < faults.snapshots:
            self.snapshot(machine)
        self.at(self.random.randint(1, 40), self.make_trouble)

    def _restart(self, machine: RaftMachine) -> None:
        if machine.core is None:
            self.start(machine)


def simulate(
    seed: int, voters: int, observers: int, faults: Faults, *, configured: bool = False
) -> Quorum:
    """Run a quorum through its faults, heal it, and return it after it has committed again."""
    quorum = Quorum(seed, voters, observers, replace(faults), configured=configured)
    quorum.at(1, quorum.make_trouble)

    def work() -> None:
        quorum.propose()
        quorum.at(quorum.random.randint(5, 60), work)

    quorum.at(20, work)
    quorum.run(faults.until_ms)
    quorum.cut.clear()
    quorum.run(faults.until_ms + 4_000)
    before = len(quorum.committed)
    quorum.run(faults.until_ms + 7_000)
    assert len(quorum.committed) > before, "nothing is committed after everything was healed"
    return quorum
