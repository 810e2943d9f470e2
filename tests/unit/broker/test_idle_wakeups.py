"""An idle broker sleeps: the loop wakes up only for work that is due."""

from __future__ import annotations

import pytest

from odradek.broker.housekeeping import PRODUCER_CHECK_MS, SNAPSHOT_CHECK_MS
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic
from unit.broker.memory_broker import MemoryBroker

HOUR_MS = 3_600_000
WHEELS = 4
"""A task that is hours away moves down through the wheels of 8 s, 400 ms, 20 ms and 1 ms."""


def wakeups(serving: MemoryBroker, milliseconds: int) -> int:
    """The number of times that the reactor wakes up in that time without requests."""
    count, end = 0, serving.clock.passed_ms + milliseconds
    while True:
        deadline = serving.timer.next_deadline_ms()
        if deadline is None or deadline > end:
            return count
        count += 1
        serving.clock.passed_ms = max(serving.clock.passed_ms, deadline)
        serving.timer.advance_clock(serving.clock.passed_ms)
        serving.run_until_idle()


def jobs_an_hour(serving: MemoryBroker) -> int:
    """The number of runs of the periodic tasks in that time."""
    config = serving.node.config
    intervals = [
        config.log_retention_check_interval_ms,
        config.log_flush_offset_checkpoint_interval_ms,
        config.log_cleaner_backoff_ms,
        PRODUCER_CHECK_MS,
        SNAPSHOT_CHECK_MS,
    ]
    return sum(HOUR_MS // interval for interval in intervals)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_an_idle_broker_wakes_up_only_for_housekeeping(durability: str):
    serving = MemoryBroker(log_durability=durability)
    for number in range(20):
        serving.create(f"t{number}", partitions=5)
        assert serving.produce_and_wait(f"t{number}") == 0
    serving.pass_time(HOUR_MS)  # and with it what those topics and records entailed
    woken = wakeups(serving, HOUR_MS)
    assert 0 < woken <= WHEELS * jobs_an_hour(serving)


def test_delayed_fetches_cause_no_wake_up_before_their_deadline():
    serving = MemoryBroker()
    serving.create("t")
    serving.pass_time(HOUR_MS)
    idle = wakeups(serving, HOUR_MS)
    waiting = [serving.send(a_long_poll(24 * HOUR_MS + 7 * n), 4) for n in range(500)]
    serving.run_until_idle()
    assert wakeups(serving, HOUR_MS) <= idle + WHEELS
    assert all(asked.parts is None for asked in waiting)


def a_long_poll(max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
