"""A data directory after a crash: durable ends are known, and damage differs from a torn tail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.log.fence import LogDamaged
from odradek.log.memory_disk import MemoryDisk
from unit.log.log_directories import crash, damage, key, open_directory
from unit.log.log_making import SMALL, fill, read


def test_logs_that_were_not_opened_stay_clean_after_a_crash():
    disk = MemoryDisk()
    directory = open_directory(disk)
    for n in range(2):
        fill(directory.open_log(key(n), SMALL, 0), 10)
    directory.close()
    open_directory(disk).open_log(key(0), SMALL, 0)
    crash(disk)
    directory = open_directory(disk)
    log, found = directory.open_work(key(1), SMALL, 0)()
    assert (log.log_end_offset, found.scanned_bytes) == (20, 0)
    directory.close()
    assert b" 0 20\n" in disk.read_file("data/recovery-point-offset-checkpoint")
    assert b" 1 20\n" in disk.read_file("data/recovery-point-offset-checkpoint")


def test_after_a_crash_the_durable_end_is_known_without_a_checkpoint():
    disk = MemoryDisk()
    log = open_directory(disk).open_log(key(0), SMALL, 0)
    fill(log, 5)
    log.flush(checkpoint=True)
    fill(log, 1)
    log.flush()
    fill(log, 1)
    crash(disk)
    log, found = open_directory(disk).open_work(key(0), SMALL, 0)()
    assert log.log_end_offset == 14
    assert found.scanned_bytes == log.size * 2 // 7, "from the recovery point"


@pytest.mark.parametrize(("batch_number", "is_damage"), [(5, True), (6, False)])
def test_a_flipped_bit_is_damage_below_the_durable_end_and_a_torn_tail_above(
    batch_number: int, is_damage: bool
):
    disk = MemoryDisk()
    log = open_directory(disk).open_log(key(0), SMALL, 0)
    fill(log, 6)
    log.flush()
    fill(log, 2)
    size = log.size // 8
    crash(disk)
    damage(disk, batch_number * size + 70)
    directory = open_directory(disk)
    if is_damage:
        with pytest.raises(LogDamaged):
            directory.open_log(key(0), SMALL, 0)
        assert directory.open_log(key(1), SMALL, 0), "other partitions live"
    else:
        assert directory.open_log(key(0), SMALL, 0).log_end_offset == 12


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("ended", ["cleanly", "killed", "killed behind its recovery point"])
@pytest.mark.parametrize("batch_number", [4, 5])
def test_a_changed_base_offset_is_damage(batch_number: int, ended: str, compact: bool):
    """A base offset is under no checksum, but a batch must end at the durable end."""
    disk = MemoryDisk()
    directory = open_directory(disk)
    config = replace(SMALL, compact=compact)
    log = directory.open_log(key(0), config, 0)
    fill(log, 5)
    log.flush(checkpoint=ended != "killed")
    fill(log, 1)
    log.flush()
    position = log.size // 6 * batch_number + 5
    if ended == "cleanly":
        directory.close()
    crash(disk)
    damage(disk, position)
    with pytest.raises(LogDamaged):
        read(open_directory(disk).open_log(key(0), config, 0), 0, max_bytes=position)


def test_recovery_uses_the_checkpoint_without_durable_ends_and_a_full_scan_without_both():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 20)
    log.flush(checkpoint=True)
    directory.checkpoint()()
    crash(disk)
    disk.files["data/durable-ends"].content[20:90] = b"junk" * 20
    log, found = open_directory(disk).open_work(key(0), SMALL, 0)()
    assert (log.recovery_point, found.scanned_bytes) == (40, 0)
    crash(disk)
    disk.files["data/durable-ends"].content[20:90] = b"junk" * 20
    for name in ("recovery-point", "log-start", "replication"):
        path = f"data/{name}-offset-checkpoint"
        if disk.exists(path):
            disk.files[path].content[:] = b"junk"
    directory = open_directory(disk)
    assert len(directory.problems) == 3
    log, found = directory.open_work(key(0), SMALL, 0)()
    assert (log.log_end_offset, found.scanned_bytes) == (40, log.size)


def test_a_new_slot_keeps_the_values_of_the_checkpoint():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 6)
    log.flush(checkpoint=True)
    directory.checkpoint()()
    crash(disk)
    disk.remove("data/durable-ends")
    log = open_directory(disk).open_log(key(0), SMALL, 0)
    log.high_watermark = log.log_end_offset
    log.delete_records(2)
    crash(disk)
    del disk.files[f"data/{key(0)}/{0:020d}.log"].content[log.size // 6 * 5 :]
    with pytest.raises(LogDamaged, match="12 was durable"):
        open_directory(disk).open_log(key(0), SMALL, 0)


def test_a_changed_digit_in_the_log_start_checkpoint_removes_no_records():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 20)
    log.flush()
    log.high_watermark = 40
    log.delete_records(12)
    directory.checkpoint()()
    crash(disk)
    content = disk.files["data/log-start-offset-checkpoint"].content
    content[content.index(b" 12") + 1] ^= 0x08
    assert b" 92\n" in content
    before = {path: bytes(file.content) for path, file in disk.files.items() if ".log" in path}
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    assert (log.log_start_offset, log.log_end_offset) == (12, 40)
    assert before == {path: disk.read_file(path) for path in disk.files if ".log" in path}
    assert "cannot start at 92" in directory.take_problems()[0]
