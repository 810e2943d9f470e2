"""`odradek` with the turns of its loop measured: `python bench/turn_probe.py FILE up ...`.

A turn lasts from the end of one wait of epoll to the start of the next. Each one whose wall time is
at least `LEAST_NS` is a line of FILE: when it ended (`time.monotonic`), its CPU time and its wall
time in milliseconds. The CPU time is the loop's thread's own, so neither other processes nor
workers of this one are in it. `turns` reads the file.
"""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path
from typing import TextIO
from unittest.mock import patch

PROBE = Path(__file__)
LEAST_NS = 500_000
EPOLL = select.epoll


class TimedEpoll:
    """An epoll that measures the time between its waits."""

    def __init__(self, out: TextIO) -> None:
        self._epoll = EPOLL()
        self._out = out
        self._cpu_ns = self._wall_ns = 0
        self.register, self.modify = self._epoll.register, self._epoll.modify
        self.unregister, self.close = self._epoll.unregister, self._epoll.close
        self.fileno = self._epoll.fileno

    def poll(self, timeout: float, /) -> list[tuple[int, int]]:
        cpu_ns = time.thread_time_ns() - self._cpu_ns
        wall_ns = time.monotonic_ns() - self._wall_ns
        if self._cpu_ns and wall_ns >= LEAST_NS:
            print(time.monotonic(), cpu_ns / 1e6, wall_ns / 1e6, file=self._out)
        ready = self._epoll.poll(timeout)
        self._cpu_ns, self._wall_ns = time.thread_time_ns(), time.monotonic_ns()
        return ready


def turns(file: Path, since: float) -> list[tuple[float, float]]:
    """CPU and wall time in ms of each turn that ended since then (`time.monotonic`)."""
    found = []
    for line in file.read_text().splitlines():
        ended, cpu_ms, wall_ms = map(float, line.split())
        if ended >= since:
            found.append((cpu_ms, wall_ms))
    return found


if __name__ == "__main__":
    from odradek.cli.main import main

    with (
        open(sys.argv.pop(1), "a", buffering=1) as out,
        patch("select.epoll", lambda: TimedEpoll(out)),
    ):
        main()
