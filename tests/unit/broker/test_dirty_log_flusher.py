"""With `log.durability=os`: appends are flushed by `flush.ms` and `flush.messages`."""

from __future__ import annotations

import pytest

from odradek.broker.housekeeping import CHECK_MS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreatableTopicConfig
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from unit.broker.memory_broker import MemoryBroker

NEVER_MS = 10**9
"""The interval of checkpoints, which flush too."""
TOPIC = 2


def serving(**configs: str) -> MemoryBroker:
    """A broker with a topic `t` that is flushed only by these settings."""
    node = MemoryBroker(log_durability="os", log_flush_offset_checkpoint_interval_ms=str(NEVER_MS))
    named = {name.replace("_", "."): value for name, value in configs.items()}
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in named.items()]
    node.create("t", configs=settings)
    node.pass_time(60_000)
    return node


def flushed(node: MemoryBroker) -> int:
    return node.node.replicas.by_name["t", 0].log.flushed_offset


def checks(node: MemoryBroker, milliseconds: int) -> int:
    """The number of checks in that time: each check that runs schedules the next one."""
    flushes = node.node.housekeeping.dirty_log_flusher
    assert flushes is not None
    end, count = node.clock.passed_ms + milliseconds, 0
    while node.clock.passed_ms < end:
        before = flushes._task
        node.pass_time(min(CHECK_MS, end - node.clock.passed_ms))
        count += before is not None and flushes._task is not before
    return count


@pytest.mark.parametrize("flush_ms", [0, 1_000, 10_000, 500_000])
def test_an_append_is_flushed_within_flush_ms_and_one_check(flush_ms: int):
    node = serving(flush_ms=str(flush_ms))
    for n in range(1, 4):
        assert node.produce_and_wait("t") == 0
        node.pass_time(flush_ms - 1 if flush_ms > CHECK_MS else 0)
        assert flushed(node) == n - 1
        node.pass_time(CHECK_MS + 1)
        assert flushed(node) == n


def test_flush_messages_does_not_wait_for_flush_ms():
    node = serving(flush_messages="3")
    for _ in range(3):
        assert flushed(node) == 0
        assert node.produce_and_wait("t") == 0
    assert flushed(node) == 3


def test_a_rolled_segment_is_flushed():
    node = serving(segment_bytes="1048576")
    for _ in range(2):
        assert node.produce_and_wait("t", size=900_000) == 0
    assert flushed(node) == 0
    node.pass_time(CHECK_MS)
    assert flushed(node) == 2


def test_there_is_no_check_without_appends():
    node = serving(flush_ms="1000")
    assert checks(node, 600_000) == 0
    assert node.produce_and_wait("t") == 0
    assert checks(node, 600_000) == 2, "one that flushes, one that finds it done"
    assert flushed(node) == 1


def test_the_next_check_is_when_a_flush_is_due():
    node = serving(flush_ms="500000")
    assert node.produce_and_wait("t") == 0
    assert checks(node, 400_000) == 1
    node.pass_time(150_000)
    assert flushed(node) == 1


def test_a_shorter_flush_ms_applies_to_earlier_appends():
    node = serving()
    assert node.produce_and_wait("t") == 0
    node.pass_time(60_000)
    assert flushed(node) == 0
    node.call(
        IncrementalAlterConfigsRequest(
            validate_only=False,
            resources=[
                AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[AlterableConfig(name="flush.ms", config_operation=0, value="1000")],
                )
            ],
        ),
        1,
        IncrementalAlterConfigsResponse,
    )
    node.pass_time(CHECK_MS)
    assert flushed(node) == 1


def test_an_offline_partition_causes_no_checks():
    node = serving(flush_ms="1000")
    assert node.produce_and_wait("t") == 0
    node.node.replicas.by_name["t", 0].close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert checks(node, 600_000) == 1
    assert flushed(node) == 0


def test_there_is_no_check_after_stop():
    node = serving(flush_ms="1000")
    assert node.produce_and_wait("t") == 0
    node.node.housekeeping.stop()
    node.pass_time(600_000)
    assert flushed(node) == 0
