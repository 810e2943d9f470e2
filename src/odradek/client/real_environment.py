"""The real environment of a client: this machine's clocks, sockets, chance and name resolution.

Whoever drives the reactor, a thread of its own or asyncio, makes one of these, and an engine in it.
A client keeps nothing on disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Env
from odradek.network.reactor import Reactor, SystemClock
from odradek.network.workers import Workers
from odradek.timing.timer import SystemTimer

RESOLVERS = 2
"""Threads that resolve names; there are none while nothing is resolved."""


class Machine:
    """One reactor with what belongs to it."""

    def __init__(self, name: str, on_bug: Callable[[str, Exception], None] | None = None) -> None:
        clock = SystemClock()
        self.timer = SystemTimer(clock.monotonic_ms())
        self.reactor = Reactor(clock, self.timer, on_bug=on_bug)
        self.workers = Workers(
            self.reactor.call_soon_threadsafe, RESOLVERS, name=f"{name}-resolver"
        )
        self.reactor.offload = self.workers
        self.env = Env(
            clock=clock,
            random=random.SystemRandom(),
            network=self.reactor,
            disk=MemoryDisk(),
            offload=self.workers,
            call_soon=self.reactor.call_soon,
        )

    def close(self) -> None:
        """Give all back. Waits for a name that is being resolved, for the system does not let go
        of that."""
        self.workers.close()
        self.reactor.close()
