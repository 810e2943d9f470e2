"""All engines of a run: started when their topics exist, crashed, replaced, stopped.

    start ─► work, with all faults ─► calm_down ─► all is sent ─► all is read ─► stop

A producer that crashes is replaced by another one with the records that were left; a reader by one
that starts over. `SimGroup` is one group: members join, leave, crash, pause and come back as its
plan says, and a watcher reads the committed offsets.

    whole    all members are stable in one generation, and every partition has one owner, as the
             members' own listeners received
    done     whole, all records processed, and committed to the end
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.consumer_application import (
    AssignedApplication,
    AssignedPlan,
    Log,
    ReceivedRecords,
)
from odradek.testing.engines.group_member import GroupJournal, GroupWatcher, MemberApplication
from odradek.testing.engines.plans import (
    EngineEvent,
    EnginesPlan,
    GroupPlan,
    draw_consuming,
    draw_member,
)
from odradek.testing.engines.producer_application import ProducerApplication, SenderPlan
from odradek.testing.history import History, SentBatch
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, Scheduler

MAX_MEMBERS = 6
Settings = tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)
class SimGroup:
    """All members of one group, past and present, its watcher and its journal."""

    scheduler: Scheduler
    fabric: Fabric
    history: History
    received: ReceivedRecords
    plan: GroupPlan
    connecting: Settings
    """How every member reaches the cluster."""
    journal: GroupJournal = field(init=False)
    members: list[MemberApplication] = field(default_factory=list)
    watcher: GroupWatcher = field(init=False)
    _chance: SplitMix64 = field(init=False)
    _to_come: int = 0

    def __post_init__(self) -> None:
        self.journal = GroupJournal(self.plan.name)
        self._chance = self.scheduler.stream(f"group/{self.plan.name}")

    def start(self, events: Sequence[EngineEvent]) -> None:
        """Let the first members join, and schedule `events` for them."""
        name = f"{self.plan.name}-watcher"
        group_id = (("group.id", self.plan.name),)
        plan = draw_consuming(self._chance, name, group_id + self.connecting)
        side = ClientProcess(self.scheduler, self.fabric, name)
        self.watcher = GroupWatcher(
            side, self.history, self.received, self.journal, plan, self.plan.partitions
        )
        self.watcher.start()
        for _ in range(self.plan.first):
            self.join()
        for event in events:
            at_ns = max(event.at_ns, self.scheduler.now_ns)
            self.scheduler.at(at_ns, self.plan.name, event.kind, self._strike(event))

    @property
    def alive(self) -> list[MemberApplication]:
        return [member for member in self.members if not member.leaving and not member.ended]

    def join(self, instance_id: str | None = None) -> None:
        """Start a member; `instance_id` is that of the member it replaces."""
        name = f"{self.plan.name}-{len(self.members)}"
        if instance_id is None and self._chance.chance(self.plan.static_rate):
            instance_id = f"static-{name}"
        side = ClientProcess(self.scheduler, self.fabric, name)
        plan = draw_member(self._chance, self.plan, name, instance_id)
        settings = plan.consuming.settings + self.connecting
        plan = replace(plan, consuming=replace(plan.consuming, settings=settings))
        member = MemberApplication(side, self.history, self.received, self.journal, plan)
        self.members.append(member)
        member.start()

    def _strike(self, event: EngineEvent) -> Callable[[], None]:
        def strike() -> None:
            alive = self.alive
            if event.kind == "join" or not alive:
                if len(alive) < MAX_MEMBERS:
                    self.join()
                return
            victim = alive[event.number % len(alive)]
            self.history.fault(self.scheduler.now_ns, f"{event.kind} of {victim.name}")
            if event.kind == "leave":
                victim.leave()
            elif event.kind == "crash":
                self._crash(victim, event)
            elif event.kind == "pause":
                victim.side.pause(event.length_ns)
            else:
                victim.stop_polling(event.length_ns // MS)

        return strike

    def _crash(self, victim: MemberApplication, event: EngineEvent) -> None:
        """Kill a member; every other one is restarted, a static member with its instance id."""
        victim.crash()
        if event.number % 2:
            self._to_come += 1

            def come_back() -> None:
                self._to_come -= 1
                self.join(victim.plan.instance_id)

            self.scheduler.after(event.length_ns, self.plan.name, "comes back", come_back)

    # The end.

    def calm_down(self) -> None:
        """Start a member if none is left: the faults are over."""
        if not self.alive and not self._to_come:
            self.join()

    def unfinished(self, ends: Mapping[TopicPartition, int]) -> list[str]:
        """Return what is unfinished, for a report."""
        missing = [] if self.is_whole() else [member.describe() for member in self.alive]
        for tp in self.plan.partitions:
            end = ends[tp]
            committed = self.journal.committed.get(tp)
            if self.journal.processed_to(tp) < end or (end and committed != end):
                missing.append(
                    f"{self.plan.name}: {tp} of {end} records:"
                    f" {self.journal.processed_to(tp)} processed, {committed} committed"
                )
        return missing

    def is_whole(self) -> bool:
        alive = self.alive
        owned = [partition for member in alive for partition in member.owned]
        return (
            self._to_come == 0
            and len({member.member.generation.generation_id for member in alive}) == 1
            and all(member.is_stable for member in alive)
            and sorted(owned) == sorted(self.plan.partitions)
        )

    def stop(self) -> None:
        """Stop all members and the watcher."""
        self.watcher.leave()
        for member in self.members:
            member.leave()

    def still_running(self) -> list[str]:
        """Return the applications that are still running."""
        left = [member.describe() for member in self.members if not member.ended]
        return left if self.watcher.ended else [*left, self.watcher.name]


Sender = Callable[
    [ClientProcess, History, SenderPlan, Callable[[SentBatch], None]], ProducerApplication
]


@dataclass(slots=True, eq=False)
class EngineClients:
    """All engines of a run. `acked` is called for every delivered record; `sender` makes producers'
    applications."""

    scheduler: Scheduler
    fabric: Fabric
    history: History
    plan: EnginesPlan
    acked: Callable[[SentBatch], None]
    sender: Sender = ProducerApplication
    received: ReceivedRecords = field(init=False)
    senders: list[ProducerApplication] = field(default_factory=list)
    readers: list[AssignedApplication] = field(default_factory=list)
    groups: list[SimGroup] = field(default_factory=list)
    _crashes: int = 0
    _to_come: int = 0
    _calm: bool = False

    def __post_init__(self) -> None:
        self.received = ReceivedRecords(self.scheduler, self.history)

    def start(self) -> None:
        """Start all applications; the topics exist."""
        for sender in self.plan.senders:
            self._start_sender(sender)
        for reader in self.plan.readers:
            self._start_reader(reader)
        for group_plan in self.plan.groups:
            group = SimGroup(
                self.scheduler,
                self.fabric,
                self.history,
                self.received,
                group_plan,
                self._connecting,
            )
            self.groups.append(group)
            group.start(() if self._calm else group_plan.events)
        for event in () if self._calm else self.plan.crashes:
            at_ns = max(event.at_ns, self.scheduler.now_ns)
            self.scheduler.at(at_ns, "engines", event.kind, self._crash(event))

    @property
    def _connecting(self) -> Settings:
        return (("bootstrap.servers", self.plan.bootstrap),)

    def _side(self, name: str) -> ClientProcess:
        return ClientProcess(self.scheduler, self.fabric, name)

    def _start_sender(self, plan: SenderPlan) -> None:
        settings = plan.settings + self._connecting
        made = replace(plan, settings=settings)
        sender = self.sender(self._side(plan.name), self.history, made, self.acked)
        self.senders.append(sender)
        sender.start()

    def _start_reader(self, plan: AssignedPlan) -> None:
        side = self._side(plan.consuming.name)
        settings = plan.consuming.settings + self._connecting
        made = replace(plan, consuming=replace(plan.consuming, settings=settings))
        reader = AssignedApplication(side, self.history, self.received, made)
        reader.calm = self._calm  # It may start after the last fault.
        self.readers.append(reader)
        reader.start()

    # Crashes.

    def _crash(self, event: EngineEvent) -> Callable[[], None]:
        def crash() -> None:
            working: list[ProducerApplication | AssignedApplication] = [
                *(sender for sender in self.senders if not sender.finished),
                *(reader for reader in self.readers if not reader.ended),
            ]
            if working:
                self._replace(working[event.number % len(working)], event.length_ns)

        return crash

    def _replace(self, victim: ProducerApplication | AssignedApplication, delay_ns: int) -> None:
        self._crashes += 1
        name = f"{victim.side.name.partition('~')[0]}~{self._crashes}"
        self.history.fault(self.scheduler.now_ns, f"crash of {victim.side.name}")
        victim.crash()
        self._to_come += 1

        def come() -> None:
            self._to_come -= 1
            if isinstance(victim, ProducerApplication):
                left = max(0, victim.plan.records - len(victim.sent))
                self._start_sender(replace(victim.plan, name=name, records=left))
            else:
                consuming = replace(victim.plan.consuming, name=name)
                self._start_reader(replace(victim.plan, consuming=consuming))

        self.scheduler.after(delay_ns, name, "comes", come)

    # The end.

    def calm_down(self) -> None:
        """Stop random actions: the last fault is over."""
        self._calm = True
        for reader in self.readers:
            reader.calm = True
        for group in self.groups:
            group.calm_down()

    def sending_is_done(self) -> bool:
        """True if every record was sent and has an outcome."""
        return self._to_come == 0 and all(sender.finished for sender in self.senders)

    def pending_sends(self) -> list[str]:
        return [sender.pending() for sender in self.senders if not sender.finished]

    def pending_reads(self, ends: Mapping[TopicPartition, int]) -> list[str]:
        """Return what is not yet read, committed or stable."""
        missing = [line for reader in self.readers if not reader.ended for line in reader.lag(ends)]
        return missing + [line for group in self.groups for line in group.unfinished(ends)]

    def stop(self) -> None:
        """Stop all readers and groups."""
        for reader in self.readers:
            reader.leave()
        for group in self.groups:
            group.stop()

    def still_running(self) -> list[str]:
        """Return the applications that are still running."""
        left = [reader.name for reader in self.readers if not reader.ended]
        return left + [line for group in self.groups for line in group.still_running()]

    def kill(self) -> None:
        """Kill all processes, however the run ended."""
        sides = [sender.side for sender in self.senders]
        sides += [reader.side for reader in self.readers]
        for group in self.groups:
            sides += [group.watcher.side, *(member.side for member in group.members)]
        for side in sides:
            side.kill()

    def judge(self, logs: Mapping[TopicPartition, Log]) -> list[str]:
        """Return the violations that only the end of the run shows."""
        found = [line for sender in self.senders for line in sender.judge()]
        return found + self.received.judge(logs)
