"""The CPU time of all processes below this one.

A parent that ignores SIGCHLD, as the daemon of PySpark's workers does, is not charged for its
children when they end. So each descendant's own time is looked at, again and again, and the last
that was seen is kept: what ended stays counted, and the sum never goes back. What a process used
between the last look and its end is missing.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
INTERVAL_S = 0.25


class Process(NamedTuple):
    """One that is or was there: a number alone may come again."""

    pid: int
    started: int


class CpuBelow:
    """Looks every `INTERVAL_S` while it is entered, and when it is asked. What is `without`, and
    what is below it, does not count."""

    def __init__(self, without: int = 0) -> None:
        self._without = without
        self._ticks: dict[Process, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu-below", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self.seconds()

    def seconds(self) -> float:
        """User and system time of all descendants so far, of those that ended too."""
        with self._lock:
            self._look()
            return sum(self._ticks.values()) / TICKS_PER_S

    def below(self) -> list[int]:
        """The descendants that were seen so far; some may have ended."""
        with self._lock:
            return [process.pid for process in self._ticks]

    def _look(self) -> None:
        parents: dict[int, int] = {}
        found: dict[int, tuple[Process, int]] = {}
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal():
                try:
                    fields = (directory / "stat").read_text().rpartition(")")[2].split()
                except OSError:  # It ended just now.
                    continue
                pid = int(directory.name)
                parents[pid] = int(fields[1])
                found[pid] = (Process(pid, int(fields[19])), sum(map(int, fields[11:13])))
        # Who was below once stays so, whoever its parent is now.
        below = {pid for pid, (process, _) in found.items() if process in self._ticks}
        below.add(os.getpid())
        parents.pop(self._without, None)
        while more := {pid for pid, parent in parents.items() if parent in below} - below:
            below |= more
        for pid in below - {os.getpid()}:
            process, ticks = found[pid]
            self._ticks[process] = max(ticks, self._ticks.get(process, 0))
