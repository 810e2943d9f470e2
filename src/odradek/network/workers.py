"""Runs blocking work on a few threads and delivers its result on the owner thread.

    submit ─► queue ─► worker: work() ─► call_soon_threadsafe(done or failed) ─► owner thread

A thread starts when there is work and no thread is free, up to the limit; threads then wait on the
queue, so an idle pool costs nothing. Several completions while the owner is busy cost it one
wake-up.

The queue is bounded: owners submit little at a time (such as one flush per directory), so a full
queue means that disks do not respond. `failed` then gets `WorkersOverloadedError`, and the work
does not run.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class WorkersOverloadedError(RuntimeError):
    """The queue of work is full; this work was not started."""


class Workers:
    """The real `model.env.Offload`. Only the owner thread calls its methods."""

    def __init__(
        self,
        call_soon_threadsafe: Callable[[Callable[[], None]], None],
        threads: int = 4,
        queue_size: int = 10_000,
        name: str = "odradek-worker",
    ) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._limit = threads
        self._queue_size = queue_size
        self._numbers = itertools.count()
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._running = 0
        """Threads that were started and not asked to end."""
        self._closed = False
        self.in_progress = 0
        """Work submitted and not yet completed. Owner thread only."""

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work` on a worker, then exactly one of `done` and `failed` on the owner thread.

        Neither is called before this returns. Raises `RuntimeError` after `close`.
        """
        if self._closed:
            raise RuntimeError("the workers are stopped")
        if self.in_progress >= self._queue_size:
            error = WorkersOverloadedError(
                f"{self.in_progress} calls are already waiting for a worker"
            )
            self._call_soon_threadsafe(lambda: failed(error))
            return
        self.in_progress += 1
        self._queue.put(lambda: self._run(work, done, failed))
        if self._running < min(self._limit, self.in_progress):
            self._start_thread()

    def limit(self, threads: int) -> None:
        """Use at most so many threads from now on. Those that are too many end after the work that
        is submitted; more start when there is work for them.
        """
        self._limit = threads
        while self._running > threads:
            self._running -= 1
            self._queue.put(None)

    def _run(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run on a worker. Every exception is passed to the owner thread, which decides."""
        try:
            result = work()
        except BaseException as error:
            reason = error
            self._call_soon_threadsafe(lambda: self._complete(failed, reason))
        else:
            self._call_soon_threadsafe(lambda: self._complete(done, result))

    def _complete(self, callback: Callable[[T], None], value: T) -> None:
        self.in_progress -= 1
        callback(value)

    def _start_thread(self) -> None:
        self._threads = [each for each in self._threads if each.is_alive()]
        self._running += 1
        name = f"{self._name}-{next(self._numbers)}"
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _loop(self) -> None:
        while (job := self._queue.get()) is not None:
            job()

    def close(self) -> None:
        """Finish the submitted work, then stop the threads and wait for them.

        Completions are still delivered if the owner's loop goes on.
        """
        self._closed = True
        self.limit(0)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
