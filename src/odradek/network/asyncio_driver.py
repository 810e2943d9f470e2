"""Runs a `Reactor` inside an asyncio loop, which sleeps in its place; there is no other thread.

    the reactor's descriptor is readable ─┐
    its next deadline is reached ─────────┼─► run_ready: I/O, timers, callbacks ─► schedule the next
    a call through `run` or `post` ───────┘

Everything of the reactor runs in `run_ready` or `run`, on the loop's thread. It works with any loop
that has `add_reader`, uvloop's too. On a system whose poller has no descriptor (neither epoll nor
kqueue) the constructor raises `OSError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from odradek.network.reactor import DAY_MS, Reactor

T = TypeVar("T")


class AsyncioDriver:
    """Drives the reactor from construction until `close`."""

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
        """Call `action`, which uses the reactor. Its timer has the current time, and work that
        `action` leaves to do is scheduled.
        """
        self._reactor.advance(self._reactor.now_ms())
        try:
            return action()
        finally:
            self._schedule()

    def post(self, action: Callable[[], None]) -> None:
        """Call `action` after the current event. For callers on the loop's thread that the reactor
        did not call: `call_soon` alone would not wake it.
        """
        self._reactor.call_soon(action)
        self._schedule()

    def close(self) -> None:
        """Leave the loop. The owner of the reactor closes it."""
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
        """Schedule `_run_ready` for when the reactor has something to do."""
        wait_ms = self._reactor.wait_ms()
        if self._closed or wait_ms is None:
            return
        at_ms = self.loop.time() * 1000 + wait_ms
        if self._handle is not None:
            if self._at_ms <= at_ms:
                return  # `_run_ready` schedules the rest then.
            self._handle.cancel()
        self._at_ms = at_ms
        if wait_ms == 0:
            self._handle = self.loop.call_soon(self._deadline_reached)
        else:
            self._handle = self.loop.call_later(min(wait_ms, DAY_MS) / 1000, self._deadline_reached)
