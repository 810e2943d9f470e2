"""A `Reactor` inside an asyncio loop: asyncio sleeps for it, and there is no other thread.

    the reactor's descriptor is readable ─┐
    its next deadline has come ───────────┼─► turn: I/O, timers, callbacks ─► plan the next deadline
    something was done to it (`run`) ─────┘

Everything that belongs to the reactor happens in `turn` or in `run`, on the loop's thread. It works
under any loop that has `add_reader`, uvloop's too; on a system whose poller has no descriptor
(neither epoll nor kqueue) making one raises `OSError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from odradek.network.reactor import DAY_MS, Reactor

T = TypeVar("T")


class AsyncioDriver:
    """Drives the reactor from its making until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reactor: Reactor) -> None:
        self.loop = loop
        self._reactor = reactor
        self._descriptor = reactor.fileno()
        self._handle: asyncio.Handle | None = None
        self._at_ms: float = 0
        self._closed = False
        loop.add_reader(self._descriptor, self._run_ready)
        self._schedule()

    def run(self, action: Callable[[], T]) -> T:
        """Do something that belongs to the reactor: its timer knows the time, and what is left to
        do is done soon.
        """
        self._reactor.advance(self._reactor.now_ms())
        try:
            return action()
        finally:
            self._schedule()

    def post(self, action: Callable[[], None]) -> None:
        """Do something after the current event. For who is on the loop's thread, but not called by
        the reactor: that would not know that there is something to do.
        """
        self._reactor.call_soon(action)
        self._schedule()

    def close(self) -> None:
        """Leave the loop. The reactor is closed by its owner."""
        if not self._closed:
            self._closed = True
            self.loop.remove_reader(self._descriptor)
            if self._handle is not None:
                self._handle.cancel()
                self._handle = None

    def _run_ready(self) -> None:
        if not self._closed:
            self._reactor.run_ready()
            self._schedule()

    def _deadline_reached(self) -> None:
        self._handle = None
        self._run_ready()

    def _schedule(self) -> None:
        """See to it that there is a turn when there is something to do."""
        wait_ms = self._reactor.wait_ms()
        if self._closed or wait_ms is None:
            return
        at_ms = self.loop.time() * 1000 + wait_ms
        if self._handle is not None:
            if self._at_ms <= at_ms:
                return  # It looks again then, and plans what is left.
            self._handle.cancel()
        self._at_ms = at_ms
        if wait_ms == 0:
            self._handle = self.loop.call_soon(self._deadline_reached)
        else:
            self._handle = self.loop.call_later(min(wait_ms, DAY_MS) / 1000, self._deadline_reached)
