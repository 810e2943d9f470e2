"""Shrinking leaves the parts of a plan that a failure needs, and no others."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.testing.shrink import failure_kind, shrink


def run(parts: Sequence[str]) -> Sequence[str]:
    return parts


def test_only_the_parts_that_the_failure_needs_are_left() -> None:
    parts = [f"fault{number}" for number in range(20)]
    needed = {"fault3", "fault17"}
    left, smallest, runs = shrink(parts, run, lambda kept: needed <= set(kept or ()), 200)
    assert left == ["fault3", "fault17"] == smallest
    assert runs < 60


def test_a_failure_that_needs_nothing_keeps_nothing() -> None:
    left, _, runs = shrink(["a", "b", "c"], run, lambda _: True, 50)
    assert left == []
    assert runs <= 3


def test_a_failure_that_needs_everything_keeps_everything() -> None:
    parts = ["a", "b", "c"]
    left, smallest, _ = shrink(parts, run, lambda kept: kept == parts, 50)
    assert left == parts
    assert smallest is None


def test_the_number_of_runs_is_bounded() -> None:
    parts = [str(number) for number in range(1000)]
    _, _, runs = shrink(parts, run, lambda kept: {"0", "999"} <= set(kept or ()), 7)
    assert runs == 7


def test_failures_are_the_same_if_they_differ_in_numbers_and_values() -> None:
    one = "topic0-1@17: lost b'p0/topic0-1/3/', acked (acks=-1) at 12 ns; there is nothing"
    other = "topic2-0@5: lost b'p7/topic2-0/88/', acked (acks=-1) at 999 ns; there is nothing"
    assert failure_kind(one) == failure_kind(other)
    assert failure_kind(one) != failure_kind("topic0-1@17: read b'x', which was never sent")
