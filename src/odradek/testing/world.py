"""`World(seed)`: a broker, its clients, its machine and everything that goes wrong, under one
scheduler.

    faults and work ──heal──► all work ends ──► final readers read all ──► checker ──► Report

A seed decides everything (`workload.schedule`), so `World(seed).run()` is the same run every
time. Each phase has a limit in virtual time; a phase that does not end is a violation ("stuck")
like any other: safety alone would be satisfied by a broker that does nothing.

The broker is the real one, unless `wire` makes another (a canary with a broken part).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.testing.checker import FSYNC, Checker
from odradek.testing.durable import is_durable
from odradek.testing.history import History, Send
from odradek.testing.machine import HOST, PORT, Machine, Wiring
from odradek.testing.nemesis import Nemesis
from odradek.testing.network import Fabric
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SECOND, Scheduler, SimClock
from odradek.testing.wiring import real_broker
from odradek.testing.workload.producer import SimProducer
from odradek.testing.workload.reader import SimReader
from odradek.testing.workload.schedule import Schedule, draw_reader, draw_schedule
from odradek.testing.workload.topics import TopicCreator
from odradek.testing.workload.wire import WireClient

WORK_LIMIT_NS = 60 * SECOND
SETTLE_NS = 10 * SECOND
READ_LIMIT_NS = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Report:
    """What came out of a run. Times in nanoseconds of virtual time."""

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


@dataclass(slots=True, eq=False)
class World:
    """One run. `steps`: batches to produce; `faults`: these kinds only, if any are given.

    `white_box`: also look at the platter at each ack.
    """

    seed: int
    steps: int = 100
    wire: Callable[[Schedule], Wiring] = real_broker
    faults: Sequence[str] = ()
    white_box: bool = True
    scheduler: Scheduler = field(init=False)
    fabric: Fabric = field(init=False)
    history: History = field(default_factory=History)
    machine: Machine = field(init=False)
    nemesis: Nemesis = field(init=False)
    plan: Schedule = field(init=False)
    _topic_ids: dict[str, UUID] = field(default_factory=dict)
    _creators: list[TopicCreator] = field(default_factory=list)
    _producers: list[SimProducer] = field(default_factory=list)
    _readers: list[SimReader] = field(default_factory=list)
    _early: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan = draw_schedule(self.seed, self.steps, self.faults)
        self.scheduler = Scheduler(self.seed)
        self.fabric = Fabric(self.scheduler, self.plan.link)
        self.machine = Machine(
            self.scheduler, self.fabric, self.history, self.wire(self.plan), self.plan.pace
        )
        self.nemesis = Nemesis(self.machine, self.scheduler.stream("nemesis"))

    def run(self) -> Report:
        """All phases, and the verdict. Raises `SimulationError` for an exception in the broker."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._run()
        finally:
            if collecting:
                gc.enable()

    def _run(self) -> Report:
        self.nemesis.plan(self.plan.faults)
        self.machine.boot()
        self._start_clients()
        self.scheduler.run(self.plan.heal_ns)
        self.nemesis.heal()
        stuck = self._until(self._work_done, WORK_LIMIT_NS, self._pending_work)
        for reader in self._readers:
            reader.stopped = True
        # What was acked with acks=1 becomes visible when it is on disk, which takes a while.
        self.scheduler.run(self.scheduler.now_ns + SETTLE_NS)
        if not stuck:
            finals = self._start_final_readers()
            stuck = self._until(
                lambda: all(reader.finished for reader in finals),
                READ_LIMIT_NS,
                lambda: [reader.pending() for reader in finals if not reader.finished],
            )
        checker = Checker(self.history, self.plan.durability)
        found = stuck + checker.check_surprises() if stuck else checker.check()
        return self._report(self._early + found, checker.lost)

    def _report(self, violations: list[str], lost: int) -> Report:
        history = self.history
        return Report(
            seed=self.seed,
            violations=violations,
            digest=self.scheduler.digest(),
            virtual_ns=self.scheduler.now_ns,
            events=self.scheduler.events,
            effects=self.machine.disk.effects,
            syncs=self.machine.disk.syncs,
            boots=self.machine.boots,
            crashes=history.crashes(),
            power_losses=history.losses,
            sent=sum(len(send.contents) for send in history.sends),
            acked=history.acked(),
            lost=lost,
            read=sum(len(read.records) for read in history.reads),
        )

    # Phases.

    def _until(
        self, done: Callable[[], bool], limit_ns: int, pending: Callable[[], list[str]]
    ) -> list[str]:
        deadline_ns = self.scheduler.now_ns + limit_ns
        while not done():
            if self.scheduler.now_ns >= deadline_ns:
                return [f"stuck for {limit_ns // SECOND} s: {line}" for line in pending()]
            self.scheduler.run(min(deadline_ns, self.scheduler.now_ns + 100 * MS))
        return []

    def _work_done(self) -> bool:
        ready = len(self._topic_ids) == len(self.plan.topics)
        return ready and all(producer.finished for producer in self._producers)

    def _pending_work(self) -> list[str]:
        topics = [f"creating {c.plan.name}" for c in self._creators if c.topic_id is None]
        return topics + [p.pending() for p in self._producers if not p.finished]

    # Clients.

    def _client(self, name: str) -> WireClient:
        process = SimProcess(self.scheduler, name, SimClock(self.scheduler))
        network = self.fabric.network(process, name)
        chance = self.scheduler.stream(f"client/{name}")
        return WireClient(process, network, chance, HOST, PORT, chance.pick((700, 2000, 5000)))

    def _start_clients(self) -> None:
        for plan in self.plan.topics:
            client = self._client(f"admin-{plan.name}")
            creator = TopicCreator(client, self.history, plan, self._ready_for(plan.name))
            self._creators.append(creator)
            creator.start()

    def _ready_for(self, name: str) -> Callable[[UUID], None]:
        def ready(topic_id: UUID) -> None:
            self._topic_ids[name] = topic_id
            if len(self._topic_ids) == len(self.plan.topics):
                self._start_work()

        return ready

    def _start_work(self) -> None:
        for plan in self.plan.producers:
            producer = SimProducer(
                self._client(plan.name), self.history, plan, self._topic_ids, self._acked
            )
            self._producers.append(producer)
            producer.start()
        for reader_plan in self.plan.readers:
            if reader_plan.partitions:
                client = self._client(reader_plan.name)
                reader = SimReader(client, self.history, reader_plan, self._topic_ids)
                self._readers.append(reader)
                reader.start()

    def _start_final_readers(self) -> list[SimReader]:
        chance = self.scheduler.stream("final")
        finals = []
        for number, tp in enumerate(self.plan.partitions()):
            plan = draw_reader(chance, f"final{number}", [tp], final=True)
            reader = SimReader(self._client(plan.name), self.history, plan, self._topic_ids)
            finals.append(reader)
            reader.start()
        return finals

    # Acknowledgements.

    def _acked(self, send: Send) -> None:
        self.nemesis.acked()
        if not self.white_box or send.acks != -1 or self.plan.durability != FSYNC:
            return
        tp = send.partition
        topic_id, count = self._topic_ids[tp.topic], len(send.contents)
        if not is_durable(self.machine.disk, topic_id, tp.partition, send.base_offset, count):
            self._early.append(
                f"{tp}@{send.base_offset}: acked (acks=all) at {self.scheduler.now_ns} ns, but not"
                f" on disk"
            )
