"""A pass of compaction retains the last record of every key, at its offset, in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.log.compaction.cleaner import log_to_clean
from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk
from odradek.log.scan import BadBatch
from odradek.protocol.compression import CompressionType
from unit.log.compacting import (
    COMPACTED,
    a_pass,
    clean,
    keyed,
    records,
    roll_and_commit,
    run,
    shown,
    table,
    write,
)
from unit.log.log_making import files, headers, log_files, new_log, offsets, read, reopen

A, B, C = b"a", b"b", b"c"


def a_log(config=COMPACTED) -> Log:
    return new_log(MemoryDisk(), config)


def test_the_last_record_of_each_key_keeps_its_offset():
    log = a_log()
    write(log, [(A, b"1"), (B, b"1")], [(A, b"2"), (C, b"1")], [(B, b"2")])
    roll_and_commit(log)
    assert clean(log) == 5
    assert shown(log) == [(2, A, b"2"), (3, C, b"1"), (4, B, b"2")]
    assert [r.timestamp for r in records(log)] == [1000, 1001, 1000]


def test_the_active_segment_is_not_cleaned_and_stays_dirty():
    log = a_log()
    write(log, [(A, b"1")], [(A, b"2")])
    roll_and_commit(log)
    write(log, [(A, b"3")], [(A, b"4")])
    assert clean(log) == 2
    assert shown(log) == [(1, A, b"2"), (2, A, b"3"), (3, A, b"4")]


def test_uncommitted_records_and_those_above_the_recovery_point_are_not_cleaned():
    log = a_log()
    write(log, [(A, b"1")])
    log.roll(0)
    write(log, [(A, b"2")])
    log.roll(0)
    write(log, [(A, b"3")])
    log.flush(checkpoint=True)
    log.high_watermark = 1
    assert log_to_clean(log, None, 0).first_uncleanable_offset == 1
    log.high_watermark = 2
    assert log_to_clean(log, None, 0).first_uncleanable_offset == 2
    log.recovery_point = 1
    assert log_to_clean(log, None, 0).first_uncleanable_offset == 1


def test_a_second_pass_compares_new_records_with_retained_ones():
    log = a_log()
    write(log, [(A, b"1"), (B, b"1")], [(A, b"2")])
    roll_and_commit(log)
    first_dirty = clean(log)
    write(log, [(B, b"2")], [(C, b"1")])
    roll_and_commit(log)
    assert clean(log, first_dirty) == 5
    assert shown(log) == [(2, A, b"2"), (3, B, b"2"), (4, C, b"1")]


def test_reading_at_a_removed_offset_returns_the_next_batch():
    log = a_log()
    write(log, *[[(A, b"%d" % n)] for n in range(40)])
    roll_and_commit(log)
    clean(log)
    for offset in range(40):
        assert [r.offset for r in records(log, offset)] == [39]
    assert log.offset_for_timestamp(1000, 100) is not None
    assert log.read(40, 100, 40).size == 0


def test_the_largest_timestamp_is_that_of_a_retained_record():
    log = a_log()
    log.append(keyed([(A, b"1")], 9000, producer=(7, 0, 0)), 0, now_ms=0)
    write(log, [(B, b"1")], timestamp=8000)
    write(log, [(A, b"2")], timestamp=7000)
    roll_and_commit(log)
    clean(log)
    assert [h.max_timestamp for h in headers(read(log, 0))] == [9000, 8000, 7000]
    found = log.offset_for_max_timestamp(3)
    assert found is not None and (found.timestamp, found.offset) == (8000, 1)
    assert log.offset_for_timestamp(8001, 3) is None


def test_small_segments_are_merged_up_to_the_segment_size():
    log = a_log(replace(COMPACTED, segment_bytes=300))
    write(log, *[[(b"%d" % (n % 7), b"%d" % n)] for n in range(60)])
    roll_and_commit(log)
    counts = [len(log.segments)]
    log.configure(COMPACTED)
    first_dirty = None
    for _ in range(3):
        first_dirty = clean(log, first_dirty)
        counts.append(len(log.segments))
    assert counts == [16, 9, 3, 2]
    assert all(segment.size <= 600 for segment in log.segments.items)
    assert [value for _, _, value in shown(log)] == [b"%d" % n for n in range(53, 60)]


class TestTombstones:
    def test_a_tombstone_is_retained_until_its_horizon_and_removes_earlier_records(self):
        log = a_log(replace(COMPACTED, delete_retention_ms=100))
        write(log, [(A, b"1"), (B, b"1")], [(A, None)])
        roll_and_commit(log)
        first_dirty = clean(log, now_ms=5000)
        assert shown(log) == [(1, B, b"1"), (2, A, None)]
        (tombstone,) = [h for h in headers(read(log, 0)) if h.last_offset == 2]
        assert tombstone.has_delete_horizon and tombstone.base_timestamp == 5100
        assert records(log)[-1].timestamp == 1000, "reported as before"
        assert clean(log, first_dirty, now_ms=5099) == 3
        assert shown(log) == [(1, B, b"1"), (2, A, None)]
        clean(log, first_dirty, now_ms=5100)
        assert shown(log) == [(1, B, b"1")]

    def test_a_delete_horizon_is_set_only_once(self):
        log = a_log(replace(COMPACTED, delete_retention_ms=100))
        write(log, [(A, None), (B, b"1")], [(C, b"1")])
        roll_and_commit(log)
        clean(log, now_ms=5000)
        write(log, [(B, b"2")])
        roll_and_commit(log)
        clean(log, 3, now_ms=5050)
        assert headers(read(log, 0))[0].base_timestamp == 5100
        assert [(r.offset, r.timestamp) for r in records(log)] == [(0, 1000), (2, 1000), (3, 1000)]

    def test_an_unlimited_delete_retention_keeps_tombstones_forever(self):
        log = a_log(replace(COMPACTED, delete_retention_ms=(1 << 63) - 1))
        write(log, [(A, None)], [(B, b"1")])
        roll_and_commit(log)
        clean(log, now_ms=5000)
        clean(log, 2, now_ms=1 << 60)
        assert shown(log) == [(0, A, None), (1, B, b"1")]

    @pytest.mark.parametrize("codec", list(CompressionType))
    def test_timestamps_survive_a_delete_horizon_in_every_codec(self, codec: int):
        log = a_log()
        log.append(keyed([(A, None), (B, b"b" * 50), (C, b"c")], 7777, codec=codec), 0, now_ms=0)
        roll_and_commit(log)
        clean(log, now_ms=123_456)
        assert [(r.key, r.value, r.timestamp) for r in records(log)] == [
            (A, None, 7777),
            (B, b"b" * 50, 7778),
            (C, b"c", 7779),
        ]
        (header,) = headers(read(log, 0))
        assert header.compression_type == codec
        assert header.max_timestamp == 7779


class TestProducers:
    def test_the_last_batch_of_a_producer_is_retained_as_a_header(self):
        log = a_log()
        log.append(keyed([(A, b"1"), (B, b"1")], producer=(7, 0, 0)), 0, now_ms=0)
        log.append(keyed([(A, b"2"), (B, b"2")], producer=(7, 0, 2)), 0, now_ms=0)
        write(log, [(A, b"3"), (B, b"3")])
        roll_and_commit(log)
        clean(log)
        kept = headers(read(log, 0))
        assert [(h.base_offset, h.last_offset, h.count, h.last_sequence) for h in kept] == [
            (2, 3, 0, 3),
            (4, 5, 2, -1),
        ]
        assert (kept[0].producer_id, kept[0].producer_epoch, kept[0].base_sequence) == (7, 0, 2)

    def test_the_producer_is_restored_from_the_log_alone(self):
        disk = MemoryDisk()
        log = new_log(disk, COMPACTED)
        log.append(keyed([(A, b"1")], producer=(7, 0, 0)), 0, now_ms=0)
        write(log, [(A, b"2")])
        roll_and_commit(log)
        clean(log)
        for name in files(disk, ".snapshot"):
            disk.remove(f"data/partition/{name}")
        again, _ = reopen(disk, COMPACTED)
        entry = again.producers.entry(7)
        assert entry is not None and entry.last_sequence == 0
        assert again.append(keyed([(A, b"1")], producer=(7, 0, 0)), 0, now_ms=0).duplicate

    def test_the_last_batch_of_an_expired_producer_is_removed(self):
        log = a_log()
        log.append(keyed([(A, b"1")], producer=(7, 0, 0)), 0, now_ms=0)
        write(log, [(A, b"2")])
        roll_and_commit(log)
        log.producers.expire(0, 10)
        log.producers.expire(10, 10)
        clean(log)
        assert offsets(read(log, 0)) == [(1, 1)]


def test_a_compacted_segment_ends_where_the_next_one_begins():
    log = a_log(replace(COMPACTED, segment_bytes=150))
    write(log, *[[(A, b"%d" % n)] for n in range(10)])
    roll_and_commit(log)
    clean(log)
    kept = headers(read(log, 0))
    assert [h.count for h in kept] == [0] * (len(kept) - 1) + [1]
    for number in range(len(log.segments) - 1):
        log.segments.loaded(number)  # checks the end


def test_a_segment_that_lost_its_end_is_not_compacted():
    """If it were, the new segment would end early and the loss could not be detected any more."""
    disk = MemoryDisk()
    log = new_log(disk, COMPACTED)
    write(log, [(A, b"1")], [(B, b"1")], [(A, b"2")])
    roll_and_commit(log)
    closed = disk.files[log_files(disk)[0]]
    del closed.content[closed.size() * 2 // 3 :]
    before = files(disk)
    again, _ = reopen(disk, COMPACTED, clean=True, recovery_point=3)
    again.high_watermark = 3
    with pytest.raises(BadBatch, match="ends before offset 3"):
        clean(again)
    assert files(disk) == before


def test_records_without_a_key_are_removed():
    log = a_log()
    write(log, [(None, b"from before"), (A, b"1")])
    roll_and_commit(log)
    clean(log)
    assert shown(log) == [(1, A, b"1")]


class TestMemory:
    def test_a_full_offset_map_ends_the_pass_and_the_next_one_continues(self):
        log = a_log()
        write(log, *[[(b"%d" % (n % 10), b"%d" % n)] for n in range(40)])
        roll_and_commit(log)
        expected = table(log)
        first_dirty, passes = 0, 0
        while first_dirty < 40:
            done = run(a_pass(log, first_dirty, memory_bytes=200 * 3), log)
            assert done.end_offset > first_dirty
            first_dirty, passes = done.end_offset, passes + 1
            assert table(log) == expected
        assert passes > 3
        assert sorted(shown(log)) == [(n, b"%d" % (n % 10), b"%d" % n) for n in range(30, 40)]

    def test_a_batch_larger_than_a_chunk_is_read_whole(self):
        log = a_log(replace(COMPACTED, segment_bytes=100_000))
        write(log, [(A, b"x" * 5000)], [(B, b"y" * 5000)], [(A, b"z")])
        roll_and_commit(log)
        cleaner = a_pass(log, chunk_bytes=100)
        steps = [step for step in cleaner.steps() if isinstance(step, int) or step(log)]
        assert [value for _, _, value in shown(log)] == [b"y" * 5000, b"z"]
        assert len(steps) == 6
        assert cleaner.stats.bytes_read == cleaner.stats.map_bytes_read
        assert cleaner.stats.bytes_written == log.size
