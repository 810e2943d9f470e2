"""`QuorumWorld(seed)`: one simulated run of a quorum of 1 to 5 voters, without brokers.

    faults, proposals, changes ─heal─► a new proposal is committed, and all replicas agree ─► rules
                                  └──► or some machines stay lost, and the core commits one ─┘

Each replica is a process on a machine of its own (`testing.machine`), over its disk, the links
between hosts and the real timer. Proposals go to whichever replica leads; one that was committed
must be in the log of all, once. The rules are those of `testing.rules`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.model.env import Env
from odradek.raft.replicas import ReplicaKey, Voter, VoterSet
from odradek.testing.history import History
from odradek.testing.link_faults import LinkFaults
from odradek.testing.machine import SimMachine, Wiring, host_of
from odradek.testing.nemesis import Nemesis
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.quorum.quorum_plan import QuorumPlan, draw_quorum
from odradek.testing.quorum.quorum_wire import Mailbox
from odradek.testing.quorum.replica import Replica, address, values_on_platter
from odradek.testing.reproduction import as_drawn, reproduction
from odradek.testing.rules import (
    METADATA,
    CommittedRecord,
    DurableAck,
    LeadershipClaim,
    Vote,
    Watermark,
    acks_are_on_platters,
    committed_logs_match,
    high_watermarks_rise,
    one_leader_per_epoch,
    one_vote_per_epoch,
)
from odradek.testing.scheduler import MS, SECOND, Scheduler
from odradek.testing.workload.schedule import Fate

AGREE_LIMIT_NS = 60 * SECOND
PROGRESS_LIMIT_NS = 40 * SECOND
LASTING_NS = 35 * SECOND
"""Longer than an attempt at a connection takes to fail."""
PROBE_EVERY_NS = 500 * MS


@dataclass(frozen=True, slots=True)
class QuorumReport:
    """The result of a run. Times in nanoseconds of virtual time."""

    seed: int
    violations: Sequence[str]
    digest: str
    virtual_ns: int
    events: int
    voters: int
    crashes: int
    power_losses: int
    epochs: int
    proposed: int
    acked: int
    lost: int

    @property
    def sent(self) -> int:
        """The number of proposed records."""
        return self.proposed

    def summary(self) -> str:
        """Return one line without the seed."""
        return (
            f"virtual {self.virtual_ns / SECOND:.1f} s  events {self.events}"
            f"  voters {self.voters}  crashes {self.crashes} (power {self.power_losses})"
            f"  epochs {self.epochs}  proposed {self.proposed}  acked {self.acked}"
            f"  lost={self.lost}  digest {self.digest}"
        )


@dataclass(slots=True, eq=False)
class Proposal:
    """One record: its payload is unique in the run."""

    payload: str
    offset: int = -1
    acked: bool = False


@dataclass(slots=True, eq=False)
class QuorumWatcher:
    """The observations of a run."""

    scheduler: Scheduler
    machines: list[SimMachine]
    leaderships: list[LeadershipClaim] = field(default_factory=list)
    votes: list[Vote] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    records: list[CommittedRecord] = field(default_factory=list)
    acks: list[DurableAck] = field(default_factory=list)

    def _boot(self, replica: Replica) -> int:
        return self.machines[replica.number - 1].boots

    def voted(self, replica: Replica, epoch: int, candidate: ReplicaKey) -> None:
        self.votes.append(
            Vote(
                self.scheduler.now_ns,
                str(ReplicaKey(replica.number, replica.directory_id)),
                epoch,
                str(candidate),
            )
        )

    def leads(self, replica: Replica, epoch: int) -> None:
        self.leaderships.append(
            LeadershipClaim(
                self.scheduler.now_ns, METADATA, epoch, host_of(replica.number), self._boot(replica)
            )
        )

    def committed(self, replica: Replica, offset: int, epoch: int, content: object) -> None:
        self.records.append(
            CommittedRecord(self.scheduler.now_ns, host_of(replica.number), offset, epoch, content)
        )

    def watermark(self, replica: Replica, offset: int) -> None:
        self.watermarks.append(
            Watermark(
                self.scheduler.now_ns,
                METADATA,
                replica.raft.epoch,
                host_of(replica.number),
                self._boot(replica),
                offset,
            )
        )

    def reach(self, site: str) -> None:
        self.scheduler.reach(site)

    def acked(self, replica: Replica, proposal: Proposal) -> None:
        """Look at the platters of the voters when a proposal is acknowledged."""
        voters = replica.raft.core.log.voters
        platters = {
            host_of(number): self._platter_end(number, proposal) for number in sorted(voters.ids)
        }
        self.acks.append(
            DurableAck(
                self.scheduler.now_ns, METADATA, proposal.offset + 1, platters, voters.majority
            )
        )

    def _platter_end(self, number: int, proposal: Proposal) -> int:
        """Return the end of the proposal if it is on the platter of a machine, or 0."""
        machine = self.machines[number - 1]
        if machine.disks > 1:
            return proposal.offset + 1  # It may have been on the disk that is lost.
        disk = machine.disk
        found = values_on_platter(disk.synced_bytes, disk.paths()).get(proposal.payload)
        return proposal.offset + 1 if found in (proposal.offset, -1) else 0

    def judge(self) -> list[str]:
        """Return the violations of all rules."""
        return [
            *one_leader_per_epoch(self.leaderships),
            *one_vote_per_epoch(self.votes),
            *high_watermarks_rise(self.watermarks),
            *committed_logs_match(self.records),
            *acks_are_on_platters(self.acks),
        ]


Wire = Callable[[Wiring], Wiring]
DEFAULT_STEPS = 60


def as_it_is(wiring: Wiring) -> Wiring:
    """Return the wiring of a quorum in which nothing is broken."""
    return wiring


@dataclass(slots=True, eq=False)
class QuorumWorld:
    """One run. `steps`: records to propose; `voters`: 1 to 5, 0: as the seed decides; `faults`:
    only these kinds, if any are given; `kept`: only these parts of the plan, None for all.

    `wire` and `replica` replace parts by broken ones (canaries).
    """

    seed: int
    steps: int = DEFAULT_STEPS
    voters: int = 0
    faults: Sequence[str] = ()
    kept: Sequence[str] | None = None
    wire: Wire = as_it_is
    replica: Callable[..., Replica] = Replica
    adjust: Callable[[QuorumPlan], QuorumPlan] = as_drawn
    plan: QuorumPlan = field(init=False)
    scheduler: Scheduler = field(init=False)
    fabric: Fabric = field(init=False)
    history: History = field(default_factory=History)
    machines: list[SimMachine] = field(default_factory=list)
    nemeses: list[Nemesis] = field(default_factory=list)
    links: LinkFaults = field(init=False)
    watcher: QuorumWatcher = field(init=False)
    proposals: list[Proposal] = field(default_factory=list)
    _mailbox: Mailbox = field(default_factory=Mailbox)
    _chance: SplitMix64 = field(init=False)
    _healed: bool = False
    _made: int = 0

    def __post_init__(self) -> None:
        self.plan = self.adjust(draw_quorum(self.seed, self.steps, self.voters, self.faults))
        if self.kept is not None:
            self.plan = self.plan.keeping(self.kept)
        plan = self.plan
        self.scheduler = Scheduler(self.seed)
        self.fabric = Fabric(self.scheduler, plan.link)
        self._chance = self.scheduler.stream("proposals")
        hosts = [host_of(number) for number in range(1, plan.machines + 1)]
        for number in range(1, plan.machines + 1):
            machine = SimMachine(
                self.scheduler,
                self.fabric,
                self.history,
                self.wire(Wiring(self._starter(number))),
                plan.pace,
                number,
            )
            self.machines.append(machine)
            chance = self.scheduler.stream(f"nemesis/{number}")
            self.nemeses.append(Nemesis(machine, chance))
        self.links = LinkFaults(self.fabric, self.history, hosts)
        self.watcher = QuorumWatcher(self.scheduler, self.machines)

    def _starter(self, number: int) -> Callable[[Env, SimProcess], object]:
        first = VoterSet(
            Voter(
                ReplicaKey(n) if self.plan.configured else ReplicaKey(n, directory_id(n, 0)),
                (address(n),),
            )
            for n in range(1, self.plan.voters + 1)
        )

        def start(env: Env, process: SimProcess) -> Replica:
            lost = self.machines[number - 1].disks - 1
            return self.replica(
                number,
                env,
                process,
                self._mailbox,
                self.plan.config,
                first,
                directory_id(number, lost),
                self.watcher,
                lambda: self._disk_failed(number),
                self.plan.snapshot_every,
            )

        return start

    def _disk_failed(self, number: int) -> None:
        machine = self.machines[number - 1]
        machine.kill()
        machine.restart(self._chance.between(100, 2_000) * MS)

    # What `testing.sim` asks.

    def describe(self) -> list[str]:
        """Return the plan as lines."""
        return self.plan.describe()

    def reproduction(self) -> str:
        """Return the command that runs this again, or why there is none."""
        changes = (
            ("wire", self.wire is not as_it_is),
            ("replica", self.replica is not Replica),
            ("adjust", self.adjust is not as_drawn),
        )
        return reproduction(self.options(), [name for name, is_changed in changes if is_changed])

    def options(self) -> str:
        """Return the options of the command that runs this again, but for what a test changes."""
        text = f"--world quorum --seed {self.seed}"
        text += f" --steps {self.steps}" if self.steps != DEFAULT_STEPS else ""
        text += f" --voters {self.voters}" if self.voters else ""
        text += f" --faults '{','.join(self.faults)}'" if self.faults else ""
        return text + (f" --keep '{','.join(self.kept)}'" if self.kept is not None else "")

    def parts(self) -> list[str]:
        """Return the names of the optional parts of the plan."""
        return self.plan.parts() if self.kept is None else list(self.kept)

    def keeping(self, parts: Sequence[str]) -> QuorumWorld:
        """Return a run of the same seed with these parts only."""
        return QuorumWorld(
            self.seed,
            self.steps,
            self.voters,
            self.faults,
            list(parts),
            self.wire,
            self.replica,
            self.adjust,
        )

    # Phases.

    def run(self) -> QuorumReport:
        """Run all phases. Raises `SimulationError` for an exception in a replica."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._run()
        finally:
            if collecting:
                gc.enable()

    def _run(self) -> QuorumReport:
        plan, scheduler = self.plan, self.scheduler
        for nemesis in self.nemeses:
            nemesis.plan(plan.faults)
        self.links.plan(plan.faults)
        for machine in self.machines:
            machine.boot()
        for at_ns in plan.proposals:
            scheduler.at(at_ns, "client", "propose", self._propose)
        for change in plan.changes:
            scheduler.at(change.at_ns, "operator", change.kind, self._changing(change.machine))
        if plan.wiped is not None:
            scheduler.at(plan.wiped.at_ns, "operator", plan.wiped.kind, self._lose_disk)
        for fate in plan.fates:
            scheduler.at(fate.at_ns, "nemesis", f"{fate.kind} for ever", self._fated(fate))
        scheduler.run(plan.heal_ns)
        self._heal()
        stuck = self._goes_on() if plan.fates else self._until_agreed()
        violations = self.watcher.judge() + stuck
        lost = [] if stuck else self._missing()
        return self._report(violations + lost, len(lost))

    def _heal(self) -> None:
        self._healed = True
        for nemesis in self.nemeses:
            nemesis.heal()
        self.links.heal()

    def _until(
        self, limit_ns: int, done: Callable[[], bool], pending: Callable[[], list[str]]
    ) -> list[str]:
        deadline_ns = self.scheduler.now_ns + limit_ns
        while not done():
            if self.scheduler.now_ns >= deadline_ns:
                return [f"stuck for {limit_ns // SECOND} s: {line}" for line in pending()]
            self._probe()
            self.scheduler.run(self.scheduler.now_ns + PROBE_EVERY_NS)
        return []

    def _probe(self) -> None:
        """Propose a record, whose commit shows progress."""
        self._propose()

    def _until_progress(self) -> list[str]:
        before = self._acked()
        return self._until(PROGRESS_LIMIT_NS, lambda: self._acked() > before, self._describe)

    def _goes_on(self) -> list[str]:
        """The core makes progress now, and still does after a while."""
        stuck = self._until_progress()
        self.scheduler.run(self.scheduler.now_ns + LASTING_NS)
        return stuck or self._until_progress()

    def _until_agreed(self) -> list[str]:
        stuck = self._until_progress()
        if stuck:
            return stuck
        deadline_ns = self.scheduler.now_ns + AGREE_LIMIT_NS
        while not self._agreed():
            if self.scheduler.now_ns >= deadline_ns:
                return [f"no agreement: {line}" for line in self._describe()]
            self.scheduler.run(self.scheduler.now_ns + PROBE_EVERY_NS)
        return []

    def _agreed(self) -> bool:
        replicas = self.replicas()
        leaders = [replica for replica in replicas if replica.is_leader]
        return (
            len(replicas) == len(self.machines)
            and len(leaders) == 1
            and all(
                replica.raft.applied_offset == leaders[0].raft.end_offset for replica in replicas
            )
        )

    def _acked(self) -> int:
        return sum(proposal.acked for proposal in self.proposals)

    def _describe(self) -> list[str]:
        running = {replica.number: replica for replica in self.replicas()}
        lines = []
        for machine in self.machines:
            replica = running.get(machine.number)
            if replica is None:
                lines.append(f"{machine.host} does not run")
                continue
            lines.append(f"{machine.host} {replica.describe()}")
        return lines

    def _missing(self) -> list[str]:
        """Return the acknowledged proposals that are not in every log, or there more than once."""
        found = []
        for replica in self.replicas():
            if self.plan.fates and not replica.is_leader:
                continue
            contents: dict[object, int] = {}
            for content in replica.values:
                contents[content] = contents.get(content, 0) + 1
            for proposal in self.proposals:
                times = contents.get(proposal.payload, 0)
                if times > 1 or (proposal.acked and times == 0):
                    found.append(
                        f"{proposal.payload} is {times} times in the log of"
                        f" {host_of(replica.number)}, acked: {proposal.acked}"
                    )
        return found

    # What happens to it.

    def replicas(self) -> list[Replica]:
        """Return the replicas that run."""
        return [
            machine.broker
            for machine in self.machines
            if machine.running and isinstance(machine.broker, Replica)
        ]

    def _leader(self) -> Replica | None:
        """Draw one of the replicas that take themselves for the leader."""
        leaders = [replica for replica in self.replicas() if replica.is_leader]
        return self._chance.pick(leaders) if leaders else None

    def _propose(self) -> None:
        leader = self._leader()
        if leader is None:
            return
        self._made += 1
        proposal = Proposal(f"r{self._made}")
        self.proposals.append(proposal)

        def ended(committed: bool) -> None:
            if committed:
                proposal.acked = True
                self.watcher.acked(leader, proposal)
                for nemesis in self.nemeses:
                    nemesis.acked()

        def propose() -> None:
            offset = leader.propose(proposal.payload, ended)
            if offset is None:
                self.proposals.remove(proposal)
            else:
                proposal.offset = offset

        leader.process.run(propose)

    def _changing(self, number: int) -> Callable[[], None]:
        def change() -> None:
            leader = self._leader()
            if leader is not None and not self._healed:
                key = ReplicaKey(number, directory_id(number, 0))
                leader.process.run(lambda: leader.change_voters(key))

        return change

    def _lose_disk(self) -> None:
        assert self.plan.wiped is not None
        machine = self.machines[self.plan.wiped.machine - 1]
        machine.kill()
        machine.wipe()
        machine.restart(self.plan.wiped.length_ns)

    def _fated(self, fate: Fate) -> Callable[[], None]:
        machine = self.machines[fate.machine - 1]

        def strike() -> None:
            self.links.last(fate.kind, machine.host, SplitMix64(fate.number))
            if fate.kind == "dead":
                machine.condemned = True
                machine.kill()
            elif fate.kind == "stuttering":
                stutter()

        def stutter() -> None:
            chance = self._chance
            if machine.process is not None:
                length_ns = chance.between(100, 3_000) * MS
                machine.process.paused_until_ns = self.scheduler.now_ns + length_ns
            again_ns = chance.between(200, 4_000) * MS
            self.scheduler.after(again_ns, machine.host, "stutter", stutter)

        return strike

    def _report(self, violations: list[str], lost: int) -> QuorumReport:
        history = self.history
        return QuorumReport(
            seed=self.seed,
            violations=violations,
            digest=self.scheduler.digest(),
            virtual_ns=self.scheduler.now_ns,
            events=self.scheduler.events,
            voters=self.plan.voters,
            crashes=history.crashes(),
            power_losses=history.losses,
            epochs=max((each.epoch for each in self.watcher.leaderships), default=0),
            proposed=len(self.proposals),
            acked=self._acked(),
            lost=lost,
        )


def directory_id(number: int, lost: int) -> UUID:
    """Return the directory id of a machine that has lost so many disks."""
    return UUID(int=number << 96 | lost + 1)
