"""Work on worker threads: counted, so that a shutdown can wait for it, and in sequence where that
is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from odradek.model.env import Offload

T = TypeVar("T")


class TrackedOffload:
    """An `Offload` that counts the work in progress."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._when_idle: Callable[[], None] | None = None
        self.in_progress = 0

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.in_progress += 1
        self._offload.submit(
            work, lambda result: self._ended(done, result), lambda error: self._ended(failed, error)
        )

    def _ended(self, callback: Callable[[T], None], result: T) -> None:
        try:
            callback(result)
        finally:
            self.in_progress -= 1
            if self.in_progress == 0 and self._when_idle is not None:
                when_idle, self._when_idle = self._when_idle, None
                when_idle()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is in progress: now, or when the last piece of work has ended."""
        if self.in_progress == 0:
            callback()
        else:
            self._when_idle = callback


class SerialOffload:
    """An `Offload` that does one piece of work at a time, in the order they were submitted.

    For work that writes the same files: two at once would use the same temporary file, and the one
    with older data could be the last to write.
    """

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._queue: deque[Callable[[], None]] = deque()

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def start() -> None:
            self._offload.submit(
                work, lambda result: self._ended(done, result), lambda e: self._ended(failed, e)
            )

        self._queue.append(start)
        if len(self._queue) == 1:
            start()

    def drop_queued(self) -> None:
        """Drop the work that has not begun, without a callback."""
        while len(self._queue) > 1:
            self._queue.pop()

    def _ended(self, callback: Callable[[T], None], result: T) -> None:
        try:
            callback(result)
        finally:
            self._queue.popleft()
            if self._queue:
                self._queue[0]()
