"""The back-off before a retry."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.network_client.backoff import ExponentialBackoff


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 100), st.integers())
def test_a_back_off_is_within_its_bounds(
    initial_ms: int, max_ms: int, attempts: int, seed: int
) -> None:
    backoff = ExponentialBackoff(initial_ms, max_ms, random.Random(seed))
    wait = backoff.backoff_ms(attempts)
    assert wait <= max(initial_ms, max_ms)
    assert wait >= int(min(initial_ms * 2**attempts, backoff.max_ms) * 0.8)


def test_an_initial_back_off_of_zero_means_no_wait() -> None:
    assert ExponentialBackoff(0, 1000, random.Random(1)).backoff_ms(5) == 0


class Chance:
    """Random numbers from 0 to just below 1."""

    def __init__(self, share: float) -> None:
        self.share = share

    def getrandbits(self, bits: int, /) -> int:
        return int(self.share * 2**bits)


@pytest.mark.parametrize(("share", "factor"), [(0, 0.8), (0.25, 0.9), (0.5, 1), (0.999, 1.2)])
def test_jitter_changes_a_back_off_by_up_to_a_fifth(share: float, factor: float) -> None:
    """Jitter keeps clients from retrying at the same time."""
    backoff = ExponentialBackoff(1000, 60_000, Chance(share))
    for attempts, term in enumerate((1000, 2000, 4000)):
        assert backoff.backoff_ms(attempts) == pytest.approx(term * factor, rel=0.001)
