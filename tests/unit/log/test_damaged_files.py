"""Random damage to all files except the records.

Indexes, checkpoints, durable ends, producer snapshots and the identity of the directory are
damaged, records are not. Then the directory or a log is refused, or every record is at its offset
and found by time and by producer. Only the log start may differ if the slot in `durable-ends` is
damaged, too, because its checkpoint has no checksum.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from uuid import UUID

import pytest

from fuzz.budget import seeds
from fuzz.damage import damaged
from odradek.log.directory_identity import META_FILE, WrongDirectory
from odradek.log.fence import LogDamaged
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch import records_of
from unit.log.log_making import batch, headers, read

KEY = TopicIdPartition(UUID(int=7 << 64), 0)
OTHER = TopicIdPartition(UUID(int=9 << 64), 3)
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=-1)
BATCHES = 60
END = 2 * BATCHES
START = 7
PRODUCER = 5
WITHOUT_CHECKSUM = ("-offset-checkpoint", "leader-epoch-checkpoint")
MOST_BYTES = 8 << 20


class StoppedDirectory:
    """A directory after a stop; `damaged_copy` returns a damaged copy of it."""

    def __init__(self, *, clean: bool) -> None:
        disk = MemoryDisk()
        directory = LogDirectory(disk, "data", Random(1), cluster_id="c", node_id=1)
        other = directory.open_log(OTHER, CONFIG, 0)
        other.append(batch(), 0, now_ms=0)
        log = directory.open_log(KEY, CONFIG, 0)
        for number in range(BATCHES):
            producer = (PRODUCER, 0, 2 * number // 3) if number % 3 == 0 else (-1, -1, -1)
            valid = batch(2, 1000 * number, producer=producer)
            assert log.append(valid, number // 25, now_ms=0).error == 0
            if number == 40:
                log.flush(checkpoint=True)
                directory.checkpoint()()
        log.flush()
        log.high_watermark = END
        log.delete_records(START)
        directory.checkpoint()()
        if clean:
            directory.close()
        else:
            log.close()
        self.files = {path: bytes(file.content) for path, file in disk.files.items()}
        self.directories = list(disk.directories)
        self.records = {path: data for path, data in self.files.items() if path.endswith(".log")}

    def damaged_copy(self, random: Random) -> tuple[MemoryDisk, set[str]]:
        """Return a disk and the paths of the damaged files."""
        disk = MemoryDisk()
        for path in self.directories:
            disk.make_directory(path)
        derived = [path for path in self.files if not path.endswith((".log", ".lock"))]
        wrong = set(random.sample(derived, random.choice((1, 1, 2, 4))))
        for path, data in self.files.items():
            disk.replace_file(path, damaged(random, data) if path in wrong else data)
            if path in wrong and random.random() < 0.1:
                disk.remove(path)
        return disk, wrong


@contextmanager
def bounded_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= MOST_BYTES, f"{peak} bytes"


def records_are_untouched(stopped: StoppedDirectory, disk: MemoryDisk) -> bool:
    now = {path: disk.read_file(path) for path in disk.files if path.endswith(".log")}
    return all(now.get(path) == data for path, data in stopped.records.items())


def times_of(number: int) -> list[int]:
    return [1000 * number, 1000 * number + 1]


def check(log: Log, step: int, start_is_known: bool) -> None:
    """Check that every fifth offset and every seventh timestamp are found."""
    assert log.log_end_offset == END
    assert log.log_start_offset == START or not start_is_known
    for offset in range(log.log_start_offset + step % 5, END, 5):
        data = read(log, offset, 300 if offset % 2 else 1)
        found = headers(data)
        assert found[0].base_offset == offset // 2 * 2
        for expected, header in enumerate(found, offset // 2):
            assert header.base_offset == 2 * expected
            assert [r.timestamp for r in records_of(data, header)] == times_of(expected)
    assert len(headers(read(log, log.log_start_offset))) == BATCHES - log.log_start_offset // 2
    for number in range(log.log_start_offset // 2 + 1 + step % 7, BATCHES, 7):
        at = log.offset_for_timestamp(1000 * number, END)
        assert at is not None and (at.timestamp, at.offset) == (1000 * number, 2 * number)
    latest = log.offset_for_max_timestamp(END)
    assert latest is not None and latest.offset == END - 1
    producer = log.producers.entry(PRODUCER)
    assert producer is not None and producer.last_offset == 2 * (BATCHES - 3) + 1


@pytest.mark.parametrize("clean", [False, True])
def test_damaged_derived_files_lose_no_records_or_the_log_reports_damage(clean: bool) -> None:
    stopped = StoppedDirectory(clean=clean)
    for name, random in seeds(250, f"files-{clean}"):
        disk, wrong = stopped.damaged_copy(random)
        what = f"{name}: {sorted(wrong)}"
        try:
            one_life(stopped, disk, wrong, random)
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error


def one_life(stopped: StoppedDirectory, disk: MemoryDisk, wrong: set[str], random: Random) -> None:
    unsure = any(path.endswith(WITHOUT_CHECKSUM) for path in wrong)
    start_is_known = not any(path.endswith("log-start-offset-checkpoint") for path in wrong)
    try:
        directory = LogDirectory(disk, "data", Random(2), cluster_id="c", node_id=1)
    except WrongDirectory:
        assert f"data/{META_FILE}" in wrong
        return
    try:
        with bounded_memory():
            log = directory.open_log(KEY, CONFIG, 0)
        directory.open_log(OTHER, CONFIG, 0)
    except LogDamaged:
        assert unsure, "the damaged file has a checksum or can be rebuilt"
        assert records_are_untouched(stopped, disk)
        return
    check(log, random.randrange(35), start_is_known)
    assert records_are_untouched(stopped, disk)
    log.append(batch(2, 1000 * BATCHES), 3, now_ms=0)
    directory.close()
    again = LogDirectory(disk, "data", Random(2), cluster_id="c", node_id=1)
    assert again.open_log(KEY, CONFIG, 0).log_end_offset == END + 2
