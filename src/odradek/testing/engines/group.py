"""One group of a run: its members, who come, go, crash, pause and come back as its plan says, and
one who only watches what is committed.

    whole    all members stable in one generation, and every partition is one member's, as the
             members' own listeners were told
    done     whole, all records dealt with, and committed to the end
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.group_books import GroupBooks
from odradek.testing.engines.member import GroupWatcher, MemberApplication
from odradek.testing.engines.plans import Event, GroupPlan, draw_consuming, draw_member
from odradek.testing.engines.seen import Seen
from odradek.testing.history import History
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, Scheduler

MAX_MEMBERS = 6


@dataclass(slots=True, eq=False)
class SimGroup:
    """All its members there ever were, the watcher, and the books."""

    scheduler: Scheduler
    fabric: Fabric
    history: History
    seen: Seen
    plan: GroupPlan
    books: GroupBooks = field(init=False)
    members: list[MemberApplication] = field(default_factory=list)
    watcher: GroupWatcher = field(init=False)
    _chance: SplitMix64 = field(init=False)
    _to_come: int = 0

    def __post_init__(self) -> None:
        self.books = GroupBooks(self.plan.name)
        self._chance = self.scheduler.stream(f"group/{self.plan.name}")

    def start(self, events: Sequence[Event]) -> None:
        """The first members join; `events` will happen to them."""
        name = f"{self.plan.name}-watcher"
        plan = draw_consuming(self._chance, name, (("group.id", self.plan.name),))
        side = ClientProcess(self.scheduler, self.fabric, name)
        self.watcher = GroupWatcher(
            side, self.history, self.seen, self.books, plan, self.plan.partitions
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
        """A member comes, perhaps as one who has been here before."""
        name = f"{self.plan.name}-{len(self.members)}"
        if instance_id is None and self._chance.chance(self.plan.static_rate):
            instance_id = f"static-{name}"
        side = ClientProcess(self.scheduler, self.fabric, name)
        plan = draw_member(self._chance, self.plan, name, instance_id)
        member = MemberApplication(side, self.history, self.seen, self.books, plan)
        self.members.append(member)
        member.start()

    def _strike(self, event: Event) -> Callable[[], None]:
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
                victim.be_busy(event.length_ns // MS)

        return strike

    def _crash(self, victim: MemberApplication, event: Event) -> None:
        """Every other one comes back; if it is a static member, under its name."""
        victim.crash()
        if event.number % 2:
            self._to_come += 1

            def come_back() -> None:
                self._to_come -= 1
                self.join(victim.plan.instance_id)

            self.scheduler.after(event.length_ns, self.plan.name, "comes back", come_back)

    # The end.

    def calm_down(self) -> None:
        """Nothing more happens to it; there is somebody."""
        if not self.alive and not self._to_come:
            self.join()

    def waits_for(self, ends: Mapping[TopicPartition, int]) -> list[str]:
        """What is missing until it is done."""
        missing = [] if self.is_whole() else [member.tell() for member in self.alive]
        for tp in self.plan.partitions:
            end = ends[tp]
            if self.books.front(tp) < end or (end and self.books.committed.get(tp) != end):
                missing.append(
                    f"{self.plan.name}: {tp} of {end} records: {self.books.front(tp)} dealt with,"
                    f" {self.books.committed.get(tp)} committed"
                )
        return missing

    def is_whole(self) -> bool:
        alive = self.alive
        owned = [partition for member in alive for partition in member.owned]
        return (
            self._to_come == 0
            and len({member.member.generation.generation_id for member in alive}) == 1
            and all(member.rests for member in alive)
            and sorted(owned) == sorted(self.plan.partitions)
        )

    def stop(self) -> None:
        """All leave."""
        self.watcher.leave()
        for member in self.members:
            member.leave()

    def still_there(self) -> list[str]:
        """Who has not come to an end."""
        left = [member.tell() for member in self.members if not member.ended]
        return left if self.watcher.ended else [*left, self.watcher.name]
