"""Waiting as a value: something that will be there, or have failed, later.

    Waiter[T]   open ──complete(value)──► done, with a value
                  └─────fail(error)─────► done, with an error

The engine completes waiters and never waits itself; a face blocks on one (`client.blocking`),
awaits it (`client.aio`), or hands it on. Code of the engine that has several steps may be written
as a coroutine that awaits waiters, without any event loop:

    async def create(engine, name):
        answer = await engine.call(node, request)      # a Waiter
        ...
    waiter = spawn(create(engine, "orders"))           # runs up to its first open waiter, now

A waiter is done once: `complete` and `fail` answer whether they were the ones that ended it. Who no
longer wants a waiter fails it; what the engine says later is then ignored, and a coroutine behind
it is closed at its next step.

Everything here belongs to the owner thread. `done` alone may be looked at from any other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Waiter(Generic[T]):
    """A value that is not there yet."""

    __slots__ = ("_callbacks", "_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        """What it failed with, once done; None if it has a value."""
        self._value: T | None = None
        self._callbacks: list[Callable[[Waiter[T]], object]] = []

    def complete(self, value: T) -> bool:
        """The value is there; False if this was done already."""
        if self.done:
            return False
        self._value = value
        self._end()
        return True

    def fail(self, error: BaseException) -> bool:
        """There will be no value; False if this was done already."""
        if self.done:
            return False
        self.error = error
        self._end()
        return True

    def _end(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def result(self) -> T:
        """The value. Raises what it failed with, and `RuntimeError` if it is not done."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise RuntimeError("this is not done yet")
        return cast("T", self._value)

    def add_callback(self, callback: Callable[[Waiter[T]], object]) -> None:
        """Call it when this is done, after those that were added before; at once if it is."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator[Waiter[Any], None, T]:
        """For coroutines that `spawn` runs; asyncio's own loop does not know what this is."""
        if not self.done:
            yield self
        return self.result()


def completed(value: T) -> Waiter[T]:
    """A waiter that is done."""
    waiter: Waiter[T] = Waiter()
    waiter.complete(value)
    return waiter


def failed(error: BaseException) -> Waiter[Any]:
    """A waiter that has failed."""
    waiter: Waiter[Any] = Waiter()
    waiter.fail(error)
    return waiter


def spawn(coroutine: Coroutine[Waiter[Any], None, T]) -> Waiter[T]:
    """Run it, now and whenever what it awaits is done; its result, or what it raised."""
    task = _Task(coroutine)
    task.step(None)
    return task.waiter


class _Task(Generic[T]):
    """A coroutine between two steps."""

    __slots__ = ("_coroutine", "waiter")

    def __init__(self, coroutine: Coroutine[Waiter[Any], None, T]) -> None:
        self.waiter: Waiter[T] = Waiter()
        self._coroutine = coroutine

    def step(self, _: Waiter[Any] | None) -> None:
        coroutine = self._coroutine
        while True:
            if self.waiter.done:  # Nobody waits any more.
                coroutine.close()
                return
            try:
                awaited = coroutine.send(None)
            except StopIteration as end:
                self.waiter.complete(end.value)
                return
            except Exception as error:
                self.waiter.fail(error)
                return
            if not awaited.done:
                awaited.add_callback(self.step)
                return


def gather(waiters: list[Waiter[T]]) -> Waiter[list[Waiter[T]]]:
    """Done when all are, whatever became of them; its value is the list itself."""
    together: Waiter[list[Waiter[T]]] = Waiter()
    left = len(waiters)
    if not left:
        together.complete(waiters)

    def one_done(_: Waiter[T]) -> None:
        nonlocal left
        left -= 1
        if not left:
            together.complete(waiters)

    for waiter in waiters:
        waiter.add_callback(one_done)
    return together
