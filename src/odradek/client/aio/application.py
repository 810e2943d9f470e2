"""The application's tasks at an awaited consumer: the `Driver` of its `Reading`.

The loop's thread is also the engine's, so nothing is handed over; what is done to the engine goes
through the `EngineLoop`, which plans its next turn.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

from odradek.client.aio.engine_loop import EngineLoop

T = TypeVar("T")


class AwaitedApplication:
    """For one task at a time."""

    def __init__(self, loop: EngineLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()
        self.signal = self._event.set
        self.clear = self._event.clear
        self.time = time.monotonic

    @property
    def running(self) -> bool:
        return self._loop.running

    async def sleep(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return

    async def call(self, action: Callable[[], T]) -> T:
        return self._loop.run(action)

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        found = callback(*arguments)
        if inspect.isawaitable(found):
            await found
