"""Errors in fetch responses: which are retried, which are raised, and which request metadata."""

from __future__ import annotations

import pytest

from odradek.client.errors import InvalidRecord, TopicAuthorizationError, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import FetchRequest
from odradek.testing.scripted import SILENT
from unit.client.consumer.application import ORDERS, SECOND, Application, one_topic, rows

FETCH = 1


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
    def test_retriable_errors_are_retried(self, code: ErrorCode) -> None:
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
    def test_fatal_errors_are_raised_and_retried(
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

    def test_a_new_leader_in_the_response_is_used_at_once(self) -> None:
        cluster, logs = one_topic(brokers=2)
        application = Application(cluster, metadata_max_age_ms=10_000_000)
        application.assign([ORDERS])
        cluster.run(SECOND)
        asked = len(cluster[1].of(FetchRequest))
        cluster.move("orders", 0, leader=2)
        logs[ORDERS].append(rows(b"x"), epoch=1)
        application.read(1, limit_ms=2 * SECOND)
        assert len(cluster[1].of(FetchRequest)) == asked, "the request in flight named the leader"
        assert cluster[2].of(FetchRequest)

    def test_a_new_leader_is_found_by_metadata_otherwise(self) -> None:
        cluster, logs = one_topic(brokers=2)
        logs[ORDERS].hints = False
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(SECOND)
        cluster.move("orders", 0, leader=2)
        logs[ORDERS].append(rows(b"x"), epoch=1)
        application.read(1, limit_ms=5 * SECOND)

    def test_fetching_resumes_when_a_dead_broker_returns(self) -> None:
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

    def test_a_silent_broker_is_disconnected_after_the_request_timeout(self) -> None:
        cluster, logs = one_topic()
        application = Application(cluster, request_timeout_ms=2000)
        scripted = cluster[1].answers[FetchRequest]
        cluster[1].answers[FetchRequest] = lambda request, version: SILENT
        application.assign([ORDERS])
        cluster.run(SECOND)
        cluster[1].answers[FetchRequest] = scripted
        logs[ORDERS].append(rows(b"x"))
        application.read(1, limit_ms=4 * SECOND)

    def test_a_broker_without_fetch_raises_an_error(self) -> None:
        cluster, _ = one_topic()
        del cluster[1].versions[FETCH]
        application = Application(cluster)
        application.assign([ORDERS])
        assert isinstance(application.fail(), UnsupportedVersion)
        for _ in range(100):
            cluster.run(100)
            application.drain()
        assert 5 < len(application.errors) < 30, "again, and not at every moment"
