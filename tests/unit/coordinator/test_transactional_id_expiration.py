"""Expiration of transactional ids whose changes have times of a wall clock that was set back."""

from __future__ import annotations

from random import Random

import pytest

from odradek.coordinator.operation import OperationResult
from odradek.coordinator.transaction.ids_by_change import LEAST_STEP_MS, ChangeRun, IdsByChange
from odradek.coordinator.transaction.transaction_metadata import TransactionMetadata
from odradek.coordinator.transaction.transaction_shard import EXPIRE, TransactionShard
from unit.coordinator.transaction_surroundings import Surroundings

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
START_MS = 10**12


def changed(name: str, at_ms: int) -> TransactionMetadata:
    return TransactionMetadata(name, 1, last_update_ms=at_ms)


def shard_with(*changes: tuple[str, int]) -> TransactionShard:
    """Make a shard that replays changes, in this order, at these times after the start."""
    shard = TransactionShard(Surroundings(), 7, 3)
    for name, after_ms in changes:
        shard.replay(changed(name, START_MS + after_ms).record())
    return shard


def expired(shard: TransactionShard, after_ms: int) -> list[str]:
    """Return the ids that are deleted by a look at a time after the start."""
    result = OperationResult(START_MS + after_ms)
    shard.expired((EXPIRE,), result)
    return [key for key, value in result.records if value is None]


def test_an_id_that_was_used_while_the_clock_was_ahead_holds_no_other_one_back() -> None:
    shard = shard_with(("first", 0), ("ahead", 8 * HOUR_MS), ("second", 60_000), ("third", 120_000))
    assert expired(shard, WEEK_MS + 60_000) == ["first", "second"]
    assert expired(shard, WEEK_MS + 120_000) == ["first", "second", "third"]
    assert expired(shard, WEEK_MS + 8 * HOUR_MS) == ["first", "ahead", "second", "third"]


def test_an_id_that_is_used_again_after_the_clock_is_corrected_has_the_time_of_that() -> None:
    shard = shard_with(("first", 0), ("ahead", 8 * HOUR_MS), ("second", 60_000), ("ahead", 120_000))
    assert expired(shard, WEEK_MS + 120_000) == ["first", "second", "ahead"]
    assert [each.transactional_id for each in shard] == ["first", "second", "ahead"]
    assert len(shard) == 3


@pytest.mark.parametrize("seed", range(10))
def test_whatever_the_clock_does_exactly_the_ids_that_were_not_used_for_so_long_are_found(
    seed: int,
) -> None:
    random, ids, last = Random(seed), IdsByChange(), dict[str, int]()
    now_ms = START_MS
    for _ in range(500):
        now_ms += random.choice((10, 10, 10, 5_000, -LEAST_STEP_MS // 2, -HOUR_MS, HOUR_MS))
        name = f"id-{random.randrange(60)}"
        before = ids.remove(name)
        assert (None if before is None else before.last_update_ms) == last.pop(name, None)
        if random.random() < 0.9:
            ids.put(changed(name, now_ms))
            last[name] = now_ms
        until_ms = now_ms + random.randrange(-3 * HOUR_MS, 3 * HOUR_MS)
        found = [each.transactional_id for each in ids.changed_until(until_ms)]
        assert found == [each for each in last if last[each] <= until_ms]
        assert [each.transactional_id for each in ids] == list(last) and len(ids) == len(last)
        assert all(ids.get(each) is not None for each in last)


def test_a_look_stops_at_the_first_ids_that_have_not_expired() -> None:
    run = ChangeRun()
    for number in range(1_000):
        run.by_id[f"id-{number}"] = changed(f"id-{number}", START_MS + 2 * number * 60_000)
    run.by_id["behind them"] = changed("behind them", START_MS)  # No clock puts one here.
    found = [each.transactional_id for each in run.changed_until(START_MS + 20 * 60_000)]
    assert found == [f"id-{number}" for number in range(11)]
