"""ExponentialBackoff: how long to wait before trying again (KIP-580).

    wait = min(initial * 2^attempts * (0.8 .. 1.2), max)          Kafka's own formula

The jitter keeps clients from retrying at the same time. It comes from the environment, so a
simulation repeats the same waits.
"""

from __future__ import annotations

from odradek.model.env import Random

JITTER = 0.2
DOUBLINGS_MAX = 40
"""More doublings change nothing: the wait is at its maximum with any settings."""


class ExponentialBackoff:
    """Waits in milliseconds. `max_ms` below `initial_ms` counts as `initial_ms`."""

    def __init__(
        self, initial_ms: int, max_ms: int, random: Random, jitter: float = JITTER
    ) -> None:
        self.initial_ms = initial_ms
        self.max_ms = max(initial_ms, max_ms)
        self._random = random
        self._jitter = jitter

    def backoff_ms(self, attempts: int) -> int:
        """Return the wait before retry number `attempts`, from 0 on: for 0 about `initial_ms`."""
        if self.initial_ms <= 0:
            return 0
        term = min(self.initial_ms << min(attempts, DOUBLINGS_MAX), self.max_ms)
        chance = self._random.getrandbits(32) / 2**31 - 1
        return min(round(term * (1 + self._jitter * chance)), self.max_ms)
