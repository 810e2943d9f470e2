"""Machines of one run: each has its own disk, clock, power and broker."""

from __future__ import annotations

from uuid import UUID

from odradek.broker.node import Node
from odradek.testing.history import History
from odradek.testing.machine import DATA_DIRECTORY, SimMachine, host_of, real_broker
from odradek.testing.network import Fabric
from odradek.testing.scheduler import SECOND, Scheduler
from odradek.testing.workload.cluster_schedule import with_cluster
from odradek.testing.workload.schedule import draw_schedule


class ThreeMachines:
    """Three machines with a broker each, of one cluster."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(1)
        self.fabric = Fabric(self.scheduler)
        self.history = History()
        wiring = real_broker(with_cluster(1, draw_schedule(1, 10), 3))
        self.machines = [
            SimMachine(self.scheduler, self.fabric, self.history, wiring, number=number)
            for number in (1, 2, 3)
        ]
        for machine in self.machines:
            machine.boot()
        self.scheduler.run(SECOND)

    def directory_ids(self) -> list[UUID]:
        return [
            machine.broker.directory.meta.directory_id
            for machine in self.machines
            if isinstance(machine.broker, Node)
        ]


def test_each_machine_runs_a_broker_with_its_own_address_and_disk() -> None:
    three = ThreeMachines()
    assert [host_of(number) for number in (1, 2, 3)] == ["broker", "broker-2", "broker-3"]
    brokers = [m.broker for m in three.machines if isinstance(m.broker, Node)]
    assert [node.endpoint.host for node in brokers] == ["broker", "broker-2", "broker-3"]
    assert len(set(three.directory_ids())) == 3


def test_a_power_failure_hits_one_machine_only() -> None:
    three = ThreeMachines()
    first, second, third = three.machines
    kept = second.disk.content(f"{DATA_DIRECTORY}/meta.properties")
    shown_ms = second.clock.monotonic_ms()
    first.power_loss()
    three.scheduler.run(2 * SECOND)
    assert [machine.running for machine in three.machines] == [False, True, True]
    assert [three.fabric.hosts[m.host].up for m in three.machines] == [False, True, True]
    assert second.disk.content(f"{DATA_DIRECTORY}/meta.properties") == kept
    assert second.clock.monotonic_ms() == shown_ms + 1000
    first.boot()
    assert first.running and third.boots == 1
    assert [(fault.kind, fault.where) for fault in three.history.faults[-2:]] == [
        ("power loss", "broker"),
        ("boot", "broker"),
    ]


def test_a_machine_whose_disk_was_replaced_begins_as_another() -> None:
    three = ThreeMachines()
    before = three.directory_ids()
    machine = three.machines[1]
    machine.kill()
    machine.wipe()
    machine.boot()
    after = three.directory_ids()
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]


def test_a_condemned_machine_never_starts_again() -> None:
    three = ThreeMachines()
    machine = three.machines[0]
    machine.condemned = True
    machine.kill()
    machine.restart(SECOND)
    three.scheduler.run(5 * SECOND)
    assert not machine.running
