"""The reactor: one thread that sleeps until I/O or a deadline and runs every callback.

    forever:
        sleep until I/O, the timer's next deadline, or a wake-up from another thread
        timer.advance_clock(now)            due tasks
        for each ready transport: readable, writable
        callbacks of call_soon              those that were there when this began

There is no tick: an idle reactor sleeps until something happens, and `wakeups` counts how often it
woke. `call_soon_threadsafe` and `stop` may be called from any thread and from a signal handler;
everything else belongs to the thread that runs `run`, which need not be the main one.

A callback that raises is a bug: it is logged with its traceback, counted in `bugs`, and reported to
`on_bug`, and the loop goes on; a transport whose callback raised is closed. `SystemExit` and
`KeyboardInterrupt` end `run`.

Another loop (asyncio's) can do the sleeping: it watches `fileno`, sleeps no longer than `wait_ms`,
and then calls `run_ready`, a round that does not sleep.

A descriptor number may be reused within one round of events; its new owner may then get an event of
the old one. So readiness is a hint: a callback checks what is really there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from odradek.model.env import (
    SYSTEM_BUFFERS,
    Clock,
    Offload,
    ServerSocket,
    SocketBuffers,
    Transport,
)
from odradek.model.stopwatch import Stopwatch
from odradek.network.connector import Connector
from odradek.network.listener import TcpServerSocket, bound_socket
from odradek.network.loop_load import LoopLoad
from odradek.network.poller import READ, WRITE, Poller, Watchable, default_poller
from odradek.timing.timer import SystemTimer

NS_PER_MS: Final = 1_000_000
MONOTONIC_NS: Final = time.monotonic_ns
TIME_NS: Final = time.time_ns


class SystemClock:
    """`CLOCK_MONOTONIC` and the wall clock, in milliseconds."""

    def monotonic_ms(self) -> int:
        return MONOTONIC_NS() // NS_PER_MS

    def monotonic_ns(self) -> int:
        return MONOTONIC_NS()

    def wall_ms(self) -> int:
        return TIME_NS() // NS_PER_MS


log = logging.getLogger(__name__)


DAY_S: Final = 86_400.0
DAY_MS: Final = 86_400_000
"""The longest sleep: epoll accepts at most 24 days."""
THREADS_WAKE_UP: Final = b"\0"
"""The byte that threads write to end the sleep. Signals write their numbers, which are not 0."""


class WatchedDescriptor:
    """A file descriptor, the events that it waits for, and the callbacks for them."""

    __slots__ = ("fd", "mask", "readable", "subject", "writable")

    def __init__(
        self, subject: Watchable, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        self.subject = subject
        self.fd = subject.fileno()
        self.readable = readable
        self.writable = writable
        self.mask = READ


class Reactor:
    """The owner loop; implements `model.env.Network` over sockets."""

    def __init__(
        self,
        clock: Clock,
        timer: SystemTimer,
        *,
        poller: Poller | None = None,
        on_bug: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self.timer = timer
        self.wakeups = 0
        """How often the reactor woke."""
        self.bugs = 0
        real = isinstance(clock, SystemClock)  # Then its method is only a detour.
        self.stopwatch = Stopwatch(time.monotonic_ns if real else clock.monotonic_ns)
        """Read after every sleep, and before it."""
        self.load = LoopLoad(self.stopwatch.last_ns)
        self.on_bug = on_bug
        self.offload: Offload | None = None
        """Resolves names for `connect`; without it only numeric addresses work."""
        self._poller = poller or default_poller()
        self._poll = self._poller.poll
        # Indexed by descriptor: descriptors are small numbers and are reused.
        self._watches: list[WatchedDescriptor | None] = []
        self._soon: deque[Callable[[], None]] = deque()
        self._from_threads: deque[Callable[[], None]] = deque()
        self._stopping = False
        self._wake_pending = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller.register(self._wake_read, READ)

    # The Network protocol.

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Transport], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> ServerSocket:
        """Bind and accept. Raises `OSError`; `AddressInUseError` names the holder of the port."""
        listening = bound_socket(host, port, buffers=buffers)
        return TcpServerSocket(self, self.timer, listening, accepted)

    def connect(
        self,
        host: str,
        port: int,
        connected: Callable[[Transport], None],
        failed: Callable[[OSError], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> Callable[[], None]:
        """Connect to any address of a name (see `connector`); return the function that gives up."""
        return Connector(
            self, self.timer, self.call_soon, self.offload, host, port, connected, failed, buffers
        ).give_up

    def register(
        self, transport: Transport, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        """Call `readable` and `writable` for a transport with a `fileno`.

        A failed transport is reported as readable, whatever the interest.
        """
        self.watch(cast("Watchable", transport), readable, writable)

    def watch(
        self, subject: Watchable, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        """Like `register`, for an object that is not a transport."""
        watch = WatchedDescriptor(subject, readable, writable)
        self._poller.register(watch.fd, READ)
        while len(self._watches) <= watch.fd:
            self._watches.append(None)
        self._watches[watch.fd] = watch

    def set_interest(self, transport: Transport, *, read: bool, write: bool) -> None:
        self.set_mask(cast("Watchable", transport), (READ if read else 0) | (WRITE if write else 0))

    def set_mask(self, subject: Watchable, mask: int) -> None:
        """Like `set_interest`, for an object that is not a transport."""
        watch = self._watch_of(subject.fileno())
        assert watch is not None, "set_mask for an object that is not watched"
        if mask != watch.mask:
            watch.mask = mask
            self._poller.modify(watch.fd, mask)

    def unregister(self, transport: Transport) -> None:
        self.unwatch(cast("Watchable", transport))

    def unwatch(self, subject: Watchable) -> None:
        """Stop watching; no effect if it is not watched."""
        fd = subject.fileno()
        watch = self._watch_of(fd)
        if watch is not None and watch.subject is subject:
            self._watches[fd] = None
            self._poller.unregister(fd)

    def _watch_of(self, fd: int) -> WatchedDescriptor | None:
        """Return the watch of a descriptor. A closed socket has -1, which has none."""
        return self._watches[fd] if 0 <= fd < len(self._watches) else None

    # The loop.

    def now_ms(self) -> int:
        """Read the clock for `timer.advance_clock`."""
        return self.stopwatch.read() // NS_PER_MS

    @property
    def wakeup_fd(self) -> int:
        """A descriptor for `signal.set_wakeup_fd`: any byte written to it ends the sleep."""
        return self._wake_write

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` after the current event. Owner thread only."""
        self._soon.append(callback)

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """`call_soon` for any thread or signal handler.

        Many calls before the loop wakes cost one wake-up.
        """
        self._from_threads.append(callback)
        self._wake()

    def stop(self) -> None:
        """Make `run` return after the callbacks added before.

        For any thread or signal handler; also before `run` begins.
        """
        self.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._stopping = True

    def _wake(self) -> None:
        if not self._wake_pending:
            self._wake_pending = True
            # If the pipe is full (of signals), the reactor wakes without another byte.
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_write, THREADS_WAKE_UP)

    def run(self) -> None:
        """Run until `stop`. May be called again after it returned."""
        self._stopping = False
        while not self._stopping:
            self.run_once()

    def fileno(self) -> int:
        """Return a descriptor that is readable when `run_ready` has something to do.

        Raises `OSError` on a system without one.
        """
        return self._poller.fileno()

    def wait_ms(self) -> int | None:
        """Return the time until the reactor has work without I/O; None: no such work is pending."""
        deadline = self.timer.next_deadline_ms()
        if self._soon:
            return 0
        return None if deadline is None else max(0, deadline - self.now_ms())

    def run_ready(self) -> None:
        """Run one round without sleeping, for another loop; its turns are not measured."""
        self.load.leave_out()
        self._round(self.timer.next_deadline_ms(), 0.0)

    def run_once(self) -> None:
        """Run one round: sleep, timers, events, callbacks."""
        deadline = self.timer.next_deadline_ms()
        if self._soon:
            self._round(deadline, 0.0)
            return
        now_ns = self.stopwatch.read()
        self.load.end_turn(now_ns)
        if deadline is None:
            timeout = -1.0
        else:
            wait_ms = deadline - now_ns // NS_PER_MS
            timeout = 0.0 if wait_ms <= 0 else wait_ms / 1000 if wait_ms < DAY_MS else DAY_S
        self._round(deadline, timeout)

    def _round(self, deadline: int | None, timeout: float) -> None:
        timer = self.timer
        events = self._poll(timeout)
        self.wakeups += 1
        now_ns = self.stopwatch.read()
        self.load.wake(now_ns)
        now_ms = now_ns // NS_PER_MS
        if now_ms != timer.now_ms or (deadline is not None and deadline <= now_ms):
            if deadline is not None and deadline <= now_ms:
                self.load.timer_lag.observe(now_ns - deadline * NS_PER_MS)
            self.advance(now_ms)
        watches = self._watches
        for fd, mask in events:
            watch = watches[fd] if fd < len(watches) else None
            if watch is None:
                if fd == self._wake_read:
                    self._woken()
                continue
            try:
                if mask & ~WRITE:  # Readable, or failed.
                    watch.readable()
                if mask & watch.mask & WRITE and watches[fd] is watch:
                    watch.writable()
            except Exception as error:
                self.bug("handling an event", error)
                self.unwatch(watch.subject)
                watch.subject.close()
        if self._soon:
            self._run_soon()

    def advance(self, now_ms: int) -> None:
        """Advance the timer's clock. An exception of a task is reported as a bug."""
        try:
            if self.timer.advance_clock(now_ms):
                self.stopwatch.read()  # What follows is not to be charged with the tasks' time.
        except Exception as error:
            self.bug("running a timer", error)

    def _woken(self) -> None:
        """Handle a wake-up by another thread or a signal."""
        if os.read(self._wake_read, 4096).strip(THREADS_WAKE_UP):
            # Python runs the handler of a signal in the next interpreted function, and a compiled
            # loop may have none before the next sleep.
            signal.pthread_sigmask(signal.SIG_BLOCK, ())  # Blocks no signal, but runs the handlers.
        # Cleared before the callbacks are taken: a thread that adds one afterwards wakes again.
        self._wake_pending = False
        callbacks = self._from_threads
        while callbacks:
            self._soon.append(callbacks.popleft())

    def _run_soon(self) -> None:
        """Run the present callbacks. Those that they add wait for the next round, after I/O."""
        soon = self._soon
        for _ in range(len(soon)):
            callback = soon.popleft()
            try:
                callback()
            except Exception as error:
                self.bug(f"calling {callback!r}", error)

    def bug(self, where: str, error: Exception) -> None:
        """Log and count an exception that must not happen, and call the hook."""
        self.bugs += 1
        log.error("a bug while %s", where, exc_info=error)
        if self.on_bug is not None:
            self.on_bug(where, error)

    def close(self) -> None:
        """Close the reactor's descriptors, after `run` returned.

        The owners of listeners and connections close those.
        """
        self._poller.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
