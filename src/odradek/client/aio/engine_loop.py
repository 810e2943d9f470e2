"""An engine within a running asyncio loop, and how coroutines await it.

    coroutine:  await wait(make, timeout) ── make() ─► Waiter ─► done ─► future ─► goes on
                     └─ timeout, cancelled: the waiter is failed, so that the engine forgets it

The loop's thread is the owner thread; there is no other. All calls of the engine go through `run`
or `wait`. The engine belongs to the loop it was made in; calls from another loop raise.

Closing ends the engine at once. Only a name resolution may still take time after that, because the
operating system does not cancel one: a task of its own waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from odradek.client.errors import ClientClosed, KafkaTimeout
from odradek.client.producer.futures import ProduceRequestResult
from odradek.client.real_environment import RealEnvironment
from odradek.client.waiter import Waiter
from odradek.network.asyncio_driver import AsyncioDriver


def until_done(result: ProduceRequestResult) -> Generator[Any, None, None]:
    """Wait in the running loop until a batch is done, on whatever thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    result.add_callback(lambda: loop.call_soon_threadsafe(set_done, future))
    return future.__await__()


def set_done(future: asyncio.Future[None]) -> None:
    """Complete a future, unless it was cancelled."""
    if not future.done():
        future.set_result(None)


class AsyncioWait:
    """Futures can only be awaited; the loop's own thread completes them."""

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        raise RuntimeError("a future cannot block in an event loop. What to do: await it")

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        result.add_callback(lambda: set_done(future))
        return future.__await__()


T = TypeVar("T")


class EngineLoop:
    """A reactor in the running loop. Make the engine in its `environment`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.environment = RealEnvironment(name)
        self._driver = AsyncioDriver(asyncio.get_running_loop(), self.environment.reactor)
        self._futures: set[asyncio.Future[None]] = set()
        self._closed = False
        self._closing_task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """True if the engine can still be used."""
        return not self._closed

    def run(self, action: Callable[[], T]) -> T:
        """Run `action` on the engine; return its result or raise its exception. Raises
        `ClientClosed`."""
        self._check()
        return self._driver.run(action)

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` soon. For code outside of `run`."""
        self._driver.post(action)

    async def wait(self, make: Callable[[], Waiter[T]], timeout_s: float | None = None) -> T:
        """Make a waiter, await it, and return its result.

        Raises the waiter's error, `KafkaTimeout` after `timeout_s`, and `ClientClosed`.
        """
        waiter = self.run(make)
        if waiter.done:
            return waiter.result()
        future: asyncio.Future[None] = self._driver.loop.create_future()
        self._futures.add(future)
        waiter.add_callback(lambda _: None if future.done() else future.set_result(None))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            late = KafkaTimeout(f"not done within {timeout_s} s")
            self._forget(waiter, late)
            raise late from None
        except asyncio.CancelledError as cancelled:
            self._forget(waiter, cancelled)
            raise
        finally:
            self._futures.discard(future)
        return result_of(waiter)

    def _forget(self, waiter: Waiter[T], error: BaseException) -> None:
        """Fail a waiter that no coroutine awaits any more."""
        if self.running:
            self._driver.run(lambda: waiter.fail(error))

    def _check(self) -> None:
        if self._closed:
            raise ClientClosed("the client is closed")
        if asyncio.get_running_loop() is not self._driver.loop:
            raise RuntimeError(
                f"{self.name} belongs to another event loop. What to do: make a client in each loop"
            )

    async def close(self, end: Callable[[], object]) -> None:
        """Run `end` and stop; return when all resources are released. A second call does nothing
        more."""
        if not self._closed:
            self._end(end)
        if self._closing_task is not None:
            await asyncio.shield(self._closing_task)

    def _end(self, end: Callable[[], object]) -> None:
        self.run(end)
        self.environment.reactor.run_ready()  # Callbacks that `end` has scheduled.
        self._closed = True
        self._driver.close()
        for future in self._futures:
            if not future.done():
                future.set_result(None)
        if self.environment.workers.in_progress:
            self._closing_task = self._driver.loop.create_task(self._close_environment())
        else:
            self.environment.close()

    async def _close_environment(self) -> None:
        try:
            await self._driver.loop.run_in_executor(None, self.environment.workers.close)
        finally:
            self.environment.close()


def result_of(waiter: Waiter[T]) -> T:
    """Return the waiter's result. Raises its error, or `ClientClosed` if it is not done."""
    if not waiter.done:
        raise ClientClosed("the client was closed")
    return waiter.result()
