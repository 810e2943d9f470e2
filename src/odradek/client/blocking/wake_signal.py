"""WakeSignal: how one thread of a program waits for another, over a descriptor.

    the one that waits:   wait ── poll ─┐                      ┌─► awake, takes the interpreter
    the other:            set ──────────┴─ write, then yield ──┘   continues when it is scheduled

A lock of `threading` would work, but costs two more switches of threads. Releasing it wakes the
other thread while this one still holds the interpreter (the GIL): the system runs the woken thread,
which cannot continue, sleeps again, and is woken a second time. During a write the interpreter is
released.

The next work of this thread can wait, while the other thread is an application's that waits. So
this one yields. With a spare processor that costs nothing; on a single one it lets the woken thread
run first.

A thread that blocks for a result borrows a signal, because making one takes two system calls. If
the process has no descriptor left it gets a lock: many threads may wait at once, and closing a
client has to work even then.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time

RING = (1).to_bytes(8, sys.byteorder)
"""The 8 bytes that an eventfd takes; a pipe takes any."""
LONG_S = 86_400.0
"""The longest sleep: poll takes at most 24 days."""
SIGNALS_S = 1.0
"""The longest sleep of the main thread, which runs the handlers of the system's signals. A signal
that arrives when Python has looked for signals and has not yet begun the system call interrupts
nothing: its handler runs after the call.
"""
SPARE_MAX = 16


class WakeSignal:
    """Wakes the waiting thread, from any thread. It stays set until it is cleared; setting it twice
    wakes once. Raises `OSError` if the process has no descriptor left."""

    __slots__ = ("_fds", "_is_set", "_polls", "_read_fd", "_write_fd")

    def __init__(self) -> None:
        self._is_set = False
        self._fds: tuple[int, ...] = ()
        self._fds = wake_up_fds()
        self._read_fd, self._write_fd = self._fds[0], self._fds[-1]
        self._polls: list[select.poll] = []
        """Spare poll objects: two threads must not use one at the same time."""

    def set(self) -> None:
        """Wake the waiting thread, and yield to it."""
        if not self._is_set:
            self._is_set = True
            os.write(self._write_fd, RING)  # There is always room: `clear` reads all.
            os.sched_yield()

    def clear(self) -> None:
        """Unset it. The caller must then check the condition that it signals."""
        if self._is_set:
            self._is_set = False
            self._drain()

    def wait(self, timeout_s: float | None) -> bool:
        """Block until it is set; False after `timeout_s` seconds. Signals of the system interrupt
        it."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left_s = LONG_S if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            in_main = threading.current_thread() is threading.main_thread()
            self._sleep(min(left_s, SIGNALS_S if in_main else LONG_S))
            if not self._is_set:
                self._drain()  # The write of a `set` that was cleared before it wrote.
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
        with contextlib.suppress(BlockingIOError):  # Nothing is written yet.
            os.read(self._read_fd, 4096)

    def __del__(self) -> None:
        for fd in self._fds:
            os.close(fd)


def wake_up_fds() -> tuple[int, ...]:
    """Return an eventfd if the system has them, else the two ends of a pipe. Raises `OSError`."""
    if hasattr(os, "eventfd"):
        return (os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),)
    fds = os.pipe()
    for fd in fds:
        os.set_blocking(fd, False)
    return fds


_spare: list[WakeSignal] = []


def borrow_signal() -> WakeSignal | threading.Event:
    """Return an unset signal for the caller alone; an `Event` if there is no descriptor left."""
    try:
        return _spare.pop()
    except IndexError:
        pass
    try:
        return WakeSignal()
    except OSError:
        return threading.Event()


def return_signal(signal: WakeSignal | threading.Event) -> None:
    """Take back a signal that will not be set again."""
    if isinstance(signal, WakeSignal):
        signal.clear()
        if len(_spare) < SPARE_MAX:
            _spare.append(signal)


# The child must not share descriptors with the parent: one would wake the other.
os.register_at_fork(after_in_child=_spare.clear)
