"""Histograms by powers of two."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.histogram import LAST_BUCKET, Histogram


@pytest.mark.parametrize(
    ("value", "bucket"), [(-5, 0), (0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10)]
)
def test_value_counts_in_the_first_bucket_whose_bound_it_does_not_exceed(value, bucket):
    histogram = Histogram()
    histogram.observe(value)
    assert histogram.counts[bucket] == histogram.count == 1


def test_value_beyond_the_last_bound_counts_in_the_last_bucket():
    histogram = Histogram()
    histogram.observe(1 << 60)
    assert histogram.counts[LAST_BUCKET] == 1 and histogram.sum == 1 << 60


@given(st.lists(st.integers(0, 1 << 40), min_size=1), st.floats(0, 1))
def test_quantile_is_in_the_bucket_of_the_exact_one(values, share):
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    found = histogram.quantile(share)
    assert histogram.sum == sum(values)
    assert exact / 2 - 1 <= found <= max(1, 2 * exact)


def test_quantile_of_nothing_is_not_a_number():
    assert math.isnan(Histogram().quantile(0.5))
