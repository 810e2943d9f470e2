"""Client: the base class of the awaited clients: an engine in the running loop, and closing."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from odradek.client.aio.engine_loop import EngineLoop
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed
from odradek.client.waiter import Waiter

T = TypeVar("T")


class Client:
    """An asynchronous context manager that closes on exit. Entering it calls `start`, which starts
    the client in the running loop."""

    def __init__(self, name: str, make_engine: Callable[[EngineLoop], Engine]) -> None:
        self._name = name
        self._make_engine = make_engine
        self._loop: EngineLoop | None = None
        self._engine: Engine | None = None

    async def start(self) -> Self:
        """Start the client. Raises `RuntimeError` at a second call."""
        if self._loop is not None:
            raise RuntimeError(f"{self._name} was started before. What to do: make another client")
        self._loop = EngineLoop(self._name)
        try:
            self._engine = self._make_engine(self._loop)
        except BaseException:
            await self._loop.close(lambda: None)
            raise
        self._loop.run(self._engine.start)
        return self

    @property
    def _started(self) -> Engine:
        """The engine. Raises `ClientClosed` before the start."""
        if self._engine is None:
            raise ClientClosed(f"{self._name} was not started: use `async with`, or await start()")
        return self._engine

    def _check_running(self) -> None:
        """Raise `ClientClosed` before the start and after the end."""
        engine = self._started
        if self._loop is None or not self._loop.running or engine.closed:
            raise ClientClosed(f"{self._name} is closed")

    async def _wait(self, make: Callable[[Engine], Waiter[T]], timeout_s: float | None = None) -> T:
        """Make a waiter and await it."""
        engine = self._started
        assert self._loop is not None
        return await self._loop.wait(lambda: make(engine), timeout_s)

    async def close(self) -> None:
        """Close all connections. A second call does nothing."""
        if self._loop is not None and self._engine is not None:
            await self._loop.close(self._end)

    def _end(self) -> None:
        """Close the engine at once."""
        self._started.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
