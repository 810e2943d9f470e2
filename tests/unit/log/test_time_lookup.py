"""A search by time reads a few batches, however many the log has."""

from __future__ import annotations

from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.log.scan import LOOK_UP_BYTES
from unit.log.log_making import batch, new_log

BATCHES = 3000
A_FEW_LOOKS = 6 * LOOK_UP_BYTES


class CountedFile(MemoryFile):
    def read(self, offset: int, count: int) -> bytes:
        assert isinstance(self.disk, CountedDisk)
        data = super().read(offset, count)
        self.disk.read_bytes += len(data)
        return data


class CountedDisk(MemoryDisk):
    read_bytes = 0

    def new_file(self, path: str) -> MemoryFile:
        return CountedFile(self, path)


def test_the_largest_timestamp_below_uncommitted_records_is_found_from_the_end() -> None:
    """Under load the newest records are never committed yet."""
    disk = CountedDisk()
    log = new_log(disk, LogConfig())
    for number in range(BATCHES):
        log.append(batch(timestamp=1000 + number // 3), 0, now_ms=0)
    assert log.size > 4 * A_FEW_LOOKS and len(log.segments) == 1
    for uncommitted in (1, 2, 3, 10, 50):
        disk.read_bytes = 0
        end = BATCHES - uncommitted
        first_of_its_time = (end - 1) // 3 * 3
        assert log.offset_for_max_timestamp(end) == (1000 + (end - 1) // 3, first_of_its_time, 0)
        assert disk.read_bytes <= A_FEW_LOOKS
