"""A full disk, or one that cannot be read: the broker logs the error and continues."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest

from odradek.broker.node import StartFailed
from odradek.broker.partitions import OPEN_RETRY_MS, SLICE_JOBS
from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreatableTopicConfig
from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from unit.broker.memory_broker import MemoryBroker

SEGMENTS, CHECKPOINTS = (".log", "index"), ("-checkpoint",)
OF_SECOND_LOG = ("-1/00000000000000000000.log",)
GROWING = ("create", "append", "replace")
RETENTION_MS = 300_000


class TroubledFile(MemoryFile):
    def read(self, offset: int, count: int) -> bytes:
        disk = self.disk
        assert isinstance(disk, TroubledDisk)
        if disk.unreadable and self.name.endswith(disk.unreadable):
            raise OSError(errno.EIO, "Input/output error", self.name)
        return super().read(offset, count)


class TroubledDisk(MemoryDisk):
    """Refuses writes to, or reads from, files whose paths end like this."""

    full_for: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def effect(self, kind: str, path: str) -> None:
        if self.full_for and kind in GROWING and path.endswith(self.full_for):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def new_file(self, path: str) -> MemoryFile:
        return TroubledFile(self, path)


def test_retention_continues_after_a_full_disk():
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    settings = {"retention.ms": "1000", "segment.bytes": "1048576"}
    serving.create(
        "t", configs=[CreatableTopicConfig(name=n, value=v) for n, v in settings.items()]
    )
    assert serving.produce_and_wait("t") == 0
    disk.full_for = SEGMENTS
    serving.pass_time(RETENTION_MS + 1)  # the segment is too old, and a new one cannot be begun
    disk.full_for = ()
    log = serving.node.replicas.by_name["t", 0].log
    assert log.log_start_offset == 0
    serving.pass_time(RETENTION_MS + 1)
    assert log.log_start_offset == 1
    assert serving.produce_and_wait("t") == 0


def test_segments_expired_during_a_full_disk_are_deleted_later():
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    settings = {"retention.bytes": "0", "segment.bytes": "1048576"}
    serving.create(
        "t", configs=[CreatableTopicConfig(name=n, value=v) for n, v in settings.items()]
    )
    for _ in range(3):
        assert serving.produce_and_wait("t", size=900_000) == 0
    disk.full_for = CHECKPOINTS
    serving.pass_time(RETENTION_MS + 1)
    disk.full_for = ()
    assert not serving.node.replicas.directory_failed
    serving.pass_time(2 * RETENTION_MS)
    assert (
        len([path for path in disk.files if path.startswith("/data/") and ".log" in path]) == 2
    ), "the active segment of the topic, and that of the metadata"


def test_metadata_continues_after_a_snapshot_on_a_full_disk():
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    disk.full_for = (".checkpoint",)
    serving.create("before")
    serving.node.metadata.snapshot()
    serving.run_until_idle()
    assert not serving.node.replicas.directory_failed
    disk.full_for = ()
    serving.create("after")
    serving.node.metadata.snapshot()
    serving.run_until_idle()
    assert any(path.endswith(".checkpoint") for path in disk.files)


@pytest.mark.parametrize("timestamp", [0, -3])
def test_a_log_that_cannot_be_searched_by_time_goes_offline_alone(timestamp: int):
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    serving.create("t", partitions=2)
    assert serving.produce_and_wait("t") == serving.produce_and_wait("t", index=1) == 0
    disk.unreadable = OF_SECOND_LOG
    asked = [ListOffsetsPartition(partition_index=n, timestamp=timestamp) for n in (0, 1)]
    answer = serving.call(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)]),
        7,
        ListOffsetsResponse,
    )
    errors = [partition.error_code for partition in answer.topics[0].partitions]
    assert errors == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    assert serving.produce_and_wait("t") == 0


def test_a_refused_log_is_not_opened_during_a_shutdown():
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    disk.full_for = OF_SECOND_LOG
    serving.create("t", partitions=2)
    disk.full_for = ()
    stopped: list[bool] = []
    serving.node.stop(lambda: stopped.append(True))
    serving.clock.passed_ms += OPEN_RETRY_MS
    serving.timer.advance_clock(serving.clock.passed_ms)
    serving.run_until_idle()
    assert stopped == [True]
    assert not [path for path in disk.files if path.endswith(OF_SECOND_LOG)]


def restarted_with_empty_directories(
    disk: TroubledDisk, partitions: int, full_for: tuple[str, ...]
) -> MemoryBroker:
    """A broker that cannot make these files at its start: it died after the directories."""
    before = MemoryBroker(disk)
    before.create("t", partitions=partitions)
    for key in before.node.directory.partitions:
        disk.make_directory(before.node.directory.directory_of(key))
    disk.locks.clear()
    disk.full_for = full_for
    return MemoryBroker(disk)


def test_refused_logs_are_opened_again_in_slices():
    disk = TroubledDisk()
    full_for = tuple(f"-{number}/{0:020d}.log" for number in range(1, 100))
    serving = restarted_with_empty_directories(disk, 100, full_for)
    disk.full_for = ()
    logs = serving.node.directory.logs
    assert len(logs) == 1
    serving.clock.passed_ms += OPEN_RETRY_MS
    serving.timer.advance_clock(serving.clock.passed_ms)
    opened = [1, len(logs)]
    while serving.soon:
        serving.run_round()
        opened.append(len(logs))
    assert max(after - before for before, after in pairwise(opened)) == SLICE_JOBS
    assert len(logs) == 100
    assert serving.produce_and_wait("t", index=99) == 0


def test_describe_log_dirs_leaves_out_an_offline_partition():
    disk = TroubledDisk()
    serving = restarted_with_empty_directories(disk, 2, OF_SECOND_LOG)
    disk.full_for = ()
    assert serving.produce_and_wait("t", index=1) == ErrorCode.KAFKA_STORAGE_ERROR
    (directory,) = serving.call(
        DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse
    ).results
    assert directory.error_code == 0
    (topic,) = directory.topics
    assert [partition.partition_index for partition in topic.partitions] == [0]


def test_describe_log_dirs_of_a_fenced_directory_is_a_storage_error():
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    serving.create("t")
    serving.node.replicas.fail_directory(
        serving.node.directory.fence.fail(OSError(errno.EIO, "Input/output error"))
    )
    (directory,) = serving.call(
        DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse
    ).results
    assert (directory.error_code, directory.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


def test_a_log_refused_by_a_full_disk_is_opened_when_there_is_space():
    disk = TroubledDisk()
    serving = restarted_with_empty_directories(disk, 2, OF_SECOND_LOG)
    assert serving.produce_and_wait("t", index=1) == ErrorCode.KAFKA_STORAGE_ERROR
    disk.full_for = ()
    serving.pass_time(5_000)
    assert serving.produce_and_wait("t", index=1) == ErrorCode.NONE


def test_the_first_record_of_a_new_log_is_taken_as_soon_as_there_is_space():
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    serving.create("t")
    disk.full_for = SEGMENTS
    assert serving.produce_and_wait("t") == ErrorCode.KAFKA_STORAGE_ERROR
    disk.full_for = ()
    assert serving.produce_and_wait("t") == ErrorCode.NONE


def test_the_durable_end_of_a_damaged_log_is_made_durable():
    """Else after a power loss the damage would look like a torn tail, and be truncated."""
    synced: list[str] = []

    class Recording(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            if kind == "sync":
                synced.append(path)

    disk = Recording()
    serving = MemoryBroker(disk)
    serving.create("t")
    assert serving.produce_and_wait("t") == 0
    path = next(path for path in disk.files if path.endswith(".log") and "metadata" not in path)
    disk.files[path].content[-1] ^= 1
    disk.locks.clear()
    synced.clear()
    again = MemoryBroker(disk)
    assert again.node.replicas.by_name["t", 0].failure == ErrorCode.KAFKA_STORAGE_ERROR
    assert "/data/durable-ends" in synced


def test_a_log_that_retention_cannot_read_goes_offline_and_the_others_are_trimmed(
    caplog: pytest.LogCaptureFixture,
):
    """Not only with its next fetch, which may be days away."""
    disk = TroubledDisk()
    serving = MemoryBroker(disk)
    settings = {"retention.ms": "1000", "segment.bytes": "1048576"}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
    serving.create("t", partitions=2, configs=configs)
    for index in (0, 0, 0, 1, 1, 1):
        assert serving.produce_and_wait("t", index=index, size=900_000) == 0
    serving.node.stop(lambda: None)
    serving.run_until_idle()
    serving = MemoryBroker(disk)
    disk.unreadable = OF_SECOND_LOG
    serving.pass_time(RETENTION_MS + 1)
    first, second = (serving.node.replicas.by_name["t", index] for index in (0, 1))
    assert (first.failure, first.log.log_start_offset) == (ErrorCode.NONE, 3)
    assert second.failure == ErrorCode.KAFKA_STORAGE_ERROR
    serving.pass_time(RETENTION_MS)
    (line,) = [line for line in caplog.messages if "Input/output error" in line]
    assert line.startswith("partition t-1 is offline: ")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_directory_without_write_access_is_refused_with_what_to_do(number: int):
    class WriteProtected(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            raise OSError(number, "refused", path)

    with pytest.raises(
        StartFailed, match="What to do: choose a directory that this user may write"
    ):
        MemoryBroker(WriteProtected())
