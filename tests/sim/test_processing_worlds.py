"""Seeds of our own transactional producers and processings, and the rules for processings."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from odradek.model.topics import TopicPartition
from odradek.testing.engines.process_application import (
    LETTER,
    ONE,
    TWO,
    expected,
    judge,
    shape_of,
)
from odradek.testing.sim import RunOutcome, explain, summary
from odradek.testing.transactions import ReadRecord, TransactionOutcome
from odradek.testing.world import BOTH, ONLY_ENGINES, World
from sim.broken_processes import BREAKS, find, run

ALONE, CLUSTERS, MIXED = (0, 1, 3), (1, 2), (8,)


@cache
def run_of(seed: int, brokers: int, engines: str) -> RunOutcome[World]:
    return run(seed, brokers, engines)


def check(outcome: RunOutcome[World]) -> None:
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


@pytest.mark.parametrize("seed", ALONE)
def test_a_seed_of_processings_at_one_broker(seed: int) -> None:
    check(run_of(seed, 1, ONLY_ENGINES))


@pytest.mark.parametrize("seed", CLUSTERS)
def test_a_seed_of_processings_in_a_cluster(seed: int) -> None:
    check(run_of(seed, 3, ONLY_ENGINES))


@pytest.mark.parametrize("seed", MIXED)
def test_a_seed_of_processings_of_what_scripted_producers_write(seed: int) -> None:
    outcome = run_of(seed, 1, BOTH)
    assert outcome.world.plan.transactions.producers
    check(outcome)


def test_the_seeds_have_every_outcome_of_processings_in_both_versions() -> None:
    runs = [run_of(seed, 1, ONLY_ENGINES) for seed in ALONE]
    runs += [run_of(seed, 3, ONLY_ENGINES) for seed in CLUSTERS]
    sites = sum((each.world.scheduler.sites for each in runs), Counter[str]())
    for client in ("engine", "process"):
        for version in (1, 2):
            assert sites[f"transaction: {client} committed in version {version}"] > 0
    outcomes = {
        each.outcome
        for one in runs
        for each in one.world.clients.transactions.observed.transactions
    }
    assert outcomes == set(TransactionOutcome)


def test_a_failed_run_of_processings_names_its_options() -> None:
    options = run_of(ALONE[0], 1, ONLY_ENGINES).world.options()
    assert "--transactions" in options and "--engines only" in options


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_processing_is_found(name: str) -> None:
    assert find(name, BREAKS[name].seed) is not None


# The rules.

IN, OUT, DEAD = TopicPartition("in", 0), TopicPartition("out", 0), TopicPartition("letters", 0)


def offset_of(shape: str, number: int = 0) -> int:
    """Return the offset of an input with this shape."""
    return [offset for offset in range(500) if shape_of(IN, offset) == shape][number]


def read(partition: TopicPartition, offset: int, value: str) -> ReadRecord:
    return ReadRecord(0, "final", partition, offset, value.encode())


def test_each_input_has_all_of_its_outputs_once() -> None:
    offset = offset_of(TWO)
    first, second = (read(OUT, n, f"p/1/{IN}@{offset}/{n}") for n in (0, 1))
    again = read(OUT, 2, f"p/2/{IN}@{offset}/1")
    inputs = [read(IN, offset, "x")]
    assert [each.what for each in expected(IN, offset)] == ["0", "1"]
    assert judge(inputs, [first, second], {}) == []
    assert judge(inputs, [first], {}) == [f"{IN}@{offset}: output 1 is there 0 times, not 1"]
    assert judge(inputs, [first, second, again], {}) == [
        f"{IN}@{offset}: output 1 is there 2 times, not 1"
    ]


def test_a_dead_letter_takes_the_place_of_the_outputs() -> None:
    offset = offset_of(LETTER)
    letter = read(DEAD, 0, f"p/1/{IN}@{offset}/{LETTER}")
    assert judge([read(IN, offset, "x")], [letter], {}) == []
    assert judge([], [letter], {}) == [f"{IN}@{offset}: output {LETTER} is there 1 times, not 0"]


def test_outputs_keep_the_order_of_their_inputs() -> None:
    early, late = offset_of(ONE), offset_of(ONE, 1)
    inputs = [read(IN, offset, "x") for offset in (early, late)]
    outputs = [read(OUT, n, f"p/1/{IN}@{o}/0") for n, o in enumerate((late, early))]
    assert judge(inputs, outputs, {}) == [f"{OUT}@1 is of {IN}@{early}, after {late}"]


def test_a_function_is_given_committed_records_only() -> None:
    offset = offset_of("nothing")
    given = {IN: {offset: b"aborted"}}
    assert judge([], [], given) == [
        f"{IN}@{offset}: a processing was given b'aborted', and committed is None"
    ]
