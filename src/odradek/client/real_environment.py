"""The real environment of a client: this host's clocks, sockets, randomness and name resolution.

A client runs its engine in one of these, with the reactor on a thread of its own or in asyncio's
loop. A client keeps nothing on disk, so there is no disk, and the package `log` is not imported.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NoReturn, cast

from odradek.model.env import Disk, Env
from odradek.network.reactor import Reactor, SystemClock
from odradek.network.workers import Workers
from odradek.timing.timer import SystemTimer

RESOLVERS = 2
"""Threads that resolve names; there are none until a name is resolved."""


class NoDisk:
    """In the place of a disk: any use of it is a bug."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"a client has no disk: {name} was called on it")


class RealEnvironment:
    """A reactor with its timer and its workers, as an `Env`."""

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
            disk=cast("Disk", NoDisk()),
            offload=self.workers,
            call_soon=self.reactor.call_soon,
        )

    def close(self) -> None:
        """Close the reactor and the workers. Waits for a name that is being resolved, because the
        operating system does not cancel that."""
        self.workers.close()
        self.reactor.close()
