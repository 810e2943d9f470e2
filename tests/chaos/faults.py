"""The faults of a chaos run: each is injected, lasts for a while, and is healed.

Those of one broker, who is also the victim of the same faults among three:

| fault           | what happens                                                          |
|-----------------|-----------------------------------------------------------------------|
| kill            | SIGKILL; the broker is started again                                  |
| stop            | SIGTERM, a clean shutdown; the broker is started again                |
| suspend         | SIGSTOP for a while: connections stay open and nothing answers        |
| cut             | all connections of clients are reset, new ones refused                |
| deaf            | requests do not arrive, answers do; then the connections are reset    |
| mute            | requests arrive, answers do not; then the connections are reset       |
| disk full       | every append fails with ENOSPC for a while; the broker goes on        |
| fsync fails     | every fsync fails with EIO: the directory is fenced. Then kill        |
| killed starting | SIGKILL, and another one while the broker recovers                    |

Those of three, on the leader of a partition, the active controller, the coordinator of the group,
or any node:

| fault           | what happens                                                          |
|-----------------|-----------------------------------------------------------------------|
| kill all        | SIGKILL of all three at once                                          |
| rolling         | each node is stopped cleanly and started again, one after the other   |
| isolate         | a node and the others do not reach each other; clients reach all      |
| isolate deaf    | requests of the others do not arrive at a node                        |
| isolate mute    | its answers to the others do not arrive                               |
| isolate outward | its requests to the others do not arrive                              |
| part            | two of the three do not reach each other                              |
| wipe            | SIGKILL, and the node comes back with an empty data directory         |
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from chaos.cluster import Cluster
from chaos.proxy import Direction

SHORT_S = (0.2, 3.0)
LONG_S = (0.5, 8.0)
"""A writer whose request times out after 5 s meets both: answers in time, and none."""
VERY_LONG_S = (0.5, 14.0)
"""Nodes whose session ends after 9 s meet both: they are fenced, and they are not."""

Victims = tuple[int, ...]
Choice = Callable[[Cluster], int]
Fault = Callable[[Cluster], Victims]
"""Injects a fault and heals it; returns the nodes that it was done to."""


def on(choice: Choice, what: Callable[[Cluster, int], object]) -> Fault:
    """Return a fault that is done to a chosen node."""

    def fault(cluster: Cluster) -> Victims:
        victim = choice(cluster)
        what(cluster, victim)
        return (victim,)

    return fault


def kill(cluster: Cluster, victim: int) -> None:
    cluster.nodes[victim].kill()
    _stay_down(cluster)
    cluster.nodes[victim].start()


def _stay_down(cluster: Cluster) -> None:
    """Let the others take over, if there are any."""
    if cluster.others(1):
        cluster.wait(SHORT_S)


def stop(cluster: Cluster, victim: int) -> None:
    code = cluster.nodes[victim].stop()
    if code != 0:
        raise AssertionError(f"a clean stop ended with exit code {code}")
    cluster.nodes[victim].start()


def suspend(cluster: Cluster, victim: int) -> None:
    cluster.nodes[victim].suspend()
    cluster.wait(VERY_LONG_S if cluster.others(victim) else LONG_S)
    cluster.nodes[victim].resume()


def cut(cluster: Cluster, victim: int) -> None:
    cluster.of_clients[victim].cut()
    cluster.wait(SHORT_S)
    cluster.of_clients[victim].heal()


def deaf(cluster: Cluster, victim: int) -> None:
    _hold_clients(cluster, victim, Direction.TO_BROKER)


def mute(cluster: Cluster, victim: int) -> None:
    _hold_clients(cluster, victim, Direction.TO_CLIENT)


def _hold_clients(cluster: Cluster, victim: int, way: Direction) -> None:
    cluster.of_clients[victim].hold(way)
    cluster.wait(LONG_S)
    cluster.of_clients[victim].heal()


def disk_full(cluster: Cluster, victim: int) -> None:
    cluster.nodes[victim].disk(f"append {errno.ENOSPC}")
    cluster.wait(SHORT_S)
    cluster.nodes[victim].disk("works")


def fsync_fails(cluster: Cluster, victim: int) -> None:
    cluster.nodes[victim].disk(f"sync {errno.EIO}")
    cluster.wait(SHORT_S)
    kill(cluster, victim)


def killed_starting(cluster: Cluster, victim: int) -> None:
    node = cluster.nodes[victim]
    node.kill()
    node.start(wait=False)
    cluster.wait((0.0, 0.6))
    node.kill()
    node.start()


def kill_all(cluster: Cluster) -> Victims:
    for node in cluster.nodes.values():
        node.kill()
    cluster.start_all()
    return cluster.numbers


def rolling(cluster: Cluster) -> Victims:
    for number in cluster.numbers:
        stop(cluster, number)
        cluster.await_whole()
    return cluster.numbers


def isolate(cluster: Cluster, victim: int) -> None:
    others = cluster.others(victim)
    cluster.of_nodes[victim].cut(*others)
    for other in others:
        cluster.of_nodes[other].cut(victim)
    _heal_nodes(cluster)


def isolate_deaf(cluster: Cluster, victim: int) -> None:
    cluster.of_nodes[victim].hold(Direction.TO_BROKER, *cluster.others(victim))
    _heal_nodes(cluster)


def isolate_mute(cluster: Cluster, victim: int) -> None:
    cluster.of_nodes[victim].hold(Direction.TO_CLIENT, *cluster.others(victim))
    _heal_nodes(cluster)


def isolate_outward(cluster: Cluster, victim: int) -> None:
    for other in cluster.others(victim):
        cluster.of_nodes[other].hold(Direction.TO_BROKER, victim)
    _heal_nodes(cluster)


def part(cluster: Cluster) -> Victims:
    one = cluster.anyone()
    other = cluster.random.choice(cluster.others(one))
    cluster.of_nodes[one].cut(other)
    cluster.of_nodes[other].cut(one)
    _heal_nodes(cluster)
    return one, other


def _heal_nodes(cluster: Cluster) -> None:
    cluster.wait(VERY_LONG_S)
    for proxy in cluster.of_nodes.values():
        proxy.heal()


def wipe(cluster: Cluster, victim: int) -> None:
    cluster.nodes[victim].kill()
    cluster.nodes[victim].wipe()
    _stay_down(cluster)
    cluster.nodes[victim].start()


OF_ONE: dict[str, Fault] = {
    "kill": on(Cluster.anyone, kill),
    "stop": on(Cluster.anyone, stop),
    "suspend": on(Cluster.anyone, suspend),
    "cut": on(Cluster.anyone, cut),
    "deaf": on(Cluster.anyone, deaf),
    "mute": on(Cluster.anyone, mute),
    "disk full": on(Cluster.anyone, disk_full),
    "fsync fails": on(Cluster.anyone, fsync_fails),
    "killed starting": on(Cluster.anyone, killed_starting),
}
OF_THREE: dict[str, Fault] = {
    "kill leader": on(Cluster.leader, kill),
    "kill controller": on(Cluster.controller, kill),
    "kill coordinator": on(Cluster.coordinator, kill),
    "kill all": kill_all,
    "killed starting": on(Cluster.anyone, killed_starting),
    "rolling": rolling,
    "suspend leader": on(Cluster.leader, suspend),
    "suspend controller": on(Cluster.controller, suspend),
    "suspend coordinator": on(Cluster.coordinator, suspend),
    "cut": on(Cluster.leader, cut),
    "deaf": on(Cluster.leader, deaf),
    "mute": on(Cluster.leader, mute),
    "isolate leader": on(Cluster.leader, isolate),
    "isolate controller": on(Cluster.controller, isolate),
    "isolate deaf": on(Cluster.anyone, isolate_deaf),
    "isolate mute": on(Cluster.anyone, isolate_mute),
    "isolate outward": on(Cluster.anyone, isolate_outward),
    "part": part,
    "disk full": on(Cluster.leader, disk_full),
    "fsync fails": on(Cluster.leader, fsync_fails),
    "fsync fails controller": on(Cluster.controller, fsync_fails),
    "wipe": on(Cluster.anyone, wipe),
}
FAULTS: dict[int, dict[str, Fault]] = {1: OF_ONE, 3: OF_THREE}
"""The faults by the number of brokers."""
