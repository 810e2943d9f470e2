"""Faults of a whole cluster, which hit machines by what they are at that moment.

    rolling restart     each machine in turn: a clean stop (a kill, if that takes too long), a
                        pause, a start, and the next one when it is ready
    lost disk           a machine is killed and comes back with an empty disk, if all replicas were
                        in sync, each partition has another one, and the quorum has a majority
                        without it: the others have all that was acknowledged. Amid other faults it
                        comes back when it is in no ISR: the others may be fenced before it
    controller killed   the active controller is killed
    controller paused   its process gets no time, as by SIGSTOP, and then goes on as if it led
    majority killed     more than half of the machines are killed
    power cut           the power of all machines fails at once, and comes back one by one
    swapped majorities  a minority is paused; then one of the others loses its power, and the last
                        one is gone when these two come back: what was acknowledged meanwhile is on
                        the platter of one of them only

`lasting` brings a fate on a machine, which nothing undoes. Beside those of the links there is one
of the whole cluster:

    dead in a power cut all machines lose their power while they are in sync, and this one never
                        starts again. With `log.durability=fsync` the others have all that was
                        acknowledged, and go on if two replicas must be in sync for that
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from odradek.broker.node import Node
from odradek.raft.replicas import ReplicaKey
from odradek.testing.history import Fault
from odradek.testing.link_faults import LinkFaults
from odradek.testing.machine import SimMachine
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, SECOND, Scheduler
from odradek.testing.workload.schedule import (
    CLUSTER_FAULTS,
    DEAD_IN_A_POWER_CUT,
    Fate,
    FaultPlan,
)

LOOK_NS = 100 * MS
READY_LIMIT_NS = 20 * SECOND
PATIENCE_NS = 10 * SECOND
CALM_NS = 3 * SECOND


@dataclass(slots=True, eq=False)
class ClusterFaults:
    """Injects faults of the cluster. `is_whole`: all replicas are in sync, on running machines."""

    scheduler: Scheduler
    machines: Sequence[SimMachine]
    links: LinkFaults
    is_whole: Callable[[], bool]
    healed: bool = False

    def plan(self, faults: Iterable[FaultPlan]) -> None:
        """Schedule the faults of the cluster; other kinds are left alone."""
        for fault in faults:
            if fault.kind in CLUSTER_FAULTS:
                self.scheduler.at(fault.at_ns, "operator", fault.kind, self._task(fault))

    def _task(self, fault: FaultPlan) -> Callable[[], None]:
        kinds: dict[str, Callable[[FaultPlan, SplitMix64], None]] = {
            "rolling restart": self._rolling_restart,
            "lost disk": self._lost_disk,
            "controller killed": self._controller_killed,
            "controller paused": self._controller_paused,
            "majority killed": self._majority_killed,
            "power cut": self._power_cut,
            "swapped majorities": self._swapped_majorities,
        }

        def strike() -> None:
            if not self.healed:
                kinds[fault.kind](fault, SplitMix64(fault.number))

        return strike

    def _note(self, kind: str) -> None:
        self.scheduler.reach(f"fault: {kind}")
        self.machines[0].history.faults.append(Fault(self.scheduler.now_ns, kind, "cluster"))

    def _later(self, delay_ns: int, what: str, act: Callable[[], None]) -> None:
        """Do something later, unless all faults have ended by then."""

        def unless_healed() -> None:
            if not self.healed:
                act()

        self.scheduler.after(delay_ns, "operator", what, unless_healed)

    def _rolling_restart(self, fault: FaultPlan, chance: SplitMix64) -> None:
        self._note(fault.kind)
        self._roll(list(self.machines), fault.length_ns)

    def _roll(self, left: list[SimMachine], pause_ns: int) -> None:
        if not left:
            self.scheduler.reach("cluster: a rolling restart ends")
            return
        machine = left.pop(0)
        deadline_ns = self.scheduler.now_ns + READY_LIMIT_NS

        def look() -> None:
            broker = machine.broker
            ready = machine.running and isinstance(broker, Node) and broker.is_ready
            if ready or self.scheduler.now_ns >= deadline_ns:
                self._roll(left, pause_ns)
            else:
                self.scheduler.after(LOOK_NS, "operator", "look", look)

        def ended(by_itself: bool) -> None:
            self.scheduler.reach("cluster: a clean stop" if by_itself else "cluster: a killed stop")
            machine.restart(pause_ns)
            self.scheduler.after(pause_ns + LOOK_NS, "operator", "look", look)

        if machine.running:
            machine.stop(PATIENCE_NS, ended)
        else:
            look()

    def _lost_disk(self, fault: FaultPlan, chance: SplitMix64) -> None:
        machine = self.machines[fault.machine - 1]
        if self.is_whole() and self._data_outlives(machine):
            is_calm = self._is_calm(self.scheduler.now_ns - CALM_NS)
            self._note(fault.kind)
            machine.kill()
            self._replace_disk(machine, fault.length_ns, at_once=is_calm)

    def _replace_disk(self, machine: SimMachine, delay_ns: int, *, at_once: bool) -> None:
        """Boot a machine with an empty disk, later; `at_once`: though it may be in an ISR, if
        nothing else fails until then, which could take the other replicas out of that ISR.
        """
        killed_ns = self.scheduler.now_ns

        def replace() -> None:
            if machine.running:
                return
            at_once_now = at_once and self._is_calm(killed_ns + 1)
            if self._data_outlives(machine) and (at_once_now or not self._is_in_sync(machine)):
                machine.wipe()
                machine.boot()
            else:
                self._replace_disk(machine, LOOK_NS, at_once=at_once_now)

        self._later(delay_ns, "another disk", replace)

    def _is_calm(self, since_ns: int) -> bool:
        """True if nothing but boots has happened from that time on."""
        faults = self.machines[0].history.faults
        return all(each.kind == "boot" or each.at_ns < since_ns for each in faults)

    def _is_in_sync(self, machine: SimMachine) -> bool:
        """True if the machine's broker is in an ISR, as far as the controller has decided, or is
        eligible to lead a partition whose ISR is empty.
        """
        controller = self._controller()
        if controller is None or not isinstance(controller.broker, Node):
            return True
        topics = controller.broker.metadata.committed.topics.values()
        return any(
            machine.number in (each.isr or each.elr)
            for topic in topics
            for each in topic.partitions.values()
        )

    def _data_outlives(self, lost: SimMachine) -> bool:
        """True if each partition has a replica elsewhere, and a majority of the voters its disks,
        without this machine's.
        """
        controller = self._controller()
        if controller is None or not isinstance(controller.broker, Node):
            return False
        metadata = controller.broker.metadata
        for topic in metadata.committed.topics.values():
            if any(each.replicas == (lost.number,) for each in topic.partitions.values()):
                return False
        voters = metadata.raft.core.log.voters
        others = [
            ReplicaKey(machine.number, machine.broker.directory.meta.directory_id)
            for machine in self.machines
            if machine is not lost
            and isinstance(machine.broker, Node)
            and not machine.broker.metadata.raft.core.election.is_new
        ]
        return sum(key in voters for key in others) >= voters.majority

    def _controller(self) -> SimMachine | None:
        for machine in self.machines:
            broker = machine.broker
            if isinstance(broker, Node) and broker.metadata.controller.is_active:
                return machine
        return None

    def _controller_killed(self, fault: FaultPlan, chance: SplitMix64) -> None:
        machine = self._controller()
        if machine is not None:
            self._note(fault.kind)
            machine.kill()
            machine.restart(fault.length_ns)

    def _controller_paused(self, fault: FaultPlan, chance: SplitMix64) -> None:
        machine = self._controller()
        if machine is not None:
            self._note(fault.kind)
            self._pause(machine, fault.length_ns)

    def _pause(self, machine: SimMachine, length_ns: int) -> None:
        if machine.process is not None:
            machine.process.paused_until_ns = self.scheduler.now_ns + length_ns

    def _majority_killed(self, fault: FaultPlan, chance: SplitMix64) -> None:
        self._note(fault.kind)
        for machine in self._shuffled(chance)[: len(self.machines) // 2 + 1]:
            machine.kill()
            machine.restart(fault.length_ns + chance.between(0, 500) * MS)

    def _power_cut(self, fault: FaultPlan, chance: SplitMix64) -> None:
        self._note(fault.kind)
        for machine in self.machines:
            machine.power_loss()
            machine.restart(fault.length_ns + chance.between(0, 3_000) * MS)

    def _shuffled(self, chance: SplitMix64) -> list[SimMachine]:
        machines = list(self.machines)
        chance.shuffle(machines)
        return machines

    def _swapped_majorities(self, fault: FaultPlan, chance: SplitMix64) -> None:
        self._note(fault.kind)
        machines, length_ns = self._shuffled(chance), max(fault.length_ns, SECOND)
        half = len(machines) // 2
        paused, torn, last = machines[:half], machines[half:-1], machines[-1]
        for machine in paused:
            self._pause(machine, length_ns)

        def lose_power() -> None:
            for machine in torn:
                machine.power_loss()
                machine.restart(length_ns // 4)

        def end() -> None:
            last.kill()
            last.restart(2 * length_ns)

        self._later(length_ns // 2, "power loss", lose_power)
        self._later(3 * length_ns // 4, "kill", end)

    def lasting(self, fate: Fate) -> None:
        """Bring a fate on a machine, for ever."""
        machine = self.machines[fate.machine - 1]
        chance = SplitMix64(fate.number)
        self.links.last(fate.kind, machine.host, chance)
        if fate.kind == "dead":
            machine.condemned = True
            machine.kill()
        elif fate.kind == DEAD_IN_A_POWER_CUT:
            machine.condemned = True
            for each in self.machines:
                each.power_loss()
                each.restart(chance.between(0, 3_000) * MS)
        elif fate.kind == "stuttering":
            self._stutter(machine, chance)

    def _stutter(self, machine: SimMachine, chance: SplitMix64) -> None:
        def stutter() -> None:
            if machine.process is not None:
                length_ns = chance.between(100, 3_000) * MS
                machine.process.paused_until_ns = self.scheduler.now_ns + length_ns
            again_ns = chance.between(200, 4_000) * MS
            self.scheduler.after(again_ns, machine.host, "stutter", stutter)

        stutter()
