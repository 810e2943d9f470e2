"""A guard of an `EngineThread` that raises a signal inside a section."""

from __future__ import annotations

import signal
import threading
from typing import Any


class RingingGuard:
    """A guard that raises a signal once, when a section has begun or is about to end."""

    def __init__(self, guard: Any, at_end: bool) -> None:
        self._guard = guard
        self._at_end = at_end
        self._rung = False

    def __enter__(self) -> None:
        self._guard.__enter__()
        if not self._at_end:
            self._ring()

    def __exit__(self, *error: object) -> None:
        if self._at_end:
            self._ring()
        self._guard.__exit__(*error)

    def _ring(self) -> None:
        if not self._rung and threading.current_thread() is threading.main_thread():
            self._rung = True
            signal.raise_signal(signal.SIGUSR1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guard, name)
