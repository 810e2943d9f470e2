"""Random damage to records: every operation on the log succeeds or raises `LogDamaged`.

Damaged durable records are never truncated, moved or overwritten. Reads return them, because
clients verify the checksums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from fuzz.budget import seeds
from fuzz.damage import damaged
from odradek.log.compaction.batch_retention import OffsetMap
from odradek.log.compaction.cleaner import UNCLEANABLE, Cleaner, log_to_clean
from odradek.log.compaction.segment_swap import LogCleaningAborted
from odradek.log.fence import LogDamaged
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from unit.log.compacting import keyed

KEY = TopicIdPartition(UUID(int=7 << 64), 0)
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=-1)
BATCHES = 40
END = 2 * BATCHES
LATER_MS = 10**9


def a_life(*, clean: bool) -> dict[str, bytes]:
    """Return the files of a directory with one log that was durable when the process ended."""
    disk = MemoryDisk()
    directory = LogDirectory(disk, "data", Random(1), cluster_id="c", node_id=1)
    log = directory.open_log(KEY, CONFIG, 0)
    for number in range(BATCHES):
        producer = (5, 0, 2 * number) if number < 10 else (-1, -1, -1)
        key, codec = b"%d" % (number % 7), number % 5
        records = [(key, b"x" * 10), (b"y", b"z" * 9)]
        valid = keyed(records, 1000 * number, producer=producer, codec=codec)
        assert log.append(valid, number // 15, now_ms=0).error == 0
        if number == 25:
            log.flush(checkpoint=True)
            directory.checkpoint()()
    log.flush()
    if clean:
        directory.close()
    return {path: bytes(file.content) for path, file in disk.files.items()}


class Life:
    """A directory with some damaged records."""

    def __init__(self, files: dict[str, bytes], random: Random) -> None:
        self.disk = MemoryDisk()
        self.disk.make_directory(f"data/{KEY}")
        logs = [path for path in files if path.endswith(".log") and files[path]]
        wrong = set(random.sample(logs, random.choice((1, 1, 2))))
        self.found: dict[str, bytes] = {}
        for path, data in files.items():
            now = damaged(random, data) if path in wrong else data
            self.disk.replace_file(path, now)
            if path in logs:
                self.found[path] = now
        self.whole = files
        self.random = random
        self.directory = LogDirectory(self.disk, "data", random, cluster_id="c", node_id=1)

    def is_unchanged(self) -> bool:
        return all(self.disk.read_file(path) == data for path, data in self.found.items())

    def only_the_tail_is_truncated(self) -> bool:
        """True if only bytes after the durable end are missing, which a start truncates."""
        for path, data in self.found.items():
            now = self.disk.read_file(path)
            if not data.startswith(now) or len(now) < min(len(data), len(self.whole[path])):
                return False
            self.found[path] = now
        return True

    def use(self, log: Log) -> None:
        log.high_watermark = log.flushed_offset
        for action in self.random.sample(ACTIONS, len(ACTIONS)):
            try:
                action(self, log)
            except LogDamaged:
                assert self.is_unchanged(), "durable bytes were changed"


def read(life: Life, log: Log) -> None:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        most = life.random.choice((1, 200, 1000))
        found = log.read(offset, most, log.log_end_offset)
        for piece in found.slices:
            piece.read()
        found.release()
        offset += 3


def look_up_times(life: Life, log: Log) -> None:
    for number in range(0, BATCHES, 6):
        log.offset_for_timestamp(1000 * number, log.high_watermark)
    log.offset_for_max_timestamp(log.high_watermark)


def look_up_offsets(life: Life, log: Log) -> None:
    for offset in range(log.log_start_offset, log.log_end_offset, 7):
        log.offset_metadata(offset)
    for epoch in range(4):
        log.end_offset_for_epoch(epoch)


def delete_by_time(life: Life, log: Log) -> None:
    """Check that retention removes only whole segments."""
    if life.random.random() < 0.7:
        return
    log.configure(replace(CONFIG, retention_ms=5000))
    done = life.directory.retention(20_000)
    log.configure(CONFIG)
    if done is not None:
        done.run()
        done.close()
        done.remove()
        life.found = {path: data for path, data in life.found.items() if life.disk.exists(path)}


def compact(life: Life, log: Log) -> None:
    if life.random.random() < 0.5:
        return
    log.configure(replace(CONFIG, compact=True))
    plan = log_to_clean(log, None, LATER_MS)
    cleaner = Cleaner(life.disk, plan, OffsetMap(1 << 16, 0.9), now_ms=LATER_MS, chunk_bytes=512)
    try:
        for step in cleaner.steps():
            if not isinstance(step, int):
                step(log)
                life.found = {}  # replaced by verified records
    except (*UNCLEANABLE, LogCleaningAborted):
        assert life.is_unchanged()
    finally:
        log.cleaning = False


ACTIONS: list[Callable[[Life, Log], None]] = [
    read,
    look_up_times,
    look_up_offsets,
    delete_by_time,
    compact,
]


@pytest.mark.parametrize("clean", [False, True])
def test_damaged_records_are_reported_and_not_changed(clean: bool) -> None:
    files = a_life(clean=clean)
    for name, random in seeds(250, f"records-{clean}"):
        try:
            life = Life(files, random)
            try:
                log = life.directory.open_log(KEY, CONFIG, 0)
            except LogDamaged:
                assert life.is_unchanged(), "durable bytes were changed"
                continue
            assert log.log_end_offset == END
            assert life.only_the_tail_is_truncated(), "durable bytes were changed"
            life.use(log)
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
