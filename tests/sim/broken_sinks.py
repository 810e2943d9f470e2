"""Sinks with one broken part, and the worlds of `sim.sink_world` that find it.

    PYTHONPATH=tests python -m sim.broken_sinks [--seeds 50] [NAME ...]

prints how many seeds each takes from seed 0 on, and the rule that found it, as `sim.broken_parts`
does for brokers. The tests begin with the seed of the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from odradek.client.producer.futures import DeliveredRange
from odradek.model.errors import ErrorCode
from odradek.spark.exactly_once import driver, reading
from odradek.spark.exactly_once.driver import BatchDriver
from odradek.spark.exactly_once.errors import ReplacedDriver
from odradek.spark.exactly_once.ledger import Decision, TaskTransaction
from odradek.spark.exactly_once.outcome import Fetched, UndecidedFetch, outcome_in
from odradek.spark.exactly_once.steps import LoggedOutcome
from odradek.testing.process import DelayRanges
from odradek.testing.workload.schedule import Schedule
from sim.broken_parts import SLOW_DISKS, BrokenPart, Make, nothing, of, search
from sim.sink_query import Rules
from sim.sink_world import PLAN, SinkPlan, sink_world
from unit.spark.broken_steps import (
    aborts_without_asking,
    decides_again,
    ends_before_the_decision,
    leaves_losers,
    reads_the_ledger_before_it_shuts_out,
    takes_fenced_for_committed,
)

OFTEN = SinkPlan(strikes=20, driver_rate=300, ending_rate=500)
"""Drivers are struck at most effects."""
RIVALS = SinkPlan(strikes=10, driver_rate=150, executor_rate=20, rival_rate=60)
AWAY = SinkPlan(
    strikes=30,
    driver_rate=0,
    ending_rate=600,
    transaction_timeouts_ms=(1_500,),
    calm_ms=30_000,
)
"""Drivers are often away for longer than transactions may be open."""
IMPATIENT = SinkPlan(strikes=0, api_timeouts_ms=(400,), transaction_timeouts_ms=(15_000,))


def takes_aborted_for_committed(patch: pytest.MonkeyPatch) -> None:
    def outcome(
        transaction: TaskTransaction, written: DeliveredRange, fetched: Fetched
    ) -> LoggedOutcome | UndecidedFetch:
        found = outcome_in(transaction, written, fetched)
        return LoggedOutcome.COMMITTED if found is LoggedOutcome.ABORTED else found

    patch.setattr(reading, "outcome_in", outcome)


def takes_an_aborted_commit_for_a_failure(patch: pytest.MonkeyPatch) -> None:
    """INVALID_TXN_STATE for a commit of version 2, whose transaction another driver has aborted."""
    codes = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    patch.setattr(driver, "is_shut_out", lambda error: getattr(error, "code", None) in codes)


class CopiesApart(BatchDriver):
    """Writes the mark of a copy in a transaction of its own."""

    def _copy(self, transaction: TaskTransaction, marked: Decision) -> bool:
        mark = list(marked.records(self.prefix, only=transaction))
        if not super()._copy(transaction, replace(marked, transactions=())):
            return False
        if not self._write(marked, mark):
            raise ReplacedDriver("between a copy and its mark")
        return True


def worlds(plan: SinkPlan, *, pace: DelayRanges | None = None) -> Make:
    def adjust(schedule: Schedule) -> Schedule:
        return schedule if pace is None else replace(schedule, pace=pace)

    return lambda seed: sink_world(seed, plan=plan, adjust=adjust)


def of_rules(
    name: str, rules: Rules, plan: SinkPlan, seed: int = 0, pace: DelayRanges | None = None
) -> BrokenPart:
    return BrokenPart(name, nothing, worlds(replace(plan, rules=rules), pace=pace), seed)


def of_steps(steps: Callable[..., Any], plan: SinkPlan, seed: int = 0) -> BrokenPart:
    return of_rules(steps.__name__, Rules(commit_steps=steps), plan, seed)


SINK_PARTS: tuple[BrokenPart, ...] = (
    of_steps(ends_before_the_decision, OFTEN),
    of_steps(reads_the_ledger_before_it_shuts_out, RIVALS),
    of_steps(decides_again, OFTEN),
    of_steps(takes_fenced_for_committed, OFTEN, 4),
    of_steps(leaves_losers, PLAN, 6),
    of_rules(
        "aborts_without_asking",
        Rules(abort_steps=aborts_without_asking),
        IMPATIENT,
        7,
        SLOW_DISKS,
    ),
    of_rules("copies_apart", Rules(driver=CopiesApart), AWAY, 27, SLOW_DISKS),
    of(takes_aborted_for_committed, worlds(AWAY), 2),
    of(takes_an_aborted_commit_for_a_failure, worlds(RIVALS, pace=SLOW_DISKS), 7),
)


if __name__ == "__main__":
    sys.exit(search(SINK_PARTS, "sim.broken_sinks", __doc__))
