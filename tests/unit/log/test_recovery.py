"""Opening a log: each line of the rule at the top of `odradek.log.recovery`."""

from __future__ import annotations

import pytest

from odradek.log.fence import LogDamaged
from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk
from unit.log.compacting import COMPACTED, roll_and_commit, write
from unit.log.compacting import clean as compact
from unit.log.log_making import (
    DIRECTORY,
    batch,
    files,
    fill,
    log_files,
    new_log,
    offsets,
    read,
    reopen,
)

ONE_SEGMENT = LogConfig(segment_bytes=1 << 20, index_interval_bytes=150)


def crashed(batches: int, *, durable: int, config: LogConfig = ONE_SEGMENT) -> MemoryDisk:
    """Return a disk with a log of batches of two records, the first `durable` of them durable."""
    disk = MemoryDisk()
    log = new_log(disk, config)
    fill(log, durable)
    log.flush(checkpoint=True)
    fill(log, batches - durable)
    return disk


def last_log(disk: MemoryDisk) -> bytearray:
    return disk.files[log_files(disk)[-1]].content


def test_a_sound_tail_above_the_durable_end_is_kept():
    disk = crashed(20, durable=5)
    log, found = reopen(disk, ONE_SEGMENT, recovery_point=10)
    assert (log.log_end_offset, found.truncated_bytes) == (40, 0)
    assert found.scanned_bytes == len(last_log(disk)) * 15 // 20
    assert (log.flushed_offset, log.recovery_point) == (40, 40), "recovery has synced what it read"


def test_what_a_recovery_read_of_a_log_that_others_lead_is_left_to_the_first_flush():
    disk = crashed(20, durable=5)
    log, _ = reopen(disk, ONE_SEGMENT, recovery_point=10, is_led_elsewhere=True)
    assert (log.log_end_offset, log.flushed_offset, log.recovery_point) == (40, 10, 10)
    assert log.dirty
    log.flush(checkpoint=True)
    assert (log.flushed_offset, log.recovery_point, log.dirty) == (40, 40, False)


def test_a_torn_tail_of_a_log_that_others_lead_is_truncated_durably():
    disk = crashed(6, durable=4)
    del last_log(disk)[-1:]
    log, found = reopen(disk, ONE_SEGMENT, recovery_point=8, is_led_elsewhere=True)
    assert found.truncated_bytes
    assert (log.log_end_offset, log.flushed_offset, log.dirty) == (10, 10, False)


def test_a_tail_torn_at_any_byte_is_truncated_to_the_last_whole_batch():
    disk_before = crashed(6, durable=4)
    size = len(last_log(disk_before)) // 6
    for cut in range(4 * size, 6 * size):
        disk = crashed(6, durable=4)
        del last_log(disk)[cut:]
        log, found = reopen(disk, ONE_SEGMENT, recovery_point=8)
        assert log.log_end_offset == 2 * (cut // size)
        assert found.truncated_bytes == cut % size
        assert len(last_log(disk)) == cut // size * size
        fill(log, 1)
        assert [base for base, _ in offsets(read(log, 0))] == list(range(0, log.log_end_offset, 2))


@pytest.mark.parametrize("garbage", [bytes(1), bytes(4096), b"\xff" * 300])
def test_zeros_or_garbage_after_the_last_batch_are_truncated(garbage: bytes):
    disk = crashed(6, durable=6)
    size = len(last_log(disk))
    last_log(disk).extend(garbage)
    log, found = reopen(disk, ONE_SEGMENT, recovery_point=12)
    assert (log.log_end_offset, found.truncated_bytes) == (12, len(garbage))
    assert len(last_log(disk)) == size


def test_every_flipped_byte_above_the_durable_end_is_a_torn_tail():
    disk_before = crashed(6, durable=4)
    size = len(last_log(disk_before)) // 6
    for position in range(4 * size, 5 * size):
        disk = crashed(6, durable=4)
        last_log(disk)[position] ^= 0x10
        log, found = reopen(disk, ONE_SEGMENT, recovery_point=8)
        assert log.log_end_offset in (8, 10), position
        assert found.torn


def test_every_flipped_byte_below_the_durable_end_is_damage_and_nothing_is_truncated():
    disk_before = crashed(6, durable=2)
    size = len(last_log(disk_before)) // 6
    for position in range(2 * size, 3 * size):
        disk = crashed(6, durable=2)
        last_log(disk)[position] ^= 0x10
        before = files(disk, ".log")
        with pytest.raises(LogDamaged, match=r"0000\.log.*were durable.*Restore the file"):
            reopen(disk, ONE_SEGMENT, recovery_point=4, durable_end=12)
        assert files(disk, ".log") == before


def test_a_leader_epoch_that_has_risen_takes_nothing_of_its_batch_into_a_torn_tail():
    disk = MemoryDisk()
    log = new_log(disk, ONE_SEGMENT)
    for sequence in range(4):
        log.append(batch(producer=(7, 0, sequence)), 3, now_ms=0)
    size = len(last_log(disk)) // 4
    last_log(disk)[2 * size + 15] ^= 4
    log, found = reopen(disk, ONE_SEGMENT)
    assert "leader epoch 3 after 7" in found.torn
    assert log.log_end_offset == 2
    assert log.epochs.entries() == [(3, 0)]
    assert log.append(batch(producer=(7, 0, 2)), 4, now_ms=0).error == 0


def test_a_log_that_ends_below_the_durable_end_is_damaged():
    for cut in (1, 100, 500):
        disk = crashed(6, durable=2)
        del last_log(disk)[-cut:]
        before = files(disk, ".log")
        with pytest.raises(LogDamaged):
            reopen(disk, ONE_SEGMENT, recovery_point=4, durable_end=12)
        assert files(disk, ".log") == before


def test_a_log_that_ends_with_a_batch_but_below_the_durable_end_is_damaged():
    disk = crashed(6, durable=2)
    size = len(last_log(disk)) // 6
    del last_log(disk)[4 * size :]  # an older copy
    with pytest.raises(LogDamaged, match="ends at offset 8, but 12 was durable"):
        reopen(disk, ONE_SEGMENT, recovery_point=4, durable_end=12)
    with pytest.raises(LogDamaged, match="ends at offset 8, but 12 was durable"):
        reopen(disk, ONE_SEGMENT, recovery_point=12)
    with pytest.raises(LogDamaged, match="ends at offset 8, but 12 was durable"):
        reopen(disk, ONE_SEGMENT, clean=True, recovery_point=12)


def test_missing_files_are_damage():
    disk = crashed(6, durable=6)
    disk.remove(log_files(disk)[0])
    with pytest.raises(LogDamaged, match="has no segments"):
        reopen(disk, ONE_SEGMENT, recovery_point=12)
    disk = MemoryDisk()
    fill(new_log(disk), 40)
    disk.remove(log_files(disk)[0])
    with pytest.raises(LogDamaged, match="begins with offset 18 instead of 0"):
        reopen(disk, log_start_offset=0)


def test_a_missing_segment_is_a_torn_tail_above_the_durable_end_and_damage_below():
    def with_hole() -> MemoryDisk:
        disk = MemoryDisk()
        fill(new_log(disk), 40)
        disk.remove(log_files(disk)[2])
        return disk

    disk = with_hole()
    log, found = reopen(disk)
    assert (log.log_end_offset, found.removed_segments) == (36, 2)
    assert len(log_files(disk)) == 2
    fill(log, 20)
    assert [base for base, _ in offsets(read(log, 0))] == list(range(0, 76, 2))
    disk = with_hole()
    with pytest.raises(LogDamaged):
        reopen(disk, durable_end=37)


def test_a_torn_tail_removes_the_segments_after_it():
    disk = MemoryDisk()
    fill(new_log(disk), 40)
    disk.files[log_files(disk)[1]].content[250] ^= 1
    log, found = reopen(disk)
    assert (log.log_end_offset, found.removed_segments) == (22, 3)
    assert len(log_files(disk)) == 2
    fill(log, 20)
    assert [base for base, _ in offsets(read(log, 0))] == list(range(0, 62, 2))


def test_only_batches_above_the_recovery_point_are_read():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 40)
    _, found = reopen(disk, recovery_point=72)
    assert found.scanned_bytes == sum(
        len(data) for name, data in files(disk, ".log").items() if int(name[:20]) >= 72
    )


def test_recovered_indexes_equal_the_written_ones():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 45)
    log.close()
    expected = files(disk)
    for name in expected:
        if name.endswith("index"):
            disk.remove(f"{DIRECTORY}/{name}")
    log, _ = reopen(disk)
    log.close()
    assert files(disk) == expected
    log, _ = reopen(disk, recovery_point=50)
    log.close()
    assert files(disk) == expected


def test_missing_and_excess_index_entries_are_corrected():
    disk = crashed(40, durable=20)
    before = new_log(MemoryDisk(), ONE_SEGMENT)
    fill(before, 40)
    for name in files(disk):
        if name.endswith("index"):
            disk.files[f"{DIRECTORY}/{name}"].content.extend(bytes(24))
    log, _ = reopen(disk, ONE_SEGMENT, recovery_point=40)
    assert read(log, 0) == read(before, 0)
    mine, expected = log.segments.active, before.segments.active
    assert mine.offset_index.entries == expected.offset_index.entries
    assert mine.time_index.entries == expected.time_index.entries


def test_leader_epochs_are_rebuilt_from_the_batches():
    disk = MemoryDisk()
    log = new_log(disk)
    for epoch, count in ((1, 10), (2, 10), (5, 10)):
        fill(log, count, epoch=epoch)
        if epoch == 1:
            log.flush(checkpoint=True)
    expected = [(1, 0), (2, 20), (5, 40)]
    assert reopen(disk, recovery_point=20)[0].epochs.entries() == expected
    for damage in (b"", b"0\n1\n7 junk\n", b"0\n2\n5 40\n1 0\n"):
        disk.files[f"{DIRECTORY}/leader-epoch-checkpoint"].content[:] = damage
        assert reopen(disk, recovery_point=60)[0].epochs.entries() == expected
        disk.files[f"{DIRECTORY}/leader-epoch-checkpoint"].content[:] = damage
        assert reopen(disk, clean=True, recovery_point=60)[0].epochs.entries() == expected


@pytest.mark.parametrize("clean", [True, False])
def test_leader_epochs_of_a_compacted_log_are_rebuilt_only_once(clean: bool):
    """Its first batch begins after its start, and so does the first epoch."""
    disk = MemoryDisk()
    log = new_log(disk, COMPACTED)
    write(log, [(b"a", b"1")], [(b"a", b"2")])
    roll_and_commit(log)
    compact(log)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    for made in (True, False):
        log, _ = reopen(disk, COMPACTED, clean=clean, recovery_point=2, log_start_offset=0)
        assert log.epochs.entries() == [(0, 1)]
        assert log.epochs.dirty is made
        log.close()


def test_leader_epochs_of_a_torn_tail_are_removed():
    disk = MemoryDisk()
    log = new_log(disk, ONE_SEGMENT)
    fill(log, 3, epoch=1)
    fill(log, 1, epoch=2)
    log.flush()
    del last_log(disk)[-1:]
    assert reopen(disk, ONE_SEGMENT)[0].epochs.entries() == [(1, 0)]


def test_a_second_recovery_reads_nothing_again():
    disk = crashed(20, durable=0)
    reopen(disk, ONE_SEGMENT)
    _, found = reopen(disk, ONE_SEGMENT, recovery_point=40)
    assert found.scanned_bytes == 0


def test_damage_found_while_rebuilding_epochs_raises_log_damaged():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 20)
    log.flush(checkpoint=True)
    disk.files[log_files(disk)[0]].content[16] ^= 0x55  # the magic of the first batch
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    with pytest.raises(LogDamaged):
        reopen(disk, recovery_point=40)


def test_leftovers_of_deletions_and_swaps_are_removed():
    disk = crashed(4, durable=4)
    for name in ("00000000000000000000.log.deleted", "x.tmp", "00000000000000000007.index"):
        disk.open(f"{DIRECTORY}/{name}", create=True)
    reopen(disk, ONE_SEGMENT, recovery_point=8)
    assert sorted(files(disk)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000008.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_a_closed_segment_is_checked_on_first_use():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 40)
    log.close()
    del disk.files[log_files(disk)[1]].content[-1:]
    again, _ = reopen(disk, clean=True, recovery_point=80)
    assert read(again, 70)
    with pytest.raises(LogDamaged, match=r"0018\.log"):
        again.read(20, 100, 80)


def test_rebuilding_an_index_detects_a_damaged_closed_segment():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 40)
    log.close()
    disk.files[log_files(disk)[1]].content[80] ^= 1
    disk.remove(f"{DIRECTORY}/00000000000000000018.index")
    again, _ = reopen(disk, clean=True, recovery_point=80)
    with pytest.raises(LogDamaged, match="checksum mismatch"):
        again.read(20, 100, 80)


def test_after_a_clean_stop_only_the_tail_is_read():
    disk = crashed(40, durable=0)
    log, _ = reopen(disk, ONE_SEGMENT)
    log.close()
    again, found = reopen(disk, ONE_SEGMENT, clean=True, recovery_point=80)
    assert (again.log_end_offset, found.scanned_bytes) == (80, 0)
    again.append(batch(), 0, now_ms=0)
    again.close()
    assert reopen(disk, ONE_SEGMENT, clean=True, recovery_point=81)[0].log_end_offset == 81


@pytest.mark.parametrize("kept_bytes", [0, 100, 300])
def test_a_log_that_ends_before_its_start_begins_empty_there(kept_bytes: int):
    disk = crashed(9, durable=2)
    del last_log(disk)[kept_bytes:]
    log, found = reopen(disk, ONE_SEGMENT, deleted_before=14)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (14, 14, 0)
    assert (log.flushed_offset, log.recovery_point) == (14, 14)
    assert "14" in found.torn
    assert log_files(disk) == [f"{DIRECTORY}/{14:020d}.log"]
    fill(log, 2, epoch=3)
    assert [base for base, _ in offsets(read(log, 14))] == [14, 16]
    again, _ = reopen(disk, ONE_SEGMENT, log_start_offset=14)
    assert (again.log_start_offset, again.log_end_offset) == (14, 18)
    assert again.epochs.entries() == [(3, 14)]


def test_a_log_start_known_only_from_the_checkpoint_does_not_empty_the_log():
    disk = crashed(9, durable=2)
    before = files(disk, ".log")
    with pytest.raises(LogDamaged, match="ends at offset 18, before its start, 90"):
        reopen(disk, ONE_SEGMENT, log_start_offset=90)
    assert files(disk, ".log") == before
    last_log(disk).clear()
    log, _ = reopen(disk, ONE_SEGMENT, log_start_offset=90)
    assert (log.log_start_offset, log.log_end_offset) == (90, 90), "nothing is lost by that"


def test_a_deletion_after_the_last_checkpoint_survives():
    disk = crashed(9, durable=9)
    log, _ = reopen(disk, ONE_SEGMENT, recovery_point=18, log_start_offset=0, deleted_before=7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 18)
    disk = crashed(9, durable=0)
    del last_log(disk)[:]
    for _ in range(2):  # the second start finds the empty segment that the first made
        log, _ = reopen(disk, ONE_SEGMENT, log_start_offset=0, deleted_before=14)
        assert (log.log_start_offset, log.log_end_offset) == (14, 14)
