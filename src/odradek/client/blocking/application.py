"""The application's thread at a blocking consumer: the `Driver` of its `Reading`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.blocking.wake_signal import Signal

T = TypeVar("T")


class BlockingApplication:
    """Coroutines of this never suspend: they block."""

    def __init__(self, thread: EngineThread, signal: Signal) -> None:
        self._thread = thread
        self.signal = signal.set
        self.clear = signal.clear
        self._signal = signal
        self.time = time.monotonic

    @property
    def running(self) -> bool:
        return self._thread.running

    async def sleep(self, timeout_s: float | None) -> None:
        self._signal.wait(timeout_s)

    async def call(self, action: Callable[[], T]) -> T:
        return self._thread.call(action)

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        callback(*arguments)
