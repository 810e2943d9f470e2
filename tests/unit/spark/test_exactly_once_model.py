"""The steps of the exactly-once sink through all that can be lost, in a scripted world."""

from __future__ import annotations

from collections import Counter

import pytest

from unit.spark.broken_steps import (
    believes_an_empty_ledger,
    decides_again,
    ends_before_the_decision,
    leaves_losers,
    reads_the_ledger_before_it_shuts_out,
    shuts_out_without_asking,
    takes_fenced_for_committed,
)
from unit.spark.exactly_once_model import Rules, World

SEEDS = range(500)
SLOW_MARKERS = 0.01


def test_each_row_is_committed_once_and_nothing_stays_open():
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        world = World(seed)
        world.run()
        assert not world.violations(), f"seed {seed}: {world.violations()}"
        happened += world.happened
        happened.update(f"stopped by {why}" for why in world.stopped)
    for what in (
        "task killed in rows",
        "speculation",
        "loser fenced",
        "loser without rows fenced",
        "driver killed in tasks",
        "driver killed in ShutOutOlderDrivers",
        "driver killed in WriteDecision",
        "driver killed in EndTransactions",
        "driver killed in FenceLosers",
        "driver killed in ReadOutcomes",
        "driver killed in CopyRecords",
        "driver killed in commit log",
        "drained",
        "late",
        "pause",
        "two drivers",
        "stopped by commit log",
        "stopped by ReplacedDriver",
        "time out",
        "copied",
    ):
        assert happened[what], f"no seed has seen {what}: {happened}"


def test_a_query_whose_ledger_is_deleted_writes_no_row_again():
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        world = World(seed, deletes_ledger=True)
        world.run()
        assert not world.violations(), f"seed {seed}: {world.violations()}"
        happened += world.happened
        if world.refused_drivers:
            happened.update(f"stopped by {why}" for why in world.stopped[-world.refused_drivers :])
    for what in (
        "batch 0 after the ledger",
        "batch 1 after the ledger",
        "stopped by LedgerGone",
    ):
        assert happened[what], f"no seed has seen {what}: {happened}"


BROKEN = {
    "ends before the decision": Rules(commit_steps=ends_before_the_decision),
    "reads the ledger before it shuts out": Rules(
        commit_steps=reads_the_ledger_before_it_shuts_out
    ),
    "decides again": Rules(commit_steps=decides_again),
    "takes fenced for committed": Rules(commit_steps=takes_fenced_for_committed),
    "leaves losers": Rules(commit_steps=leaves_losers),
    "decides outside of a transaction": Rules(decides_in_a_transaction=False),
    "believes what it reads before its own marker": Rules(newest=lambda read, written: read),
    "marks copies in another transaction": Rules(marks_copies_in_one_transaction=False),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_part_is_found(what):
    worlds = (World(seed, BROKEN[what], marker_chance=SLOW_MARKERS) for seed in range(2000))
    assert any(is_bad(world) for world in worlds)


BROKEN_WITHOUT_LEDGER = {
    "believes an empty ledger": Rules(commit_steps=believes_an_empty_ledger),
    "shuts out without asking": Rules(abort_steps=shuts_out_without_asking),
}


@pytest.mark.parametrize("what", BROKEN_WITHOUT_LEDGER)
def test_a_broken_part_is_found_when_the_ledger_is_deleted(what):
    rules = BROKEN_WITHOUT_LEDGER[what]
    assert any(is_bad(World(seed, rules, deletes_ledger=True)) for seed in range(2000))


def is_bad(world):
    world.run()
    return bool(world.violations())
