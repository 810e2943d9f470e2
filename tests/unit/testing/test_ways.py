"""Ways between hosts: cut in one direction or both, slow, breaking; and the faults of links."""

from __future__ import annotations

import pytest

from odradek.testing.history import History
from odradek.testing.link_faults import FATES, LinkFaults
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SECOND, Scheduler, SimClock
from odradek.testing.transport import Link, SimTransport
from odradek.testing.workload.schedule import LINK_FAULTS, FaultPlan

QUICK = Link(latency_ns=(1 * MS, 1 * MS), slow_rate=0, chop_rate=0)


class TwoHosts:
    """A connection from host `a` to host `b`, and what each end has received."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler(seed)
        self.fabric = Fabric(self.scheduler, QUICK)
        self.ways = self.fabric.ways
        self.networks = {
            name: self.fabric.network(
                SimProcess(self.scheduler, name, SimClock(self.scheduler)), name
            )
            for name in ("a", "b")
        }
        self.ends: dict[str, SimTransport] = {}
        self.refusals: list[OSError] = []
        self.networks["b"].listen("b", 9092, lambda end: self._is("b", end))  # type: ignore[arg-type]

    def _is(self, name: str, end: SimTransport) -> None:
        self.ends[name] = end

    def connect(self) -> None:
        self.networks["a"].connect("b", 9092, lambda end: self._is("a", end), self.refusals.append)

    def run(self, seconds: float) -> None:
        self.scheduler.run(self.scheduler.now_ns + int(seconds * SECOND))

    def got(self, name: str) -> bytes:
        return bytes(self.ends[name].inbox)


@pytest.fixture
def hosts() -> TwoHosts:
    made = TwoHosts()
    made.connect()
    made.run(1)
    return made


def test_a_cut_in_one_direction_holds_what_is_sent_there_only(hosts: TwoHosts) -> None:
    hosts.ways.cut([hosts.ways.between("a", "b")])
    hosts.ends["a"].send([b"there"])
    hosts.ends["b"].send([b"back"])
    hosts.run(60)
    assert hosts.got("b") == b""
    assert hosts.got("a") == b"back"


def test_data_sent_into_a_cut_arrives_in_order_after_the_mending(hosts: TwoHosts) -> None:
    way = hosts.ways.between("a", "b")
    hosts.ways.cut([way])
    hosts.ends["a"].send([b"1"])
    hosts.ends["a"].send([b"2"])
    hosts.run(10)
    hosts.ways.mend([way])
    hosts.ends["a"].send([b"3"])
    hosts.run(3)
    assert hosts.got("b") == b"123"


def test_the_end_of_a_killed_process_is_not_heard_through_a_cut(hosts: TwoHosts) -> None:
    way = hosts.ways.between("a", "b")
    hosts.ways.cut([way])
    hosts.networks["a"].process_ended()
    hosts.run(30)
    assert not hosts.ends["b"].ended
    hosts.ways.mend([way])
    hosts.run(3)
    assert hosts.ends["b"].ended


def test_overlapping_cuts_are_undone_one_by_one(hosts: TwoHosts) -> None:
    way = hosts.ways.between("a", "b")
    hosts.ways.cut([way])
    hosts.ways.cut([way])
    hosts.ends["a"].send([b"x"])
    hosts.ways.mend([way])
    hosts.run(5)
    assert hosts.got("b") == b""
    hosts.ways.mend([way])
    hosts.run(5)
    assert hosts.got("b") == b"x"


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
def test_a_connection_is_made_once_neither_direction_is_cut(direction: tuple[str, str]) -> None:
    hosts = TwoHosts()
    way = hosts.ways.between(*direction)
    hosts.ways.cut([way])
    hosts.connect()
    hosts.run(5)
    assert hosts.ends == {}
    hosts.ways.mend([way])
    hosts.run(10)
    assert sorted(hosts.ends) == ["a", "b"]


def test_connecting_through_a_lasting_cut_times_out() -> None:
    hosts = TwoHosts()
    hosts.ways.cut([hosts.ways.between("a", "b")])
    hosts.connect()
    hosts.run(120)
    assert [type(error) for error in hosts.refusals] == [TimeoutError]


def test_a_slow_way_has_its_bandwidth_and_the_other_direction_does_not(hosts: TwoHosts) -> None:
    hosts.ways.between("a", "b").bytes_per_s = 1_000
    hosts.ends["a"].send([bytes(3_000)])
    hosts.ends["b"].send([bytes(3_000)])
    hosts.run(2.5)
    assert len(hosts.got("a")) == 3_000
    assert hosts.got("b") == b""
    hosts.run(1)
    assert len(hosts.got("b")) == 3_000


def test_a_breaking_way_resets_both_ends(hosts: TwoHosts) -> None:
    hosts.ways.between("a", "b").reset_rate = 1000
    hosts.ends["a"].send([b"x"])
    assert isinstance(hosts.ends["a"].error, ConnectionResetError)
    assert isinstance(hosts.ends["b"].error, ConnectionResetError)


def test_healing_makes_every_way_ordinary_except_those_to_keep(hosts: TwoHosts) -> None:
    there, back = hosts.ways.between("a", "b"), hosts.ways.between("b", "a")
    hosts.ways.cut([there, back, back])
    there.bytes_per_s, there.reset_rate, there.link = 1, 1, QUICK
    hosts.ways.heal(keep=[back])
    assert there.is_plain()
    assert back.cuts == 2


# Faults of links.

MACHINES = ("m1", "m2", "m3", "m4", "m5")


class Links:
    """Five machines and a client, and the ways that are cut between them."""

    def __init__(self, machines: tuple[str, ...] = MACHINES) -> None:
        self.scheduler = Scheduler(1)
        self.fabric = Fabric(self.scheduler)
        self.history = History()
        self.faults = LinkFaults(self.fabric, self.history, machines, lambda: ["client"])

    def inject(self, kind: str, number: int = 7, length_ns: int = SECOND) -> None:
        self.faults.inject(FaultPlan(0, kind, length_ns, number))

    def cut(self) -> set[tuple[str, str]]:
        names = [*self.faults.machines, "client"]
        between = self.fabric.ways.between
        return {(a, b) for a in names for b in names if a != b and between(a, b).cuts}

    def disturbed(self) -> bool:
        names = [*self.faults.machines, "client"]
        between = self.fabric.ways.between
        return any(not between(a, b).is_plain() for a in names for b in names if a != b)


def test_a_split_cuts_both_directions_and_a_one_way_split_one() -> None:
    links = Links()
    links.inject("split")
    assert links.cut()
    assert {(b, a) for a, b in links.cut()} == links.cut()
    links = Links()
    links.inject("one-way")
    assert links.cut()
    assert not {(b, a) for a, b in links.cut()} & links.cut()


def test_a_bridge_hears_both_sides() -> None:
    links = Links()
    links.inject("bridge")
    hears_all = [m for m in MACHINES if not any(m in pair for pair in links.cut())]
    assert len(hears_all) == 1
    assert len(links.cut()) == 8


def test_in_a_ring_every_machine_hears_two_others() -> None:
    links = Links()
    links.inject("ring")
    for machine in MACHINES:
        assert len([pair for pair in links.cut() if pair[0] == machine]) == 2
    three = Links(MACHINES[:3])
    three.inject("ring")
    assert len(three.cut()) == 2


def test_a_mute_machine_is_heard_by_nobody_and_a_deaf_one_hears_nobody() -> None:
    links = Links()
    links.inject("mute")
    assert len({a for a, _ in links.cut()}) == 1
    assert len(links.cut()) == len(MACHINES)
    links = Links()
    links.inject("deaf")
    assert len({b for _, b in links.cut()}) == 1


def test_a_client_is_cut_from_one_machine_only() -> None:
    links = Links()
    links.inject("client cut")
    assert links.cut()
    assert len({machine for pair in links.cut() for machine in pair if machine != "client"}) == 1


@pytest.mark.parametrize("kind", LINK_FAULTS)
@pytest.mark.parametrize("number", range(5))
def test_every_fault_is_over_after_its_length(kind: str, number: int) -> None:
    links = Links()
    links.inject(kind, number, 3 * SECOND)
    links.scheduler.run(10 * SECOND)
    assert not links.disturbed()


@pytest.mark.parametrize("kind", LINK_FAULTS)
def test_healing_ends_every_fault_at_once(kind: str) -> None:
    links = Links()
    links.inject(kind, 3, 60 * SECOND)
    links.scheduler.run(5 * SECOND)
    links.faults.heal()
    assert not links.disturbed()
    links.scheduler.run(100 * SECOND)
    assert not links.disturbed()


@pytest.mark.parametrize("fate", FATES)
def test_a_lasting_fault_stays_outside_the_core(fate: str) -> None:
    links = Links()
    links.faults.last(fate, "m5", SplitMix64(1))
    links.scheduler.run(5 * SECOND)
    links.faults.heal()
    links.scheduler.run(50 * SECOND)
    assert all("m5" in pair for pair in links.cut())
    if fate in ("mute", "deaf", "split", "slow links"):
        assert links.disturbed()


def test_the_same_fault_hits_the_same_ways_whatever_came_before() -> None:
    alone, later = Links(), Links()
    later.inject("mute", 11)
    later.scheduler.run(5 * SECOND)
    alone.inject("split", 12)
    later.inject("split", 12)
    assert alone.cut() == later.cut()
