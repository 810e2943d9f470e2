"""A clean stop flushes logs many at once, says how far it is, and does not take for ever."""

from __future__ import annotations

import pytest
from serving import Serving

from odradek.broker.shutdown import FLUSH_TIME_MS

MARKER = ".kafka_cleanshutdown"


def serving_with_unflushed_logs(partitions: int) -> Serving:
    serving = Serving(log_durability="os")
    serving.create("t", partitions=partitions)
    for index in range(partitions):
        assert serving.produced("t", index=index, acks=1) == 0
    return serving


def let_time_pass(serving: Serving, milliseconds: int) -> None:
    """The clock goes on and no worker comes back."""
    serving.clock.passed_ms += milliseconds
    serving.timer.advance_clock(serving.clock.passed_ms)
    serving.run_soon()


def test_a_stop_flushes_all_logs_and_leaves_the_marker():
    serving = serving_with_unflushed_logs(50)
    stopped: list[bool] = []
    serving.node.stop(lambda: stopped.append(True))
    assert len(serving.work) > 8, "together"
    serving.settle()
    assert stopped == [True]
    assert MARKER in serving.disk.list("/data")
    again = Serving(serving.disk)
    assert again.node.directory.was_clean
    assert {part.log.log_end_offset for part in again.node.replicas} == {1}


def test_whoever_stops_it_is_told_every_second_how_far_it_is():
    serving = serving_with_unflushed_logs(50)
    told: list[tuple[int, int]] = []
    serving.node.stop(lambda: None, lambda flushed, total: told.append((flushed, total)))
    serving.run_work()
    let_time_pass(serving, 1000)
    serving.run_work()
    serving.run_work()
    let_time_pass(serving, 1000)
    assert told == [(1, 50), (3, 50)]
    serving.settle()
    let_time_pass(serving, 5000)
    assert len(told) == 2


def test_a_disk_that_takes_too_long_is_not_waited_for(caplog: pytest.LogCaptureFixture):
    serving = serving_with_unflushed_logs(50)
    stopped: list[bool] = []
    serving.node.stop(lambda: stopped.append(True))
    serving.run_work()
    let_time_pass(serving, FLUSH_TIME_MS)
    assert "1 of 50 logs" in caplog.text
    assert not stopped, "flushes that have begun hold files"
    serving.settle()
    assert stopped == [True]
    assert MARKER not in serving.disk.list("/data")
    again = Serving(serving.disk)
    assert {part.log.log_end_offset for part in again.node.replicas} == {1}


def test_a_stop_waits_for_what_is_out_on_workers_before_it_flushes():
    serving = Serving()
    serving.create("t")
    serving.produce("t")
    serving.run_soon()
    (work,) = serving.work
    serving.node.stop(lambda: None)
    serving.run_soon()
    assert serving.work == [work]
    serving.settle()
    assert MARKER in serving.disk.list("/data")
