"""How long to wait before trying again."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.net.backoff import ExponentialBackoff


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 100), st.integers())
def test_a_back_off_is_within_its_bounds(
    initial_ms: int, max_ms: int, attempts: int, seed: int
) -> None:
    backoff = ExponentialBackoff(initial_ms, max_ms, random.Random(seed))
    wait = backoff.backoff_ms(attempts)
    assert wait <= max(initial_ms, max_ms)
    assert wait >= int(min(initial_ms * 2**attempts, backoff.max_ms) * 0.8)


def test_no_back_off_is_no_wait() -> None:
    assert ExponentialBackoff(0, 1000, random.Random(1)).backoff_ms(5) == 0


class Chance:
    """As it falls: from 0, the least, to just below 1."""

    def __init__(self, share: float) -> None:
        self.share = share

    def getrandbits(self, bits: int, /) -> int:
        return int(self.share * 2**bits)


@pytest.mark.parametrize(("share", "factor"), [(0, 0.8), (0.25, 0.9), (0.5, 1), (0.999, 1.2)])
def test_chance_makes_a_back_off_up_to_a_fifth_shorter_or_longer(
    share: float, factor: float
) -> None:
    """So that many clients do not come back at the same time."""
    backoff = ExponentialBackoff(1000, 60_000, Chance(share))
    for attempts, term in enumerate((1000, 2000, 4000)):
        assert backoff.backoff_ms(attempts) == pytest.approx(term * factor, rel=0.001)
