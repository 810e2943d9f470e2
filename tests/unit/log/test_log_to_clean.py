"""The part of a log that compaction may clean, and if it is worth a pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.log.compaction.cleaner import LogToClean, log_to_clean
from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk
from unit.log.compacting import COMPACTED, clean, roll_and_commit, write
from unit.log.log_making import new_log

A = b"a"
ONE_BATCH = replace(COMPACTED, segment_bytes=80)


def a_log(config=ONE_BATCH, batches: int = 10) -> Log:
    """Make a log with a segment per batch; the timestamp is 1000 times the offset."""
    log = new_log(MemoryDisk(), config)
    for number in range(batches):
        write(log, [(A, b"%d" % number)], timestamp=1000 * number)
    roll_and_commit(log)
    return log


def plan(log: Log, first_dirty: int | None = None, now_ms: int = 1 << 40) -> LogToClean:
    return log_to_clean(log, first_dirty, now_ms)


def test_a_log_that_was_never_cleaned_is_dirty_from_its_start():
    log = a_log()
    found = plan(log)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 10)
    assert (found.clean_bytes, found.cleanable_bytes) == (0, log.size)
    assert found.cleanable_ratio == 1.0 and found.worth_cleaning


def test_a_log_is_worth_a_pass_above_the_dirty_ratio():
    log = a_log()
    assert plan(log, 5).cleanable_ratio == 0.5
    assert not plan(log, 5).worth_cleaning
    assert plan(log, 4).worth_cleaning
    log.configure(replace(ONE_BATCH, min_cleanable_dirty_ratio=0.0))
    assert plan(log, 9).worth_cleaning
    assert not plan(log, 10).worth_cleaning, "there is nothing"


def test_an_empty_log_and_one_with_only_an_active_segment_are_not_worth_a_pass():
    log = new_log(MemoryDisk(), COMPACTED)
    assert not plan(log).worth_cleaning
    write(log, [(A, b"1")])
    log.flush(checkpoint=True)
    log.high_watermark = 1
    assert not plan(log).worth_cleaning


@pytest.mark.parametrize("recorded", [-1, 11])
def test_a_recorded_offset_outside_the_log_is_replaced_by_the_log_start(recorded: int):
    assert plan(a_log(), recorded).first_dirty_offset == 0


def test_records_that_were_deleted_are_not_dirty():
    log = a_log()
    log.raise_log_start(4)
    assert plan(log, 2).first_dirty_offset == 4


def test_segments_younger_than_the_minimum_lag_are_not_cleaned():
    log = a_log(replace(ONE_BATCH, min_compaction_lag_ms=3000))
    assert plan(log, now_ms=9_999).first_uncleanable_offset == 7
    assert plan(log, now_ms=2_000).first_uncleanable_offset == 0
    assert not plan(log, now_ms=2_000).worth_cleaning


def test_a_segment_older_than_the_maximum_lag_is_cleaned_below_the_ratio():
    log = a_log(replace(ONE_BATCH, max_compaction_lag_ms=5000))
    assert not plan(log, 9, now_ms=14_000).worth_cleaning
    assert plan(log, 9, now_ms=14_001).worth_cleaning
    assert not plan(log, 10, now_ms=1 << 40).worth_cleaning


def test_a_segment_in_which_a_pass_stopped_counts_as_clean_and_as_dirty():
    log = new_log(MemoryDisk(), replace(COMPACTED, segment_bytes=10_000))
    write(log, *[[(A, b"%d" % n)] for n in range(10)])
    roll_and_commit(log)
    found = plan(log, 6)
    assert (found.clean_bytes, found.cleanable_bytes) == (log.size, log.size)
    assert found.cleanable_ratio == 0.5


def test_after_a_pass_nothing_is_dirty():
    log = a_log()
    assert not plan(log, clean(log)).worth_cleaning
