"""A machine of a run: a disk, a clock, a host name, and one process after another.

                 boot                     kill, Crash                 power loss
    (off) ─────────────► running ─────────────────────► (off) ◄──────────────────── running
      ▲                     │  disk errors: see DiskFaults  │
      └── `restart` later ──┴───────────────────────────────┘

A kill keeps the disk's cache and closes the connections. A power failure loses unsynced bytes and
closes nothing. A clean stop asks the broker, and kills it if that takes too long. A `Wiring`
decides what runs on the machine: its `start` gets the `Env` and the process of a new incarnation
and wires a broker: the real one (`real_broker`), one with a broken part (a canary), or a toy.

A run has one to five machines, `broker`, `broker-2` and so on. They share nothing but the network:
each has a disk, a clock that may be wrong and drift, a power supply, and an owner loop that may
stall.

`real_broker` wires the same `broker.node.Node` as `broker.server`, over a simulated `Env`. The
process drives its timer instead of the reactor, and a bug that the network layer would log and
survive ends the run.

A start that fails is a failure of the run, unless disk errors were being injected: then the process
exits and is started again. So it is if its node finds out later that it cannot join its cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from odradek.broker.node import Node
from odradek.config.broker import BrokerConfig
from odradek.model.env import Disk, Env, Offload
from odradek.testing.disk import DiskFaults, Mount, SimDisk
from odradek.testing.history import Fault, History
from odradek.testing.network import Fabric, SimNetwork
from odradek.testing.prng import SplitMix64
from odradek.testing.process import DelayRanges, SimOffload, SimProcess
from odradek.testing.scheduler import Scheduler, SimClock, SimulationError
from odradek.testing.workload.schedule import Schedule
from odradek.timing import SystemTimer

HOST = "broker"
PORT = 9092
CLUSTER_PORT = 19092
CLUSTER_ID = "Lbb1xuqcTUyKnq1VgYwvBQ"
MAX_MACHINES = 5
VOLUME = "/srv"
"""A directory that is there from the beginning, like a mounted volume."""


def host_of(number: int) -> str:
    """Return the host name of a machine; machines are numbered from 1."""
    return HOST if number == 1 else f"{HOST}-{number}"


def number_of(host: str) -> int:
    """Return the number of the machine with this host name, which is its node id."""
    return 1 if host == HOST else int(host.removeprefix(f"{HOST}-"))


Start = Callable[[Env, SimProcess], object]
"""Wires and starts a broker that listens on `PORT`; returns the broker. The process has the name of
its host."""


@runtime_checkable
class Stoppable(Protocol):
    """A broker that can be asked to stop."""

    def stop(self, stopped: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class Wiring:
    """The wiring of a broker, with hooks that replace a part by a broken one (canaries)."""

    start: Start
    disk: Callable[[Mount], Disk] = lambda mount: mount
    offload: Callable[[SimOffload], Offload] = lambda offload: offload


@dataclass(slots=True, eq=False)
class SimMachine:
    """A machine that runs one broker at a time."""

    scheduler: Scheduler
    fabric: Fabric
    history: History
    wiring: Wiring
    pace: DelayRanges = field(default_factory=DelayRanges)
    number: int = 1
    host: str = field(init=False)
    disk: SimDisk = field(init=False)
    clock: SimClock = field(init=False)
    faults: DiskFaults = field(default_factory=DiskFaults)
    broker: object = None
    process: SimProcess | None = None
    boots: int = 0
    disks: int = 1
    """How many disks it has had: a lost one is replaced by an empty one."""
    power_on_crash: bool = False
    """True if a `Crash` (a disk's crash point) is a power failure; else it is a kill."""
    condemned: bool = False
    """True if it never starts again."""
    observe: Callable[[], None] | None = None
    """Called after every event of its processes."""
    _network: SimNetwork | None = None
    _offload: SimOffload | None = None
    _chance: SplitMix64 = field(init=False)

    def __post_init__(self) -> None:
        self.host = host_of(self.number)
        self.disk = self._new_disk()
        self._chance = self._stream("machine")
        self.clock = SimClock(self.scheduler, self._chance.between(0, 1 << 40))

    def _new_disk(self) -> SimDisk:
        disk = SimDisk(self.scheduler, self.host)
        blank = disk.mount()
        blank.make_directory(VOLUME)
        blank.sync_directory("/")
        return disk

    def _stream(self, purpose: str) -> SplitMix64:
        mine = purpose if self.number == 1 else f"{purpose}/{self.host}"
        return self.scheduler.stream(mine)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    def boot(self) -> None:
        """Start a broker process, if none runs."""
        if self.running or self.condemned:
            return
        self.boots += 1
        process = SimProcess(self.scheduler, self.host, self.clock, self._crashed)
        process.observe = self.observe
        self.process = process
        self._network = self.fabric.network(process, self.host)
        self._offload = SimOffload(process, self._stream(f"offload/{self.boots}"), self.pace)
        env = Env(
            clock=self.clock,
            random=self._stream(f"broker/{self.boots}"),
            network=self._network,
            disk=self.wiring.disk(self.disk.mount(self.faults)),
            offload=self.wiring.offload(self._offload),
            call_soon=process.call_soon,
        )
        self._note("boot")
        process.run(lambda: self._start(env, process))

    def _start(self, env: Env, process: SimProcess) -> None:
        try:
            self.broker = broker = self.wiring.start(env, process)
        except Exception:
            if not self.faults.injecting:
                raise
            self._start_again()
            return
        if isinstance(broker, Node):
            broker.on_start_ended = lambda: self._start_ended(broker, process)

    def _start_ended(self, node: Node, process: SimProcess) -> None:
        if node.start_failure is not None and self.process is process:
            self._start_again()

    def _start_again(self) -> None:
        self._note("boot failed")
        self.kill()
        self.restart(self._chance.between(200, 2000) * 1_000_000)

    def set_pace(self, pace: DelayRanges) -> None:
        """Set the speed of the workers, and so of the disk's fsyncs, from now on."""
        self.pace = pace
        if self._offload is not None:
            self._offload.pace = pace

    def restart(self, delay_ns: int) -> None:
        """Boot after a delay, unless a process runs then."""
        self.scheduler.after(delay_ns, self.host, "power button", self.boot)

    def kill(self) -> None:
        """Kill the process as SIGKILL does; the page cache stays."""
        if self._end("kill") and self._network is not None:
            self._network.process_ended()

    def stop(self, patience_ns: int, ended: Callable[[bool], None]) -> None:
        """Stop the broker as SIGTERM does, and kill it after `patience_ns`. Calls `ended(True)` if
        it stopped by itself, `ended(False)` if it was killed here, and nothing if another fault
        ended it.
        """
        process, broker = self.process, self.broker
        if process is None or not process.alive or not isinstance(broker, Stoppable):
            self.kill()
            ended(False)
            return

        def stopped() -> None:
            if self.process is process and self._end("stopped") and self._network is not None:
                self._network.process_ended()
                ended(True)

        def impatient() -> None:
            if self.process is process and process.alive:
                self.kill()
                ended(False)

        self._note("stop")
        process.run(lambda: broker.stop(stopped))
        self.scheduler.after(patience_ns, self.host, "patience", impatient)

    def wipe(self) -> None:
        """Replace the disk by an empty one, while no process runs."""
        assert not self.running
        self._note("disk replaced")
        self.disks += 1
        self.disk = self._new_disk()

    def unplug(self) -> None:
        """Fail the power while no process runs."""
        self._note("unplugged")
        self.fabric.hosts[self.host].up = False
        self.disk.power_loss()
        self.clock.restart(self._chance.between(0, 1 << 40))

    def power_loss(self) -> None:
        """Fail the power: the process ends, and any part of the unsynced data is lost."""
        if self._end("power loss") and self._network is not None:
            self._network.power_failed()
            self._lose_power()

    def _lose_power(self) -> None:
        self.history.lose_power(self.scheduler.now_ns)
        self.disk.power_loss()
        self.clock.restart(self._chance.between(0, 1 << 40))

    def _crashed(self) -> None:
        """Handle the end of the process at a crash point of the disk."""
        assert self._network is not None
        self.faults.crash_after_effects = None
        if self.power_on_crash:
            self._note("power loss")
            self._network.power_failed()
            self._lose_power()
        else:
            self._note("kill")
            self._network.process_ended()
        self.broker = None
        self.restart(self._chance.between(50, 3000) * 1_000_000)

    def _end(self, kind: str) -> bool:
        if self.process is None or not self.process.alive:
            return False
        self._note(kind)
        self.process.kill()
        self.broker = None
        return True

    def _note(self, kind: str) -> None:
        self.history.faults.append(Fault(self.scheduler.now_ns, kind, self.host))
        self.scheduler.reach(f"machine: {kind}")
        self.scheduler.note(self.host, kind)


DATA_DIRECTORY = f"{VOLUME}/data"


def real_broker(plan: Schedule) -> Wiring:
    """Return the wiring of the real broker, with the settings of the plan. Several machines have a
    node of one cluster each, whose first voters are the machines of `plan.voters`.
    """

    def start(env: Env, process: SimProcess) -> Node:
        own = node_settings(plan, process.name) if plan.machines > 1 else alone_settings()
        return start_node(BrokerConfig.load({**own, **plan.settings}), env, process)

    return Wiring(start)


def alone_settings() -> dict[str, str]:
    """Return the settings of a node without others."""
    return {
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT}",
        "log.dirs": DATA_DIRECTORY,
    }


def node_settings(plan: Schedule, host: str) -> dict[str, str]:
    """Return the settings of one node of several."""
    number = number_of(host)
    settings = {
        "node.id": str(number),
        "broker.id": str(number),
        "cluster.id": CLUSTER_ID,
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT},CLUSTER://0.0.0.0:{CLUSTER_PORT}",
        "advertised.listeners": f"PLAINTEXT://{host}:{PORT},CLUSTER://{host}:{CLUSTER_PORT}",
        "log.dirs": DATA_DIRECTORY,
    }
    hosts = [host_of(each) for each in range(1, plan.machines + 1)]
    if plan.recorded_voters:
        if number > 1:
            settings["controller.quorum.bootstrap.servers"] = ",".join(
                f"{each}:{CLUSTER_PORT}" for each in hosts
            )
    else:
        settings["controller.quorum.voters"] = ",".join(
            f"{number_of(each)}@{each}:{CLUSTER_PORT}" for each in hosts[: plan.voters or None]
        )
    return settings


def start_node(config: BrokerConfig, env: Env, process: SimProcess) -> Node:
    """Wire and start one incarnation of the real broker."""
    timer = SystemTimer(env.clock.monotonic_ms())
    process.drive(timer)
    node = Node(config, env, timer, on_bug)
    node.start()
    return node


def on_bug(where: str, error: Exception) -> None:
    """End the simulation with a bug that the broker would log and survive."""
    raise SimulationError(f"bug in {where}: {error!r}") from error
