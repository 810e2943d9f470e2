"""Timeouts as users give them, in seconds, and as the engine counts them: one rule for all calls.

seconds    0            at once: what is known
           2.5          2,500 ms, rounded up
           None         for ever, or what the call has by default
           below 0      for ever: confluent-kafka's habit
           infinity     for ever, as is whatever is longer than Kafka can say: 24 days
"""

from __future__ import annotations

import math
from typing import SupportsFloat

FOREVER_MS = 2**31 - 1


def milliseconds_of(timeout_s: SupportsFloat | None) -> int | None:
    """A timeout; None for ever. Raises `TypeError` and `ValueError` for what is none."""
    if timeout_s is None:
        return None
    if not hasattr(timeout_s, "__float__"):
        raise TypeError(f"{timeout_s!r} is no timeout: give seconds, or None")
    seconds = float(timeout_s)
    if math.isnan(seconds):
        raise ValueError("nan is no timeout: give seconds, or None")
    return math.ceil(seconds * 1000) if 0 <= seconds < FOREVER_MS / 1000 else None


def limit_ms(timeout_s: float | None) -> int:
    """The same, where it takes a number to say for ever."""
    found = milliseconds_of(timeout_s)
    return FOREVER_MS if found is None else found


def limit_s(timeout_s: float | None) -> float:
    """The same in seconds."""
    return limit_ms(timeout_s) / 1000
