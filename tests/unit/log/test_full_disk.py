"""A full disk: which operations fail, and which are repeated later.

Any write may fail with `ENOSPC`. A failed append has not happened; an index, a snapshot or a
checkpoint is written later. Only a failed fsync of records fences the directory.
"""

from __future__ import annotations

import errno
import random
from uuid import UUID

import pytest

from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from unit.log.log_making import batch, fill, headers, new_log, offsets, read, reopen

KEY = TopicIdPartition(UUID(int=7), 0)
DENSE = LogConfig(index_interval_bytes=1)


class FillingDisk(MemoryDisk):
    """A disk without room for files with a suffix."""

    full_for: tuple[str, ...] = ()

    def effect(self, kind: str, path: str) -> None:
        if kind in ("create", "append", "replace") and path.endswith(self.full_for):
            raise OSError(errno.ENOSPC, "No space left on device", path)


def test_an_append_succeeds_without_room_for_its_index():
    disk = FillingDisk()
    log = new_log(disk, DENSE)
    disk.full_for = ("index",)
    fill(log, 2000, records=1)
    assert log.log_end_offset == 2000
    assert [header.base_offset for header in headers(read(log, 0))] == list(range(2000))
    disk.full_for = ()
    log.flush(checkpoint=True)
    assert reopen(disk, DENSE, recovery_point=2000)[0].log_end_offset == 2000


@pytest.mark.parametrize("name", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_records_become_durable_without_room_for_the_checkpoint(name: str):
    disk = FillingDisk()
    log = new_log(disk)
    log.flush(checkpoint=True)
    for sequence in range(3):  # more than an index interval, so the index has an entry
        log.append(batch(producer=(1, 0, sequence), size=200), 3, now_ms=0)
    disk.full_for = (name,)
    assert log.flush(checkpoint=True) == 3
    assert (log.fence.failure, log.recovery_point) == (None, 0)
    disk.full_for = ()
    assert log.dirty or log.checkpoint_due, "it is tried again"
    log.flush()
    assert log.recovery_point == 3
    again, _ = reopen(disk, recovery_point=3)
    assert again.latest_epoch == 3
    assert again.producers.entry(1) is not None


def test_a_checkpoint_that_found_no_room_is_written_by_the_next_pass():
    disk = FillingDisk()
    directory = LogDirectory(disk, "data", random.Random(1), cluster_id=None, node_id=1)
    log = directory.open_log(KEY, LogConfig(), 0)
    log.append(batch(3), 0, now_ms=0)
    log.flush(checkpoint=True)
    disk.full_for = ("offset-checkpoint",)
    with pytest.raises(OSError, match="No space left"):
        directory.checkpoint()()
    assert directory.fence.failure is None
    disk.full_for = ()
    directory.checkpoint()()
    assert b" 0 3\n" in disk.read_file("data/recovery-point-offset-checkpoint")
    assert offsets(read(log, 0)) == [(0, 2)]


def test_a_stop_without_room_for_a_log_leaves_no_clean_marker():
    disk = FillingDisk()
    directory = LogDirectory(disk, "data", random.Random(1), cluster_id=None, node_id=1)
    log = directory.open_log(KEY, LogConfig(), 0)
    log.append(batch(), 0, now_ms=0)
    log.flush(checkpoint=True)
    log.append(batch(), 3, now_ms=0)
    disk.full_for = ("leader-epoch-checkpoint",)
    directory.close()
    disk.full_for = ()
    again = LogDirectory(disk, "data", random.Random(1), cluster_id=None, node_id=1)
    assert not again.was_clean
    assert again.open_log(KEY, LogConfig(), 0).latest_epoch == 3


def test_a_log_that_finds_no_room_to_start_again_does_it_later():
    disk = FillingDisk()
    log = new_log(disk)
    fill(log, 10, records=1)
    log.flush(checkpoint=True)
    disk.full_for = (".log",)
    restart = log.begin_restart(40)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            restart.run()
    assert (log.fence.failure, log.truncating) == (None, True)
    disk.full_for = ()
    restart.run()
    log.end_truncation(restart)
    assert (log.log_start_offset, log.log_end_offset, log.may_truncate) == (40, 40, True)
    assert reopen(disk, recovery_point=40)[0].log_end_offset == 40
