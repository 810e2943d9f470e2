"""Fetching: from brokers that do what they like to an application that gets each record once."""

from __future__ import annotations

import pytest

from odradek.client.errors import (
    InvalidRecord,
    LogTruncated,
    NoOffsetForPartition,
    OffsetOutOfRange,
    TopicAuthorizationError,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import AbortedTransaction, FetchRequest
from odradek.protocol.control_records import ControlRecordType, marker_key, marker_value
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.testing.scripted import SILENT, ScriptedCluster
from odradek.testing.scripted_fetch import ScriptedLogs
from unit.client.consumer.application import Application, numbered, rows

ORDERS = ("orders", 0)
FETCH, METADATA = 1, 3
SECOND = 1000


def one_topic(
    brokers: int = 1, leaders: tuple[int, ...] = (1,), *, sessions: bool = True
) -> tuple[ScriptedCluster, ScriptedLogs]:
    cluster = ScriptedCluster(brokers=brokers)
    cluster.create("orders", leaders=leaders)
    return cluster, ScriptedLogs(cluster, sessions=sessions)


def fetches(cluster: ScriptedCluster, node_id: int = 1) -> list[FetchRequest]:
    return cluster[node_id].of(FetchRequest)


class TestRecords:
    def test_come_in_order_with_all_there_is_to_know(self) -> None:
        cluster, logs = one_topic()
        cluster.topics["orders"].epochs[0] = 4
        logs[ORDERS].append([(b"k", b"v", [("h", b"1")], 1_700_000_000_123)], epoch=4)
        application = Application(cluster)
        application.assign([ORDERS])
        [record] = application.read(1)
        assert (record.topic, record.partition, record.offset) == ("orders", 0, 0)
        assert (record.key, record.value, record.headers) == (b"k", b"v", [("h", b"1")])
        assert (record.timestamp_ms, record.leader_epoch) == (1_700_000_000_123, 4)
        assert record.timestamp.isoformat() == "2023-11-14T22:13:20.123000+00:00"
        assert record.timestamp_type.name == "CREATE_TIME"

    def test_that_are_appended_later_come_later(self) -> None:
        cluster, logs = one_topic()
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(3 * SECOND)
        assert application.drain() == 0
        for number in range(5):
            logs[ORDERS].append(rows(b"%d" % number))
            application.read(1, limit_ms=600)
        assert application.values == [b"0", b"1", b"2", b"3", b"4"]

    def test_of_many_partitions_and_brokers(self) -> None:
        cluster, logs = one_topic(brokers=3, leaders=(1, 2, 3, 1))
        for partition in range(4):
            logs["orders", partition].append(numbered(0, 5))
        application = Application(cluster)
        application.assign([("orders", partition) for partition in range(4)])
        application.read(20)
        assert sorted(application.places) == [(p, o) for p in range(4) for o in range(5)]

    @pytest.mark.parametrize("version", [4, 6, 7, 9, 11, 12, 13, 15, 17])
    def test_in_every_version_of_fetch(self, version: int) -> None:
        cluster, logs = one_topic()
        cluster[1].versions[FETCH] = (4, version)
        for _ in range(3):
            logs[ORDERS].append(numbered(logs[ORDERS].end, 4))
        application = Application(cluster, max_partition_fetch_bytes=100)
        application.assign([ORDERS])
        application.read(12)
        assert application.values == [b"%d" % n for n in range(12)]
        assert {
            asked.version for asked in cluster[1].asked if asked.request in fetches(cluster)
        } == {version}

    def test_only_from_and_up_to_the_offsets_asked_for(self) -> None:
        cluster, logs = one_topic()
        for first in (0, 10, 20):
            logs[ORDERS].append(numbered(first, 10))
        application = Application(cluster)
        application.assign([ORDERS], starts={ORDERS: 7}, ends={ORDERS: 13})
        application.read(6)
        assert application.values == [b"%d" % n for n in range(7, 13)]
        assert application.drain() == 0
        assert application.consumer.is_exhausted
        asked = len(fetches(cluster))
        cluster.run(5 * SECOND)
        assert len(fetches(cluster)) == asked, "nothing more is asked for"

    def test_of_aborted_transactions_are_not_read_if_only_committed_ones_are_wanted(self) -> None:
        for isolation, expected in (
            ("read_committed", [b"plain", b"after"]),
            ("read_uncommitted", [b"aborted", b"plain", b"after", b"open"]),
        ):
            cluster, logs = one_topic()
            log = logs[ORDERS]
            log.append_batch(transactional(b"aborted"))
            log.append(rows(b"plain"))
            log.append_batch(transactional(None, ControlRecordType.ABORT))
            log.append(rows(b"after"))
            log.stable = log.end
            log.append_batch(transactional(b"open"))
            log.aborted = [AbortedTransaction(producer_id=9, first_offset=0)]
            application = Application(cluster, isolation_level=isolation)
            application.assign([ORDERS])
            application.read(len(expected))
            assert application.drain() == 0
            assert application.values == expected


def transactional(value: bytes | None, kind: ControlRecordType | None = None) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=9,
        producer_epoch=0,
        base_sequence=0 if kind is None else -1,
        transactional=True,
        control=kind is not None,
    )
    if kind is None:
        builder.append(None, value, (), 0)
    else:
        builder.append(marker_key(kind), marker_value(1), (), 0)
    return builder.build()


class TestSessions:
    def test_name_only_what_changed(self) -> None:
        cluster, logs = one_topic(leaders=(1, 1))
        application = Application(cluster)
        application.assign([("orders", 0), ("orders", 1)])
        cluster.run(2 * SECOND)
        first, *rest = fetches(cluster)
        assert (first.session_id, first.session_epoch) == (0, 0)
        assert [len(topic.partitions) for topic in first.topics] == [2]
        assert rest and all(not request.topics for request in rest)
        assert [request.session_epoch for request in rest] == list(range(1, len(rest) + 1))
        logs["orders", 1].append(rows(b"x"))
        application.read(1)
        cluster.run(SECOND)
        changed = [request for request in fetches(cluster)[1:] if request.topics]
        assert [topic.partitions[0].partition for topic in changed[-1].topics] == [1]
        assert changed[-1].topics[0].partitions[0].fetch_offset == 1

    def test_forget_what_is_not_wanted_any_more(self) -> None:
        cluster, logs = one_topic(leaders=(1, 1))
        application = Application(cluster)
        application.assign([("orders", 0), ("orders", 1)])
        cluster.run(SECOND)
        application.pause(("orders", 1))
        cluster.run(SECOND)
        forgetting = [r for r in fetches(cluster) if r.forgotten_topics_data]
        assert [f.forgotten_topics_data[0].partitions for f in forgetting] == [[1]]
        application.resume(("orders", 1))
        logs["orders", 1].append(rows(b"back"))
        application.read(1)

    def test_begin_anew_when_the_broker_forgot_them(self) -> None:
        cluster, logs = one_topic()
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(SECOND)
        logs.sessions.clear()
        logs[ORDERS].append(rows(b"x"))
        application.read(1, limit_ms=SECOND)
        logs[ORDERS].append(rows(b"y"))
        application.read(1, limit_ms=SECOND)
        assert [r.session_epoch for r in fetches(cluster)].count(0) == 2

    def test_are_not_needed(self) -> None:
        cluster, logs = one_topic(sessions=False)
        application = Application(cluster)
        application.assign([ORDERS])
        for number in range(3):
            logs[ORDERS].append(rows(b"%d" % number))
            application.read(1)
        assert {(r.session_id, r.session_epoch) for r in fetches(cluster)} == {(0, 0)}

    def test_follow_a_topic_that_was_created_anew(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"old"))
        application = Application(cluster, metadata_max_age_ms=2000)
        application.assign([ORDERS])
        application.read(1)
        del cluster.topics["orders"]
        cluster.run(SECOND)
        cluster.create("other")
        cluster.create("orders")
        logs[ORDERS].truncate(0)
        logs[ORDERS].append(rows(b"passed over", b"new"))
        application.read(1)
        assert application.values == [b"old", b"new"], "the position is the same"

    def test_are_ended_by_a_close(self) -> None:
        cluster, _ = one_topic()
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(SECOND)
        application.side.do(application.consumer.close)
        cluster.run(SECOND)
        assert fetches(cluster)[-1].session_epoch == -1


class TestErrors:
    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.REPLICA_NOT_AVAILABLE,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.OFFSET_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INCONSISTENT_TOPIC_ID,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
    )
    def test_that_pass_are_waited_for(self, code: ErrorCode) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"a"))
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(1)
        logs[ORDERS].errors = [code] * 3
        logs[ORDERS].append(rows(b"b"))
        began_ms = cluster.now_ms
        application.read(1)
        assert application.values == [b"a", b"b"]
        assert application.errors == []
        assert cluster.now_ms - began_ms >= 200, "with a pause before each attempt"

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
            (ErrorCode.CORRUPT_MESSAGE, InvalidRecord),
        ],
    )
    def test_that_are_the_applications_are_raised_and_tried_again(
        self, code: ErrorCode, kind: type[Exception]
    ) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"a"))
        logs[ORDERS].errors = [code]
        application = Application(cluster)
        application.assign([ORDERS])
        error = application.fail()
        assert isinstance(error, kind)
        assert "orders-0 at offset 0" in str(error)
        application.read(1)

    def test_a_leader_that_moves_is_followed_at_once_where_its_name_is_given(self) -> None:
        cluster, logs = one_topic(brokers=2)
        application = Application(cluster, metadata_max_age_ms=10_000_000)
        application.assign([ORDERS])
        cluster.run(SECOND)
        asked = len(cluster[1].of(FetchRequest))
        cluster.move("orders", 0, leader=2)
        logs[ORDERS].append(rows(b"x"), epoch=1)
        application.read(1, limit_ms=2 * SECOND)
        assert len(cluster[1].of(FetchRequest)) == asked, "the one under way told where it is"
        assert cluster[2].of(FetchRequest)

    def test_a_leader_that_moves_is_found_by_metadata_otherwise(self) -> None:
        cluster, logs = one_topic(brokers=2)
        logs[ORDERS].hints = False
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(SECOND)
        cluster.move("orders", 0, leader=2)
        logs[ORDERS].append(rows(b"x"), epoch=1)
        application.read(1, limit_ms=5 * SECOND)

    def test_a_broker_that_dies_is_waited_for(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"a"))
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(1)
        cluster[1].stop()
        cluster.run(5 * SECOND)
        cluster[1].start()
        logs[ORDERS].append(rows(b"b"))
        application.read(1)
        assert application.values == [b"a", b"b"]

    def test_a_broker_that_falls_silent_is_left_after_the_request_timeout(self) -> None:
        cluster, logs = one_topic()
        application = Application(cluster, request_timeout_ms=2000)
        scripted = cluster[1].answers[FetchRequest]
        cluster[1].answers[FetchRequest] = lambda request, version: SILENT
        application.assign([ORDERS])
        cluster.run(SECOND)
        cluster[1].answers[FetchRequest] = scripted
        logs[ORDERS].append(rows(b"x"))
        application.read(1, limit_ms=4 * SECOND)

    def test_a_broker_that_cannot_fetch_is_told_of(self) -> None:
        cluster, _ = one_topic()
        del cluster[1].versions[FETCH]
        application = Application(cluster)
        application.assign([ORDERS])
        assert isinstance(application.fail(), UnsupportedVersion)
        for _ in range(100):
            cluster.run(100)
            application.drain()
        assert 5 < len(application.errors) < 30, "again, and not at every moment"


class TestOutOfRange:
    def test_the_application_gets_what_was_fetched_and_then_goes_on_as_set(self) -> None:
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
            cluster.until(lambda a=application: not a.drain() and a.position(ORDERS) >= 5)
            cluster.run(SECOND)
            logs[ORDERS].append(numbered(7, 1))
            application.read(1 + (reset == "earliest") * 2 - application.values.count(b"5") * 2)
            assert application.values[2:][: len(expected)] == expected
            assert application.errors == []

    def test_it_is_raised_where_nothing_is_set(self) -> None:
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

    def test_nothing_committed_and_nothing_set(self) -> None:
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
        """Read up to offset 4, and then the log is cut at 2 by another leader."""
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

    def test_is_noticed_and_reading_goes_on_at_the_first_offset_that_differs(self) -> None:
        _, _, application = self.truncated("earliest")
        application.read(5)
        assert application.places[4:] == [(0, offset) for offset in range(2, 7)]

    def test_is_raised_where_nothing_is_set(self) -> None:
        _, _, application = self.truncated("none")
        error = application.fail()
        assert isinstance(error, LogTruncated)
        assert error.offsets == {ORDERS: 2}
        application.seek(ORDERS, 2)
        application.read(5)

    def test_is_noticed_by_a_fetch_where_metadata_tells_no_epochs(self) -> None:
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
