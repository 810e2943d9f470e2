"""Positions whose records the log lost: out of range, and after a truncation."""

from __future__ import annotations

from functools import partial

from odradek.client.errors import LogTruncated, NoOffsetForPartition, OffsetOutOfRange
from odradek.model.errors import ErrorCode
from odradek.testing.scripted import ScriptedCluster
from odradek.testing.scripted_logs import ScriptedLogs
from unit.client.consumer.application import ORDERS, SECOND, Application, numbered, one_topic, rows

METADATA = 3


class TestOutOfRange:
    def reached(self, application: Application, offset: int) -> bool:
        return not application.drain() and application.position(ORDERS) >= offset

    def test_out_of_range_resets_after_the_fetched_records(self) -> None:
        for reset, expected in (("earliest", [b"5", b"6"]), ("latest", [b"7"])):
            cluster, logs = one_topic()
            logs[ORDERS].append(numbered(0, 2))
            application = Application(cluster, auto_offset_reset=reset)
            application.assign([ORDERS], starts={ORDERS: 0})
            cluster.run(SECOND)
            logs[ORDERS].append(numbered(2, 3))
            logs[ORDERS].append(numbered(5, 2))
            logs[ORDERS].errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
            logs[ORDERS].trim(5)
            cluster.run(SECOND)
            application.read(2)
            assert application.values == [b"0", b"1"], "what was fetched before stays good"
            cluster.until(partial(self.reached, application, 5))
            cluster.run(SECOND)
            logs[ORDERS].append(numbered(7, 1))
            application.read(1 + (reset == "earliest") * 2 - application.values.count(b"5") * 2)
            assert application.values[2:][: len(expected)] == expected
            assert application.errors == []

    def test_out_of_range_is_raised_without_a_reset_strategy(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(numbered(0, 10))
        logs[ORDERS].trim(5)
        application = Application(cluster, auto_offset_reset="none")
        application.assign([ORDERS], starts={ORDERS: 2})
        error = application.fail()
        assert isinstance(error, OffsetOutOfRange)
        assert error.offsets == {ORDERS: 2}
        assert "seek" in str(error)
        application.seek(ORDERS, 5)
        application.read(5)

    def test_no_offset_is_raised_without_a_committed_offset_and_a_reset_strategy(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"x"))
        application = Application(cluster, auto_offset_reset="none")
        application.assign([ORDERS])
        error = application.fail()
        assert isinstance(error, NoOffsetForPartition)
        assert "orders-0" in str(error)
        application.seek(ORDERS, 0)
        application.read(1)


class TestTruncation:
    def truncated(self, reset: str) -> tuple[ScriptedCluster, ScriptedLogs, Application]:
        """Read up to offset 4; then another leader cuts the log at 2."""
        cluster, logs = one_topic(brokers=2)
        for first in (0, 2):
            logs[ORDERS].append(numbered(first, 2), epoch=0)
        application = Application(cluster, auto_offset_reset=reset, metadata_max_age_ms=10_000_000)
        application.assign([ORDERS], starts={ORDERS: 0})
        application.read(4)
        cluster.run(SECOND)
        logs[ORDERS].truncate(2)
        cluster.move("orders", 0, leader=2)
        logs[ORDERS].append([(None, b"other", [], 0)] * 5, epoch=1)
        return cluster, logs, application

    def test_a_truncation_resumes_at_the_first_different_offset(self) -> None:
        _, _, application = self.truncated("earliest")
        application.read(5)
        assert application.places[4:] == [(0, offset) for offset in range(2, 7)]

    def test_a_truncation_is_raised_without_a_reset_strategy(self) -> None:
        _, _, application = self.truncated("none")
        error = application.fail()
        assert isinstance(error, LogTruncated)
        assert error.offsets == {ORDERS: 2}
        application.seek(ORDERS, 2)
        application.read(5)

    def test_a_fetch_reveals_a_truncation_if_metadata_has_no_epochs(self) -> None:
        cluster, logs = one_topic()
        cluster[1].versions[METADATA] = (0, 8)
        for first in (0, 2):
            logs[ORDERS].append(numbered(first, 2), epoch=0)
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(4)
        cluster.run(SECOND)
        logs[ORDERS].truncate(2)
        logs[ORDERS].append([(None, b"other", [], 0)] * 5, epoch=1)
        application.read(5)
        assert application.places[4:] == [(0, offset) for offset in range(2, 7)]
