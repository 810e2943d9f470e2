"""Torn tails that a start truncates are reported."""

from __future__ import annotations

import pytest

from odradek.broker.partitions import TORN_LOGGED
from odradek.log.memory_disk import MemoryDisk
from unit.broker.memory_broker import MemoryBroker

GARBAGE = bytes(100)


def with_torn_tails(partitions: int) -> MemoryDisk:
    """Return the disk of a broker that was killed while it wrote to all its logs."""
    disk = MemoryDisk()
    serving = MemoryBroker(disk)
    serving.create("t", partitions)
    for index in range(partitions):
        assert serving.produce_and_wait("t", index=index) == 0
    for path in disk.files:
        if path.endswith(".log") and "__cluster_metadata" not in path:
            disk.files[path].content.extend(GARBAGE)
    disk.locks.clear()
    return disk


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for record in caplog.records if "truncated" in (text := record.getMessage())]


def test_each_truncated_log_is_reported_with_its_end_and_what_was_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = with_torn_tails(2)
    MemoryBroker(disk)
    first, second = reported(caplog)
    begin = (
        "the log of t-0 was truncated after an unclean stop: it ends at offset 1, 100 bytes were"
    )
    assert first.startswith(begin) and "00000000000000000000.log" in first
    assert second.startswith(
        "the log of t-1 was truncated after an unclean stop: it ends at offset 1"
    )
    caplog.clear()
    disk.locks.clear()
    MemoryBroker(disk)
    assert reported(caplog) == [], "nothing was torn any more"


def test_the_number_of_reports_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    MemoryBroker(with_torn_tails(TORN_LOGGED + 5))
    *single, last = reported(caplog)
    assert len(single) == TORN_LOGGED
    assert last == "5 further logs were truncated after an unclean stop"


def test_a_truncated_metadata_log_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    disk = with_torn_tails(1)
    (path,) = (p for p in disk.files if "__cluster_metadata" in p and p.endswith(".log"))
    disk.files[path].content.extend(GARBAGE)
    MemoryBroker(disk)
    assert reported(caplog)[0].startswith("the metadata log was truncated after an unclean stop")
