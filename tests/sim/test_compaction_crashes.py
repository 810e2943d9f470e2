"""Simulation of compacted topics and committed offsets under all kinds of crashes."""

from __future__ import annotations

import pytest

from odradek.log.compaction import cleaner, segment_swap
from odradek.log.compaction.batch_retention import OffsetMap, cursor_over
from odradek.log.compaction.transaction_outcomes import TransactionOutcomes
from odradek.protocol.record_batch import RecordBatchHeader
from sim.compaction_world import CompactionWorld

POWER = ("power loss", "power loss at a crash point", "power loss after an ack")
BROKER_ENDS = ("kill", "crash point", *POWER)


@pytest.mark.parametrize("seed", range(20))
def test_compaction_under_random_faults_keeps_every_last_value(seed: int) -> None:
    assert CompactionWorld(seed).run() == []


@pytest.mark.parametrize("seed", range(100, 115))
def test_compaction_survives_the_end_of_the_broker(seed: int) -> None:
    assert CompactionWorld(seed, BROKER_ENDS).run() == []


def test_the_seeds_cover_compaction() -> None:
    worlds = [CompactionWorld(seed) for seed in range(5)]
    for world in worlds:
        world.run()
    assert sum(world.compacted() for world in worlds) > 300
    assert sum(len(world.journal.log) for world in worlds) * 2 < sum(
        len(world.journal.seen) for world in worlds
    ), "more than half of the records read are left"


# Mutation tests.


def first_violation(faults: tuple[str, ...] = ()) -> list[str]:
    for seed in range(30):
        try:
            violations = CompactionWorld(seed, faults).run()
        except Exception as error:
            return [repr(error)]
        if violations:
            return violations
    raise AssertionError("no violation in 30 seeds")


def test_a_compaction_map_that_is_off_by_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one(
        data: bytes,
        header: RecordBatchHeader,
        start: int,
        into: OffsetMap,
        outcomes: TransactionOutcomes,
    ) -> int:
        cursor = cursor_over(data, header)
        while cursor.advance():
            key = cursor.data[cursor.key : cursor.key + cursor.key_size]
            into.put(key, cursor.offset + 1)
        return header.count

    monkeypatch.setattr(cleaner, "add_keys", off_by_one)
    assert "was acked" in first_violation()[0]


def test_a_segment_swap_without_a_sync_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def commit(self: segment_swap.SegmentSwap) -> None:
        self._cleaned.close()
        segment_swap.rename_files(
            self._disk, self._directory, self._base_offset, ".cleaned", ".swap"
        )

    monkeypatch.setattr(segment_swap.SegmentSwap, "commit", commit)
    assert first_violation(POWER)
