"""Data directories: identity, lock, clean stops, many logs."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odradek.log.directory_identity import WrongDirectory
from odradek.log.fence import LogDirFailure
from odradek.log.files import LocalDisk
from odradek.log.log_directory import NO_BROKER_EPOCH, partition_of
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import uuid_text
from unit.log.log_directories import crash, key, open_directory
from unit.log.log_making import SMALL, batch, fill, offsets, read


def test_the_first_use_gives_a_directory_its_identity():
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
def test_all_directories_above_are_synced_before_the_identity_is_written(
    path: str, synced: list[str]
):
    class Recording(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            effects.append((kind, path))

    effects: list[tuple[str, str]] = []
    disk = Recording()
    disk.make_directory("a")  # by a start that crashed: it may not be durable
    directory = open_directory(disk, path)
    identity = effects.index(("replace", f"{path}/meta.properties"))
    assert [where for kind, where in effects[:identity] if kind == "sync_directory"] == synced
    directory.release()
    effects.clear()
    open_directory(disk, path)
    assert "sync_directory" not in {kind for kind, _ in effects}


def test_a_directory_above_that_cannot_be_read_is_ignored():
    class Closed(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            if (kind, path) == ("sync_directory", "/v"):
                raise PermissionError(errno.EACCES, "denied", path)

    assert open_directory(Closed(), "/v/data").meta


def test_a_directory_with_logs_and_no_identity_is_refused():
    disk = MemoryDisk()
    disk.make_directory(f"data/{key(0)}")
    with pytest.raises(WrongDirectory, match=r"no meta\.properties"):
        open_directory(disk)


def test_a_directory_in_use_by_another_process_is_refused():
    disk = MemoryDisk()
    directory = open_directory(disk)
    with pytest.raises(BlockingIOError):
        open_directory(disk)
    directory.close()
    open_directory(disk)


def test_log_directories_are_named_by_topic_id():
    assert str(key(3)) == "5NsPyF0SSqCQk9HqmHqoFQ-3"
    assert partition_of("5NsPyF0SSqCQk9HqmHqoFQ-3") == key(3)
    for name in ("topic-3", "5NsPyF0SSqCQk9HqmHqoFQ", "5NsPyF0SSqCQk9HqmHqoFQ-3.1-delete", "a-b"):
        assert partition_of(name) is None


@pytest.mark.parametrize(
    ("marker", "epoch"),
    [
        (b'{"version":0,"brokerEpoch":1234}', 1234),
        (b'{"version":0,"brokerEpoch":-1}', NO_BROKER_EPOCH),
        (b'{"brokerEpoch": "77"}', 77),
        (b"", NO_BROKER_EPOCH),
        (b'{"brokerEpoch":true}', NO_BROKER_EPOCH),
    ],
)
def test_the_epoch_of_the_broker_that_stopped_is_read_from_the_marker(marker, epoch):
    disk = MemoryDisk()
    open_directory(disk).close()
    disk.replace_file("data/.kafka_cleanshutdown", marker)
    assert open_directory(disk).previous_broker_epoch == epoch


def test_a_broker_that_did_not_stop_cleanly_has_no_epoch_before():
    disk = MemoryDisk()
    directory = open_directory(disk)
    directory.release()
    assert open_directory(disk).previous_broker_epoch == NO_BROKER_EPOCH


def test_a_life_in_which_only_durable_bytes_count_tells_its_epoch_after_any_end():
    disk = MemoryDisk()
    directory = open_directory(disk)
    directory.keep_epoch(7)()
    directory.release()
    again = open_directory(disk)
    assert (again.was_clean, again.previous_broker_epoch) == (False, 7)
    again.keep_epoch(12)()
    again.close(12)
    assert open_directory(disk).previous_broker_epoch == 12


def test_the_marker_of_a_clean_stop_counts_and_no_epoch_of_a_life_before():
    disk = MemoryDisk()
    directory = open_directory(disk)
    directory.keep_epoch(7)()
    directory.close()  # of a node alone, which has no epoch
    assert open_directory(disk).previous_broker_epoch == NO_BROKER_EPOCH


def test_the_newest_epoch_counts_after_a_start_that_opened_no_log():
    """It was registered, and killed before it removed the marker of the clean stop before."""
    disk = MemoryDisk()
    directory = open_directory(disk)
    directory.keep_epoch(7)()
    fill(directory.open_log(key(1), SMALL, 0), 10)
    directory.close(7)
    directory = open_directory(disk)
    directory.keep_epoch(12)()
    directory.release()
    assert open_directory(disk).previous_broker_epoch == 12


def test_a_life_that_may_lose_what_counts_forgets_the_epoch():
    disk = MemoryDisk()
    directory = open_directory(disk)
    directory.keep_epoch(7)()
    directory.forget_epoch()()
    directory.forget_epoch()()
    directory.release()
    assert open_directory(disk).previous_broker_epoch == NO_BROKER_EPOCH


def test_a_directory_that_failed_keeps_no_epoch():
    disk = MemoryDisk()
    directory = open_directory(disk)
    directory.fence.fail(OSError(errno.EIO, "failed"))
    with pytest.raises(LogDirFailure):
        directory.keep_epoch(7)()
    directory.release()
    assert open_directory(disk).previous_broker_epoch == NO_BROKER_EPOCH


def test_a_directory_that_fails_while_the_epoch_is_written_keeps_none():
    class Failing(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            if (kind, path) == ("replace", "data/durable-broker-epoch"):
                directory.fence.fail(OSError(errno.EIO, "failed"))

    disk = Failing()
    directory = open_directory(disk)
    directory.keep_epoch(7)()
    directory.release()
    assert open_directory(disk).previous_broker_epoch == NO_BROKER_EPOCH


def test_an_epoch_that_cannot_be_written_fences_the_directory():
    class Failing(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            if (kind, path) == ("replace", "data/durable-broker-epoch"):
                raise OSError(errno.EIO, "failed", path)

    directory = open_directory(Failing())
    with pytest.raises(LogDirFailure):
        directory.keep_epoch(7)()
    assert directory.fence.failure is not None


def test_a_clean_stop_keeps_everything():
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
    for n in range(3):
        log, found = again.open_work(key(n), SMALL, 0)()
        again.adopt(key(n), log)
        assert (log.log_end_offset, found.scanned_bytes) == (20 * (n + 1), 0)
    assert again.logs[key(1)].log_start_offset == 7
    assert again.logs[key(1)].high_watermark == 30


def test_a_checkpoint_has_what_the_logs_had_when_it_was_asked_for():
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = directory.open_log(key(0), SMALL, 0)
    fill(log, 10)
    log.flush(checkpoint=True)
    work = directory.checkpoint()
    fill(log, 10)
    log.flush(checkpoint=True)
    directory.checkpoint()  # never run: the newer values are not those of the older work
    directory.open_log(key(1), SMALL, 0)
    work()
    assert disk.read_file("data/recovery-point-offset-checkpoint").splitlines()[1:] == [
        b"1",
        f"{uuid_text(key(0).topic_id)} 0 20".encode(),
    ]


def test_a_failed_checkpoint_fences_the_directory_and_a_stop_leaves_no_marker():
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


def test_the_size_of_a_log_is_known_whether_it_is_open_or_not():
    disk = MemoryDisk()
    directory = open_directory(disk)
    fill(directory.open_log(key(0), SMALL, 0), 30)
    size = directory.size_of(key(0))
    assert size == directory.logs[key(0)].size
    directory.close()
    assert open_directory(disk).size_of(key(0)) == size


def test_periodic_work_selects_its_logs():
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


def test_a_hundred_logs_use_at_most_sixteen_descriptors(
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


def test_logs_are_opened_on_workers_while_the_owner_works(
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
    works: list[Callable[[], object]] = [again.open_work(key(n), SMALL, 0) for n in range(30)]
    with ThreadPoolExecutor(2) as workers:
        results = [workers.submit(work) for work in works]
        other = again.open_log(key(99), SMALL, 0)
        while not all(result.done() for result in results):
            fill(other, 1)
            read(other, 0)
    ends = [result.result()[0].log_end_offset for result in results]  # type: ignore[index]
    assert ends == [40] * 30
