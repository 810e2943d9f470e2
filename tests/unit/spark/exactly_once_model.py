"""A scripted Kafka, Spark drivers and tasks, and a scheduler that kills them: the world in which
`test_exactly_once_model` runs the steps of the exactly-once sink.

Everything is a generator that one loop advances, in an order that the seed chooses. A driver or a
task may die after any of its steps. What a dead driver has sent may still arrive later.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from odradek.client.producer.futures import DeliveredRange
from odradek.spark.exactly_once import steps
from odradek.spark.exactly_once.errors import ExactlyOnceError, ReplacedDriver
from odradek.spark.exactly_once.ledger import Decision, TaskTransaction, newest
from odradek.spark.exactly_once.steps import BatchState, LoggedOutcome, SinkBatch

PREFIX = "p"
PARTITIONS = 2
REFUSED_DRIVERS = 3


class Interrupted(Exception):
    """The query was stopped while its driver did something: nothing is aborted."""


class Fenced(Exception):
    """A newer producer has the transactional id."""


@dataclass
class Coordinated:
    """What the transaction coordinator keeps of an id."""

    producer_id: int
    epoch: int = -1
    state: str = "Empty"


@dataclass
class Entry:
    """A record: a row in a topic partition, or a decision in the ledger."""

    content: object
    producer_id: int
    epoch: int
    state: str = "open"


class ModelKafka:
    """Transactions as a broker keeps them; `version` 2 bumps the epoch at each end."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.ids: dict[str, Coordinated] = {}
        self.logs: list[list[Entry]] = [[] for _ in range(PARTITIONS)]
        self.ledger: list[Entry] = []
        self.markers: list[tuple[int, str]] = []
        """The markers of ends that were answered: written a moment later."""

    def init(self, transactional_id: str) -> tuple[int, int]:
        known = self.ids.setdefault(transactional_id, Coordinated(len(self.ids)))
        self._finish(known, "aborted")
        self.write_markers(known.producer_id)
        known.epoch += 1
        known.state = "Empty"
        return known.producer_id, known.epoch

    def write(self, transactional_id, epoch, log, content):
        known = self.ids[transactional_id]
        if known.epoch != epoch:
            raise Fenced(transactional_id)
        self.write_markers(known.producer_id)
        known.state = "Ongoing"
        log.append(Entry(content, known.producer_id, epoch))

    def end(self, transactional_id: str, epoch: int, commit: bool) -> bool:
        """EndTxn; False for all answers that tell nothing of the outcome."""
        known = self.ids[transactional_id]
        wanted = "committed" if commit else "aborted"
        repeated = known.epoch - (self.version - 1) == epoch and known.state == wanted
        if repeated:
            return True
        if known.epoch != epoch or known.state != "Ongoing":
            return False
        self._finish(known, wanted)
        known.epoch += self.version - 1
        return True

    def time_out(self, transactional_id: str) -> None:
        known = self.ids[transactional_id]
        if known.state == "Ongoing":
            self._finish(known, "aborted")
            known.epoch += 1

    def _finish(self, known: Coordinated, state: str) -> None:
        if known.state == "Ongoing":
            known.state = state
            self.markers.append((known.producer_id, state))

    def write_markers(self, of: int | None = None) -> None:
        """Write the markers that are due, of one producer or of all."""
        for producer_id, state in self.markers:
            if of in (None, producer_id):
                for log in (*self.logs, self.ledger):
                    for entry in log:
                        if entry.producer_id == producer_id and entry.state == "open":
                            entry.state = state
        self.markers = [each for each in self.markers if of is not None and each[0] != of]

    @property
    def ongoing(self) -> list[str]:
        return [name for name, known in self.ids.items() if known.state == "Ongoing"]

    @property
    def decision(self) -> Decision | None:
        decided = [entry.content for entry in self.ledger if entry.state == "committed"]
        return decided[-1] if decided else None  # type: ignore[return-value]

    def delete_ledger(self) -> None:
        """Delete the ledger topic; another one is made in its place."""
        self.ledger.clear()

    def committed_rows(self) -> Counter[object]:
        return Counter(e.content for log in self.logs for e in log if e.state == "committed")


@dataclass
class Rules:
    """The parts of the sink that a test may break."""

    commit_steps: Any = steps.commit_steps
    abort_steps: Any = steps.abort_steps
    marks_copies_in_one_transaction: bool = True
    decides_in_a_transaction: bool = True
    newest: Any = newest


@dataclass
class Checkpoint:
    """Spark's logs: each micro-batch has its rows from the start; how they are cut is not kept."""

    rows: list[list[str]]
    committed: int = 0


class Process:
    """Something that takes steps until it ends or is killed."""

    def __init__(self, running, kind: str, memory: dict[str, object] | None = None) -> None:
        self.running = running
        self.kind = kind
        self.memory = memory or {}
        self.alive = True
        self.paused = 0

    def step(self) -> None:
        if self.paused:
            self.paused -= 1
            return
        try:
            next(self.running)
        except StopIteration:
            self.alive = False


@dataclass
class Report:
    """What a task told its driver."""

    transaction: TaskTransaction | None
    drained: bool


@dataclass
class World:
    """One query, its checkpoint, a Kafka, and those who kill."""

    seed: int
    rules: Rules = field(default_factory=Rules)
    faults: int = 12
    batches: int = 3
    marker_chance: float = 0.1
    """How likely the markers that are due are written between two steps."""
    deletes_ledger: bool = False
    """The ledger is deleted once, while the query is down and the coordinator can tell that it has
    written a decision. Then the query never ends, and the run does with its third driver."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.kafka = ModelKafka(version=1 + self.seed % 2)
        count = iter(range(1000))
        self.checkpoint = Checkpoint(
            [
                [f"row {next(count)}" for _ in range(self.chance.randrange(0, 7))]
                for _ in range(self.batches)
            ]
        )
        self.processes: list[Process] = []
        self.late: list[tuple[str, int, bool]] = []
        self.happened: Counter[str] = Counter()
        self.stopped: list[str] = []
        self.left_memory: dict[str, object] = {}
        self.interrupting = False
        self.refused_drivers = 0
        """How many have ended since the ledger was deleted."""

    # Tasks.

    def task(self, batch, partition, attempt, rows, reports):
        kafka = self.kafka
        decision = kafka.decision
        yield
        while steps.is_told_soon(batch, decision, any(e.state == "open" for e in kafka.ledger)):
            decision = kafka.decision
            yield
        try:
            found = steps.batch_state(batch, decision)
        except ExactlyOnceError:
            return
        if found is not BatchState.UNDECIDED:
            reports.append(Report(None, True))
            self.happened["drained"] += 1
            return
        if not rows:
            reports.append(Report(None, False))
            return
        name = f"{PREFIX}.{partition}.{attempt}"
        producer_id, epoch = kafka.init(name)
        places: dict[int, list[int]] = {}
        try:
            for row in rows:
                yield
                place = self.chance.randrange(PARTITIONS)
                kafka.write(name, epoch, kafka.logs[place], row)
                places.setdefault(place, []).append(len(kafka.logs[place]) - 1)
        except Fenced:
            return
        yield
        ranges = tuple(
            DeliveredRange("t", place, len(at), at[0], at[-1]) for place, at in places.items()
        )
        written = TaskTransaction(partition, attempt, producer_id, epoch, kafka.version, ranges)
        reports.append(Report(written, False))

    def start(self, process: Process) -> Process:
        self.processes.append(process)
        return process

    # Drivers.

    def start_driver(self) -> Process:
        # A query may be started again in the process of the one that failed.
        memory = self.left_memory if self.chance.random() < 0.5 else {}
        self.left_memory = {}
        memory["doing"] = "tasks"
        return self.start(Process(self.driver(memory), "driver", memory))

    def driver(self, memory):
        """A query: its micro-batches until all are committed, or until it fails."""
        number = self.checkpoint.committed
        while number < len(self.checkpoint.rows):
            yield
            batch = SinkBatch(PREFIX, number)
            rows = self.checkpoint.rows[number][:]
            self.chance.shuffle(rows)
            cut = self.chance.randrange(1, 4)
            counted: list[Report] = []
            for partition in range(cut):
                first = yield from self.run_task(batch, partition, rows[partition::cut])
                if first is None:
                    yield from self.fail(batch, counted, memory, "tasks")
                    return
                counted.append(first)
            reported = [r.transaction for r in counted if r.transaction is not None]
            drained = [n for n, r in enumerate(counted) if r.drained]
            try:
                commit = self.rules.commit_steps(batch, reported, {}, drained)
                yield from self.carry_out(commit, memory)
            except ExactlyOnceError as error:
                yield from self.fail(batch, counted, memory, type(error).__name__)
                return
            except Interrupted:
                self.stopped.append("its user")
                self.left_memory = memory
                return
            memory["doing"] = "commit log"
            yield
            yield
            memory["doing"] = "tasks"
            if self.checkpoint.committed > number:
                # Spark finds the entry of another driver in its commit log.
                self.stopped.append("commit log")
                return
            number = self.checkpoint.committed = number + 1

    def run_task(self, batch, partition, rows):
        """Attempts until one reports; they may run at the same time."""
        reports: list[Report] = []
        running: list[Process] = []
        for attempt in range(4):
            attempted = self.task(batch, partition, attempt, rows, reports)
            running.append(self.start(Process(attempted, "task")))
            while running[-1].alive and not reports:
                yield
                if self.chance.random() < 0.02:
                    self.happened["speculation"] += 1
                    break
            if reports:
                break
        while not reports and any(each.alive for each in running):
            yield
        if self.chance.random() < 0.5:
            for each in running:
                each.alive = False
        return reports[0] if reports else None

    def fail(self, batch, counted, memory, why):
        """Spark aborts the batch; the query ends."""
        self.stopped.append(why)
        self.refused_drivers += self.happened["ledger deleted"]
        reported = [r.transaction for r in counted if r.transaction is not None]
        yield
        with contextlib.suppress(Interrupted):
            yield from self.carry_out(self.rules.abort_steps(batch, reported), memory)
        self.left_memory = memory

    # Effects.

    def carry_out(self, running, memory):
        result = None
        while True:
            try:
                effect = running.send(result)
            except StopIteration:
                return
            memory["doing"] = type(effect).__name__
            if self.interrupting and isinstance(effect, (steps.EndTransactions, steps.FenceLosers)):
                self.interrupting = False
                raise Interrupted
            result = yield from getattr(self, type(effect).__name__)(effect, memory)
            yield

    def DescribePrefix(self, effect, memory):
        yield
        known = self.kafka.ids.get(PREFIX)
        if known is None or known.state != "committed":
            return False
        self.kafka.write_markers(known.producer_id)
        return True

    def ShutOutOlderDrivers(self, effect, memory):
        if effect.again and not (effect.to_abort and memory.get("replaced")):
            memory.pop("epoch", None)
        if "epoch" not in memory and not (effect.to_abort and memory.get("replaced")):
            _, memory["epoch"] = self.kafka.init(PREFIX)
            memory["replaced"] = False
            memory["written"] = None
        yield

    def ReadLedger(self, effect, memory):
        decision = self.kafka.decision
        yield
        return self.rules.newest(decision, memory.get("written"))

    def WriteDecision(self, effect, memory):
        if not self.rules.decides_in_a_transaction:
            self.kafka.ledger.append(Entry(effect.decision, -1, -1, "committed"))
            return True
        try:
            self.kafka.write(PREFIX, memory["epoch"], self.kafka.ledger, effect.decision)
        except Fenced:
            memory["replaced"] = True
            return False
        ended = yield from self.end_own(memory)
        memory["written"] = effect.decision if ended else None
        return ended

    def end_own(self, memory):
        epoch = memory["epoch"]
        request = (PREFIX, epoch, True)
        self.late.append(request)
        yield
        if request in self.late:
            self.late.remove(request)
        if not self.kafka.end(PREFIX, epoch, True):
            memory["replaced"] = True
            return False
        memory["epoch"] = epoch + self.kafka.version - 1
        return True

    def EndTransactions(self, effect, memory):
        requests = [
            (each.transactional_id(PREFIX), each.producer_epoch, effect.commit)
            for each in effect.transactions
        ]
        self.late.extend(requests)
        ended = []
        for request in requests:
            yield
            if request in self.late:
                self.late.remove(request)
            ended.append(self.kafka.end(*request))
        return ended

    def FenceLosers(self, effect, memory):
        fenced = memory.setdefault("fenced", {})
        for name, known in list(self.kafka.ids.items()):
            if name == PREFIX or known.state not in ("Ongoing", "Empty"):
                continue
            what = "loser fenced" if known.state == "Ongoing" else "loser without rows fenced"
            if fenced.get(name) != known.epoch:
                yield
                _, fenced[name] = self.kafka.init(name)
                self.happened[what] += 1

    def FindDeletedTopics(self, effect, memory):
        yield
        return ()

    def ReadOutcomes(self, effect, memory):
        found = []
        for each in effect.transactions:
            while True:
                states = {entry.state for entry in self.entries_of(each)}
                if states != {"open"}:
                    break
                yield
            found.append(LoggedOutcome(states.pop()))
        return found

    def entries_of(self, transaction):
        wrote = (transaction.producer_id, transaction.producer_epoch)
        return [e for log in self.kafka.logs for e in log if (e.producer_id, e.epoch) == wrote]

    def CopyRecords(self, effect, memory):
        kafka = self.kafka
        self.happened["copied"] += 1
        try:
            for entry in self.entries_of(effect.transaction):
                kafka.write(PREFIX, memory["epoch"], kafka.logs[0], entry.content)
                yield
            if not self.rules.marks_copies_in_one_transaction:
                ended = yield from self.end_own(memory)
                if not ended:
                    raise Fenced(PREFIX)
            kafka.write(PREFIX, memory["epoch"], kafka.ledger, effect.marked)
        except Fenced:
            raise ReplacedDriver("while copying") from None
        if not (yield from self.end_own(memory)):
            raise ReplacedDriver("while copying")
        memory["written"] = effect.marked
        return True

    # The scheduler.

    def run(self) -> None:
        """Run under faults, then heal: one driver alone brings everything to its end."""
        faults = self.faults
        while self.checkpoint.committed < len(self.checkpoint.rows):
            if self.refused_drivers == REFUSED_DRIVERS:
                self.heal([])
                return
            drivers = [p for p in self.processes if p.alive and p.kind == "driver"]
            if not drivers or (faults and len(drivers) == 1 and self.chance.random() < 0.003):
                self.happened["two drivers"] += len(drivers)
                self.start_driver()
            alive = [p for p in self.processes if p.alive]
            self.chance.choice(alive).step()
            if self.chance.random() < self.marker_chance:
                self.kafka.write_markers()
            if faults and self.chance.random() < 0.06:
                faults -= 1
                self.fault(alive)
            if self.deletes_ledger and self.may_delete_ledger() and self.chance.random() < 0.1:
                self.lose_ledger()
            if not faults:
                self.heal(drivers)
        for each in self.processes:
            each.alive = False
        self.interrupting = False
        self.checkpoint.rows.append(["the last row"])
        last = self.start_driver()
        while last.alive:
            self.kafka.write_markers()
            for each in self.processes:
                if each.alive:
                    each.step()
        self.kafka.write_markers()

    def heal(self, drivers) -> None:
        self.interrupting = False
        for other in drivers[1:]:
            other.alive = False
        for each in self.processes:
            each.paused = 0
        for request in self.late:
            self.kafka.end(*request)
        self.late.clear()

    def may_delete_ledger(self) -> bool:
        known = self.kafka.ids.get(PREFIX)
        decided = known is not None and known.state == "committed"
        return decided and not self.happened["ledger deleted"]

    def lose_ledger(self) -> None:
        for each in self.processes:
            each.alive = False
        self.left_memory = {}
        self.kafka.write_markers()
        self.kafka.delete_ledger()
        self.happened["ledger deleted"] += 1
        self.happened[f"batch {self.checkpoint.committed} after the ledger"] += 1

    def fault(self, alive) -> None:
        kind = self.chance.choice(
            ["kill", "kill", "kill a driver", "pause", "interrupt", "time out", "late"]
        )
        if kind == "time out":
            for name in self.kafka.ongoing:
                if self.chance.random() < 0.7:
                    self.happened[kind] += 1
                    self.kafka.time_out(name)
        elif kind == "late":
            while self.late and self.chance.random() < 0.7:
                self.happened[kind] += 1
                request = self.late.pop(self.chance.randrange(len(self.late)))
                self.kafka.end(*request)
        elif kind == "interrupt":
            self.interrupting = True
        elif kind == "pause":
            self.happened[kind] += 1
            self.chance.choice(alive).paused = self.chance.choice((20, 60, 400))
        else:
            chosen = [p for p in alive if kind == "kill" or p.kind == "driver"]
            victim = self.chance.choice(chosen)
            victim.alive = False
            doing = victim.memory.get("doing", "rows")
            self.happened[f"{victim.kind} killed in {doing}"] += 1

    def violations(self) -> list[str]:
        """What is wrong at the end."""
        wanted = Counter(row for rows in self.checkpoint.rows for row in rows)
        found = self.kafka.committed_rows()
        wrong = [f"committed {found[row]} times: {row}" for row in found if found[row] > 1]
        if self.refused_drivers:
            return wrong  # The query stopped, and nobody can tell what is missing.
        wrong += [f"missing: {row}" for row in wanted if not found[row]]
        wrong += [f"left open: {name}" for name in self.kafka.ongoing]
        return wrong
