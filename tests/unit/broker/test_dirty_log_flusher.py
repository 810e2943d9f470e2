"""With `log.durability=os`: what waits for the disk gets there by `flush.ms`, or when it is much,
whoever wrote it; and where nobody writes, nobody looks.
"""

from __future__ import annotations

import pytest
from serving import Serving

from odradek.broker.housekeeping import CHECK_MS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreatableTopicConfig
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

NEVER_MS = 10**9
"""Of a checkpoint, which flushes too."""
TOPIC = 2


def serving(**configs: str) -> Serving:
    """A broker with a topic `t`, and nothing that flushes it but these settings."""
    node = Serving(log_durability="os", log_flush_offset_checkpoint_interval_ms=str(NEVER_MS))
    named = {name.replace("_", "."): value for name, value in configs.items()}
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in named.items()]
    node.create("t", configs=settings)
    node.pass_time(60_000)
    return node


def flushed(node: Serving) -> int:
    return node.node.replicas.by_name["t", 0].log.flushed_offset


def looks(node: Serving, milliseconds: int) -> int:
    """How often the logs are looked at in that time: after each of the timer's deadlines, a look
    would have set itself another one.
    """
    flushes = node.node.housekeeping.dirty_log_flusher
    assert flushes is not None
    end, count = node.clock.passed_ms + milliseconds, 0
    while node.clock.passed_ms < end:
        before = flushes._task
        node.pass_time(min(CHECK_MS, end - node.clock.passed_ms))
        count += before is not None and flushes._task is not before
    return count


@pytest.mark.parametrize("flush_ms", [0, 1_000, 10_000, 500_000])
def test_what_was_written_is_on_disk_within_flush_ms_and_a_look(flush_ms: int):
    node = serving(flush_ms=str(flush_ms))
    for n in range(1, 4):
        assert node.produced("t") == 0
        node.pass_time(flush_ms - 1 if flush_ms > CHECK_MS else 0)
        assert flushed(node) == n - 1
        node.pass_time(CHECK_MS + 1)
        assert flushed(node) == n


def test_many_records_do_not_wait_for_their_time():
    node = serving(flush_messages="3")
    for _ in range(3):
        assert flushed(node) == 0
        assert node.produced("t") == 0
    assert flushed(node) == 3


def test_a_full_segment_is_flushed_when_another_has_begun():
    node = serving(segment_bytes="1048576")
    for _ in range(2):
        assert node.produced("t", size=900_000) == 0
    assert flushed(node) == 0
    node.pass_time(CHECK_MS)
    assert flushed(node) == 2


def test_nobody_looks_where_nobody_writes():
    node = serving(flush_ms="1000")
    assert looks(node, 600_000) == 0
    assert node.produced("t") == 0
    assert looks(node, 600_000) == 2, "one that flushes, one that finds it done"
    assert flushed(node) == 1


def test_while_nothing_is_due_the_next_look_is_when_it_will_be():
    node = serving(flush_ms="500000")
    assert node.produced("t") == 0
    assert looks(node, 400_000) == 1
    node.pass_time(150_000)
    assert flushed(node) == 1


def test_a_shorter_flush_ms_holds_for_what_is_there_already():
    node = serving()
    assert node.produced("t") == 0
    node.pass_time(60_000)
    assert flushed(node) == 0
    node.ask(
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


def test_an_offline_partition_keeps_nobody_awake():
    node = serving(flush_ms="1000")
    assert node.produced("t") == 0
    node.node.replicas.by_name["t", 0].close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert looks(node, 600_000) == 1
    assert flushed(node) == 0


def test_after_a_stop_nothing_is_looked_at():
    node = serving(flush_ms="1000")
    assert node.produced("t") == 0
    node.node.housekeeping.stop()
    node.pass_time(600_000)
    assert flushed(node) == 0
