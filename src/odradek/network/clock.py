"""The system's clocks as a `model.env.Clock`."""

from __future__ import annotations

import time


class SystemClock:
    """`CLOCK_MONOTONIC` and the wall clock, in milliseconds."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
