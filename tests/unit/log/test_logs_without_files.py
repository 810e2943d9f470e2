"""A new log has no directory until its first append."""

from __future__ import annotations

import errno

import pytest

from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from unit.log.log_directories import crash, key, open_directory
from unit.log.log_making import SMALL, batch, read


class FullDisk(MemoryDisk):
    """Refuses one kind of change."""

    refused = ""

    def effect(self, kind: str, path: str) -> None:
        if kind == self.refused:
            raise OSError(errno.ENOSPC, "No space left on device", path)


def directories_of_logs(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.directories if "-" in path]


def test_a_new_log_is_made_on_the_disk_by_its_first_append():
    disk = MemoryDisk()
    log = open_directory(disk).open_log(key(0), SMALL, 0)
    log.begin_epoch(3)
    assert not log.dirty and log.begin_flush() is None
    assert directories_of_logs(disk) == []
    assert log.append(batch(), 3, 0).error is ErrorCode.NONE
    assert directories_of_logs(disk) == [f"data/{key(0)}"]
    assert log.flush() == 1
    crash(disk)
    again = open_directory(disk).open_log(key(0), SMALL, 0)
    assert (again.log_end_offset, again.epochs.entries()) == (1, [(3, 0)])
    assert len(read(again, 0)) == again.size > 0


def test_the_first_flush_syncs_the_new_directory_and_the_one_above():
    synced: list[str] = []

    class Recording(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            if kind == "sync_directory":
                synced.append(path)

    disk = Recording()
    log = open_directory(disk).open_log(key(0), SMALL, 0)
    log.append(batch(), 0, 0)
    synced.clear()
    log.flush()
    assert {"data", f"data/{key(0)}"} <= set(synced)


@pytest.mark.parametrize("refused", ["make_directory", "create", "append"])
def test_a_first_append_that_a_full_disk_refuses_leaves_an_empty_log(refused: str):
    disk = FullDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    disk.refused = refused
    with pytest.raises(OSError, match="No space"):
        log.append(batch(), 0, 0)
    assert (log.log_end_offset, log.size) == (0, 0)
    disk.refused = ""
    log.append(batch(), 0, 0)
    assert log.flush() == 1
    crash(disk)
    assert open_directory(disk).open_log(key(0), SMALL, 0).log_end_offset == 1


@pytest.mark.parametrize("refused", ["", "create"])
def test_a_log_without_files_is_deleted(refused: str):
    disk = FullDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    disk.refused = refused
    if refused:  # only its directory is there
        with pytest.raises(OSError, match="No space"):
            log.append(batch(), 0, 0)
    directory.delete_log(key(0))()
    assert (directories_of_logs(disk), directory.partitions) == ([], {})


def test_logs_without_files_are_no_obstacle_to_a_clean_stop():
    disk = MemoryDisk()
    directory = open_directory(disk)
    directory.open_log(key(0), SMALL, 0).begin_epoch(1)
    directory.close()
    again = open_directory(disk)
    assert again.was_clean
    assert again.partitions == {}


def test_a_log_without_files_that_starts_again_elsewhere_gets_its_directory():
    disk = MemoryDisk()
    log = open_directory(disk).open_log(key(0), SMALL, 0)
    log.truncate_fully_and_start_at(50)
    log.append(batch(), 0, 0)
    log.flush()
    crash(disk)
    again = open_directory(disk).open_log(key(0), SMALL, 0)
    assert (again.log_start_offset, again.log_end_offset) == (50, 51)
