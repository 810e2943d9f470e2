"""The application's thread at a blocking consumer: the `Driver` of its `Reading`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from odradek.client.blocking.engine_thread import EngineThread

T = TypeVar("T")


class Signal:
    """Wakes one thread that waits, from any other. Set more than once, it wakes once."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with contextlib.suppress(RuntimeError):  # It was set already.
            self._lock.release()

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def wait(self, timeout_s: float | None) -> None:
        """Until it is set, or the time is over. Signals of the system interrupt it."""
        self._lock.acquire(timeout=-1 if timeout_s is None else timeout_s)


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
