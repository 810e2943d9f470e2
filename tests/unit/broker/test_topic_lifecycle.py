"""Topics that are deleted while they are used; settings of topics; failed starts and stops."""

from __future__ import annotations

import errno

import pytest

from odradek.broker.partitions import Partitions
from odradek.broker.server import Server, StartFailed
from odradek.config.topic import TopicConfig
from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.api.create_topics import CreatableTopicConfig
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.api.produce import ProduceResponse
from unit.broker.memory_broker import MemoryBroker, SentRequest


def delete(serving: MemoryBroker, name: str) -> SentRequest:
    return serving.send(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)


def long_poll(serving: MemoryBroker, name: str, offset: int = 0) -> SentRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=name, partitions=[partition])],
        forgotten_topics_data=[],
    )
    return serving.send(request, 11)


def error_of(fetch: SentRequest) -> int:
    return fetch.answer(FetchResponse).responses[0].partitions[0].error_code


def test_delayed_requests_are_answered_when_their_topic_is_deleted():
    serving = MemoryBroker()
    serving.create("t")
    fetch = long_poll(serving, "t")
    assert fetch.parts is None
    produce = serving.produce("t")
    serving.run_soon()
    delete(serving, "t")
    serving.run_soon()
    serving.work.append(serving.work.pop(0))  # the flush of the topic is the last to end
    serving.run_until_idle()
    assert error_of(fetch) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = produce.answer(ProduceResponse).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert serving.node.replicas.fetch_purgatory.num_delayed == 0
    assert serving.node.replicas.produce_purgatory.num_delayed == 0
    assert not serving.node.replicas.directory_failed
    assert not [path for path, file in serving.disk.files.items() if file.pins > 1]


def test_a_new_topic_of_a_deleted_name_is_empty():
    serving = MemoryBroker()
    serving.create("t")
    for _ in range(3):
        assert serving.produce_and_wait("t") == 0
    produce = serving.produce("t")
    serving.run_soon()
    delete(serving, "t")
    flush = serving.work.pop(0)  # of the old topic; it ends after the new one has begun
    serving.run_until_idle()
    serving.create("t")
    serving.work.append(flush)
    serving.run_until_idle()
    assert produce.parts is not None
    log = serving.node.replicas.by_name["t", 0].log
    assert (log.log_end_offset, log.flushed_offset) == (0, 0)
    fetch = long_poll(serving, "t")
    assert serving.produce_and_wait("t") == 0
    assert error_of(fetch) == 0
    assert log.flushed_offset == 1


def test_the_files_of_a_large_topic_are_removed_one_partition_after_the_other():
    serving = MemoryBroker()
    serving.create("t", partitions=50)
    serving.create("u")
    deleted = delete(serving, "t")
    serving.run_soon()
    serving.run_work()  # the commit
    serving.run_soon()
    assert deleted.answer(DeleteTopicsResponse).responses[0].error_code == 0
    produce = serving.produce("u")
    serving.run_soon()
    assert len(serving.work) <= 3
    serving.run_until_idle()
    assert produce.parts is not None
    assert not [path for path in serving.disk.directories if "-delete" in path]


class FailingDisk(MemoryDisk):
    broken = ""

    def effect(self, kind: str, path: str) -> None:
        if self.broken and kind == "sync" and self.broken in path:
            raise OSError(errno.EIO, "Input/output error", path)


def test_a_failed_shutdown_releases_the_directory():
    disk = FailingDisk()
    serving = MemoryBroker(disk)
    disk.broken = "__cluster_metadata"
    stopped: list[bool] = []
    serving.node.stop(lambda: stopped.append(True))
    serving.run_until_idle()
    assert (stopped, disk.locks) == ([True], {})
    disk.broken = ""
    assert ".kafka_cleanshutdown" not in disk.list("/data")
    MemoryBroker(disk)


def test_an_address_that_cannot_be_bound_fails_the_start():
    with pytest.raises(StartFailed, match=r"192\.0\.2\.1"):
        Server({}, host="192.0.2.1", port=0, data_dir=None).start()


def test_the_settings_of_a_topic_are_read_once_for_all_partitions(
    monkeypatch: pytest.MonkeyPatch,
):
    serving = MemoryBroker()
    serving.create("t")
    read_for: list[str] = []
    find = Partitions.config_of

    def counted(self: Partitions, name: str) -> TopicConfig:
        read_for.append(name)
        return find(self, name)

    monkeypatch.setattr(Partitions, "config_of", counted)
    more = CreatePartitionsTopic(name="t", count=100, assignments=None)
    serving.call(
        CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False),
        3,
        CreatePartitionsResponse,
    )
    assert read_for == ["t"]
    read_for.clear()
    serving.node.partitions.configs_changed()
    assert read_for == ["t"]


def test_a_setting_that_contradicts_a_new_default_is_left_out_alone():
    serving = MemoryBroker()
    settings = {"retention.ms": "-1", "min.compaction.lag.ms": "5000", "segment.ms": "77000"}
    serving.create(
        "t", configs=[CreatableTopicConfig(name=n, value=v) for n, v in settings.items()]
    )
    change = AlterableConfig(
        name="log.cleaner.max.compaction.lag.ms", config_operation=0, value="1000"
    )
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    answer = serving.call(
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=False),
        1,
        IncrementalAlterConfigsResponse,
    )
    assert answer.responses[0].error_code == 0
    config = serving.node.replicas.by_name["t", 0].log.config
    assert (config.retention_ms, config.segment_ms) == (-1, 77000)
    described = serving.call(
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
            ]
        ),
        4,
        DescribeConfigsResponse,
    )
    assert described.results[0].error_code == 0
    values = {row.name: row.value for row in described.results[0].configs}
    assert (values["retention.ms"], values["min.compaction.lag.ms"]) == ("-1", "0")


def test_contradicting_defaults_are_refused():
    serving = MemoryBroker()
    serving.create("t")
    change = AlterableConfig(
        name="log.cleaner.max.compaction.lag.ms", config_operation=0, value="1000"
    )
    other = AlterableConfig(
        name="log.cleaner.min.compaction.lag.ms", config_operation=0, value="5000"
    )
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change, other])
    answer = serving.call(
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=False),
        1,
        IncrementalAlterConfigsResponse,
    )
    assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
    serving.create("u")
