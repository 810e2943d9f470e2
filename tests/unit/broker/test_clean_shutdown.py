"""A clean shutdown flushes many logs at once, reports its progress, and takes bounded time."""

from __future__ import annotations

import pytest

from odradek.broker.shutdown import FLUSH_TIME_MS
from unit.broker.memory_broker import MemoryBroker

MARKER = ".kafka_cleanshutdown"


def serving_with_unflushed_logs(partitions: int) -> MemoryBroker:
    serving = MemoryBroker(log_durability="os")
    serving.create("t", partitions=partitions)
    for index in range(partitions):
        assert serving.produce_and_wait("t", index=index, acks=1) == 0
    return serving


def let_time_pass(serving: MemoryBroker, milliseconds: int) -> None:
    """Advance the clock while no work on a worker ends."""
    serving.clock.passed_ms += milliseconds
    serving.timer.advance_clock(serving.clock.passed_ms)
    serving.run_soon()


def test_a_shutdown_flushes_all_logs_and_writes_the_marker():
    serving = serving_with_unflushed_logs(50)
    stopped: list[bool] = []
    serving.node.stop(lambda: stopped.append(True))
    assert len(serving.work) > 8, "together"
    serving.run_until_idle()
    assert stopped == [True]
    assert MARKER in serving.disk.list("/data")
    again = MemoryBroker(serving.disk)
    assert again.node.directory.was_clean
    assert {part.log.log_end_offset for part in again.node.replicas} == {1}


def test_progress_is_reported_every_second():
    serving = serving_with_unflushed_logs(50)
    reported: list[tuple[int, int]] = []
    serving.node.stop(lambda: None, lambda flushed, total: reported.append((flushed, total)))
    serving.run_work()
    let_time_pass(serving, 1000)
    serving.run_work()
    serving.run_work()
    let_time_pass(serving, 1000)
    assert reported == [(1, 50), (3, 50)]
    serving.run_until_idle()
    let_time_pass(serving, 5000)
    assert len(reported) == 2


def test_a_shutdown_does_not_wait_for_a_slow_disk_past_its_time(caplog: pytest.LogCaptureFixture):
    serving = serving_with_unflushed_logs(50)
    stopped: list[bool] = []
    serving.node.stop(lambda: stopped.append(True))
    serving.run_work()
    let_time_pass(serving, FLUSH_TIME_MS)
    assert "1 of 50 logs" in caplog.text
    assert not stopped, "flushes that have begun hold files"
    serving.run_until_idle()
    assert stopped == [True]
    assert MARKER not in serving.disk.list("/data")
    again = MemoryBroker(serving.disk)
    assert {part.log.log_end_offset for part in again.node.replicas} == {1}


def test_a_shutdown_waits_for_workers_before_it_flushes():
    serving = MemoryBroker()
    serving.create("t")
    serving.produce("t")
    serving.run_soon()
    (work,) = serving.work
    serving.node.stop(lambda: None)
    serving.run_soon()
    assert serving.work == [work]
    serving.run_until_idle()
    assert MARKER in serving.disk.list("/data")
