"""All engines of a run: made when their topics are there, crashed, replaced, ended.

    start ─► work, with all that happens ─► calm_down ─► all is sent ─► all is read ─► stop

A producer that crashes is replaced by another one with the records that were left; a reader by one
that begins anew. What becomes of groups is in `engines.group`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.assigned import AssignedApplication, AssignedPlan
from odradek.testing.engines.group import SimGroup
from odradek.testing.engines.plans import EnginesPlan, Event
from odradek.testing.engines.seen import Log, Seen
from odradek.testing.engines.sending import SendingApplication, SendingPlan
from odradek.testing.history import History, Send
from odradek.testing.network import Fabric
from odradek.testing.scheduler import Scheduler

Sender = Callable[[ClientProcess, History, SendingPlan, Callable[[Send], None]], SendingApplication]


@dataclass(slots=True, eq=False)
class EngineClients:
    """`acked` is called for every delivered record; `sender` makes producers' applications."""

    scheduler: Scheduler
    fabric: Fabric
    history: History
    plan: EnginesPlan
    acked: Callable[[Send], None]
    sender: Sender = SendingApplication
    seen: Seen = field(init=False)
    senders: list[SendingApplication] = field(default_factory=list)
    readers: list[AssignedApplication] = field(default_factory=list)
    groups: list[SimGroup] = field(default_factory=list)
    _crashes: int = 0
    _to_come: int = 0
    _calm: bool = False

    def __post_init__(self) -> None:
        self.seen = Seen(self.scheduler, self.history)

    def start(self) -> None:
        """The topics are there."""
        for sender in self.plan.senders:
            self._start_sender(sender)
        for reader in self.plan.readers:
            self._start_reader(reader)
        for group_plan in self.plan.groups:
            group = SimGroup(self.scheduler, self.fabric, self.history, self.seen, group_plan)
            self.groups.append(group)
            group.start(() if self._calm else group_plan.events)
        for event in () if self._calm else self.plan.crashes:
            at_ns = max(event.at_ns, self.scheduler.now_ns)
            self.scheduler.at(at_ns, "engines", event.kind, self._crash(event))

    def _side(self, name: str) -> ClientProcess:
        return ClientProcess(self.scheduler, self.fabric, name)

    def _start_sender(self, plan: SendingPlan) -> None:
        sender = self.sender(self._side(plan.name), self.history, plan, self.acked)
        self.senders.append(sender)
        sender.start()

    def _start_reader(self, plan: AssignedPlan) -> None:
        side = self._side(plan.consuming.name)
        reader = AssignedApplication(side, self.history, self.seen, plan)
        reader.calm = self._calm  # It may be late.
        self.readers.append(reader)
        reader.start()

    # Crashes.

    def _crash(self, event: Event) -> Callable[[], None]:
        def crash() -> None:
            working: list[SendingApplication | AssignedApplication] = [
                *(sender for sender in self.senders if not sender.finished),
                *(reader for reader in self.readers if not reader.ended),
            ]
            if working:
                self._replace(working[event.number % len(working)], event.length_ns)

        return crash

    def _replace(self, victim: SendingApplication | AssignedApplication, delay_ns: int) -> None:
        self._crashes += 1
        name = f"{victim.side.name.partition('~')[0]}~{self._crashes}"
        self.history.fault(self.scheduler.now_ns, f"crash of {victim.side.name}")
        victim.crash()
        self._to_come += 1

        def come() -> None:
            self._to_come -= 1
            if isinstance(victim, SendingApplication):
                left = max(0, victim.plan.records - len(victim.sent))
                self._start_sender(replace(victim.plan, name=name, records=left))
            else:
                consuming = replace(victim.plan.consuming, name=name)
                self._start_reader(replace(victim.plan, consuming=consuming))

        self.scheduler.after(delay_ns, name, "comes", come)

    # The end.

    def calm_down(self) -> None:
        """The last fault is over."""
        self._calm = True
        for reader in self.readers:
            reader.calm = True
        for group in self.groups:
            group.calm_down()

    def sending_is_done(self) -> bool:
        """Whether every record has been sent, and has an outcome."""
        return self._to_come == 0 and all(sender.finished for sender in self.senders)

    def pending_sends(self) -> list[str]:
        return [sender.pending() for sender in self.senders if not sender.finished]

    def pending_reads(self, ends: Mapping[TopicPartition, int]) -> list[str]:
        """What has not been read, or not committed, or is not at rest."""
        missing = [line for reader in self.readers if not reader.ended for line in reader.lag(ends)]
        return missing + [line for group in self.groups for line in group.waits_for(ends)]

    def stop(self) -> None:
        """All come to an end."""
        for reader in self.readers:
            reader.leave()
        for group in self.groups:
            group.stop()

    def still_there(self) -> list[str]:
        """Who has not come to an end."""
        left = [reader.name for reader in self.readers if not reader.ended]
        return left + [line for group in self.groups for line in group.still_there()]

    def kill(self) -> None:
        """Nothing of them is left running, however the run ended."""
        sides = [sender.side for sender in self.senders]
        sides += [reader.side for reader in self.readers]
        for group in self.groups:
            sides += [group.watcher.side, *(member.side for member in group.members)]
        for side in sides:
            side.kill()

    def judge(self, logs: Mapping[TopicPartition, Log]) -> list[str]:
        """What was wrong, as far as nobody noticed at once."""
        found = [line for sender in self.senders for line in sender.judge()]
        return found + self.seen.judge(logs)
