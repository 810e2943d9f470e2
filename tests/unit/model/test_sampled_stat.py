"""Totals, rates, averages and extremes of two windows of 30 seconds."""

from __future__ import annotations

import pytest

from odradek.model.sampled_stat import SampledStat

BEGIN_MS = 5_000_000
S = 1000


def recorded(*values: tuple[int, int]) -> SampledStat:
    stat = SampledStat()
    for at_s, value in values:
        stat.record(value, BEGIN_MS + at_s * S)
    return stat


def test_without_values_everything_is_zero():
    stat = SampledStat()
    assert stat.total == stat.count == 0
    assert stat.average(BEGIN_MS) == stat.maximum(BEGIN_MS) == stat.minimum(BEGIN_MS) == 0.0
    assert stat.rate(BEGIN_MS) == stat.count_rate(BEGIN_MS) == 0.0
    assert not stat.has_values(BEGIN_MS)


def test_a_rate_counts_the_time_before_the_first_value_as_an_empty_window():
    stat = recorded((0, 600))
    assert stat.rate(BEGIN_MS) == 20.0, "600 in 30 s"
    assert stat.rate(BEGIN_MS + 10 * S) == 15.0, "600 in 40 s"
    assert stat.count_rate(BEGIN_MS) == pytest.approx(1 / 30)


def test_a_rate_covers_the_present_window_and_the_one_before():
    stat = recorded((0, 300), (20, 300), (35, 900))
    assert stat.rate(BEGIN_MS + 45 * S) == pytest.approx(1500 / 45)
    stat.record(0, BEGIN_MS + 60 * S)
    assert stat.rate(BEGIN_MS + 60 * S) == pytest.approx(900 / 30), "the first window is forgotten"


def test_a_window_ends_without_being_recorded_to():
    stat = recorded((0, 300), (35, 900))
    assert stat.average(BEGIN_MS + 59 * S) == 600.0
    assert stat.average(BEGIN_MS + 60 * S) == 900.0
    assert stat.rate(BEGIN_MS + 60 * S) == pytest.approx(900 / 30)
    assert stat.maximum(BEGIN_MS + 89 * S) == 900.0
    assert not stat.has_values(BEGIN_MS + 90 * S)
    assert stat.maximum(BEGIN_MS + 90 * S) == stat.rate(BEGIN_MS + 90 * S) == 0.0


def test_totals_are_never_forgotten():
    stat = recorded((0, 7), (1_000, 5), (2_000, 3))
    assert (stat.total, stat.count) == (15, 3)
    assert stat.average(BEGIN_MS + 2_000 * S) == 3.0


def test_extremes_are_of_both_windows():
    stat = recorded((0, 5), (10, -4), (31, 2))
    assert stat.maximum(BEGIN_MS + 31 * S) == 5.0
    assert stat.minimum(BEGIN_MS + 31 * S) == -4.0
    assert stat.maximum(BEGIN_MS + 61 * S) == stat.minimum(BEGIN_MS + 61 * S) == 2.0


def test_reading_a_statistic_at_any_time_does_not_change_it():
    stat = recorded((0, 600), (35, 300))
    for at_s in (36, 61, 95, 40, 36):
        stat.average(BEGIN_MS + at_s * S)
        stat.rate(BEGIN_MS + at_s * S)
    assert stat.average(BEGIN_MS + 36 * S) == 450.0
