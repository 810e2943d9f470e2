"""Client: the base class of the blocking clients: an engine on its own thread, and closing."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.engine import Engine
from odradek.client.waiter import Waiter

T = TypeVar("T")


class Client:
    """A context manager that closes on exit. A client that is not closed ends when it is garbage
    collected, or with the process."""

    def __init__(self, name: str, make_engine: Callable[[EngineThread], Engine]) -> None:
        self._thread = EngineThread(name)
        self._thread.start()
        try:
            self._engine = self._thread.call(lambda: make_engine(self._thread))
        except BaseException:
            self._thread.close(lambda: None)
            raise
        self._thread.post(self._engine.start)
        self._end: weakref.finalize[..., Any] = weakref.finalize(
            self, self._thread.close, self._engine.close
        )

    def _wait(self, make: Callable[[], Waiter[T]], timeout_s: float | None = None) -> T:
        """Make a waiter on the engine's thread, and block until it is done."""
        return self._thread.wait(make, timeout_s)

    def _check_open(self) -> None:
        """Raise `ClientClosed` after the end, and in a forked process."""
        self._thread.check_usable()

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
