"""Faults of the ways between hosts: splits, one-way splits, bridges, slow and breaking links.

Each kind is a method that disturbs some ways and returns how to undo it. What exactly is hit is
drawn from the fault's own number, so a fault does the same if others are left out of the plan.

    split         two sides, and nothing passes between them
    one-way       one side hears the other, which does not hear it
    mute, deaf    nothing leaves one machine, or nothing reaches it; clients included
    bridge        two sides that do not hear each other, and one machine that both hear
    ring          every machine hears its two neighbours only (of three: one pair is cut)
    client cut    one client cannot reach one machine, which all others can
    flapping      a split that comes and goes
    swizzle       a random part of the machines is cut off one by one, and mended in another order
    slow links    some ways have long delays and little bandwidth
    breaking links    connections of some ways are reset again and again
    half-open links   connections that exist between two machines fall silent, for ever

`lasting` disturbs what is outside a healthy core, and nothing undoes it: the ways within the core,
and between it and the clients, stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from odradek.testing.history import Fault, History
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS
from odradek.testing.transport import Link
from odradek.testing.ways import Way
from odradek.testing.workload.schedule import LINK_FAULTS, FaultPlan

FATES = ("dead", "mute", "deaf", "split", "one-way", "slow links", "flapping", "stuttering")
"""What may become of a machine outside the core, for ever."""
SLOW_LINK = Link(latency_ns=(10 * MS, 200 * MS), slow_latency_ns=(200 * MS, 900 * MS), slow_rate=50)
SLOW_BYTES_PER_S = 10_000
Undo = Callable[[], None]


@dataclass(slots=True, eq=False)
class LinkFaults:
    """Disturbs the ways between `machines`, and to and from `clients` (host names)."""

    fabric: Fabric
    history: History
    machines: Sequence[str]
    clients: Callable[[], Sequence[str]] = lambda: ()
    healed: bool = False
    lasting_ways: list[Way] = field(default_factory=list)

    def plan(self, faults: Iterable[FaultPlan]) -> None:
        """Schedule the faults of the links; other kinds are left alone."""
        for fault in faults:
            if fault.kind in LINK_FAULTS:
                self.fabric.scheduler.at(fault.at_ns, "nemesis", fault.kind, self._task(fault))

    def _task(self, fault: FaultPlan) -> Callable[[], None]:
        return lambda: None if self.healed else self.inject(fault)

    def inject(self, fault: FaultPlan) -> None:
        """Inject a fault now, and undo it after its length."""
        self.note(fault.kind)
        kinds: dict[str, Callable[[SplitMix64, int], Undo]] = {
            "split": self._split,
            "one-way": self._one_way,
            "mute": self._mute,
            "deaf": self._deaf,
            "bridge": self._bridge,
            "ring": self._ring,
            "client cut": self._client_cut,
            "flapping": self._flapping,
            "swizzle": self._swizzle,
            "slow links": self._slow_links,
            "breaking links": self._breaking_links,
            "half-open links": self._half_open_links,
        }
        undo = kinds[fault.kind](SplitMix64(fault.number), fault.length_ns)

        def end() -> None:
            if not self.healed:
                undo()

        self.fabric.scheduler.after(fault.length_ns, "nemesis", f"end of {fault.kind}", end)

    def note(self, kind: str, where: str = "links") -> None:
        scheduler = self.fabric.scheduler
        scheduler.reach(f"fault: {kind}")
        self.history.faults.append(Fault(scheduler.now_ns, f"nemesis: {kind}", where))

    def heal(self) -> None:
        """Make all links ordinary, except those that last."""
        self.healed = True
        self.fabric.ways.heal(self.lasting_ways)

    # Sets of ways.

    def _ways(self, sources: Iterable[str], targets: Iterable[str]) -> list[Way]:
        others = list(targets)
        between = self.fabric.ways.between
        return [between(a, b) for a in sources for b in others if a != b]

    def _cut(self, ways: list[Way]) -> Undo:
        self.fabric.ways.cut(ways)
        return lambda: self.fabric.ways.mend(ways)

    def _two_sides(self, chance: SplitMix64) -> tuple[list[str], list[str]]:
        """Draw two sides, neither empty if there are two machines; clients are on either one."""
        machines = list(self.machines)
        chance.shuffle(machines)
        at = chance.between(1, max(1, len(machines) - 1))
        one, other = machines[:at], machines[at:]
        if chance.chance(500):
            for client in self.clients():
                (one if chance.chance(500) else other).append(client)
        return one, other

    # Kinds.

    def _split(self, chance: SplitMix64, length_ns: int) -> Undo:
        one, other = self._two_sides(chance)
        return self._cut(self._ways(one, other) + self._ways(other, one))

    def _one_way(self, chance: SplitMix64, length_ns: int) -> Undo:
        one, other = self._two_sides(chance)
        return self._cut(self._ways(one, other))

    def _everyone(self) -> list[str]:
        return [*self.machines, *self.clients()]

    def _mute(self, chance: SplitMix64, length_ns: int) -> Undo:
        return self._cut(self._ways([chance.pick(self.machines)], self._everyone()))

    def _deaf(self, chance: SplitMix64, length_ns: int) -> Undo:
        return self._cut(self._ways(self._everyone(), [chance.pick(self.machines)]))

    def _bridge(self, chance: SplitMix64, length_ns: int) -> Undo:
        machines = list(self.machines)
        chance.shuffle(machines)
        at = (len(machines) - 1) // 2
        one, other = machines[:at], machines[at:-1]
        return self._cut(self._ways(one, other) + self._ways(other, one))

    def _ring(self, chance: SplitMix64, length_ns: int) -> Undo:
        machines = list(self.machines)
        chance.shuffle(machines)
        last = len(machines) - 1
        apart = [
            (a, b)
            for i, a in enumerate(machines)
            for j, b in enumerate(machines)
            if (abs(i - j) > 1 and {i, j} != {0, last}) or (last == 2 and {i, j} == {0, last})
        ]
        return self._cut([self.fabric.ways.between(a, b) for a, b in apart])

    def _client_cut(self, chance: SplitMix64, length_ns: int) -> Undo:
        clients = self.clients()
        if not clients:
            return lambda: None
        client, machine = chance.pick(clients), chance.pick(self.machines)
        there, back = self._ways([client], [machine]), self._ways([machine], [client])
        return self._cut(chance.pick((there + back, there, back)))

    def _flapping(self, chance: SplitMix64, length_ns: int) -> Undo:
        one, other = self._two_sides(chance)
        return self._flap(self._ways(one, other) + self._ways(other, one), chance)

    def _flap(self, ways: list[Way], chance: SplitMix64) -> Undo:
        """Cut and mend these ways in turn until it is undone."""
        scheduler, state = self.fabric.scheduler, {"over": False, "cut": False}

        def toggle() -> None:
            if state["over"] or (self.healed and not set(ways) <= set(self.lasting_ways)):
                return
            (self.fabric.ways.mend if state["cut"] else self.fabric.ways.cut)(ways)
            state["cut"] = not state["cut"]
            scheduler.after(chance.between(20, 900) * MS, "nemesis", "flap", toggle)

        def undo() -> None:
            state["over"] = True
            if state["cut"]:
                self.fabric.ways.mend(ways)

        toggle()
        return undo

    def _swizzle(self, chance: SplitMix64, length_ns: int) -> Undo:
        hosts = [host for host in self.machines if chance.chance(600)] or [self.machines[0]]
        chance.shuffle(hosts)
        scheduler, ways = self.fabric.scheduler, self.fabric.ways
        step_ns = length_ns // (2 * len(hosts) + 1)
        around = {h: self._ways([h], self.machines) + self._ways(self.machines, [h]) for h in hosts}
        left = list(hosts)

        def mend(host: str) -> None:
            if host in left and not self.healed:
                left.remove(host)
                ways.mend(around[host])

        def cut(host: str) -> None:
            if host in left and not self.healed:
                ways.cut(around[host])

        for number, host in enumerate(hosts):
            scheduler.after(number * step_ns, "nemesis", "clog", partial(cut, host))
        order = list(hosts)
        chance.shuffle(order)
        for number, host in enumerate(order, len(hosts)):
            scheduler.after(number * step_ns, "nemesis", "unclog", partial(mend, host))

        def undo() -> None:
            for host in list(left):
                mend(host)

        return undo

    def _some(self, chance: SplitMix64) -> list[Way]:
        """Draw some ways between machines, each direction by itself."""
        everyone = self._ways(self.machines, self.machines)
        return [way for way in everyone if chance.chance(500)]

    def _slow_links(self, chance: SplitMix64, length_ns: int) -> Undo:
        return self._slow(self._some(chance), chance)

    def _slow(self, ways: list[Way], chance: SplitMix64) -> Undo:
        narrow = chance.chance(500)
        for way in ways:
            way.link = SLOW_LINK
            way.bytes_per_s = SLOW_BYTES_PER_S if narrow else 0

        def undo() -> None:
            for way in ways:
                way.link, way.bytes_per_s = None, 0

        return undo

    def _breaking_links(self, chance: SplitMix64, length_ns: int) -> Undo:
        ways = self._some(chance)
        for way in ways:
            way.reset_rate = 100

        def undo() -> None:
            for way in ways:
                way.reset_rate = 0

        return undo

    def _half_open_links(self, chance: SplitMix64, length_ns: int) -> Undo:
        pair = [chance.pick(self.machines), chance.pick(self.machines)]
        for connection in self.fabric.connections():
            if sorted((connection.client.host.name, connection.server.host.name)) == sorted(pair):
                way = chance.below(3)
                connection.blackhole(to_server=way != 0, to_client=way != 1)
        return lambda: None

    def _most_of(self, ways: list[Way], chance: SplitMix64) -> list[Way]:
        """Draw so many ways to or from the other machines that no majority is left."""
        least = len(ways) - (len(ways) + 1) // 2 + 1
        drawn = [way for way in ways if chance.chance(600)]
        rest = [way for way in ways if way not in drawn]
        while len(drawn) < least:
            drawn.append(rest.pop(chance.below(len(rest))))
        return drawn

    # For ever.

    def last(self, fate: str, host: str, chance: SplitMix64) -> None:
        """Disturb the ways between a host outside the core and all others, for ever; `one-way` and
        `flapping` only those to other machines, so that clients go on talking to a broker that is
        cut off. The fates `dead` and `stuttering` are the machine's own.

        `one-way` leaves it no majority: a controller that keeps one stays it, and fences those of
        the core that do not hear it.
        """
        self.note(f"{fate} for ever", host)
        others = [other for other in self.machines if other != host]
        there, back = self._ways([host], self._everyone()), self._ways(self._everyone(), [host])
        sends, hears = self._ways([host], others), self._ways(others, [host])
        one_way = chance.pick((sends, hears))
        ways = {
            "mute": there,
            "deaf": back,
            "split": there + back,
            "one-way": self._most_of(one_way, chance),
            "slow links": there + back,
            "flapping": sends + hears,
        }.get(fate, [])
        self.lasting_ways += ways
        if fate in ("mute", "split"):
            self.fabric.ways.mute.append(host)
        if fate in ("deaf", "split"):
            self.fabric.ways.deaf.append(host)
        if fate == "slow links":
            self._slow(ways, chance)
        elif fate == "flapping":
            self._flap(ways, chance)
        elif ways:
            self._cut(ways)
