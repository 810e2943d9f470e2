"""The response to a produce, for records that are in the log and records that are not."""

from __future__ import annotations

import pytest

from odradek.broker.handlers.produce import DISK_TIMEOUT_MS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreatableTopicConfig
from odradek.protocol.api.produce import PartitionProduceResponse, ProduceResponse
from unit.broker.memory_broker import NOW_MS, MemoryBroker


def the_answer(serving: MemoryBroker, **produce: int) -> PartitionProduceResponse:
    """The response to a produce whose records are not flushed before its deadline."""
    asked = serving.produce("t", **produce)
    serving.run_soon()
    serving.clock.passed_ms += DISK_TIMEOUT_MS
    serving.timer.advance_clock(serving.clock.passed_ms)
    return asked.answer(ProduceResponse).responses[0].partition_responses[0]


@pytest.mark.parametrize(
    ("timestamps", "append_time_ms"), [("CreateTime", -1), ("LogAppendTime", NOW_MS)]
)
def test_a_timed_out_produce_keeps_the_offset_and_times_of_its_append(
    timestamps: str, append_time_ms: int
):
    """As in Kafka, where a follower does not follow."""
    serving = MemoryBroker()
    config = CreatableTopicConfig(name="message.timestamp.type", value=timestamps)
    serving.create("t", configs=[config])
    assert serving.produce_and_wait("t", count=3) == ErrorCode.NONE
    answer = the_answer(serving, count=2)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert answer.base_offset == 3
    assert answer.log_append_time_ms == append_time_ms
    assert answer.log_start_offset == 0


def test_a_produce_waits_for_its_own_disk_beyond_its_timeout():
    """As in Kafka, where one replica is written before the timeout of the request counts."""
    serving = MemoryBroker()
    serving.create("t")
    asked = serving.produce("t", timeout_ms=0)
    serving.run_soon()
    serving.clock.passed_ms += DISK_TIMEOUT_MS - 1
    serving.timer.advance_clock(serving.clock.passed_ms)
    assert not asked.answered
    serving.run_until_idle()
    answer = asked.answer(ProduceResponse).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


def test_a_partition_offline_during_the_wait_keeps_the_offset_of_the_append():
    serving = MemoryBroker()
    serving.create("t")
    asked = serving.produce("t")
    serving.node.replicas.fail_directory(
        serving.node.directory.fence.fail(OSError(5, "Input/output error"))
    )
    answer = asked.answer(ProduceResponse).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (answer.base_offset, answer.log_start_offset) == (0, 0)


def test_a_refused_batch_has_no_offset():
    serving = MemoryBroker()
    serving.create("t", configs=[CreatableTopicConfig(name="max.message.bytes", value="100")])
    answer = the_answer(serving, size=1000)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
