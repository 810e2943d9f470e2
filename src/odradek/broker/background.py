"""Work that is out on workers: counted, so that a stop can wait; in turn, where it must be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from odradek.model.env import Offload

T = TypeVar("T")


class Background:
    """An `Offload` that knows how much it has under way."""

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

    def _ended(self, tell: Callable[[T], None], result: T) -> None:
        try:
            tell(result)
        finally:
            self.in_progress -= 1
            if self.in_progress == 0 and self._when_idle is not None:
                callback, self._when_idle = self._when_idle, None
                callback()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is under way: now, or when the last piece of work has ended."""
        if self.in_progress == 0:
            callback()
        else:
            self._when_idle = callback


class InTurn:
    """An `Offload` that has one piece of work under way at a time, in the order they were
    submitted.

    For work that writes the same files: two at once would take each other's temporary file, and the
    one that knows less could be the last to write.
    """

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._waiting: deque[Callable[[], None]] = deque()

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

        self._waiting.append(start)
        if len(self._waiting) == 1:
            start()

    def drop_waiting(self) -> None:
        """What has not begun never will, and nobody is told."""
        while len(self._waiting) > 1:
            self._waiting.pop()

    def _ended(self, tell: Callable[[T], None], result: T) -> None:
        try:
            tell(result)
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._waiting[0]()
