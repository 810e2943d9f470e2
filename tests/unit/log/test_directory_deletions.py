"""Deletion of logs and of segments from a data directory."""

from __future__ import annotations

from odradek.log.fence import LogDamaged
from odradek.log.memory_disk import MemoryDisk
from unit.log.log_directories import crash, damage, key, open_directory
from unit.log.log_making import SMALL, batch, fill


def test_deleting_a_log_renames_it_at_once_and_removes_it_later():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 5)
    flush = log.begin_flush(checkpoint=True)
    remove = directory.delete_log(key(0))
    assert directory.get(key(0)) is None
    assert flush is not None
    flush.run()
    log.end_flush(flush)
    assert directory.fence.failure is None, "a flush of deleted files does not fence the directory"
    again = directory.open_log(key(0), SMALL, 0)
    assert again.log_end_offset == 0
    fill(again, 1)
    remove()
    assert [name for name in disk.list("data") if "delete" in name] == []
    directory.delete_log(key(0))
    crash(disk)
    directory = open_directory(disk)
    assert directory.partitions == {}
    directory.remove_leftovers()()
    assert [name for name in disk.list("data") if key(0).__str__() in name] == []


def test_a_retention_pass_writes_log_starts_before_it_renames_files():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 40)
    log.flush()
    log.high_watermark = 80
    effects: list[str] = []
    disk.effect = lambda kind, path: effects.append(kind)  # type: ignore[method-assign]
    done = directory.retention(10**12)
    assert done is not None
    assert log.log_start_offset == 80
    effects.clear()
    done.run()
    assert effects.index("rename") > max(n for n, kind in enumerate(effects) if kind == "replace")
    done.close()
    done.remove()
    assert directory.retention(10**12) is None
    crash(disk)
    assert open_directory(disk).open_log(key(0), SMALL, 0).log_start_offset == 80


def test_segments_deleted_by_retention_do_not_come_back_after_a_restart():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 40)
    log.flush()
    log.high_watermark = 80
    assert directory.retention(10**12) is not None
    crash(disk)  # before a worker has written or renamed anything
    assert open_directory(disk).open_log(key(0), SMALL, 0).log_start_offset == 80


def test_a_damaged_log_does_not_stop_retention_of_the_others():
    disk = MemoryDisk()
    directory = open_directory(disk)
    for number in (0, 1):
        log = directory.open_log(key(number), SMALL, 0)
        for timestamp in (1000, 9000, *[2000] * 18):
            log.append(batch(2, timestamp), 0, now_ms=0)
        log.roll(0)
    directory.close()
    damage(disk, 16)  # the first batch, which is read to find the largest timestamp
    directory = open_directory(disk)
    for number in (0, 1):
        log = directory.open_log(key(number), SMALL, 0)
        log.high_watermark = log.log_end_offset
    assert directory.retention(10**12) is not None
    assert [directory.logs[key(n)].log_start_offset for n in (0, 1)] == [0, 40]
    ((log, error),) = directory.unreadable
    assert log is directory.logs[key(0)] and isinstance(error, LogDamaged)
