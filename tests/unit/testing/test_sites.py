"""The table of sites: what was reached by how many runs, and what by none."""

from __future__ import annotations

from collections import Counter

from odradek.testing.sites import table, unreached

RUNS = [Counter({"disk: full": 3}), Counter({"disk: full": 1, "network: reset": 2}), Counter[str]()]


def test_each_site_has_its_runs_and_its_times() -> None:
    assert table(RUNS) == [
        "disk: full          2 of 3 seeds        4 times",
        "network: reset      1 of 3 seeds        2 times",
    ]


def test_an_expected_site_that_no_run_reached_has_a_line() -> None:
    (line,) = [line for line in table(RUNS, ["a: never"]) if line.startswith("a: never")]
    assert line.split() == ["a:", "never", "0", "of", "3", "seeds", "0", "times"]
    assert unreached(RUNS, ["a: never", "disk: full"]) == ["a: never"]
