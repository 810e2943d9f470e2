"""`World(seed)`: one simulated run of one to five brokers, their clients and their faults.

    faults and work ──heal──► all work ends ──► final readers read all ──► checker ──► Report
                         └─► a cluster is whole        └─► engines read all, then stop
                         └─► some machine is disturbed for ever: the others do new work

`engines` chooses the clients: the scripted clients of `testing.workload`, which do on purpose what
careful clients avoid, applications of our own clients (`testing.engines`), or both.

A seed decides everything (`workload.schedule`), so `World(seed).run()` is the same run every time.
Each phase has a limit in virtual time. A phase that does not end is a violation ("stuck"): a broker
that does nothing would satisfy safety alone.

The broker is the real one, unless `wire` makes another (a canary with a broken part). With several
`brokers` each machine has a node of one cluster; faults hit machines and the links between them, an
operator changes the cluster meanwhile (`workload.cluster_schedule`). A healed cluster must become
whole: every partition led, all its replicas in sync, the same metadata everywhere. `Observer` looks
at partitions and metadata for the rules of a cluster.

`is_durable` looks at the platter when a client gets an acknowledgement of `acks=all`: the batch
must be in the *synced* image of the partition's newest segment, and the names above it must be
synced. This finds an acknowledgement that came too early even if no power failure follows. It knows
two things of the broker: a partition's directory is `<topic id>-<partition>`, and its segments are
named by their base offset, 20 digits and `.log`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.model.topics import TopicIdPartition, TopicPartition, uuid_text
from odradek.protocol import record_batch
from odradek.testing import transactions
from odradek.testing.checker import FSYNC, Checker, Clocks, RetentionRule
from odradek.testing.cluster_faults import ClusterFaults
from odradek.testing.disk import SimDisk
from odradek.testing.engines.engine_clients import EngineClients
from odradek.testing.engines.plans import NO_PLAN, with_engines
from odradek.testing.engines.transaction_engines import TransactionEngines
from odradek.testing.engines.transaction_plans import (
    NO_TRANSACTION_ENGINES,
    with_transaction_engines,
)
from odradek.testing.history import History, SentBatch
from odradek.testing.link_faults import LinkFaults
from odradek.testing.machine import SimMachine, Wiring, host_of, real_broker
from odradek.testing.nemesis import MAX_SKEW_MS, Nemesis
from odradek.testing.network import Fabric
from odradek.testing.probes import (
    Observer,
    led_partitions,
    missing_until_healed,
    newest_image,
    nodes_of,
    open_transactions,
    replica_logs,
)
from odradek.testing.reproduction import as_drawn, reproduction
from odradek.testing.rules import DurableAck, acks_are_on_platters, replicas_match
from odradek.testing.scheduler import MS, SECOND, WALL_START_MS, Scheduler
from odradek.testing.workload.clients import ScriptedClients
from odradek.testing.workload.cluster_schedule import MIN_ISR, in_brief, with_cluster
from odradek.testing.workload.further_clients import FurtherClients, no_further_clients
from odradek.testing.workload.reader import SimReader
from odradek.testing.workload.schedule import (
    Schedule,
    draw_schedule,
    with_extras,
    with_machines,
    with_transactions,
)

WORK_LIMIT_NS = 60 * SECOND
QUIET_NS = 10 * SECOND
BRIEF_QUIET_NS = 2 * SECOND
"""Without retention, whose longest time is 4 s."""
RETENTION_NS = 2 * SECOND
"""The delay that retention may have without faults: two passes, and the work of one."""
READ_LIMIT_NS = 60 * SECOND
WHOLE_LIMIT_NS = 120 * SECOND
"""Long, because a connection to a host that was cut off is tried again after up to 16 s."""
SEND_LIMIT_NS = 200 * SECOND
REST_LIMIT_NS = 200 * SECOND
"""Long, because engines wait up to 30 s for an answer, more than once."""
END_LIMIT_NS = 60 * SECOND
CATCH_UP_LIMIT_NS = 200 * SECOND
"""How long nothing may progress: over the slowest links most requests of an engine time out."""
DEFAULT_STEPS = 100
NO_ENGINES, ONLY_ENGINES, BOTH = "none", "only", "both"
DRAWN = 0
"""As many brokers as the seed decides, two to five."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run. Times in nanoseconds of virtual time."""

    seed: int
    violations: Sequence[str]
    digest: str
    virtual_ns: int
    events: int
    effects: int
    syncs: int
    boots: int
    crashes: int
    power_losses: int
    sent: int
    acked: int
    lost: int
    read: int
    durability: str = FSYNC

    def summary(self) -> str:
        """Return one line without the seed."""
        return (
            f"virtual {self.virtual_ns / SECOND:.1f} s  events {self.events}"
            f"  durability {self.durability}"
            f"  crashes {self.crashes} (power {self.power_losses})"
            f"  sent {self.sent}  acked {self.acked}  lost={self.lost}"
            f"  read {self.read}  digest {self.digest}"
        )


@dataclass(slots=True, eq=False, repr=False)
class World:
    """One run. `steps`: batches to produce; `faults`: only these kinds, if any are given.

    `white_box`: also check the platter at each acknowledgement. `engines`: which clients run.
    """

    seed: int
    steps: int = DEFAULT_STEPS
    wire: Callable[[Schedule], Wiring] = real_broker
    faults: Sequence[str] = ()
    white_box: bool = True
    extras: bool = True
    """Add the extras of `workload.schedule`, which the real broker supports and a toy need not."""
    adjust: Callable[[Schedule], Schedule] = as_drawn
    """Changes the drawn schedule, to test something rare."""
    engines: str = NO_ENGINES
    brokers: int = 1
    kept: Sequence[str] | None = None
    """Only these parts of the plan, None for all."""
    brief: bool = False
    """Short virtual time: the faults of a cluster come close together."""
    transactions: bool = False
    """Run transactional clients too."""
    is_toy: bool = False
    """True if `wire` makes brokers that are no cluster of real ones."""
    brings: Callable[[World], FurtherClients] = no_further_clients
    """Makes the clients that a test brings along."""
    command: str | None = None
    """A test's own command for this world, which takes `--keep`: see `reproduction`."""
    cluster: ClusterFaults = field(init=False)
    engine_clients: EngineClients = field(init=False)
    transaction_engines: TransactionEngines = field(init=False)
    further: FurtherClients = field(init=False)
    scheduler: Scheduler = field(init=False)
    fabric: Fabric = field(init=False)
    history: History = field(default_factory=History)
    machines: list[SimMachine] = field(default_factory=list)
    nemeses: list[Nemesis] = field(default_factory=list)
    links: LinkFaults = field(init=False)
    observer: Observer = field(init=False)
    plan: Schedule = field(init=False)
    clients: ScriptedClients = field(init=False)
    _acks: list[DurableAck] = field(default_factory=list)
    _early: list[str] = field(default_factory=list)
    _quiet_ms: int | None = None

    def __post_init__(self) -> None:
        self.plan = draw_schedule(self.seed, self.steps, self.faults)
        if self.extras:
            self.plan = with_extras(self.seed, self.plan, self.faults)
        if self.brokers > 1 and self.is_toy:
            self.plan = with_machines(self.seed, self.plan, self.brokers, self.faults)
        elif self.brokers != 1:
            self.plan = with_cluster(self.seed, self.plan, self.brokers, self.faults)
        if self.transactions:
            self.plan = with_transactions(self.seed, self.plan, self.steps)
        if self.brief:
            self.plan = in_brief(self.seed, self.plan)
        if self.engines != NO_ENGINES:
            alone = self.engines == ONLY_ENGINES
            add = with_transaction_engines if self.transactions else with_engines
            self.plan = add(self.seed, self.plan, self.steps, alone=alone)
        self.plan = self.adjust(self.plan)
        if self.kept is not None:
            self.plan = self.plan.keeping(self.kept)
        self.scheduler = Scheduler(self.seed)
        self.fabric = Fabric(self.scheduler, self.plan.link)
        wiring = self.wire(self.plan)
        for number in range(1, self.plan.machines + 1):
            self.machines.append(
                SimMachine(
                    self.scheduler, self.fabric, self.history, wiring, self.plan.pace, number
                )
            )
        self.observer = Observer(lambda: self.scheduler.now_ns)
        if self.white_box:
            for machine in self.machines:
                self.observer.watch(machine)
        self.engine_clients = EngineClients(
            self.scheduler,
            self.fabric,
            self.history,
            self.plan.engines or NO_PLAN,
            self._acked,
        )
        self.clients = ScriptedClients(
            self.scheduler,
            self.fabric,
            self.history,
            self.plan,
            self._acked,
            self.engine_clients.start,
            self._note_ack,
        )
        self.transaction_engines = TransactionEngines(
            self.scheduler,
            self.fabric,
            self.history,
            self.plan.transaction_engines or NO_TRANSACTION_ENGINES,
            self.clients.transactions,
        )
        self.clients.transaction_topics_ready = self.transaction_engines.start
        for machine in self.machines:
            name = "nemesis" if machine.number == 1 else f"nemesis/{machine.number}"
            self.nemeses.append(
                Nemesis(
                    machine,
                    self.scheduler.stream(name),
                    crash_client=self.clients.crash,
                    damaged=self._damaged,
                )
            )
        self.links = LinkFaults(
            self.fabric,
            self.history,
            [machine.host for machine in self.machines],
            self._client_hosts,
        )
        self.cluster = ClusterFaults(
            self.scheduler,
            self.machines,
            self.links,
            lambda: not missing_until_healed(self.machines),
        )
        self.further = self.brings(self)

    def _client_hosts(self) -> list[str]:
        brokers = [machine.host for machine in self.machines]
        return [host for host in self.fabric.hosts if host not in brokers]

    # What `testing.sim` asks.

    def describe(self) -> list[str]:
        """Return the schedule as lines."""
        plan, engines = self.plan, self.plan.transaction_engines or NO_TRANSACTION_ENGINES
        topics = (f"{t.name}x{t.partitions} {dict(t.settings)}" for t in plan.topics)
        return [
            f"topics {', '.join(topics)}",
            *(str(producer) for producer in plan.producers),
            *(str(reader) for reader in plan.readers),
            *(str(trimmer) for trimmer in plan.trimmers),
            *(str(topic) for topic in plan.recreated),
            *(str(producer) for producer in plan.transactions.producers),
            *([] if plan.transactions.levels.is_newest else [str(plan.transactions.levels)]),
            *(str(producer) for producer in engines.producers),
            *(str(member) for group in engines.groups for member in group.members),
            *(str(event) for event in engines.events),
            f"{plan.link}",
            f"{plan.pace}",
            "faults:",
        ]

    def reproduction(self) -> str:
        """Return the command that runs this again, or why there is none."""
        if self.command is not None:
            return self.command + self._keep_option
        changes = (
            ("wire", self.wire is not real_broker),
            ("adjust", self.adjust is not as_drawn),
            ("brings", self.brings is not no_further_clients),
        )
        return reproduction(self.options(), [name for name, is_changed in changes if is_changed])

    def options(self) -> str:
        """Return the options of the command that runs this again, but for what a test changes."""
        world = "broker" if self.brokers == 1 else f"cluster --brokers {self.brokers}"
        text = f"--world {world} --seed {self.seed} --steps {self.steps}"
        text += f" --faults '{','.join(self.faults)}'" if self.faults else ""
        text += " --brief" if self.brief else ""
        text += " --transactions" if self.transactions else ""
        text += "" if self.extras else " --plain"
        text += f" --engines {self.engines}" if self.engines != BOTH else ""
        return text + self._keep_option

    @property
    def _keep_option(self) -> str:
        return "" if self.kept is None else f" --keep '{','.join(self.kept)}'"

    def parts(self) -> list[str]:
        """Return the names of the optional parts of the plan."""
        return self.plan.parts() if self.kept is None else list(self.kept)

    def keeping(self, parts: Sequence[str]) -> World:
        """Return a run of the same seed with these parts only."""
        return World(
            self.seed,
            self.steps,
            self.wire,
            self.faults,
            self.white_box,
            self.extras,
            self.adjust,
            self.engines,
            self.brokers,
            list(parts),
            self.brief,
            self.transactions,
            self.is_toy,
            self.brings,
            self.command,
        )

    @property
    def machine(self) -> SimMachine:
        """The only machine, or the first."""
        return self.machines[0]

    def run(self) -> Report:
        """Run all phases. Raises `SimulationError` for an exception in the broker."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._run()
        finally:
            self.engine_clients.kill()
            self.transaction_engines.kill()
            self.further.kill()
            if collecting:
                gc.enable()

    def _run(self) -> Report:
        for nemesis in self.nemeses:
            nemesis.plan(self.plan.faults)
        self.links.plan(self.plan.faults)
        self.cluster.plan(self.plan.faults)
        for machine in self.machines:
            machine.boot()
        self.clients.start()
        self.further.start()
        self.scheduler.run(self.plan.heal_ns)
        self.cluster.healed = True
        for nemesis in self.nemeses:
            nemesis.heal()
        self.links.heal()
        self.engine_clients.calm_down()
        self.transaction_engines.calm_down()
        self.further.calm_down()
        stuck = self._until_work_is_done(self._work_limit_ns())
        if not stuck and self._is_cluster:
            stuck = self._await_recovery()
        if not stuck and self.transactions:
            stuck = (
                self._no_transaction_is_open(self.transaction_engines.topics)
                or self._processings_catch_up()
                or self._no_transaction_is_open()
            )
        self.clients.stop()
        # Records acknowledged with acks=1 become visible later, when they are on disk.
        self.scheduler.run(self.scheduler.now_ns + self._quiet_ns())
        self._quiet_ms = WALL_START_MS + (self.scheduler.now_ns - RETENTION_NS) // MS
        if not stuck:
            finals = self.clients.start_final_readers()
            self.clients.transactions.start_final()
            self.further.start_final()
            # The limit allows one batch per fetch, each of which waits for more data in vain.
            stuck = self._until(
                lambda: not self._final_pending(finals),
                READ_LIMIT_NS + len(self.history.sends) * SECOND,
                lambda: self._final_pending(finals),
            ) or self._end_engines(finals)
        checker = Checker(
            self.history,
            self.plan.durability,
            self._rules(),
            self._clocks(),
            replicated=self.plan.machines > 1,
        )
        found = stuck + checker.check_surprises() if stuck else checker.check()
        if not stuck:
            found += self.engine_clients.judge(checker.log)
            observed = self.clients.transactions.observed
            found += transactions.judge(observed)
            found += self.transaction_engines.judge(observed.final_reads())
            found += self.further.judge()
        durable = self.plan.durability == FSYNC and not self.is_toy
        found += self.observer.judge(several=self.plan.machines > 1, durable=durable)
        found += acks_are_on_platters(self._acks)
        if self._is_cluster:
            found += replicas_match(replica_logs(self._core))
        return self._report(self._early + found, checker.lost)

    def _report(self, violations: list[str], lost: int) -> Report:
        history = self.history
        return Report(
            seed=self.seed,
            violations=violations,
            digest=self.scheduler.digest(),
            virtual_ns=self.scheduler.now_ns,
            events=self.scheduler.events,
            effects=sum(machine.disk.effects for machine in self.machines),
            syncs=sum(machine.disk.syncs for machine in self.machines),
            boots=sum(machine.boots for machine in self.machines),
            crashes=history.crashes(),
            power_losses=history.losses,
            sent=sum(len(send.contents) for send in history.sends),
            acked=history.acked(),
            lost=lost,
            read=sum(len(read.records) for read in history.reads),
            durability=self.plan.durability,
        )

    # Phases.

    def _work_limit_ns(self) -> int:
        # A transaction is a dozen round trips in a row, each of seconds over slow links.
        is_slow = self.engines != NO_ENGINES or self.transactions
        return SEND_LIMIT_NS if is_slow else WORK_LIMIT_NS

    def _quiet_ns(self) -> int:
        has_retention = any(topic.retention for topic in self.plan.topics)
        return BRIEF_QUIET_NS if self.brief and not has_retention else QUIET_NS

    def _work_is_done(self) -> bool:
        return (
            self.clients.work_is_done()
            and self.engine_clients.sending_is_done()
            and self.transaction_engines.work_is_done()
            and self.further.work_is_done()
        )

    @property
    def _is_cluster(self) -> bool:
        return self.plan.machines > 1 and not self.is_toy

    @property
    def _lost(self) -> list[int]:
        return [fate.machine for fate in self.plan.fates]

    @property
    def _core(self) -> list[SimMachine]:
        return [machine for machine in self.machines if machine.number not in self._lost]

    def _await_recovery(self) -> list[str]:
        """The cluster becomes whole; if some machine is then lost for ever, the others go on."""
        self.clients.rest()
        stuck = self._await_healed(())
        if stuck or not self.plan.fates:
            return stuck
        for fate in self.plan.fates:
            self.cluster.lasting(fate)
        self.clients.start_new_work()
        limit_ns = self._work_limit_ns() + WHOLE_LIMIT_NS
        return self._until_work_is_done(limit_ns)

    def _until_work_is_done(self, limit_ns: int) -> list[str]:
        return self._until(self._work_is_done, limit_ns, self._pending_work, self._progress)

    def _progress(self) -> int:
        scripted, engines = self.clients.transactions.producers, self.transaction_engines.producers
        tried = sum(each.tried for each in scripted) + sum(each.tried for each in engines)
        return tried + self.further.progress()

    def _await_healed(self, lost: Sequence[int]) -> list[str]:
        return self._until(
            lambda: not missing_until_healed(self.machines, lost),
            WHOLE_LIMIT_NS,
            lambda: missing_until_healed(self.machines, lost),
        )

    def _no_transaction_is_open(self, topics: Collection[str] | None = None) -> list[str]:
        """Nothing is open (in these topics): who began it has ended it, or its coordinator."""
        return self._until(
            lambda: not open_transactions(self._core, topics),
            END_LIMIT_NS,
            lambda: open_transactions(self._core, topics),
        )

    def _processings_catch_up(self) -> list[str]:
        """All committed inputs are processed; then the processings end."""
        engines = self.transaction_engines
        engines.start_catching_up()
        stuck = self._until(
            lambda: not engines.behind(), CATCH_UP_LIMIT_NS, engines.behind, engines.caught_up
        )
        if not stuck:
            engines.stop()
            stuck = self._until(
                lambda: not engines.still_running(), END_LIMIT_NS, engines.still_running
            )
        return stuck

    def _final_pending(self, finals: Sequence[SimReader]) -> list[str]:
        readers = [reader.pending() for reader in finals if not reader.finished]
        return [
            *readers,
            *self.clients.transactions.final_pending(),
            *self.further.final_pending(),
        ]

    def _pending_work(self) -> list[str]:
        return [
            *self.clients.pending_work(),
            *self.engine_clients.pending_sends(),
            *self.transaction_engines.pending_work(),
            *self.further.pending_work(),
        ]

    def _end_engines(self, finals: list[SimReader]) -> list[str]:
        """Let the engines read to the end and their groups become stable, then stop them."""
        engines = self.engine_clients
        ends = {tp: end for reader in finals for tp, end in reader.ends.items()}
        stuck = self._until(
            lambda: not engines.pending_reads(ends),
            REST_LIMIT_NS,
            lambda: engines.pending_reads(ends),
        )
        if not stuck:
            engines.stop()
            stuck = self._until(
                lambda: not engines.still_running(), END_LIMIT_NS, engines.still_running
            )
        return stuck

    def _until(
        self,
        done: Callable[[], bool],
        limit_ns: int,
        pending: Callable[[], list[str]],
        progress: Callable[[], int] = lambda: 0,
    ) -> list[str]:
        """Go on until that is done. Return what is pending if `progress` stands for the limit."""
        deadline_ns, best = self.scheduler.now_ns + limit_ns, progress()
        while not done():
            now_ns, reached = self.scheduler.now_ns, progress()
            if reached > best:
                deadline_ns, best = now_ns + limit_ns, reached
            if now_ns >= deadline_ns:
                return [f"stuck for {limit_ns // SECOND} s: {line}" for line in pending()]
            self.scheduler.run(min(deadline_ns, self.scheduler.now_ns + 100 * MS))
        return []

    # Acknowledgements.

    def _note_ack(self) -> None:
        for nemesis in self.nemeses:
            nemesis.acked()

    def _acked(self, send: SentBatch) -> None:
        self._note_ack()
        if not self.white_box or send.acks != -1 or self.plan.durability != FSYNC:
            return
        tp = send.partition
        deleted = tp.topic in self.history.topic_deletions or tp.topic in self.plan.forgetful()
        if deleted or tp in self.history.damaged:
            return  # The records may be gone before their acknowledgement arrives.
        topic_id, count = self.clients.topics[tp.topic].id, len(send.contents)
        if self.plan.machines > 1:
            self._look_at_platters(send, topic_id)
        elif not is_durable(self.machine.disk, topic_id, tp.partition, send.base_offset, count):
            self._early.append(
                f"{tp}@{send.base_offset}: acked (acks=all) at {self.scheduler.now_ns} ns, but not"
                f" on disk"
            )

    def _look_at_platters(self, send: SentBatch, topic_id: UUID) -> None:
        """Note on whose platters an acknowledged batch is: of the replicas in sync by the newest
        leader that runs and by the newest metadata, and of all. Without a leader there is nobody to
        ask. `min.insync.replicas` asks for no more replicas than the leader knows: one that is
        isolated has not heard of a reassignment, which leaves it in the ISR or eligible. A replica
        that a reassignment removed may have deleted its log before the leader hears of it.
        """
        views = [
            (view, machine)
            for machine in self.machines
            if machine.running
            for view in led_partitions(machine.broker)
            if (view.topic_id, view.partition.partition) == (topic_id, send.partition.partition)
        ]
        if not views:
            return
        end = send.base_offset + len(send.contents)
        newest, leader = max(views, key=lambda each: each[0].epoch)
        members, needed = set(newest.isr), 0
        known, known_to_leader = (
            None if image is None else image.partition(topic_id, send.partition.partition)
            for image in (newest_image(nodes_of(self.machines)), newest_image(nodes_of([leader])))
        )
        if known is not None:
            least = int(self.plan.settings.get(MIN_ISR, "1"))
            needed = min(
                least,
                *(
                    len(each.replicas) - len(each.adding_replicas)
                    for each in (known, known_to_leader)
                    if each is not None
                ),
            )
            if known.partition_epoch >= newest.partition_epoch:
                members.intersection_update(known.replicas)
                members.update(known.isr)
        ends = {machine.number: self._end_on(machine, send, topic_id) for machine in self.machines}
        counted = [(sorted(members), len(members))]
        if needed:
            counted.append((sorted(ends), needed))
        for numbers, least in counted:
            platters = {host_of(number): ends[number] for number in numbers}
            self._acks.append(
                DurableAck(self.scheduler.now_ns, str(send.partition), end, platters, least)
            )

    def _end_on(self, machine: SimMachine, send: SentBatch, topic_id: UUID) -> int:
        """Return the end of an acknowledged batch if it is on this machine's platter, else 0. What
        a machine told its leader of a disk that it lost counts.
        """
        partition, count, disk = send.partition.partition, len(send.contents), machine.disk
        lost = machine.disks > 1 and not segments_of(disk, topic_id, partition)
        there = lost or is_durable(disk, topic_id, partition, send.base_offset, count)
        return send.base_offset + count if there else 0

    # What the checker has to know.

    def _damaged(self, key: TopicIdPartition) -> None:
        for topic in self.clients.topics.values():
            if topic.id == key.topic_id:
                tp = TopicPartition(topic.label, key.partition)
                self.history.damaged.setdefault(tp, self.scheduler.now_ns)

    def _rules(self) -> dict[str, RetentionRule]:
        return {topic.name: topic.retention for topic in self.plan.topics if topic.retention}

    def _clocks(self) -> Clocks:
        """Return the clocks; retention compares with the broker's clock, which may have jumped."""
        jumped = any(fault.kind == "clock jump" for fault in self.plan.faults)
        now_ms = WALL_START_MS + self.scheduler.now_ns // MS
        ahead_ms = MAX_SKEW_MS if jumped else 0
        return Clocks(now_ms + ahead_ms, None if jumped else self._quiet_ms)


def is_durable(disk: SimDisk, topic_id: UUID, partition: int, base_offset: int, count: int) -> bool:
    """True if `count` records from `base_offset` are on the platter, intact."""
    segments = segments_of(disk, topic_id, partition)
    at_or_before = [p for p in segments if base_of(p) <= base_offset]
    if not at_or_before:
        return False
    segment = max(at_or_before, key=base_of)
    return base_offset + count <= intact_end(disk.synced_bytes(segment), base_of(segment))


def segments_of(disk: SimDisk, topic_id: UUID, partition: int) -> list[str]:
    """Return the paths of the partition's segments."""
    directory = f"/{uuid_text(topic_id)}-{partition}/"
    return [path for path in disk.paths() if directory in path and path.endswith(".log")]


def intact_end(data: bytes, next_offset: int) -> int:
    """Return the offset after the last intact batch in sequence from the segment's start."""
    try:
        for header in record_batch.batches(data):
            if header.base_offset != next_offset or not record_batch.is_intact(data, header):
                break
            next_offset = header.next_offset
    except record_batch.CorruptBatch:
        pass  # No batch at all: the same as a broken one.
    return next_offset


def base_of(path: str) -> int:
    """Return the base offset in a segment's name."""
    return int(path.rpartition("/")[2].removesuffix(".log"))
