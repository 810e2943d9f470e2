"""Fetching records with and without fetch sessions; each record arrives once."""

from __future__ import annotations

import pytest

from odradek.protocol.api.fetch import AbortedTransaction, FetchRequest
from odradek.protocol.control_records import ControlRecordType, marker_key, marker_value
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.testing.scripted import ScriptedCluster
from unit.client.consumer.application import ORDERS, SECOND, Application, numbered, one_topic, rows

FETCH = 1


def fetches(cluster: ScriptedCluster, node_id: int = 1) -> list[FetchRequest]:
    return cluster[node_id].of(FetchRequest)


class TestRecords:
    def test_records_arrive_in_order_with_all_fields(self) -> None:
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

    def test_records_appended_later_arrive_later(self) -> None:
        cluster, logs = one_topic()
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(3 * SECOND)
        assert application.drain() == 0
        for number in range(5):
            logs[ORDERS].append(rows(b"%d" % number))
            application.read(1, limit_ms=600)
        assert application.values == [b"0", b"1", b"2", b"3", b"4"]

    def test_records_of_many_partitions_and_brokers_arrive(self) -> None:
        cluster, logs = one_topic(brokers=3, leaders=(1, 2, 3, 1))
        for partition in range(4):
            logs["orders", partition].append(numbered(0, 5))
        application = Application(cluster)
        application.assign([("orders", partition) for partition in range(4)])
        application.read(20)
        assert sorted(application.places) == [(p, o) for p in range(4) for o in range(5)]

    @pytest.mark.parametrize("version", [4, 6, 7, 9, 11, 12, 13, 15, 17])
    def test_records_arrive_with_every_version_of_fetch(self, version: int) -> None:
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

    def test_only_records_between_start_and_end_arrive(self) -> None:
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

    def test_read_committed_skips_aborted_transactions(self) -> None:
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
    def test_a_session_names_only_changed_partitions(self) -> None:
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

    def test_a_session_forgets_unassigned_partitions(self) -> None:
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

    def test_a_session_is_begun_anew_when_the_broker_forgot_it(self) -> None:
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

    def test_fetching_works_without_sessions(self) -> None:
        cluster, logs = one_topic(sessions=False)
        application = Application(cluster)
        application.assign([ORDERS])
        for number in range(3):
            logs[ORDERS].append(rows(b"%d" % number))
            application.read(1)
        assert {(r.session_id, r.session_epoch) for r in fetches(cluster)} == {(0, 0)}

    def test_a_session_follows_a_recreated_topic(self) -> None:
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

    def test_close_ends_the_session(self) -> None:
        cluster, _ = one_topic()
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(SECOND)
        application.side.do(application.consumer.close)
        cluster.run(SECOND)
        assert fetches(cluster)[-1].session_epoch == -1
