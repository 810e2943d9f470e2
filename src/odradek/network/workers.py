"""Blocking work on a few threads, its end as an event on the owner thread.

    submit ─► queue ─► worker: work() ─► call_soon_threadsafe(done or failed) ─► owner thread

Workers start when there is work and none is free, up to the limit, and then wait in the queue: an
idle pool costs nothing. Completions that pile up while the owner is busy cost it one wake-up
together.

The queue is bounded: owners keep little in flight (one flush per directory, say), so a full queue
is a sign that disks stand still. Then `failed` gets `WorkersOverloadedError` and the work never
runs.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class WorkersOverloadedError(RuntimeError):
    """Too much work waits; this was not started."""


class Workers:
    """The real `model.env.Offload`. `submit` and `close` belong to the owner thread."""

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
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.in_progress = 0
        """Submitted and not yet told. Owner thread only."""

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work` on a worker; then exactly one of `done` and `failed` on the owner thread,
        never before this
        returns. Raises `RuntimeError` after `close`.
        """
        if self._closed:
            raise RuntimeError("the workers are stopped")
        if self.in_progress >= self._queue_size:
            error = WorkersOverloadedError(f"{self.in_progress} pieces of work wait already")
            self._call_soon_threadsafe(lambda: failed(error))
            return
        self.in_progress += 1
        self._queue.put(lambda: self._run(work, done, failed))
        if len(self._threads) < min(self._limit, self.in_progress):
            self._start_thread()

    def _run(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """On a worker. Whatever ends the work is passed on: the owner decides, not the thread."""
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
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _loop(self) -> None:
        while (job := self._queue.get()) is not None:
            job()

    def close(self) -> None:
        """Finish what was submitted, then end the threads; returns when they have. Completions are
        still told if the
        owner's loop goes on to run.
        """
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
