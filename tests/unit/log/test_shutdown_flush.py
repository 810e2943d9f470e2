"""Before a clean stop all logs are flushed, many at once; failures are left to the next start."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from odradek.log.flush import ShutdownFlush
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from unit.log.log_making import fill


class FailingDisk(MemoryDisk):
    """A disk that fails changes to paths that contain `part`."""

    part = "nothing"
    kinds: tuple[str, ...] = ()
    error = errno.EIO

    def effect(self, kind: str, path: str) -> None:
        if self.part in path and kind in self.kinds:
            raise OSError(self.error, "refused", path)


class Workers:
    """Runs submitted work on request, newest first: the order must not matter."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[..., None]]] = []
        self.most = 0

    def submit(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[..., None]
    ) -> None:
        self.work.append((work, done, failed))
        self.most = max(self.most, len(self.work))

    def run_one(self) -> None:
        work, done, failed = self.work.pop()
        try:
            result = work()
        except OSError as error:
            failed(error)
        else:
            done(result)

    def run_all(self) -> None:
        while self.work:
            self.run_one()


def key(number: int) -> TopicIdPartition:
    return TopicIdPartition(UUID(int=1), number)


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def directory(disk: FailingDisk) -> LogDirectory:
    """Make ten logs with unflushed records and one without."""
    made = start(disk)
    for number in range(10):
        fill(made.open_log(key(number), LogConfig(), 0), 3)
    made.open_log(key(10), LogConfig(), 0).flush()
    return made


def start(disk: MemoryDisk) -> LogDirectory:
    disk.locks.clear()
    return LogDirectory(disk, "data", random.Random(1), cluster_id="c", node_id=1)


def begin(directory: LogDirectory, workers: Workers) -> tuple[ShutdownFlush, list[str]]:
    calls: list[str] = []
    flushes = ShutdownFlush(
        directory.logs.values(), workers, lambda: calls.append("done"), concurrency=4
    )
    flushes.start()
    return flushes, calls


def test_all_logs_are_flushed_concurrently_and_done_is_called_once(
    disk: FailingDisk, directory: LogDirectory
):
    workers = Workers()
    flushes, calls = begin(directory, workers)
    assert (flushes.total, len(workers.work), calls) == (10, 4, [])
    workers.run_one()
    assert (flushes.ended, len(workers.work)) == (1, 4)
    workers.run_all()
    assert (flushes.ended, workers.most, calls) == (10, 4, ["done"])
    assert all(log.recovery_point == log.log_end_offset for log in directory.logs.values())
    flushes.give_up()
    assert calls == ["done"]
    directory.close()
    assert start(disk).was_clean


def test_done_is_called_at_once_without_anything_to_flush(directory: LogDirectory):
    directory.close()
    assert begin(directory, Workers())[1] == ["done"]


def test_giving_up_waits_for_running_flushes_and_leaves_no_marker(
    disk: FailingDisk, directory: LogDirectory
):
    workers = Workers()
    flushes, calls = begin(directory, workers)
    workers.run_one()
    flushes.give_up()
    assert calls == []
    workers.run_all()
    assert (flushes.ended, calls) == (5, ["done"])
    directory.close(flush=False)
    again = start(disk)
    assert not again.was_clean
    ends = [again.open_log(key(number), LogConfig(), 0).log_end_offset for number in range(10)]
    assert ends == [6] * 10


def test_a_log_without_room_for_its_flush_is_skipped(disk: FailingDisk, directory: LogDirectory):
    for log in directory.logs.values():
        log.configure(LogConfig(index_interval_bytes=10))
        fill(log, 2)
    disk.part, disk.kinds, disk.error = f"{key(3)}", ("create",), errno.ENOSPC
    workers = Workers()
    flushes, calls = begin(directory, workers)
    workers.run_all()
    assert (flushes.ended, flushes.gave_up, calls) == (11, False, ["done"])
    behind = [name for name, log in directory.logs.items() if log.recovery_point == 0]
    assert behind == [key(3)]


def test_a_failed_sync_begins_no_more_flushes(disk: FailingDisk, directory: LogDirectory):
    disk.part, disk.kinds = f"{key(9)}", ("sync",)
    workers = Workers()
    _, calls = begin(directory, workers)
    workers.run_all()
    assert calls == ["done"]
    assert directory.fence.failure is not None
    directory.close()
    assert not start(disk).was_clean
