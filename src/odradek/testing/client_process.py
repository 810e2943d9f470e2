"""A client's process in simulated time: what an engine needs around it, and its end.

    side = ClientProcess(scheduler, fabric, "client")
    side.do(engine.start)

Everything of the client belongs to this process and happens in its events: what it is asked with
`do`, what its transports bring, what its timer says. `kill` is the end as the kernel makes it: its
connections are closed; `pause` is SIGSTOP, and SIGCONT later.
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
    """A process of its own on a host of its own, both called `name`."""

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
        """Run it as an event of this process."""
        results: list[T] = []
        self.process.run(lambda: results.append(action()))
        return results[0]

    def pause(self, duration_ns: int) -> None:
        """What would happen to it happens after that."""
        self.process.paused_until_ns = self.process.scheduler.now_ns + duration_ns

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self._network.process_ended()
