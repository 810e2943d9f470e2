"""How the real broker is put on a simulated machine.

The same `broker.node.Node` as in `broker.server`, over a simulated `Env`: its timer is driven by
the process instead of the reactor, a bug that the network layer would log and survive ends the
run, and nothing of it knows the difference.
"""

from __future__ import annotations

from odradek.broker.node import Node
from odradek.config.broker import BrokerConfig
from odradek.model.env import Env
from odradek.testing.machine import PORT, VOLUME, Wiring
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import SimulationError
from odradek.testing.workload.schedule import Schedule
from odradek.timing import SystemTimer

DATA_DIRECTORY = f"{VOLUME}/data"


def real_broker(plan: Schedule) -> Wiring:
    """The broker with the settings of the plan besides those that a simulation needs."""
    settings = {
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
        "advertised.listeners": f"PLAINTEXT://broker:{PORT}",
        "log.dirs": DATA_DIRECTORY,
        **plan.settings,
    }

    def start(env: Env, process: SimProcess) -> Node:
        return start_node(BrokerConfig.load(settings), env, process)

    return Wiring(start)


def start_node(config: BrokerConfig, env: Env, process: SimProcess) -> Node:
    """Wire and start one incarnation."""
    timer = SystemTimer(env.clock.monotonic_ms())
    process.drive(timer)
    node = Node(config, env, timer, on_bug)
    node.start()
    return node


def on_bug(where: str, error: Exception) -> None:
    """What the broker takes for a bug ends the simulation."""
    raise SimulationError(f"bug in {where}: {error!r}") from error
