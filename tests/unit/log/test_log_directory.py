"""A data directory: identity, lock, many logs, stops and crashes."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from log_making import SMALL, batch, fill, offsets, read

from odradek.log.fence import LogDamaged, LogDirFailure
from odradek.log.files import LocalDisk
from odradek.log.log_directory import LogDirectory, partition_of
from odradek.log.memory import MemoryDisk
from odradek.log.meta_properties import WrongDirectory
from odradek.log.retention import RetentionClock
from odradek.model.env import Disk
from odradek.model.ids import TopicIdPartition

TOPIC = UUID("e4db0fc8-5d12-4aa0-9093-d1ea987aa815")


def key(partition: int) -> TopicIdPartition:
    return TopicIdPartition(TOPIC, partition)


def open_directory(disk: Disk, path: str = "data", **identity: object) -> LogDirectory:
    cluster_id = identity.get("cluster_id")
    node_id = identity.get("node_id", 1)
    assert cluster_id is None or isinstance(cluster_id, str)
    assert isinstance(node_id, int)
    return LogDirectory(disk, path, random.Random(1), cluster_id=cluster_id, node_id=node_id)


def crash(disk: MemoryDisk) -> None:
    """The process is gone, and its lock with it; the page cache lives on."""
    disk.locks.clear()


def test_a_directory_has_an_identity_from_its_first_use():
    disk = MemoryDisk()
    directory = open_directory(disk)
    identity = directory.meta
    directory.close()
    assert open_directory(disk).meta == identity
    crash(disk)
    with pytest.raises(WrongDirectory, match="belongs to node 1"):
        open_directory(disk, node_id=2)
    with pytest.raises(WrongDirectory, match="of cluster"):
        open_directory(disk, cluster_id="another")
    assert open_directory(disk, cluster_id=identity.cluster_id).meta == identity, (
        "lock was released"
    )


@pytest.mark.parametrize(
    ("path", "synced"), [("data", ["."]), ("a/b/c", ["a/b", "a", "."]), ("/v/data", ["/v", "/"])]
)
def test_the_names_of_all_directories_it_is_in_are_durable_before_it_has_an_identity(
    path: str, synced: list[str]
):
    class Recording(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            effects.append((kind, path))

    effects: list[tuple[str, str]] = []
    disk = Recording()
    disk.make_directory("a")  # by a start that was cut short: nobody knows it is not durable
    directory = open_directory(disk, path)
    identity = effects.index(("replace", f"{path}/meta.properties"))
    assert [where for kind, where in effects[:identity] if kind == "sync_directory"] == synced
    directory.release()
    effects.clear()
    open_directory(disk, path)
    assert "sync_directory" not in {kind for kind, _ in effects}


def test_a_directory_above_that_may_not_be_read_is_no_obstacle():
    class Closed(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            if (kind, path) == ("sync_directory", "/v"):
                raise PermissionError(errno.EACCES, "denied", path)

    assert open_directory(Closed(), "/v/data").meta


def test_logs_without_an_identity_are_never_taken_over():
    disk = MemoryDisk()
    disk.make_directory(f"data/{key(0)}")
    with pytest.raises(WrongDirectory, match=r"no meta\.properties"):
        open_directory(disk)


def test_only_one_process_at_a_time():
    disk = MemoryDisk()
    directory = open_directory(disk)
    with pytest.raises(BlockingIOError):
        open_directory(disk)
    directory.close()
    open_directory(disk)


def test_directories_are_named_by_topic_id():
    assert str(key(3)) == "5NsPyF0SSqCQk9HqmHqoFQ-3"
    assert partition_of("5NsPyF0SSqCQk9HqmHqoFQ-3") == key(3)
    for name in ("topic-3", "5NsPyF0SSqCQk9HqmHqoFQ", "5NsPyF0SSqCQk9HqmHqoFQ-3.1-delete", "a-b"):
        assert partition_of(name) is None


def test_after_a_clean_stop_everything_is_there():
    disk = MemoryDisk()
    directory = open_directory(disk)
    for n in range(3):
        fill(directory.open_log(key(n), SMALL, 0), 10 * (n + 1))
    directory.logs[key(1)].high_watermark = 30
    directory.logs[key(1)].delete_records(7)
    directory.close()
    assert disk.read_file("data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert disk.read_file("data/recovery-point-offset-checkpoint").endswith(b"-2 60\n") is False
    again = open_directory(disk)
    assert again.was_clean
    assert not disk.exists("data/.kafka_cleanshutdown")
    for n in range(3):
        log, found = again.loading(key(n), SMALL, 0)()
        again.adopt(key(n), log)
        assert (log.log_end_offset, found.scanned_bytes) == (20 * (n + 1), 0)
    assert again.logs[key(1)].log_start_offset == 7
    assert again.logs[key(1)].high_watermark == 30


def test_logs_that_were_not_opened_stay_clean_over_a_crash():
    disk = MemoryDisk()
    directory = open_directory(disk)
    for n in range(2):
        fill(directory.open_log(key(n), SMALL, 0), 10)
    directory.close()
    open_directory(disk).open_log(key(0), SMALL, 0)
    crash(disk)
    directory = open_directory(disk)
    log, found = directory.loading(key(1), SMALL, 0)()
    assert (log.log_end_offset, found.scanned_bytes) == (20, 0)
    directory.close()
    assert b" 0 20\n" in disk.read_file("data/recovery-point-offset-checkpoint")
    assert b" 1 20\n" in disk.read_file("data/recovery-point-offset-checkpoint")


def test_after_a_crash_what_was_flushed_is_known_without_a_checkpoint():
    disk = MemoryDisk()
    log = open_directory(disk).open_log(key(0), SMALL, 0)
    fill(log, 5)
    log.flush(checkpoint=True)
    fill(log, 1)
    log.flush()
    fill(log, 1)
    crash(disk)
    log, found = open_directory(disk).loading(key(0), SMALL, 0)()
    assert log.log_end_offset == 14
    assert found.scanned_bytes == log.size * 2 // 7, "from the recovery point"


def damage(disk: MemoryDisk, position: int) -> None:
    disk.files[f"data/{key(0)}/{0:020d}.log"].content[position] ^= 1


@pytest.mark.parametrize(("batch_number", "is_damage"), [(5, True), (6, False)])
def test_a_flipped_bit_is_damage_up_to_the_last_flush_and_a_torn_tail_after_it(
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
def test_offsets_that_are_not_what_they_were_end_no_log(
    batch_number: int, ended: str, compact: bool
):
    """A base offset is under no checksum. The end of what was durable is known, and a batch ends
    there: if none does, offsets would be given that nobody expects, or a tail be cut that is none.
    """
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


def test_lost_notes_fall_back_to_the_checkpoint_and_lost_checkpoints_to_a_full_scan():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 20)
    log.flush(checkpoint=True)
    directory.checkpoint()()
    crash(disk)
    disk.files["data/durable-ends"].content[20:90] = b"junk" * 20
    log, found = open_directory(disk).loading(key(0), SMALL, 0)()
    assert (log.recovery_point, found.scanned_bytes) == (40, 0)
    crash(disk)
    disk.files["data/durable-ends"].content[20:90] = b"junk" * 20
    for name in ("recovery-point", "log-start", "replication"):
        path = f"data/{name}-offset-checkpoint"
        if disk.exists(path):
            disk.files[path].content[:] = b"junk"
    directory = open_directory(disk)
    assert len(directory.problems) == 3
    log, found = directory.loading(key(0), SMALL, 0)()
    assert (log.log_end_offset, found.scanned_bytes) == (40, log.size)


def test_a_note_after_the_notes_were_lost_keeps_what_the_checkpoint_knew():
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


def test_deleting_renames_at_once_and_removes_later():
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
    assert directory.fence.failure is None, "a flush of deleted files is no failure"
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


def test_a_retention_pass_records_log_starts_before_it_renames():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 40)
    log.flush()
    log.high_watermark = 80
    clock = RetentionClock(10**12, 0)
    effects: list[str] = []
    disk.effect = lambda kind, path: effects.append(kind)  # type: ignore[method-assign]
    done = directory.retention(clock, 10**12, 0)
    assert done is not None
    assert log.log_start_offset == 80
    effects.clear()
    done.run()
    assert effects.index("rename") > max(n for n, kind in enumerate(effects) if kind == "replace")
    done.close()
    done.remove()
    assert directory.retention(clock, 10**12, 0) is None
    crash(disk)
    assert open_directory(disk).open_log(key(0), SMALL, 0).log_start_offset == 80


def test_what_retention_took_does_not_come_back_with_the_next_process():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 40)
    log.flush()
    log.high_watermark = 80
    assert directory.retention(RetentionClock(10**12, 0), 10**12, 0) is not None
    crash(disk)  # before a worker has recorded or renamed anything
    assert open_directory(disk).open_log(key(0), SMALL, 0).log_start_offset == 80


def test_a_flipped_digit_in_the_checkpoint_of_log_starts_removes_no_records():
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


def test_a_log_that_retention_finds_damaged_keeps_no_other_from_its_turn():
    disk = MemoryDisk()
    directory = open_directory(disk)
    for number in (0, 1):
        log = directory.open_log(key(number), SMALL, 0)
        for timestamp in (1000, 9000, *[2000] * 18):
            log.append(batch(2, timestamp), 0, now_ms=0)
        log.roll(0)
    directory.close()
    damage(disk, 16)  # the first batch, which is read to find the one with the largest timestamp
    directory = open_directory(disk)
    for number in (0, 1):
        log = directory.open_log(key(number), SMALL, 0)
        log.high_watermark = log.log_end_offset
    assert directory.retention(RetentionClock(10**12, 0), 10**12, 0) is not None
    assert [directory.logs[key(n)].log_start_offset for n in (0, 1)] == [0, 40]
    ((log, error),) = directory.unreadable
    assert log is directory.logs[key(0)] and isinstance(error, LogDamaged)


def test_a_failed_checkpoint_fences_the_directory_and_a_fenced_one_leaves_no_clean_marker():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 1)
    work = directory.checkpoint()

    def broken(kind: str, path: str) -> None:
        raise OSError(5, "Input/output error", path)

    disk.effect = broken  # type: ignore[method-assign]
    with pytest.raises(LogDirFailure):
        work()
    disk.effect = lambda kind, path: None  # type: ignore[method-assign]
    with pytest.raises(LogDirFailure):
        log.append(batch(), 0, now_ms=0)
    with pytest.raises(LogDirFailure):
        directory.open_log(key(1), SMALL, 0)
    directory.close()
    assert not disk.exists("data/.kafka_cleanshutdown")


def test_sizes_of_opened_and_unopened_logs():
    disk = MemoryDisk()
    directory = open_directory(disk)
    fill(directory.open_log(key(0), SMALL, 0), 30)
    size = directory.size_of(key(0))
    assert size == directory.logs[key(0)].size
    directory.close()
    assert open_directory(disk).size_of(key(0)) == size


def test_periodic_work_finds_the_logs_it_is_for():
    disk = MemoryDisk()
    directory = open_directory(disk)
    logs = [directory.open_log(key(n), SMALL, 0) for n in range(3)]
    for log in logs:
        log.flush()
    fill(logs[1], 20)
    fill(logs[2], 1)
    assert directory.behind_recovery_point() == [logs[1], logs[2]]
    logs[0].append(batch(producer=(1, 0, 0)), 0, now_ms=0)
    assert directory.expire_producers(0) == 0
    assert directory.expire_producers(SMALL.producer_id_expiration_ms) == 1


def test_a_hundred_logs_live_in_sixteen_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    disk = LocalDisk(max_open=16)
    directory = open_directory(disk, f"{tmp_path}/data")
    highest = 0
    for turn in range(3):
        for n in range(100):
            log = directory.open_log(key(n), SMALL, 0)
            fill(log, 3)
            highest = max(highest, disk.open_files)
            if turn == 1:
                log.flush(checkpoint=True)
    assert highest <= 17, "and one for durable-ends, which is pinned"
    for n in range(100):
        assert [base for base, _ in offsets(read(directory.logs[key(n)], 0))] == list(
            range(0, 18, 2)
        )
    directory.close()
    again = open_directory(disk, f"{tmp_path}/data")
    assert [again.open_log(key(n), SMALL, 0).log_end_offset for n in range(100)] == [18] * 100
    again.close()


def test_loading_may_run_on_a_worker_while_the_owner_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    disk = LocalDisk(max_open=4)
    directory = open_directory(disk, f"{tmp_path}/data")
    for n in range(30):
        fill(directory.open_log(key(n), SMALL, 0), 20)
        directory.logs[key(n)].flush()
    directory._unlock()
    again = open_directory(disk, f"{tmp_path}/data")
    works: list[Callable[[], object]] = [again.loading(key(n), SMALL, 0) for n in range(30)]
    with ThreadPoolExecutor(2) as workers:
        results = [workers.submit(work) for work in works]
        other = again.open_log(key(99), SMALL, 0)
        while not all(result.done() for result in results):
            fill(other, 1)
            read(other, 0)
    ends = [result.result()[0].log_end_offset for result in results]  # type: ignore[index]
    assert ends == [40] * 30
