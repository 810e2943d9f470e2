"""`odradek` with the turns of its loop measured: `python bench/turn_probe.py FILE up ...`.

A turn lasts from the end of one wait of epoll to the start of the next. Each one of at least
`LEAST_NS` is a line of FILE: when it ended (`time.monotonic`), its CPU time and its wall time in
milliseconds. The CPU time is the loop's thread's own, so neither other processes nor workers of
this one are in it.
"""

from __future__ import annotations

import select
import sys
import time
from typing import TextIO
from unittest.mock import patch

LEAST_NS = 2_000_000
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
        if self._cpu_ns and cpu_ns >= LEAST_NS:
            wall_ns = time.monotonic_ns() - self._wall_ns
            print(time.monotonic(), cpu_ns / 1e6, wall_ns / 1e6, file=self._out)
        ready = self._epoll.poll(timeout)
        self._cpu_ns, self._wall_ns = time.thread_time_ns(), time.monotonic_ns()
        return ready


if __name__ == "__main__":
    from odradek.cli.main import main

    with (
        open(sys.argv.pop(1), "a", buffering=1) as out,
        patch("select.epoll", lambda: TimedEpoll(out)),
    ):
        main()
