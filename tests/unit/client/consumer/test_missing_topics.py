"""What is reported as missing: the cluster, a topic, a partition, the permission to read it."""

from __future__ import annotations

import pytest

from odradek.client.errors import (
    Disconnected,
    TopicAuthorizationError,
    UnknownTopicOrPartition,
)
from odradek.model.errors import ErrorCode
from unit.client.consumer.application import ORDERS, SECOND, Application, one_topic, rows


class TestMissingTopics:
    def test_a_missing_topic_is_reported_after_the_api_timeout_and_still_awaited(self) -> None:
        cluster, logs = one_topic()
        application = Application(cluster, default_api_timeout_ms=10_000)
        application.assign([("returns", 0)])
        error = application.fail()
        assert isinstance(error, UnknownTopicOrPartition)
        assert 10 * SECOND <= cluster.now_ms <= 12 * SECOND
        assert isinstance(application.fail(), UnknownTopicOrPartition)
        assert 20 * SECOND <= cluster.now_ms <= 24 * SECOND
        cluster.create("returns")
        logs["returns", 0].append(rows(b"x"))
        application.read(1)

    def test_a_missing_partition_is_reported(self) -> None:
        cluster, _ = one_topic()
        application = Application(cluster, default_api_timeout_ms=10_000)
        application.assign([("orders", 3)])
        assert isinstance(application.fail(), UnknownTopicOrPartition)

    def test_an_unreachable_cluster_is_reported(self) -> None:
        cluster, _ = one_topic()
        cluster[1].stop()
        application = Application(cluster, default_api_timeout_ms=10_000)
        application.assign([ORDERS])
        error = application.fail()
        assert isinstance(error, Disconnected)
        assert "bootstrap.servers" in str(error)
        assert "refused" in str(error)

    def test_an_unauthorized_topic_is_reported(self) -> None:
        cluster, _ = one_topic()
        cluster.topics["orders"].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        application = Application(cluster)
        application.assign([ORDERS])
        assert isinstance(application.fail(5 * SECOND), TopicAuthorizationError)

    @pytest.mark.parametrize("by", ["subscription", "assignment"])
    def test_a_topic_no_longer_subscribed_to_is_not_reported(self, by: str) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"x"))
        cluster.create("returns").error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        application = Application(cluster)
        consumer = application.consumer

        def want(topic: str) -> None:
            if by == "assignment":
                application.assign([(topic, 0)])
            else:
                application.side.do(lambda: consumer.subscribe([topic]))

        want("returns")
        cluster.until(lambda: bool(consumer.errors))
        application.side.do(consumer.engine.metadata.request_update)
        cluster.until(lambda: len(consumer.errors) > 1)
        want("orders")
        application.read(1)
        assert application.errors == []
        want("returns")
        assert isinstance(application.fail(), TopicAuthorizationError), "but when it is again"

    def test_a_topic_that_no_member_wants_is_not_reported(self) -> None:
        cluster, _ = one_topic()
        cluster.create("returns").error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        application = Application(cluster)
        consumer = application.consumer
        application.side.do(lambda: consumer.subscribe(["returns"]))
        cluster.until(lambda: bool(consumer.errors))
        application.side.do(consumer.unsubscribe)
        cluster.until(lambda: not consumer.errors)

    def test_an_earlier_topic_that_the_leader_still_needs_is_not_reported(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"x"))
        cluster.create("returns").error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        application = Application(cluster)
        consumer = application.consumer
        application.side.do(lambda: consumer.subscribe(["returns"]))
        assert isinstance(application.fail(), TopicAuthorizationError)
        application.subscriptions.group_subscribe(["returns"])
        application.side.do(lambda: consumer.subscribe(["orders"]))
        version = application.side.do(consumer.engine.metadata.request_update)
        cluster.until(lambda: consumer.engine.metadata.image.version > version)
        application.read(1)
        assert application.errors[1:] == []
