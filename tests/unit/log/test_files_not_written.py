"""Files that a log does not write, because they would be almost empty or are unchanged."""

from __future__ import annotations

import random
from uuid import UUID

from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from unit.log.log_making import batch, read

KEY = TopicIdPartition(UUID(int=5), 0)
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1000)


class RecordingDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.effects: list[tuple[str, str]] = []

    def effect(self, kind: str, path: str) -> None:
        self.effects.append((kind, path))

    def take_effects(self) -> list[tuple[str, str]]:
        taken, self.effects = self.effects, []
        return taken

    def names(self) -> list[str]:
        """Return the names of the log's files."""
        start = f"data/{KEY}/"
        return sorted(path.removeprefix(start) for path in self.files if path.startswith(start))


def start(disk: MemoryDisk) -> LogDirectory:
    disk.locks.clear()
    return LogDirectory(disk, "data", random.Random(1), cluster_id="c", node_id=1)


def open_log(directory: LogDirectory, config: LogConfig = CONFIG) -> Log:
    return directory.open_log(KEY, config, 0)


def produce(log: Log, sequence: int, size: int = 50) -> bool:
    """Append one record of producer 7; return True if it was a duplicate."""
    return log.append(batch(producer=(7, 0, sequence), size=size), 0, now_ms=0).duplicate


def test_a_clean_stop_writes_no_file_for_a_log_with_few_records():
    disk = RecordingDisk()
    directory = start(disk)
    log = open_log(directory)
    for sequence in range(3):
        produce(log, sequence)
    log.flush()
    before = disk.names()
    directory.close()
    assert disk.names() == before == [f"{0:020d}.log", "leader-epoch-checkpoint"]
    directory = start(disk)
    assert directory.was_clean
    again = open_log(directory)
    assert (again.log_end_offset, again.recovery_point) == (3, 3)
    assert [produce(again, sequence) for sequence in range(4)] == [True, True, True, False]


def test_a_crash_without_those_files_loses_nothing():
    disk = RecordingDisk()
    directory = start(disk)
    log = open_log(directory)
    for sequence in range(3):
        produce(log, sequence)
    log.flush(checkpoint=True)
    log, found = start(disk).open_work(KEY, CONFIG, 0)()
    assert (log.recovery_point, log.log_end_offset, found.scanned_bytes) == (3, 3, 0)
    assert [produce(log, sequence) for sequence in range(4)] == [True, True, True, False]


def test_more_than_an_index_interval_gets_indexes_and_a_snapshot():
    disk = RecordingDisk()
    directory = start(disk)
    log = open_log(directory)
    for sequence in range(3):
        produce(log, sequence, size=600)
    directory.close()
    stem = f"{0:020d}"
    assert disk.names() == [
        f"{stem}.index",
        f"{stem}.log",
        f"{stem}.timeindex",
        f"{3:020d}.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_a_roll_is_followed_by_a_snapshot():
    disk = RecordingDisk()
    directory = start(disk)
    log = open_log(directory)
    produce(log, 0)
    log.roll(0)
    log.append(batch(), 0, now_ms=0)
    log.flush()
    assert f"{2:020d}.snapshot" in disk.names()
    log.high_watermark = 2
    log.delete_records(1)
    deleted = directory.retention(0)
    assert deleted is not None
    deleted.run()
    directory.close()
    assert produce(open_log(start(disk)), 0), "its record is deleted, its sequence is known"


def test_a_truncation_below_the_last_snapshot_is_followed_by_another():
    disk = RecordingDisk()
    directory = start(disk)
    log = open_log(directory)
    for sequence in range(4):
        produce(log, sequence, size=600)
    log.flush(checkpoint=True)
    log.truncate_to(2)
    log.append(batch(), 0, now_ms=0)
    log.flush(checkpoint=True)
    assert [name for name in disk.names() if name.endswith("snapshot")] == [f"{3:020d}.snapshot"]


def test_a_clean_restart_does_not_rewrite_unchanged_files():
    disk = RecordingDisk()
    directory = start(disk)
    never_written = TopicIdPartition(UUID(int=6), 0)
    log = open_log(directory)
    for sequence in range(30):
        produce(log, sequence, size=600)
    roomy = LogConfig()
    directory.open_log(never_written, roomy, 0)
    directory.close()
    disk.take_effects()
    directory = start(disk)
    log = open_log(directory)
    assert len(read(log, 0)) == log.size
    directory.open_log(never_written, roomy, 0)
    directory.close()
    assert disk.take_effects() == [
        ("remove", "data/.kafka_cleanshutdown"),
        ("sync_directory", "data"),
        ("sync", "data/durable-ends"),
        ("replace", "data/.kafka_cleanshutdown"),
    ]


def test_a_stop_writes_nothing_for_a_log_without_a_snapshot_at_its_end():
    disk = RecordingDisk()
    directory = start(disk)
    log = open_log(directory)
    for sequence in range(6):
        produce(log, sequence, size=600)
    log.flush(checkpoint=True)
    produce(log, 6)
    directory.close()
    assert disk.names()[-2:] == [f"{6:020d}.snapshot", "leader-epoch-checkpoint"]
    directory = start(disk)
    open_log(directory)
    disk.take_effects()
    directory.close()
    assert disk.take_effects() == [
        ("sync", "data/durable-ends"),
        ("replace", "data/.kafka_cleanshutdown"),
    ]


def test_durable_files_are_not_synced_again():
    disk = RecordingDisk()
    log = open_log(start(disk))
    produce(log, 0)
    log.flush()
    disk.take_effects()
    log.flush(checkpoint=True)
    assert [path for kind, path in disk.take_effects() if kind == "sync"] == []


def test_a_missing_index_of_a_large_active_segment_is_written_once():
    disk = RecordingDisk()
    directory = start(disk)
    log = open_log(directory)
    for sequence in range(10):
        produce(log, sequence, size=600)
    directory.close()
    for suffix in ("index", "timeindex"):
        disk.remove(f"data/{KEY}/{0:020d}.{suffix}")
    directory = start(disk)
    open_log(directory)
    directory.close()
    disk.take_effects()
    open_log(start(disk))
    assert [path for kind, path in disk.take_effects() if kind in ("create", "append")] == []
