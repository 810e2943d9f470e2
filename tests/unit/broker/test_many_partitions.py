"""Thousands of partitions created or deleted at once do not block other requests."""

from __future__ import annotations

from itertools import pairwise

import pytest

from odradek.broker.partitions import MANY_OPENED, OPEN_AT_ONCE, SLICE_JOBS, Partitions
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery import RecoveryStats
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from unit.broker.memory_broker import MemoryBroker, SentRequest

MANY = OPEN_AT_ONCE + 5 * SLICE_JOBS


def creating(
    serving: MemoryBroker, name: str, partitions: int, timeout_ms: int = 1000
) -> SentRequest:
    """Create a topic and run until its records are committed, not until all partitions are open."""
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    asked = serving.send(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7)
    commit(serving)
    return asked


def commit(serving: MemoryBroker) -> None:
    """Run until metadata is committed, and no round of the loop more."""
    serving.run_round()
    while serving.work:
        serving.run_work()


def error_of(asked: SentRequest) -> int:
    return asked.answer(CreateTopicsResponse).topics[0].error_code


def test_few_partitions_are_open_with_the_commit():
    serving = MemoryBroker()
    asked = creating(serving, "t", OPEN_AT_ONCE)
    assert error_of(asked) == 0
    assert len(serving.node.replicas.by_name) == OPEN_AT_ONCE


def test_many_partitions_are_opened_in_slices_and_the_response_waits_for_the_last():
    serving = MemoryBroker()
    asked = creating(serving, "t", MANY)
    opened = [len(serving.node.replicas.by_name)]
    while asked.parts is None:
        serving.run_round()
        opened.append(len(serving.node.replicas.by_name))
    assert opened == [*range(OPEN_AT_ONCE, MANY, SLICE_JOBS), MANY]
    assert error_of(asked) == 0
    assert not serving.node.broker.opening


def open_one_slowly(serving: MemoryBroker, monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """Let each log take so many milliseconds to open."""
    directory = serving.node.directory
    open_log = directory.open_and_report

    def slowly(
        key: TopicIdPartition, config: LogConfig, now_ms: int, is_led_elsewhere: bool
    ) -> tuple[Log, RecoveryStats]:
        serving.clock.passed_ms += ms
        return open_log(key, config, now_ms, is_led_elsewhere)

    monkeypatch.setattr(directory, "open_and_report", slowly)


def test_a_slice_ends_early_when_the_disk_is_slow(monkeypatch: pytest.MonkeyPatch):
    serving = MemoryBroker()
    asked = creating(serving, "t", OPEN_AT_ONCE + 3)
    open_one_slowly(serving, monkeypatch, 10)
    for opened in (1, 2):
        serving.run_round()
        assert len(serving.node.replicas.by_name) == OPEN_AT_ONCE + opened
    serving.run_round()
    assert error_of(asked) == 0


@pytest.mark.parametrize("topics", [1, 3])
def test_the_environment_is_told_of_each_thousand_of_records_and_logs(topics: int):
    serving, calls = MemoryBroker(), list[int]()
    serving.node.broker.env.many_made = lambda: calls.append(1)
    for number in range(topics):
        serving.create(f"t{number}", partitions=MANY_OPENED)
    assert len(calls) == 2 * topics


def test_the_environment_is_not_told_of_few_partitions():
    serving, calls = MemoryBroker(), list[int]()
    serving.node.broker.env.many_made = lambda: calls.append(1)
    serving.create("t", partitions=MANY)
    assert calls == []


def test_other_requests_are_answered_between_slices():
    serving = MemoryBroker()
    serving.create("u")
    asked = creating(serving, "t", MANY)
    assert serving.produce("u", acks=0).parts == ()
    other = creating(serving, "v", 1)
    assert asked.parts is None
    assert other.parts is None, "in line behind what was created before"
    config = AlterableConfig(name="retention.ms", config_operation=0, value="5000")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    altered = serving.send(
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1
    )
    serving.run_until_idle()
    assert altered.answer(IncrementalAlterConfigsResponse).responses[0].error_code == 0
    assert [error_of(each) for each in (asked, other)] == [0, 0]
    retention = {
        part.log.config.retention_ms
        for part in serving.node.replicas
        if part.topic_partition.topic == "t"
    }
    assert retention == {5000}, "also of those that were opened after the change"


def test_a_creation_past_its_timeout_times_out_and_continues():
    serving = MemoryBroker()
    asked = creating(serving, "t", MANY, timeout_ms=50)
    serving.clock.passed_ms = 50
    serving.timer.advance_clock(50)
    assert error_of(asked) == ErrorCode.REQUEST_TIMED_OUT
    serving.run_until_idle()
    assert len(serving.node.replicas.by_name) == MANY


def test_a_topic_can_be_deleted_before_all_partitions_are_open():
    serving = MemoryBroker()
    asked = creating(serving, "t", MANY)
    deleted = serving.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    serving.run_until_idle()
    assert deleted.answer(DeleteTopicsResponse).responses[0].error_code == 0
    assert error_of(asked) == 0
    assert not serving.node.replicas.by_name
    assert not serving.node.directory.partitions


def test_the_files_of_a_large_topic_are_renamed_in_slices():
    serving = MemoryBroker()
    serving.create("t", partitions=MANY)
    serving.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    serving.run_round()
    serving.run_work()
    assert not serving.node.replicas.by_name, "no partition is visible to clients"
    left = len(serving.node.directory.partitions)
    assert left == MANY - OPEN_AT_ONCE
    serving.run_round()
    assert len(serving.node.directory.partitions) == left - SLICE_JOBS
    serving.run_until_idle()
    assert not serving.node.directory.partitions


def test_a_shutdown_renames_queued_deletions_and_opens_no_more_logs():
    serving = MemoryBroker()
    serving.create("t", partitions=MANY)
    for index in range(MANY):
        assert serving.produce_and_wait("t", index=index) == 0  # else it would have no files
    serving.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    commit(serving)
    creating(serving, "u", 2 * MANY)
    assert serving.node.directory.partitions
    serving.node.stop(lambda: None)
    assert len(serving.work) == 1, "of the removals, the one under way"
    serving.run_until_idle()
    assert [name for name in serving.disk.list("/data") if name.endswith("-delete")]
    again = MemoryBroker(serving.disk)
    assert {name for name, _ in again.node.replicas.by_name} == {"u"}
    assert not [name for name in serving.disk.list("/data") if name.endswith("-delete")]
    assert len(again.node.directory.partitions) == len(again.node.replicas.by_name) == 2 * MANY


def test_added_partitions_are_opened_in_slices_too():
    serving = MemoryBroker()
    serving.create("t")
    more = CreatePartitionsTopic(name="t", count=MANY + 1, assignments=None)
    asked = serving.send(
        CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False), 3
    )
    commit(serving)
    assert asked.parts is None
    serving.run_until_idle()
    assert asked.answer(CreatePartitionsResponse).results[0].error_code == 0
    assert len(serving.node.replicas.by_name) == MANY + 1


def test_a_partition_queued_twice_is_opened_once():
    serving = MemoryBroker()
    asked = creating(serving, "t", MANY)
    more = CreatePartitionsTopic(name="t", count=MANY + 3, assignments=None)
    added = serving.send(
        CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False), 3
    )
    commit(serving)
    assert asked.parts is None, "there are more to come of the first when the second is committed"
    replicas = serving.node.replicas
    opened = dict(replicas.by_id)
    while serving.soon:
        serving.run_round()
        for key, partition in replicas.by_id.items():
            assert opened.setdefault(key, partition) is partition, f"{key} was opened again"
    assert added.answer(CreatePartitionsResponse).results[0].error_code == 0
    assert error_of(asked) == 0
    assert len(replicas.by_name) == MANY + 3
    assert not serving.node.broker.opening


def restarted_without_logs(
    monkeypatch: pytest.MonkeyPatch, *topics: str, partitions: int = MANY
) -> MemoryBroker:
    """A node whose directory has topics, of which no log is open yet."""
    before = MemoryBroker()
    for name in topics:
        before.create(name, partitions=partitions)
    before.node.stop(lambda: None)
    before.run_until_idle()
    with monkeypatch.context() as patch:
        patch.setattr(Partitions, "open_all", lambda self, progress: None)
        return MemoryBroker(before.disk)


def test_a_start_in_the_loop_opens_the_logs_in_slices(monkeypatch: pytest.MonkeyPatch):
    serving = restarted_without_logs(monkeypatch, "t")
    counts, ended = [0], list[int]()
    by_name = serving.node.replicas.by_name
    serving.node.partitions.open_in_loop(lambda: ended.append(len(by_name)))
    assert not by_name, "nothing blocks before the loop runs"
    while serving.soon:
        serving.run_round()
        counts.append(len(by_name))
    assert ended == [MANY]
    assert max(b - a for a, b in pairwise(counts)) <= OPEN_AT_ONCE


def test_topics_deleted_while_a_start_opens_logs_are_gone_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
):
    serving = restarted_without_logs(monkeypatch, "t", "u", "v")
    ended = list[set[str]]()
    by_name = serving.node.replicas.by_name
    serving.node.partitions.open_in_loop(lambda: ended.append({name for name, _ in by_name}))
    while len(by_name) < MANY + 3:
        serving.run_round()
    serving.send(DeleteTopicsRequest(topic_names=["t", "v"], timeout_ms=1000), 5)
    creating(serving, "new", 2)
    serving.run_until_idle()
    assert ended == [{"u", "new"}]
    assert {key.topic_id for key in serving.node.directory.partitions} == {
        partition.topic_id for partition in serving.node.replicas
    }


def test_a_stop_ends_a_start_in_the_loop(monkeypatch: pytest.MonkeyPatch):
    serving = restarted_without_logs(monkeypatch, "t")
    ended = list[str]()
    serving.node.partitions.open_in_loop(lambda: ended.append("opened"))
    serving.run_round()
    serving.node.stop(lambda: ended.append("stopped"))
    serving.run_until_idle()
    assert ended == ["stopped"]


def test_a_start_that_takes_seconds_tells_how_many_logs_are_open(monkeypatch: pytest.MonkeyPatch):
    serving = restarted_without_logs(monkeypatch, "t", "u")
    open_one_slowly(serving, monkeypatch, 10)
    told = list[tuple[int, int]]()
    serving.node.partitions.open_all(lambda *counts: told.append(counts))
    assert len(serving.node.replicas.by_name) == 2 * MANY
    assert told
    assert all(0 < opened < total == 2 * MANY for opened, total in told)
