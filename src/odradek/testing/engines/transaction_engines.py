"""All engines of a world with transactions: started when the topics exist, crashed, replaced.

    start ─► work, with all faults ─► producers are finished ─► processings catch up ─► stop

A producer that is crashed is replaced by one with the transactions that were left. A processing is
always replaced, as a supervisor does, when it was crashed or an error has ended it. A *takeover*
replaces one that is still there, and that goes on (perhaps after a pause) with the same id.

A group has caught up when its stable offsets are behind the last input that readers of committed
records see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines import process_application
from odradek.testing.engines.consumer_application import ReceivedRecords
from odradek.testing.engines.plans import EngineEvent
from odradek.testing.engines.process_application import (
    ProcessApplication,
    ProcessJournal,
    ProcessPlan,
)
from odradek.testing.engines.transaction_plans import ProcessGroupPlan, TransactionEnginesPlan
from odradek.testing.engines.transactional_application import (
    EngineTransactionsPlan,
    TransactionalApplication,
)
from odradek.testing.history import History
from odradek.testing.network import Fabric
from odradek.testing.scheduler import MS, Scheduler
from odradek.testing.transactions import ReadRecord, TransactionHistory
from odradek.testing.workload.cluster_client import ClusterClient
from odradek.testing.workload.committed_reader import SimCommittedReader
from odradek.testing.workload.group_offsets import ask_offsets
from odradek.testing.workload.transaction_clients import TransactionClients

RESTART_MS = 300
LOOK_MS = 300
"""How often the offsets of a group that has not caught up are asked for."""
Engine = TransactionalApplication | ProcessApplication


@dataclass(slots=True, eq=False)
class CatchingUp:
    """What groups have yet to process: all inputs are known when `reader` has finished."""

    reader: SimCommittedReader
    inputs: TransactionHistory
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """The stable offsets, by group."""

    def behind(self, group: str) -> list[str]:
        """Return the partitions with inputs that the group has not processed."""
        last: dict[TopicPartition, int] = {}
        for read in self.inputs.reads:
            last[read.partition] = max(read.offset, last.get(read.partition, -1))
        committed = self.committed.get(group, {})
        return [
            f"{group} is at {committed.get(tp)} of {tp}, and the last input is {offset}"
            for tp, offset in last.items()
            if committed.get(tp, -1) <= offset
        ]


@dataclass(slots=True, eq=False)
class TransactionEngines:
    """Runs a plan, beside the scripted clients of the same topics."""

    scheduler: Scheduler
    fabric: Fabric
    history: History
    plan: TransactionEnginesPlan
    clients: TransactionClients
    producers: list[TransactionalApplication] = field(default_factory=list)
    processes: list[ProcessApplication] = field(default_factory=list)
    journal: ProcessJournal = field(default_factory=ProcessJournal)
    catching_up: CatchingUp | None = None
    _received: ReceivedRecords = field(init=False)
    _numbers: dict[str, int] = field(default_factory=dict)
    _to_come: int = 0
    _calm: bool = False
    _stopping: bool = False

    def __post_init__(self) -> None:
        self._received = ReceivedRecords(self.scheduler, self.history)

    @property
    def observed(self) -> TransactionHistory:
        return self.clients.observed

    def start(self) -> None:
        """Start all applications; the topics exist."""
        for producer in self.plan.producers:
            self._start_producer(producer)
        for group in self.plan.groups:
            for member in group.members:
                self._start_process(group, member)
        for event in () if self._calm else self.plan.events:
            at_ns = max(event.at_ns, self.scheduler.now_ns)
            self.scheduler.at(at_ns, "engines", event.kind, self._strike(event))

    @property
    def _connecting(self) -> tuple[tuple[str, str], ...]:
        return (("bootstrap.servers", self.plan.bootstrap),)

    def _side(self, name: str) -> ClientProcess:
        return ClientProcess(self.scheduler, self.fabric, name)

    def _next_name(self, name: str) -> str:
        base = name.partition("~")[0]
        self._numbers[base] = self._numbers.get(base, 0) + 1
        return f"{base}~{self._numbers[base]}"

    # Producers.

    def _start_producer(self, plan: EngineTransactionsPlan) -> None:
        made = replace(plan, settings=plan.settings + self._connecting)
        producer = TransactionalApplication(
            self._side(plan.name), self.history, self.observed, made, self.clients.committed
        )
        self.producers.append(producer)
        producer.start()

    def _replace_producer(self, victim: TransactionalApplication, delay_ns: int) -> None:
        producing = victim.plan.producing
        left = producing.transactions - victim.tried
        name = self._next_name(victim.plan.name)
        plan = replace(
            victim.plan, producing=replace(producing, name=name, transactions=max(1, left))
        )
        self._soon(delay_ns, name, lambda: self._start_producer(plan))

    # Processings.

    def _start_process(self, group: ProcessGroupPlan, plan: ProcessPlan) -> None:
        connecting = self._connecting
        made = replace(
            plan, consumer=plan.consumer + connecting, producer=plan.producer + connecting
        )
        process = ProcessApplication(
            self._side(plan.name), self.history, self._received, self.observed, self.journal, made
        )
        process.committed = self.clients.committed
        process.when_ended = lambda: self._process_ended(group, plan, process)
        self.processes.append(process)
        process.start()

    def _replace_process(self, group: ProcessGroupPlan, plan: ProcessPlan, delay_ns: int) -> None:
        name = self._next_name(plan.name)
        kept = plan.transactional_id if group.keeps_ids else name
        made = replace(plan, name=name, transactional_id=kept)
        self._soon(delay_ns, name, lambda: self._start_process(group, made))

    def _process_ended(
        self, group: ProcessGroupPlan, plan: ProcessPlan, process: ProcessApplication
    ) -> None:
        """Replace a processing that an error has ended, unless it was taken over."""
        if process.ended_by is not None and not self._stopping and not process.taken_over:
            self._replace_process(group, plan, RESTART_MS * MS)

    # Events.

    def _soon(self, delay_ns: int, name: str, start: Callable[[], None]) -> None:
        self._to_come += 1

        def come() -> None:
            self._to_come -= 1
            if not self._stopping:
                start()

        self.scheduler.after(delay_ns, name, "comes", come)

    def _strike(self, event: EngineEvent) -> Callable[[], None]:
        def strike() -> None:
            working: list[Engine] = [
                *(each for each in self.producers if not each.finished and not each.taken_over),
                *(each for each in self.processes if not each.ended and not each.taken_over),
            ]
            if working:
                self._hit(working[event.number % len(working)], event)

        return strike

    def _hit(self, victim: Engine, event: EngineEvent) -> None:
        self.history.fault(self.scheduler.now_ns, f"{event.kind} of {victim.plan.name}")
        if event.kind == "crash":
            victim.crash()
            self._replace(victim, event.length_ns)
            return
        if "pause" in event.kind:
            victim.side.pause(event.length_ns)
        if "takeover" in event.kind:
            victim.taken_over = True
            self._replace(victim, min(event.length_ns, event.number % 300 * MS))

    def _replace(self, victim: Engine, delay_ns: int) -> None:
        if isinstance(victim, TransactionalApplication):
            self._replace_producer(victim, delay_ns)
            return
        (group,) = [each for each in self.plan.groups if each.name == victim.plan.group]
        (plan,) = [each for each in group.members if each.name == victim.name.partition("~")[0]]
        self._replace_process(
            group, replace(plan, transactional_id=victim.plan.transactional_id), delay_ns
        )

    # The end.

    def calm_down(self) -> None:
        """Let no more events happen."""
        self._calm = True

    def work_is_done(self) -> bool:
        """True if all transactions were tried, and nobody is to come."""
        return self._to_come == 0 and all(each.finished for each in self.producers)

    def pending_work(self) -> list[str]:
        """Return what is unfinished, for a report."""
        return [each.pending() for each in self.producers if not each.finished]

    @property
    def topics(self) -> list[str]:
        """The topics that are processed."""
        return list(dict.fromkeys(t for g in self.plan.groups for t in g.members[0].topics))

    def _is_input(self, partition: TopicPartition) -> bool:
        return partition.topic in self.topics

    def start_catching_up(self) -> None:
        """Read all committed inputs, and look at the offsets of the groups until all are
        processed."""
        inputs = TransactionHistory()
        partitions = [tp for tp in self.clients.plan.partitions() if self._is_input(tp)]
        reader = SimCommittedReader(
            self.clients.new_client("inputs"),
            self.history,
            inputs,
            "inputs",
            partitions,
            self.clients.topics,
            final=True,
        )
        self.catching_up = CatchingUp(reader, inputs)
        if not partitions:
            return
        reader.start()
        for group in self.plan.groups:
            self._look(self.clients.new_client(f"offsets-{group.name}"), group.name, partitions)

    def _look(self, client: ClusterClient, group: str, partitions: list[TopicPartition]) -> None:
        """Look at the offsets of a group, again and again."""

        def note(offsets: dict[TopicPartition, int]) -> None:
            assert self.catching_up is not None
            self.catching_up.committed[group] = offsets
            if not self._stopping:
                client.process.post(
                    LOOK_MS * MS, "look", lambda: self._look(client, group, partitions)
                )

        ask_offsets(client, group, partitions, note)

    def behind(self) -> list[str]:
        """Return what is not processed yet."""
        found = self.catching_up
        assert found is not None
        if found.reader.partitions and not found.reader.finished:
            return [found.reader.pending()]
        lines = [line for group in self.plan.groups for line in found.behind(group.name)]
        return lines and lines + self.still_running()

    def caught_up(self) -> int:
        """Return how much is read and processed so far: it grows as long as there is progress."""
        found = self.catching_up
        assert found is not None
        offsets = [max(0, offset) for of in found.committed.values() for offset in of.values()]
        return len(found.inputs.reads) + sum(offsets)

    def stop(self) -> None:
        """Let all processings end."""
        self._stopping = True
        for process in self.processes:
            process.leave()

    def still_running(self) -> list[str]:
        """Return the processings that are still running."""
        return [each.describe() for each in self.processes if not each.ended]

    def kill(self) -> None:
        """Kill all processes, however the run ended."""
        for side in [each.side for each in self.producers] + [each.side for each in self.processes]:
            side.kill()

    def judge(self, final: Iterable[ReadRecord]) -> list[str]:
        """Return the violations of processings; `final` is all that is committed."""
        reads = list(final)
        groups = self.plan.groups
        if not groups:
            return []
        own = {groups[0].members[0].to, groups[0].members[0].letters}
        return process_application.judge(
            [read for read in reads if self._is_input(read.partition)],
            [read for read in reads if read.partition.topic in own],
            self.journal.given,
        )
