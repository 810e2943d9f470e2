"""Waiter: a result that is there later, or an error, as a value.

    Waiter[T]   open ──complete(value)──► done, with a value
                  └─────fail(error)─────► done, with an error

The engine completes waiters and never waits itself. The blocking API blocks on a waiter, the
asyncio API awaits it. Code of the engine with several steps may be a coroutine that awaits waiters,
without an event loop:

    async def create(engine, name):
        answer = await engine.call(node, request)      # a Waiter
        ...
    waiter = spawn(create(engine, "orders"))           # runs up to its first open waiter, now

A waiter is done once: `complete` and `fail` return whether they ended it. A caller that no longer
wants a waiter fails it; a later outcome is then ignored, and a coroutine behind it is closed at its
next step.

Everything here belongs to the owner thread. Other threads may read `done` only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Waiter(Generic[T]):
    """A value of type T that may not be there yet."""

    __slots__ = ("_callbacks", "_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        """The error, once done; None if there is a value."""
        self._value: T | None = None
        self._callbacks: list[Callable[[Waiter[T]], object]] = []

    def complete(self, value: T) -> bool:
        """Set the value; False if this was done already."""
        if self.done:
            return False
        self._value = value
        self._end()
        return True

    def fail(self, error: BaseException) -> bool:
        """Set the error; False if this was done already."""
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
        """Return the value. Raises the error, or `RuntimeError` if this is not done."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise RuntimeError("the waiter is not done yet")
        return cast("T", self._value)

    def add_callback(self, callback: Callable[[Waiter[T]], object]) -> None:
        """Call it when this is done, after callbacks added before; at once if it is done
        already."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator[Waiter[Any], None, T]:
        """For coroutines that `spawn` runs; asyncio's loop does not accept it."""
        if not self.done:
            yield self
        return self.result()


def completed(value: T) -> Waiter[T]:
    """Return a waiter with a value."""
    waiter: Waiter[T] = Waiter()
    waiter.complete(value)
    return waiter


def failed(error: BaseException) -> Waiter[Any]:
    """Return a waiter that has failed."""
    waiter: Waiter[Any] = Waiter()
    waiter.fail(error)
    return waiter


def spawn(coroutine: Coroutine[Waiter[Any], None, T]) -> Waiter[T]:
    """Run a coroutine, now and whenever the waiter it awaits is done. Returns a waiter for its
    result."""
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
            if self.waiter.done:  # The caller gave up.
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
    """Return a waiter that completes with the list when all its waiters are done or have failed."""
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
