"""What the answer to a produce says of a partition whose records are in the log, or are not."""

from __future__ import annotations

import pytest
from serving import NOW_MS, Serving

from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreatableTopicConfig
from odradek.protocol.api.produce import PartitionProduceResponse, ProduceResponse

TIMEOUT_MS = 5000


def the_answer(serving: Serving, **produce: int) -> PartitionProduceResponse:
    """Of a produce whose records never come to the disk before its deadline."""
    asked = serving.produce("t", **produce)
    serving.run_soon()
    serving.clock.passed_ms += TIMEOUT_MS
    serving.timer.advance_clock(serving.clock.passed_ms)
    return asked.answer(ProduceResponse).responses[0].partition_responses[0]


@pytest.mark.parametrize(
    ("timestamps", "append_time_ms"), [("CreateTime", -1), ("LogAppendTime", NOW_MS)]
)
def test_what_timed_out_keeps_the_offset_and_the_times_it_was_appended_with(
    timestamps: str, append_time_ms: int
):
    """As a real Kafka answers where a follower does not follow."""
    serving = Serving()
    config = CreatableTopicConfig(name="message.timestamp.type", value=timestamps)
    serving.create("t", configs=[config])
    assert serving.produced("t", count=3) == ErrorCode.NONE
    answer = the_answer(serving, count=2)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert answer.base_offset == 3
    assert answer.log_append_time_ms == append_time_ms
    assert answer.log_start_offset == 0


def test_a_partition_that_goes_offline_while_they_wait_says_where_they_were():
    serving = Serving()
    serving.create("t")
    asked = serving.produce("t")
    serving.node.replicas.fail_directory(
        serving.node.directory.fence.fail(OSError(5, "Input/output error"))
    )
    answer = asked.answer(ProduceResponse).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (answer.base_offset, answer.log_start_offset) == (0, 0)


def test_what_was_refused_has_no_offset():
    serving = Serving()
    serving.create("t", configs=[CreatableTopicConfig(name="max.message.bytes", value="100")])
    answer = the_answer(serving, size=1000)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
