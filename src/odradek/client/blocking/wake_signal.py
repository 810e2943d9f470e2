"""How one thread of a program waits for another: a signal, over a descriptor.

    the one that waits:   wait ── poll ─┐                      ┌─► awake, takes the interpreter
    the other:            set ──────────┴─ write, then yield ──┘   goes on when it is its turn

A lock of `threading` would do, but costs two more changes of threads. Releasing it wakes the other
thread while this one still holds the interpreter: the system lets the woken one run, it finds that
it cannot, sleeps again, and is woken a second time. During a write nobody holds the interpreter.

And what this thread does after that (ask for more, most likely) can wait: the other is a user's who
waits. So it gives way. With a processor to spare that costs nothing, on a single one it is what
lets the woken thread run first.

A thread that blocks for an answer borrows a signal, since making one is two calls of the system.
Where no descriptor is left it gets a lock: many threads may wait at once, and a client has to be
closed even then.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time

RING = (1).to_bytes(8, sys.byteorder)
"""What an eventfd takes; a pipe takes anything."""
LONG_S = 86_400.0
"""The longest sleep: poll cannot be told more than 24 days."""
SPARE_MAX = 16


class WakeSignal:
    """Wakes who waits, from any thread. Set more than once, it wakes once; it stays set until it is
    cleared. Raises `OSError` if the process has no descriptor left.
    """

    __slots__ = ("_fds", "_is_set", "_polls", "_read_fd", "_write_fd")

    def __init__(self) -> None:
        self._is_set = False
        self._fds: tuple[int, ...] = ()
        self._fds = wake_up_fds()
        self._read_fd, self._write_fd = self._fds[0], self._fds[-1]
        self._polls: list[select.poll] = []
        """Two threads must not use the same at a time."""

    def set(self) -> None:
        """Wake who waits, and give way to it."""
        if not self._is_set:
            self._is_set = True
            os.write(self._write_fd, RING)  # There is always room: who clears it takes all out.
            os.sched_yield()

    def clear(self) -> None:
        """Forget that it was set. To be followed by a look at what it was set for."""
        if self._is_set:
            self._is_set = False
            self._drain()

    def wait(self, timeout_s: float | None) -> bool:
        """Until it is set; False if the time is over before. Signals of the system interrupt it."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left_s = LONG_S if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            self._sleep(min(left_s, LONG_S))
            if not self._is_set:
                self._drain()  # The ring of a `set` that was cleared before it rang.
        return True

    def _sleep(self, timeout_s: float) -> None:
        try:
            poll = self._polls.pop()
        except IndexError:
            poll = select.poll()
            poll.register(self._read_fd, select.POLLIN)
        poll.poll(timeout_s * 1000)
        self._polls.append(poll)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):  # It is not rung yet.
            os.read(self._read_fd, 4096)

    def __del__(self) -> None:
        for fd in self._fds:
            os.close(fd)


def wake_up_fds() -> tuple[int, ...]:
    """An eventfd where there are such, else the two ends of a pipe. Raises `OSError`."""
    if hasattr(os, "eventfd"):
        return (os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),)
    fds = os.pipe()
    for fd in fds:
        os.set_blocking(fd, False)
    return fds


_spare: list[WakeSignal] = []


def borrow_signal() -> WakeSignal | threading.Event:
    """A signal that is not set and that nobody else has, or what does as well."""
    try:
        return _spare.pop()
    except IndexError:
        pass
    try:
        return WakeSignal()
    except OSError:
        return threading.Event()


def return_signal(signal: WakeSignal | threading.Event) -> None:
    """One that nobody will set any more."""
    if isinstance(signal, WakeSignal):
        signal.clear()
        if len(_spare) < SPARE_MAX:
            _spare.append(signal)


# They are the parent's: a ring there would be heard here, or the other way round.
os.register_at_fork(after_in_child=_spare.clear)
