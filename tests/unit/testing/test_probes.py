"""What probes read of a running broker, and what the observer keeps."""

from __future__ import annotations

from odradek.broker.node import Node
from odradek.testing.history import History
from odradek.testing.machine import SimMachine, real_broker
from odradek.testing.network import Fabric
from odradek.testing.probes import Observer, led_partitions
from odradek.testing.scheduler import SECOND, Scheduler
from odradek.testing.workload.schedule import draw_schedule
from odradek.testing.world import World


def finished_world() -> World:
    world = World(2, 20)
    world.run()
    return world


def test_a_node_tells_of_every_partition_that_it_leads() -> None:
    world = finished_world()
    node = world.machine.broker
    assert isinstance(node, Node)
    views = list(led_partitions(node))
    assert sorted(view.partition for view in views) == sorted(
        partition.topic_partition for partition in node.replicas
    )
    assert {view.isr for view in views} == {(node.config.node_id,)}
    assert any(view.high_watermark > 0 for view in views)


def test_the_observer_keeps_what_changes() -> None:
    world = finished_world()
    seen = world.observer
    assert {each.node for each in seen.leaderships} == {"broker"}
    assert len(seen.watermarks) > 20
    assert seen.judge(several=False) == []


def test_a_high_watermark_that_falls_is_found_in_a_running_broker() -> None:
    world = finished_world()
    node = world.machine.broker
    assert isinstance(node, Node)
    partition = max(node.replicas, key=lambda each: each.high_watermark)
    world.observer.look(world.machine)
    partition.high_watermark -= 1
    world.observer.look(world.machine)
    assert "fell from" in world.observer.judge(several=False)[0]


def test_nothing_is_known_of_a_machine_that_does_not_run() -> None:
    scheduler = Scheduler(1)
    machine = SimMachine(scheduler, Fabric(scheduler), History(), real_broker(draw_schedule(1, 10)))
    observer = Observer(lambda: scheduler.now_ns)
    observer.watch(machine)
    observer.look(machine)
    machine.boot()
    scheduler.run(SECOND)
    machine.kill()
    observer.look(machine)
    assert observer.leaderships == []
