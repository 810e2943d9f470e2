"""The log cleaner: which log it compacts when, how fast, and its errors."""

from __future__ import annotations

import errno
import logging

import pytest

from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.model.byte_ranges import ByteRange
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.create_topics import CreatableTopicConfig
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.record_batch import batches, records_of
from odradek.protocol.record_batch_builder import build
from unit.broker.memory_broker import MemoryBroker

BACKOFF_MS = 15_000
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "2000"}


class FullDisk(MemoryDisk):
    """Refuses writes to some files while it is full."""

    refused = ""

    def effect(self, kind: str, path: str) -> None:
        if self.refused and kind in ("create", "append") and path.endswith(self.refused):
            raise OSError(errno.ENOSPC, "no room", path)


def created(node: MemoryBroker, name: str, **settings: str) -> None:
    values = {**COMPACTED, **{key.replace("_", "."): value for key, value in settings.items()}}
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in values.items()]
    node.create(name, configs=configs)


def produce(node: MemoryBroker, topic: str, first: int, count: int, keys: int = 5) -> None:
    """Append records `first`, `first + 1`, ... of some keys, each in a batch of its own."""
    for number in range(first, first + count):
        data = build([(b"%d" % (number % keys), b"%d" % number, [], node.clock.wall_ms())])
        partition = PartitionProduceData(index=0, records=ByteRange(data, 0, len(data)))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
        )
        answer = node.call(request, 9, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0


def log_of(node: MemoryBroker, topic: str) -> Log:
    return node.node.replicas.by_name[topic, 0].log


def left(node: MemoryBroker, topic: str) -> list[bytes | None]:
    """The values that a fetch returns, in order."""
    log = log_of(node, topic)
    found = log.read(0, 1 << 30, log.log_end_offset)
    data = b"".join(piece.read() for piece in found.slices)
    found.release()
    return [record.value for header in batches(data) for record in records_of(data, header)]


def is_compacted(node: MemoryBroker, topic: str) -> bool:
    values = left(node, topic)
    return len(values) < log_of(node, topic).log_end_offset


def checkpoint(node: MemoryBroker) -> str:
    return node.disk.read_file("/data/cleaner-offset-checkpoint").decode()


def test_a_dirty_log_is_compacted_within_the_backoff_and_not_before():
    node = MemoryBroker()
    created(node, "t")
    produce(node, "t", 0, 100)
    node.pass_time(BACKOFF_MS - 1)
    assert not is_compacted(node, "t")
    node.pass_time(10)
    assert is_compacted(node, "t")
    values = left(node, "t")
    assert values[-5:] == [b"95", b"96", b"97", b"98", b"99"]
    active = log_of(node, "t").segments.active.base_offset
    topic = node.node.broker.image.topic("t")
    assert topic is not None
    assert checkpoint(node).splitlines()[2].split()[1:] == ["0", str(active)]


def test_topics_without_compaction_are_not_cleaned():
    node = MemoryBroker()
    created(node, "t", cleanup_policy="delete")
    produce(node, "t", 0, 100)
    node.pass_time(5 * BACKOFF_MS)
    assert len(left(node, "t")) == 100


def test_a_log_past_max_compaction_lag_is_compacted_below_the_dirty_ratio():
    """Also in the active segment, which is rolled by the first record after the lag."""
    node = MemoryBroker()
    lag_ms = 60_000
    roomy = {"internal_segment_bytes": "1000000", "max_compaction_lag_ms": str(lag_ms)}
    for topic, policy in (("t", "compact"), ("kept", "delete")):
        created(node, topic, cleanup_policy=policy, min_cleanable_dirty_ratio="1", **roomy)
        produce(node, topic, 0, 3, keys=1)
    node.pass_time(lag_ms)
    for topic in ("t", "kept"):
        produce(node, topic, 3, 1, keys=1)
    node.pass_time(BACKOFF_MS + 10)
    assert left(node, "t") == [b"0", b"1", b"2", b"3"], "nothing has waited for too long"
    for topic in ("t", "kept"):
        produce(node, topic, 4, 1, keys=1)
    node.pass_time(BACKOFF_MS + 10)
    assert left(node, "t") == [b"3", b"4"]
    assert len(left(node, "kept")) == 5
    assert len(log_of(node, "kept").segments.items) == 1, "it goes by segment.ms alone"


def test_the_cleaned_offset_survives_a_restart():
    node = MemoryBroker()
    created(node, "t")
    produce(node, "t", 0, 100)
    node.pass_time(BACKOFF_MS + 10)
    before = checkpoint(node)
    node.node.stop(lambda: None)
    node.run_until_idle()
    again = MemoryBroker(node.disk)
    segments = list(log_of(again, "t").segments.items)
    again.pass_time(BACKOFF_MS + 10)
    assert checkpoint(again) == before
    assert log_of(again, "t").segments.items == segments, "none was replaced"


def test_what_follows_a_truncation_below_the_clean_part_is_dirty():
    """As after an unclean election. Unmarked, these records would keep their duplicates until each
    key is written once more."""
    node = MemoryBroker()
    created(node, "t")
    produce(node, "t", 0, 100)
    node.pass_time(BACKOFF_MS + 10)
    (first_dirty,) = node.node.directory.offsets.first_dirty.values()
    truncate(node, 50)
    assert log_of(node, "t").log_end_offset <= 50 < first_dirty
    (lowered,) = node.node.directory.offsets.first_dirty.values()
    assert lowered == log_of(node, "t").segments.active.base_offset
    assert checkpoint(node).splitlines()[2].split()[2] == str(lowered), "written at once"
    produce(node, "t", 1000, 100)
    assert log_of(node, "t").log_end_offset > first_dirty
    node.pass_time(2 * BACKOFF_MS)
    active = log_of(node, "t").segments.active.base_offset
    values = left(node, "t")
    kept = values[: -(log_of(node, "t").log_end_offset - active)]
    assert len(kept) <= 5, "one record for each key below the active segment"


def truncate(node: MemoryBroker, offset: int) -> None:
    replicas, ended = node.node.replicas, []
    replicas.truncate(replicas.by_name["t", 0], offset, False, lambda: ended.append(True))
    node.pass_time(10)
    assert ended


def test_the_dirtiest_log_comes_first_and_the_next_one_follows_at_once():
    node = MemoryBroker(log_cleaner_io_max_bytes_per_second="100000")
    for topic in ("a", "b"):
        created(node, topic)
        produce(node, topic, 0, 100)
    node.pass_time(BACKOFF_MS + 2_000)
    for topic, later in (("a", 130), ("b", 400)):
        produce(node, topic, 100, later)
    order: list[str] = []
    for _ in range(20_000):
        for topic in ("a", "b"):
            cleaning = log_of(node, topic).cleaning
            if cleaning and (not order or order[-1] != topic):
                order.append(topic)
        if len(order) == 2:
            break
        node.pass_time(1)
    assert order == ["b", "a"]


def test_a_pass_keeps_the_configured_rate():
    node = MemoryBroker(
        log_cleaner_io_max_bytes_per_second="1000", log_cleaner_io_buffer_size="1024"
    )
    created(node, "t")
    produce(node, "t", 0, 200)
    size = sum(segment.size for segment in log_of(node, "t").segments.items[:-1])
    node.pass_time(BACKOFF_MS)
    took_ms = 0
    while not checkpointed(node):
        node.pass_time(100)
        took_ms += 100
    # Every byte is read for the map and again, and little is written.
    assert 2 * size * 0.9 <= took_ms <= 3 * size
    assert is_compacted(node, "t")


def checkpointed(node: MemoryBroker) -> bool:
    log = log_of(node, "t")
    return not log.cleaning and is_compacted(node, "t")


def test_settings_of_the_cleaner_change_while_it_runs():
    node = MemoryBroker()
    created(node, "t")
    alter(node, "log.cleaner.io.max.bytes.per.second", "10")
    produce(node, "t", 0, 100)
    node.pass_time(5 * BACKOFF_MS)
    assert log_of(node, "t").cleaning
    alter(node, "log.cleaner.io.max.bytes.per.second", "10000000")
    node.pass_time(2 * 60_000)
    assert not log_of(node, "t").cleaning
    assert is_compacted(node, "t")


def alter(node: MemoryBroker, name: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=4,
        resource_name="",
        configs=[AlterableConfig(name=name, config_operation=0, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = node.call(request, 1, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0, answer


def test_a_shutdown_does_not_wait_for_a_pass_and_the_next_start_cleans_up():
    node = MemoryBroker(
        log_cleaner_io_max_bytes_per_second="1000", log_cleaner_io_buffer_size="1024"
    )
    created(node, "t")
    produce(node, "t", 0, 100)
    node.pass_time(BACKOFF_MS + 5_000)
    assert log_of(node, "t").cleaning
    stopped: list[bool] = []
    node.node.stop(lambda: stopped.append(True))
    node.run_until_idle()
    assert stopped
    again = MemoryBroker(node.disk)
    assert left(again, "t")[-5:] == [b"95", b"96", b"97", b"98", b"99"]
    again.pass_time(BACKOFF_MS + 10)
    assert is_compacted(again, "t")
    assert not [name for name in node.disk.files if name.endswith((".cleaned", ".swap"))]


def test_an_error_of_a_topic_deleted_meanwhile_is_ignored(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.ERROR)
    node = MemoryBroker(
        log_cleaner_io_max_bytes_per_second="2000", log_cleaner_io_buffer_size="1024"
    )
    created(node, "t")
    created(node, "u")
    produce(node, "t", 0, 100)
    node.pass_time(BACKOFF_MS + 1_000)
    assert log_of(node, "t").cleaning
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=1000
    )
    assert node.call(request, 6, DeleteTopicsResponse).responses[0].error_code == 0
    produce(node, "u", 0, 100)
    node.pass_time(300_000)
    assert is_compacted(node, "u")
    assert not caplog.records
    assert node.node.directory.fence.failure is None


def test_a_pass_without_space_is_tried_again(caplog: pytest.LogCaptureFixture):
    disk = FullDisk()
    node = MemoryBroker(disk)
    created(node, "t")
    produce(node, "t", 0, 100)
    disk.refused = ".cleaned"
    node.pass_time(10 * BACKOFF_MS)
    assert not is_compacted(node, "t")
    logged = [record for record in caplog.records if "is tried again" in record.getMessage()]
    assert 5 <= len(logged) <= 10, "once per backoff"
    disk.refused = ""
    node.pass_time(BACKOFF_MS + 10)
    assert is_compacted(node, "t")


def test_a_damaged_log_is_logged_once_and_not_changed(caplog: pytest.LogCaptureFixture):
    node = MemoryBroker()
    for topic in ("damaged", "sound"):
        created(node, topic)
        produce(node, topic, 0, 100)
    path = log_of(node, "damaged").segments.items[1].file.path
    file = node.disk.files[path]
    assert isinstance(file, MemoryFile)
    file.content[-1] ^= 1
    before = {path: bytes(file.content) for path, file in node.disk.files.items()}
    node.pass_time(10 * BACKOFF_MS)
    assert is_compacted(node, "sound")
    directory = log_of(node, "damaged").directory
    for path, content in before.items():
        if path.startswith(directory):
            assert bytes(node.disk.files[path].content) == content
    logged = [r for r in caplog.records if "is not compacted" in r.getMessage()]
    assert len(logged) == 1 and "checksum mismatch" in logged[0].getMessage()
    assert node.node.directory.fence.failure is None
