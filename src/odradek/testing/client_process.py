"""A client's process in simulated time: the environment of a client engine.

    side = ClientProcess(scheduler, fabric, "client")
    side.do(engine.start)

The client runs only in events of this process: the calls made with `do`, the callbacks of its
transports and of its timer. `kill` ends the process as kill -9 does, and its connections are
closed; `pause` is SIGSTOP, and SIGCONT later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Env
from odradek.testing.network import Fabric
from odradek.testing.process import SimOffload, SimProcess
from odradek.testing.scheduler import Scheduler, SimClock
from odradek.timing import SystemTimer

T = TypeVar("T")


class ClientProcess:
    """A process on a host of its own, both called `name`."""

    def __init__(self, scheduler: Scheduler, fabric: Fabric, name: str) -> None:
        self.name = name
        self.process = SimProcess(scheduler, name, SimClock(scheduler))
        self.timer = SystemTimer(self.process.clock.monotonic_ms())
        self.process.drive(self.timer)
        self._network = fabric.network(self.process, name)
        self.env = Env(
            clock=self.process.clock,
            random=scheduler.stream(f"client/{name}"),
            network=self._network,
            disk=MemoryDisk(),
            offload=SimOffload(self.process, scheduler.stream(f"offload/{name}")),
            call_soon=self.process.call_soon,
        )

    def do(self, action: Callable[[], T]) -> T:
        """Run `action` as an event of this process; return its result."""
        results: list[T] = []
        self.process.run(lambda: results.append(action()))
        return results[0]

    def pause(self, duration_ns: int) -> None:
        """Delay all events of this process until then."""
        self.process.paused_until_ns = self.process.scheduler.now_ns + duration_ns

    def kill(self) -> None:
        """End the process, as kill -9 does."""
        self.process.kill()
        self._network.process_ended()
