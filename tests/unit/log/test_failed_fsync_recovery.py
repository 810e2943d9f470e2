"""Recovery after a failed fsync: pages that the kernel has marked clean are written again."""

from __future__ import annotations

import pytest

from odradek.log.fence import LogDirFailure
from odradek.testing.disk import SimDisk
from odradek.testing.scheduler import Scheduler
from unit.log.log_making import batch, new_log, read, reopen


@pytest.mark.parametrize("seed", range(12))
def test_records_durable_after_a_restart_survive_the_next_power_loss(seed: int) -> None:
    disk = SimDisk(Scheduler(seed), "disk")
    mount = disk.mount()
    log = new_log(mount)
    mount.sync_directory("/")
    for _ in range(3):
        log.append(batch(size=300), 0, now_ms=0)
    mount.faults.sync_error_rate = 1000
    with pytest.raises(LogDirFailure):
        log.flush()
    again, _ = reopen(disk.mount())
    assert again.flushed_offset == again.log_end_offset == 3
    before = read(again, 0)
    disk.power_loss()
    last, _ = reopen(disk.mount(), durable_end=3)
    assert read(last, 0) == before
