"""Log lines about invalid input: one in a second for each address and kind."""

from __future__ import annotations

import struct

import pytest

from odradek.network.violation_log import ADDRESSES_MAX, ViolationLog
from odradek.timing.timer import SystemTimer
from unit.network.memory_network import Recorder, serve

PEER = ("10.0.0.1", 1000)


def test_one_line_in_a_second_for_each_address_and_kind(caplog: pytest.LogCaptureFixture) -> None:
    timer = SystemTimer(0)
    violations = ViolationLog(timer)
    for now_ms in range(0, 3_000, 100):
        timer.advance_clock(now_ms)
        violations.closed(PEER, "frame", f"at {now_ms}")
        violations.closed(PEER, "request", f"at {now_ms}")
        violations.closed(("10.0.0.2", 1), "frame", f"at {now_ms}")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 9
    assert lines[0] == "closed the connection of 10.0.0.1:1000: at 0"
    assert lines[3] == "closed the connection of 10.0.0.1:1000: at 1000 (and 9 more like it before)"


def test_many_addresses_share_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    timer = SystemTimer(0)
    violations = ViolationLog(timer)
    for number in range(ADDRESSES_MAX + 500):
        violations.closed((f"2001:db8::{number:x}", 1), "frame", "bad")
    assert len(caplog.records) == ADDRESSES_MAX + 1
    timer.advance_clock(1_000)
    violations.closed(PEER, "frame", "bad")
    assert len(caplog.records) == ADDRESSES_MAX + 2, "old addresses are forgotten"


def test_a_client_that_comes_back_with_the_same_is_logged_once_and_always_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network, server = serve(Recorder(echo=True))
    for _ in range(50):
        client = network.connect()
        client.send(struct.pack(">i", -1))
        assert not client.open
    assert server.counters.violations == 50
    assert [record.levelname for record in caplog.records] == ["WARNING"]
