"""The application's thread at its consumer: taking records, waiting for them, seeing to the rest.

    poll, gather ─► attention? ─► raise an error, or the group's turn: callbacks ─┐
         ▲              │ no                                                      │
         │              ▼                                                         │
         │          take what is there ─► enough ─► return                        │
         │              │ not enough                                              │
         └── woken ◄── sleep until the engine has something, or time is over ◄────┘

What is shared with the engine's thread: the collector's queue, the deques of errors and of what the
group has for the application, and the `Signal` that wakes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.consumer.consumer import ConsumerEngine
from odradek.client.consumer.gathering import Gathering
from odradek.client.consumer.group_effects import Callback
from odradek.client.consumer.listener import RebalanceListener
from odradek.client.consumer.record import Record
from odradek.client.errors import ClientClosed
from odradek.client.waiter import Waiter, spawn

T = TypeVar("T")


class Signal:
    """Wakes one thread that waits, from any other. Set more than once, it wakes once."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self, _: object = None) -> None:
        with contextlib.suppress(RuntimeError):  # It was set already.
            self._lock.release()

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def wait(self, timeout_s: float | None) -> None:
        """Until it is set, or the time is over. Signals of the system interrupt it."""
        self._lock.acquire(timeout=-1 if timeout_s is None else timeout_s)


class Reading:
    """One consumer's. `who` is what callbacks are given as the consumer."""

    def __init__(
        self, who: Any, thread: EngineThread, core: ConsumerEngine, signal: Signal
    ) -> None:
        self.collector = core.collector
        self.listener = RebalanceListener()
        self.closed = False
        self._who = who
        self._thread = thread
        self._core = core
        self._signal = signal

    # Records.

    def poll(self, timeout: float | None) -> Record[Any, Any] | None:
        """The next record, within so many seconds; None also when there will never be one."""
        deadline = deadline_of(timeout)
        while True:
            self._signal.clear()
            self._attend()
            record = self.collector.next_record()
            if record is not None:
                return record
            if not self.collector.attention and not self._sleep(deadline):
                return None

    def gather(self, gathering: Gathering, timeout: float | None) -> bool:
        """Gather until there is enough, or time is over, or something else is to be seen to; False
        if there will never be more.
        """
        deadline = deadline_of(timeout)
        self.collector.settle()
        try:
            while True:
                self._signal.clear()
                if gathering.is_empty:
                    self._attend()
                gathering.add()
                if gathering.is_full:
                    return True
                if self.collector.attention:
                    if not gathering.is_empty:
                        return True
                elif not self._sleep(deadline):
                    return not self._core.is_exhausted
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        """The wait was broken off: what was gathered does not count."""
        places = self.collector.undo()
        if places and self._thread.running:
            self._thread.call(lambda: self._core.move_back(places))
            self.collector.refresh()

    def _sleep(self, deadline: float | None) -> bool:
        """Until something may be there; False if time is over, or nothing will ever be there."""
        if self._core.is_exhausted:
            return False
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        if not self._thread.running:
            raise ClientClosed("the consumer is closed")
        self._core.group.waits(True)
        try:
            self._signal.wait(left)
        finally:
            self._core.group.waits(False)
        return True

    # All else.

    def _attend(self) -> None:
        """See to what there is for the application but records. Raises what is to be raised."""
        collector = self.collector
        if not collector.attention:
            return
        if self.closed:
            raise ClientClosed("the consumer is closed")
        errors = self._core.errors
        if errors:
            raise errors.popleft()
        collector.attention = False
        if errors:  # One came just now.
            collector.attention = True
        self._thread.call(self._core.group.poll)
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        """What the group has for the application."""
        group = self._core.group
        while group.for_application:
            effect = group.for_application.popleft()
            if not isinstance(effect, Callback):
                raise effect.error
            raised = self._call_back(effect)
            if raised is not None and not isinstance(raised, Exception):
                raise raised

    def _call_back(self, effect: Callback) -> BaseException | None:
        """Call the listener, and let the group know; what it raised."""
        raised: BaseException | None = None
        self.collector.refresh()
        callback = self.listener.callback(effect.occasion)
        try:
            if callback is not None:
                callback(self._who, list(effect.partitions))
        except BaseException as error:
            raised = error
        outcome = raised
        self._thread.call(lambda: self._core.group.callback_returned(outcome))
        self.collector.refresh()
        return raised

    def finish(self, make: Callable[[], Waiter[T]]) -> T:
        """Begin something on the engine's thread in which callbacks may run, and see it to its
        end.
        """

        def begin() -> Waiter[T]:
            waiter = make()
            waiter.add_callback(self._signal.set)
            return waiter

        waiter = self._thread.call(begin)
        while not waiter.done:
            self._signal.clear()
            self._run_callbacks()
            if not waiter.done:
                self._signal.wait(None)
        self.collector.refresh()
        return waiter.result()

    def ask(self, make: Callable[[], Coroutine[Waiter[Any], None, T]]) -> T:
        """Run a call on the engine's thread, and block until it is done."""
        found = self._thread.wait(lambda: spawn(make()))
        self.collector.refresh()
        return found

    def close(self, timeout: float) -> None:
        """Take leave of the group, and end the engine's part."""
        try:
            if self._thread.running:
                self.finish(lambda: self._core.group.close(round(timeout * 1000)))
        finally:
            self.closed = True
            self.collector.attention = True
            if self._thread.running:
                self._thread.call(self._core.close)


def deadline_of(timeout: float | None) -> float | None:
    """When so many seconds are over; never, if they are negative or None."""
    return None if timeout is None or timeout < 0 else time.monotonic() + timeout
