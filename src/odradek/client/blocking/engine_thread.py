"""EngineThread: a background thread that owns an engine, and how other threads wait for it.

    application:   wait(make, timeout) ── post ─► owner thread: make() ─► Waiter ─► done
                       │ blocks on a signal ◄─────────────── set ◄───────────────────┘
                       └─ timeout, Ctrl-C: the waiter is failed, so that the engine forgets it

    new ── start ─► running ── close ─► stopping ─► stopped
                       └── fork: in the child all calls raise

The thread is a daemon: a program that forgets to close ends nevertheless. `at_exit` lets a client
finish its work, for a bounded time. All methods may be called from any thread but the owner's: a
callback that waited for its own thread would never return, so it gets an error.

A signal handler may call all of them too, whatever it interrupted. So the guard can be entered
again by the thread that holds it, each section is correct if another one runs at any point of it,
and the owner thread never waits for the guard while somebody waits for a result. A `close` that
interrupted a section does not wait for the end of the thread, which needs the guard.
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
"""How long `close` waits for the end of the thread; it ends by itself in any case."""


class BlockedThread(Generic[T]):
    """A thread that waits once. `wake` may be called long after the wait has timed out: it does
    nothing then, and this object holds no signal."""

    __slots__ = ("_signal", "_to_ring", "error", "waiter")

    def __init__(self) -> None:
        self._signal = borrow_signal()
        self._to_ring = [self._signal]
        """The signal, until one thread takes it out: only that one may set it."""
        self.waiter: Waiter[T] | None = None
        self.error: BaseException | None = None
        """The exception of `make`: there is no waiter then."""

    def block(self, timeout_s: float | None) -> bool:
        """Block until `wake`; False after `timeout_s` seconds. Signals interrupt it."""
        signal = self._signal
        in_time = False
        try:
            in_time = signal.wait(timeout_s)
        finally:
            del self._signal
            if in_time or self._take() is not None:  # Else another thread is setting it.
                return_signal(signal)
        return in_time

    def wake(self, _: object = None) -> None:
        """Wake the thread. Owner thread only."""
        signal = self._take()
        if signal is not None:
            signal.set()

    def _take(self) -> WakeSignal | threading.Event | None:
        try:
            return self._to_ring.pop()
        except IndexError:
            return None


def is_held_here(lock: threading.RLock) -> bool:
    """Return True if the current thread holds the lock."""
    try:
        threading.Condition(lock).notify()
    except RuntimeError:  # As for every caller that does not hold it.
        return False
    return True


class EngineThread:
    """A reactor on a thread of its own. Make the engine in its `environment`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.environment = RealEnvironment(name)
        self._process = os.getpid()
        self._guard = threading.RLock()
        """Held while something is handed to the reactor, which is not closed meanwhile."""
        self._waiting: set[BlockedThread[Any]] = set()
        self._closed = False
        self._to_close = [None]
        """Empty once a call of `close` has taken it upon itself."""
        self._ended = threading.Event()
        """Set when the engine has ended and all waits are over."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True if the engine can still be used."""
        return not self._closed and os.getpid() == self._process

    @property
    def is_current(self) -> bool:
        """True on the owner thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def post(self, action: Callable[[], object]) -> None:
        """Run `action` on the owner thread soon. Raises `ClientClosed`."""
        self._check_process()
        if self.is_current:
            self._check_open()
            self.environment.reactor.call_soon(action)  # type: ignore[arg-type]  # Its result is dropped.
        else:
            with self._guard:
                self._check_open()
                self.environment.reactor.call_soon_threadsafe(action)  # type: ignore[arg-type]  # Its result is dropped.

    def call(self, action: Callable[[], T]) -> T:
        """Run `action` on the owner thread; return its result or raise its exception."""

        def make() -> Waiter[T]:
            waiter: Waiter[T] = Waiter()
            waiter.complete(action())
            return waiter

        return self.wait(make)

    def wait(self, make: Callable[[], Waiter[T]], timeout_s: float | None = None) -> T:
        """Make a waiter on the owner thread, block until it is done, and return its result.

        Raises the waiter's error, `KafkaTimeout` after `timeout_s`, and `ClientClosed`.
        """
        if self.is_current:
            raise RuntimeError(
                f"this would block {self.name}, the thread that has to answer. What to do: do not "
                "wait in a callback"
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
                self._waiting.add(waiting)  # First: the end wakes those that it finds here.
                self._check_open()
                self.environment.reactor.call_soon_threadsafe(begin)
            in_time = waiting.block(timeout_s)
        except BaseException:  # Most likely Ctrl-C.
            self._forget(waiting, KeyboardInterrupt())
            raise
        finally:
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
        """Fail a waiter that no thread waits for any more."""

        def forget() -> None:
            if waiting.waiter is not None:
                waiting.waiter.fail(error)

        with self._guard:
            if self.running:
                self.environment.reactor.call_soon_threadsafe(forget)

    def check_usable(self) -> None:
        """Raise `ClientClosed` if the engine cannot be used any more. Any thread."""
        self._check_process()
        self._check_open()

    def _check_process(self) -> None:
        """Raise in a forked process. Called before taking the guard, which may be locked for ever
        there."""
        if os.getpid() != self._process:
            raise ClientClosed(
                "this client was made before the process forked, and its connections belong to "
                "the parent. What to do: make a client in each process."
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client is closed")

    def close(self, end: Callable[[], object]) -> None:
        """Run `end` on the owner thread and stop it. A second call does nothing."""
        if os.getpid() != self._process:
            return
        try:
            self._to_close.pop()
        except IndexError:
            return
        if self._thread.ident is None:
            self._closed = True
            self.environment.reactor.call_soon_threadsafe(end)  # type: ignore[arg-type]  # Its result is dropped.
            self.environment.reactor.stop()
            self._run()
            return
        interrupts_section = is_held_here(self._guard)
        with self._guard:
            self._closed = True
            if not self._ended.is_set():
                reactor = self.environment.reactor
                reactor.call_soon_threadsafe(end)  # type: ignore[arg-type]  # Its result is dropped.
                reactor.stop()
        if interrupts_section:
            self._ended.wait(JOIN_S)
        elif not self.is_current:
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        try:
            self.environment.reactor.run()
            self.environment.reactor.run_ready()  # Callbacks that `end` has scheduled.
        finally:
            self._closed = True
            for one in list(self._waiting):
                one.wake()
            self._ended.set()
            with self._guard:  # Whoever is handing something over has done so.
                pass
            self.environment.close()


_hook_numbers = itertools.count()
_exit_hooks: dict[int, tuple[int, weakref.WeakMethod[Callable[[], object]]]] = {}
"""Process and method, by order of registration."""


def at_exit(end: Callable[[], object]) -> Callable[[], None]:
    """Call a method at the end of the interpreter, the last registered first, unless its object was
    garbage collected. Returns a function that cancels this."""
    if not _exit_hooks:
        atexit.register(_run_exit_hooks)
    key = next(_hook_numbers)
    _exit_hooks[key] = os.getpid(), weakref.WeakMethod(end)

    def cancel() -> None:
        _exit_hooks.pop(key, None)

    return cancel


def _run_exit_hooks() -> None:
    while _exit_hooks:
        _, (process, reference) = _exit_hooks.popitem()
        end = reference()
        if end is not None and process == os.getpid():
            try:
                end()
            except Exception:
                log.exception("closing a client at the end of the process failed")
