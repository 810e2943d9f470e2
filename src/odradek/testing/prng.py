"""Random numbers for simulations: SplitMix64, so that a seed means the same run for ever.

`random.Random` keeps its sequence only for some of its methods and only within a Python version; a
seed in a bug report must outlive both. SplitMix64 is eight lines, passes the usual statistical
batteries and has 2^64 states.

One seed gives many *streams*, one per purpose (`stream("link")`, `stream("faults")`). A component
that draws once more than before does not change the numbers of the others, so a run stays
recognisable while the code changes. A stream's state is the BLAKE2 digest of seed and name, so it
depends on nothing else in the process.
"""

from __future__ import annotations

import hashlib
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")

MASK = (1 << 64) - 1


class SplitMix64:
    """A stream of random numbers. Implements `odradek.model.env.Random`."""

    __slots__ = ("_state",)

    def __init__(self, state: int) -> None:
        self._state = state & MASK

    def next64(self) -> int:
        """Return 64 random bits."""
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def getrandbits(self, bits: int, /) -> int:
        """Return a number of `bits` bits, for any positive count."""
        value, have = 0, 0
        while have < bits:
            value = (value << 64) | self.next64()
            have += 64
        return value >> (have - bits)

    def below(self, limit: int) -> int:
        """Return a number in 0..limit-1; its bias is negligible for limits far below 2^64."""
        # `next64`, written out: a simulation draws several numbers in each event.
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) * limit) >> 64

    def between(self, low: int, high: int) -> int:
        """Return a number in low..high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, permille: int) -> bool:
        """Return True in `permille` of 1000 cases. Draws even for 0, so that rates do not shift
        the stream."""
        return self.below(1000) < permille

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of `choices`, each with the same probability."""
        return choices[self.below(len(choices))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle in place (Fisher-Yates)."""
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def stream(seed: int, name: str) -> SplitMix64:
    """Return the stream of a seed for one purpose."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return SplitMix64(int.from_bytes(digest, "big"))
