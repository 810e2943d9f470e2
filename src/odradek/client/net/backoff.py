"""How long to wait before trying again: doubling, bounded, and not at the same time as others.

    wait = min(initial * 2^attempts * (0.8 .. 1.2), max)          Kafka's own formula (KIP-580)

Chance comes from the environment, so a simulation waits the same times again.
"""

from __future__ import annotations

from odradek.model.env import Random

JITTER = 0.2
DOUBLINGS_MAX = 40
"""Beyond this a wait is at its maximum whatever the settings."""


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
        """The wait after `attempts` failures beyond the first: 0 waits for about `initial_ms`."""
        if self.initial_ms <= 0:
            return 0
        term = min(self.initial_ms << min(attempts, DOUBLINGS_MAX), self.max_ms)
        chance = self._random.getrandbits(32) / 2**31 - 1
        return min(round(term * (1 + self._jitter * chance)), self.max_ms)
