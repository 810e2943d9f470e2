"""A background thread that owns an engine, and how other threads wait for it.

    user's thread:   wait(make, timeout) ── post ─► owner thread: make() ─► Waiter ─► done
                         │ blocks on a signal ◄─────────────── set ◄───────────────────┘
                         └─ time over, Ctrl-C: the waiter is failed, so that the engine forgets it

    new ── start ─► running ── close ─► stopping ─► stopped
                       └── fork: in the child it is of no use, and says so

The thread is a daemon: a program that forgets to close ends all the same. `at_exit` lets a face
finish what it has begun, for a bounded time. Everything may be called from any thread but the
owner's own: a callback that waits for its own thread would wait for ever, and gets an error.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from odradek.client.blocking.wake_signal import WakeSignal, borrow_signal, return_signal
from odradek.client.errors import ClientClosed, KafkaTimeout
from odradek.client.real_environment import RealEnvironment
from odradek.client.waiter import Waiter

T = TypeVar("T")

log = logging.getLogger(__name__)

JOIN_S = 5.0
"""How long closing waits for the thread to end; it ends by itself in any case."""


class BlockedThread(Generic[T]):
    """A thread that waits, once. Who is to wake it may know it for long after its time is over:
    then that does nothing, and it holds no signal.
    """

    __slots__ = ("_signal", "_to_ring", "error", "waiter")

    def __init__(self) -> None:
        self._signal = borrow_signal()
        self._to_ring = [self._signal]
        """Who takes it out of here is the last who may set it."""
        self.waiter: Waiter[T] | None = None
        self.error: BaseException | None = None
        """Why there will be no waiter."""

    def block(self, timeout_s: float | None) -> bool:
        """Until `wake`; False if the time is over before. Signals interrupt it."""
        signal = self._signal
        in_time = False
        try:
            in_time = signal.wait(timeout_s)
        finally:
            del self._signal
            if in_time or self._take() is not None:  # Else it is just being set.
                return_signal(signal)
        return in_time

    def wake(self, _: object = None) -> None:
        """Of the owner thread."""
        signal = self._take()
        if signal is not None:
            signal.set()

    def _take(self) -> WakeSignal | threading.Event | None:
        try:
            return self._to_ring.pop()
        except IndexError:
            return None


class EngineThread:
    """One reactor on a thread of its own; `environment` is the environment to make an engine in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.environment = RealEnvironment(name)
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._waiting: set[BlockedThread[Any]] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to run."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether something can still be done here."""
        return not self._closed and os.getpid() == self._process

    @property
    def is_current(self) -> bool:
        """Whether this is asked on the owner thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def post(self, action: Callable[[], object]) -> None:
        """Have it done on the owner thread, soon. Raises `ClientClosed`."""
        self._check_process()
        with self._guard:
            self._check_open()
            self.environment.reactor.call_soon_threadsafe(action)  # type: ignore[arg-type]

    def call(self, action: Callable[[], T]) -> T:
        """Have it done on the owner thread; what it gives or raises."""

        def make() -> Waiter[T]:
            waiter: Waiter[T] = Waiter()
            waiter.complete(action())
            return waiter

        return self.wait(make)

    def wait(self, make: Callable[[], Waiter[T]], timeout_s: float | None = None) -> T:
        """Have a waiter made on the owner thread, and block until it is done; its result.

        Raises what it failed with, `KafkaTimeout` when the time is over, and `ClientClosed`.
        """
        if self.is_current:
            raise RuntimeError(
                f"this would block {self.name}, which is to answer it: do not wait in a callback"
            )
        self._check_process()
        waiting: BlockedThread[T] = BlockedThread()

        def begin() -> None:
            try:
                waiter = make()
            except BaseException as error:
                waiting.error = error
                waiting.wake()
                return
            waiting.waiter = waiter
            waiter.add_callback(waiting.wake)

        try:
            with self._guard:
                self._check_open()
                self._waiting.add(waiting)
                self.environment.reactor.call_soon_threadsafe(begin)
            in_time = waiting.block(timeout_s)
        except BaseException:  # Ctrl-C, most likely.
            self._forget(waiting, KeyboardInterrupt())
            raise
        finally:
            with self._guard:
                self._waiting.discard(waiting)
        return self._outcome(waiting, in_time, timeout_s)

    def _outcome(self, waiting: BlockedThread[T], in_time: bool, timeout_s: float | None) -> T:
        if not in_time:
            late = KafkaTimeout(f"not done within {timeout_s} s")
            self._forget(waiting, late)
            raise late
        if waiting.error is not None:
            raise waiting.error
        if waiting.waiter is None or not waiting.waiter.done:
            raise ClientClosed("the client was closed")
        return waiting.waiter.result()

    def _forget(self, waiting: BlockedThread[Any], error: BaseException) -> None:
        """Nobody waits any more: let the engine know."""

        def forget() -> None:
            if waiting.waiter is not None:
                waiting.waiter.fail(error)

        with self._guard:
            if self.running:
                self.environment.reactor.call_soon_threadsafe(forget)

    def _check_process(self) -> None:
        """Before the guard is taken: in a forked process it may be held for ever."""
        if os.getpid() != self._process:
            raise ClientClosed(
                "this client was made before the process forked, and its connections belong to "
                "the parent. What to do: make a client in each process."
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client is closed")

    def close(self, end: Callable[[], object]) -> None:
        """Do `end` on the owner thread, and stop it. More than once does no harm."""
        if os.getpid() != self._process:
            return
        with self._guard:
            if self._closed:
                return
            self._closed = True
            reactor = self.environment.reactor
            reactor.call_soon_threadsafe(end)  # type: ignore[arg-type]
            reactor.stop()
        if not self._thread.is_alive():
            self._run()  # It was never started.
        elif not self.is_current:
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        try:
            self.environment.reactor.run()
            self.environment.reactor.run_ready()  # What the end has left to be done.
        finally:
            with self._guard:
                self._closed = True
                waiting, self._waiting = self._waiting, set()
            for one in waiting:
                one.wake()
            self.environment.close()


_hook_numbers = itertools.count()
_exit_hooks: dict[int, tuple[int, weakref.WeakMethod[Callable[[], object]]]] = {}
"""By age: process, and method."""


def at_exit(end: Callable[[], object]) -> Callable[[], None]:
    """Call a method when the interpreter ends, the youngest first, unless its object is gone by
    then; what is returned takes it back.
    """
    if not _exit_hooks:
        atexit.register(_run_exit_hooks)
    key = next(_hook_numbers)
    _exit_hooks[key] = os.getpid(), weakref.WeakMethod(end)

    def take_back() -> None:
        _exit_hooks.pop(key, None)

    return take_back


def _run_exit_hooks() -> None:
    while _exit_hooks:
        _, (process, reference) = _exit_hooks.popitem()
        end = reference()
        if end is not None and process == os.getpid():
            try:
                end()
            except Exception:
                log.exception("closing a client at the end of the process")
