"""Offset index, time index, and searching by time."""

from __future__ import annotations

import pytest

from odradek.log.fence import LogDamaged
from odradek.log.index import IndexCache, OffsetIndex, TimeIndex
from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk
from unit.log.log_making import batch, files, fill, headers, new_log, offsets, read, reopen

WIDE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=150)


def disk_with_directory() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("d")
    return disk


def test_entries_have_kafkas_format():
    disk = disk_with_directory()
    index = OffsetIndex(disk, "d/i", 1000)
    index.append(1041, 4200)
    index.write_out()
    assert disk.read_file("d/i") == bytes.fromhex("00000029 00001068")
    times = TimeIndex(disk, "d/t", 1000)
    times.append(0x0102030405, 1041)
    times.write_out()
    assert disk.read_file("d/t") == bytes.fromhex("0000000102030405 00000029")


def test_lookups_return_the_last_entry_at_or_before():
    index = OffsetIndex(disk_with_directory(), "d/i", 100)
    for n in range(10):
        index.append(110 + 10 * n, 1000 * (n + 1))
    assert index.lookup(109) == -1
    assert index.at(index.lookup(110)) == (110, 1000)
    assert index.at(index.lookup(119)) == (110, 1000)
    assert index.at(index.lookup(5000)) == (200, 10_000)
    assert (index.floor(999), index.floor(1000), index.floor(2500)) == (0, 1000, 2000)
    index.truncate_from(3000)
    assert len(index) == 2


def test_the_time_index_ignores_timestamps_that_do_not_ascend():
    index = TimeIndex(disk_with_directory(), "d/t", 0)
    for timestamp, offset in ((-1, 1), (50, 2), (50, 3), (40, 4), (60, 5)):
        index.append(timestamp, offset)
    assert [index.at(slot) for slot in range(len(index))] == [(50, 2), (60, 5)]
    assert index.lookup(50) == -1
    assert index.at(index.lookup(51)) == (50, 2)


def test_write_out_writes_the_entries_to_the_file():
    disk = disk_with_directory()
    index = OffsetIndex(disk, "d/i", 0)
    for n in range(1000):
        index.append(n, n * 10)
    assert not disk.exists("d/i")
    index.write_out()
    index.append(1000, 10_000)
    assert len(disk.read_file("d/i")) == 8000
    index.write_out()
    assert len(disk.read_file("d/i")) == 8008


def test_the_cache_unloads_indexes_above_its_limit():
    disk = disk_with_directory()
    cache = IndexCache(limit_bytes=200)
    indexes = []
    for n in range(10):
        index = OffsetIndex(disk, f"d/{n}", 0)
        for entry in range(10):
            index.append(entry, entry)
        index.write_out()
        cache.add(index)
        indexes.append(index)
    assert cache.bytes <= 200
    assert [index.loaded for index in indexes] == [False] * 8 + [True] * 2


def index_files(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: data for name, data in files(disk).items() if name.endswith("index")}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_rebuilt_index_equals_the_written_one(suffix: str):
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 60)
    log.roll(0)
    log.close()
    written = index_files(disk)
    for name in written:
        if name.endswith(suffix):
            disk.remove(f"data/partition/{name}")
    again, _ = reopen(disk, clean=True, recovery_point=120)
    read(again, 0)
    assert index_files(disk) == written


def test_a_wrong_index_entry_rebuilds_the_index():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 60)
    log.roll(0)
    log.close()
    written = index_files(disk)
    everything = read(log, 0)
    for name, data in written.items():
        if name.endswith(".index"):
            for position in range(0, len(data), 3):
                disk.files[f"data/partition/{name}"].content[position] ^= 0x15
    again, _ = reopen(disk, clean=True, recovery_point=120)
    found = {offsets(read(again, offset, 1))[0][0] for offset in range(120)}
    assert found == set(range(0, 120, 2))
    assert read(again, 0) == everything


def test_a_wrong_time_index_entry_rebuilds_the_index():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 60)
    log.roll(0)
    log.close()
    for name, data in index_files(disk).items():
        if name.endswith(".timeindex"):
            for position in range(8, len(data), 12):
                disk.files[f"data/partition/{name}"].content[position + 3] ^= 0x03
    again, _ = reopen(disk, clean=True, recovery_point=120)
    for offset in range(0, 120, 2):
        found = again.offset_for_timestamp(offset * 1000, 120)
        assert found is not None
        assert found.offset == offset


def test_an_offset_beyond_the_range_of_an_index_is_damage():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 60)
    log.roll(0)
    log.close()
    name = min(name for name in index_files(disk) if name.endswith(".index"))
    disk.remove(f"data/partition/{name}")
    records = disk.files[f"data/partition/{name.removesuffix('.index')}.log"]
    last = headers(bytes(records.content))[-1]
    records.content[last.position + 3] ^= 1  # the upper half of its base offset: 2^32 more
    again, _ = reopen(disk, clean=True, recovery_point=120)
    with pytest.raises(LogDamaged):
        again.read(0, 1, 120)


def test_a_search_returns_the_first_record_at_or_after_a_timestamp():
    log = new_log()
    fill(log, 40, records=3)  # timestamps 1000 * base, +0, +1, +2
    for offset in range(120):
        base = offset // 3 * 3
        timestamp = base * 1000 + offset - base
        assert log.offset_for_timestamp(timestamp, 120) == (timestamp, offset, 0)
    assert log.offset_for_timestamp(1003 * 1000, 120) is None
    assert log.offset_for_timestamp(50, 120) == (3000, 3, 0)


def test_a_search_among_unordered_timestamps_returns_the_lowest_offset():
    log = new_log(config=WIDE)
    times = [50, 10, 80, 30, 80, 20] * 10
    for time in times:
        log.append(batch(timestamp=time), 0, now_ms=0)
    for timestamp in range(0, 90, 5):
        expected = next((n for n, time in enumerate(times) if time >= timestamp), None)
        found = log.offset_for_timestamp(timestamp, 60)
        assert (found.offset if found else None) == expected


def test_a_record_inside_a_compressed_batch_is_found():
    log = new_log(config=WIDE)
    log.append(batch(10, 1000, codec=2), 3, now_ms=0)
    log.append(batch(10, 2000, codec=4), 3, now_ms=0)
    assert log.offset_for_timestamp(1007, 20) == (1007, 7, 3)
    assert log.offset_for_timestamp(2009, 20) == (2009, 19, 3)


def test_a_search_ignores_records_outside_log_start_and_given_end():
    log = new_log()
    fill(log, 10)
    assert log.offset_for_timestamp(16_000, 16) is None
    assert log.offset_for_timestamp(16_000, 17) == (16_000, 16, 0)
    log.high_watermark = 20
    log.delete_records(7)
    assert log.offset_for_timestamp(0, 20) == (6001, 7, 0)


def test_a_search_returns_the_record_with_the_largest_timestamp():
    log = new_log()
    assert log.offset_for_max_timestamp(0) is None
    for time in (10, 90, 20, 90, 30):
        log.append(batch(2, time, size=120), 0, now_ms=0)
    assert len(log.segments) > 1
    assert log.offset_for_max_timestamp(10) == (91, 3, 0)
    assert log.offset_for_max_timestamp(2) == (11, 1, 0)
