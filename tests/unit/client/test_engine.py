"""An engine and its brokers: finding, losing and finding them again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from odradek.client.engine import Engine
from odradek.client.errors import (
    ClientClosed,
    ConfigError,
    InvalidTopic,
    MaxBlockTimeout,
    TopicAuthorizationError,
    WrongCluster,
)
from odradek.client.waiter import Waiter, spawn
from odradek.model.errors import ErrorCode
from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.testing.scripted import SILENT, ClientSide, ScriptedCluster

SECOND = 1000


def started(cluster: ScriptedCluster, **settings: Any) -> tuple[ClientSide, Engine]:
    """Return a client that has metadata of the cluster."""
    side = cluster.client()
    engine = side.engine(**settings)
    side.wait(lambda: spawn(engine.cluster_image()))
    return side, engine


def test_one_bootstrap_server_names_all_brokers() -> None:
    cluster = ScriptedCluster(brokers=3)
    side, engine = started(cluster, bootstrap_servers="broker2:9092")
    assert set(engine.metadata.image.nodes) == {1, 2, 3}
    assert engine.client.node_ids == [1, 2, 3], "the bootstrap server has been left"
    assert side.do(lambda: engine.client.least_loaded_node()) in (1, 2, 3)


def test_an_unreachable_bootstrap_server_is_followed_by_the_next() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster[1].stop()
    _, engine = started(cluster)
    assert set(engine.metadata.image.nodes) == {1, 2}


def test_an_engine_waits_for_a_cluster_that_starts_later(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster()
    cluster[1].stop()
    side = cluster.client()
    engine = side.engine()
    waiter = side.do(lambda: spawn(engine.cluster_image()))
    with caplog.at_level(logging.WARNING):
        cluster.run(120 * SECOND)
    assert not waiter.done
    assert "refused" in str(engine.metadata.last_error)
    assert "Errno" not in str(engine.metadata.last_error)
    assert len(caplog.records) == 4, "lasting trouble is told every 30 s, not at every attempt"
    cluster[1].start()
    cluster.until(lambda: waiter.done, 2 * SECOND)


def test_without_a_bootstrap_server_there_is_no_engine() -> None:
    side = ScriptedCluster().client()
    with pytest.raises(ConfigError, match=r"bootstrap.servers is empty"):
        side.engine(bootstrap_servers="")
    with pytest.raises(ConfigError, match="Write host:port"):
        side.engine(bootstrap_servers="broker1")


def test_fresh_images_are_not_delayed_because_nothing_changes() -> None:
    cluster = ScriptedCluster()
    side, engine = started(cluster)
    side.wait(lambda: spawn(engine.fresh_image()))
    before_ms = cluster.now_ms
    for _ in range(20):
        side.wait(lambda: spawn(engine.fresh_image()))
    assert cluster.now_ms - before_ms < SECOND


def test_a_topic_is_returned_when_the_cluster_has_it() -> None:
    cluster = ScriptedCluster(brokers=2)
    side, engine = started(cluster)
    waiter = side.do(lambda: engine.wait_for_topic("orders"))
    cluster.run(5 * SECOND)
    assert not waiter.done
    cluster.create("orders", leaders=[1, 2])
    cluster.until(lambda: waiter.done, 2 * SECOND)
    assert [info.leader for info in waiter.result().partitions.values()] == [1, 2]
    assert side.do(lambda: engine.wait_for_topic("orders").done), "known by now"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopic),
    ],
)
def test_an_invalid_topic_raises(code: ErrorCode, kind: type[Exception]) -> None:
    cluster = ScriptedCluster()
    side, engine = started(cluster)
    cluster.create("orders").error = code
    with pytest.raises(kind, match="topic orders"):
        side.wait(lambda: engine.wait_for_topic("orders"))


def test_a_wait_ends_after_its_time_limit() -> None:
    cluster = ScriptedCluster()
    side, engine = started(cluster)
    with pytest.raises(MaxBlockTimeout, match="orders"):
        side.wait(
            lambda: engine.within(
                3 * SECOND,
                engine.wait_for_topic("orders"),
                lambda: MaxBlockTimeout("topic orders is not there"),
            )
        )
    assert cluster.now_ms < 4 * SECOND


def test_a_waiter_done_in_time_leaves_no_timer() -> None:
    side, engine = started(ScriptedCluster())
    before = side.timer.size
    waiter: Waiter[int] = Waiter()
    side.do(lambda: engine.within(SECOND, waiter, lambda: MaxBlockTimeout("late")))
    side.do(lambda: waiter.complete(1))
    assert side.timer.size == before
    assert side.do(lambda: engine.within(SECOND, waiter, lambda: MaxBlockTimeout("late"))).done


def test_a_fresh_image_has_a_moved_leader() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.create("orders", leaders=[1])
    side, engine = started(cluster)
    side.wait(lambda: engine.wait_for_topic("orders"))
    cluster.move("orders", 0, leader=2)
    image = side.wait(lambda: spawn(engine.fresh_image()))
    assert image.leader("orders", 0) == 2


def test_metadata_is_updated_at_its_maximum_age_and_not_before() -> None:
    cluster = ScriptedCluster()
    _, engine = started(cluster, metadata_max_age_ms=60 * SECOND)
    before = engine.metadata.image.version
    cluster.run(59 * SECOND)
    assert engine.metadata.image.version == before
    cluster.run(2 * SECOND)
    assert engine.metadata.image.version == before + 1


def test_metadata_is_updated_when_a_connection_is_lost() -> None:
    cluster = ScriptedCluster(brokers=2)
    side, engine = started(cluster)
    side.do(lambda: engine.client.ready(2))
    cluster.until(lambda: engine.client.is_ready(2))
    cluster.listed.remove(2)
    cluster[2].stop()
    cluster.until(lambda: set(engine.metadata.image.nodes) == {1}, 5 * SECOND)
    assert engine.client.node_ids == [1]


def test_a_cluster_that_moved_altogether_is_found_by_its_bootstrap_server() -> None:
    """KIP-899: all known brokers are gone."""
    cluster = ScriptedCluster(brokers=1)
    _, engine = started(cluster, bootstrap_servers="broker1:9092")
    cluster.add_broker(7)
    cluster.listed = [7]
    cluster.run(301 * SECOND)
    assert set(engine.metadata.image.nodes) == {7}
    cluster[7].stop()
    cluster.add_broker(8)
    cluster.listed = [8]
    cluster.until(lambda: set(engine.metadata.image.nodes) == {8})


def test_the_image_stays_while_the_only_broker_is_away() -> None:
    cluster = ScriptedCluster()
    cluster.create("orders")
    side, engine = started(cluster)
    side.wait(lambda: engine.wait_for_topic("orders"))
    cluster[1].stop()
    cluster.run(60 * SECOND)
    assert engine.metadata.image.leader("orders", 0) == 1
    assert 1 in engine.client.node_ids
    cluster[1].start()
    version = engine.metadata.image.version
    cluster.until(lambda: engine.metadata.image.version > version, 3 * SECOND)


def test_with_recovery_strategy_none_the_bootstrap_servers_are_not_used_again() -> None:
    cluster = ScriptedCluster()
    _, engine = started(
        cluster, bootstrap_servers="broker1:9092", metadata_recovery_strategy="none"
    )
    cluster.add_broker(7)
    cluster.listed = [7]
    cluster.run(301 * SECOND)
    cluster[7].stop()
    cluster.listed = [1]
    cluster.run(700 * SECOND)
    assert set(engine.metadata.image.nodes) == {7}


def test_an_engine_rebootstraps_after_the_trigger_time_without_metadata() -> None:
    """KIP-1102: a broker accepts connections and never answers Metadata requests."""
    cluster = ScriptedCluster()
    side, engine = started(cluster, bootstrap_servers="broker1:9092", request_timeout_ms=5 * SECOND)
    cluster.add_broker(7)
    cluster.listed = [7]
    cluster.run(301 * SECOND)
    cluster[7].answers[MetadataRequest] = lambda request, version: SILENT
    cluster.listed = [1]
    side.do(engine.metadata.request_update)
    cluster.run(290 * SECOND)
    assert set(engine.metadata.image.nodes) == {7}
    cluster.until(lambda: set(engine.metadata.image.nodes) == {1}, 60 * SECOND)


def test_an_engine_rebootstraps_when_a_broker_requires_it() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.create("orders")
    side, engine = started(cluster, bootstrap_servers="broker2:9092")
    side.wait(lambda: engine.wait_for_topic("orders"))
    again = MetadataResponse(
        brokers=[], topics=[], error_code=ErrorCode.REBOOTSTRAP_REQUIRED, cluster_id=None
    )
    cluster.answers[MetadataRequest] = lambda request, version: again
    side.do(lambda: engine.metadata.request_update())
    cluster.until(lambda: not engine.metadata.image.nodes, 2 * SECOND)
    assert engine.client.node_ids == [-1]
    assert engine.metadata.image.partition_count("orders") == 1
    del cluster.answers[MetadataRequest]
    cluster.until(lambda: bool(engine.metadata.image.nodes), 5 * SECOND)


def test_an_engine_rebootstraps_when_an_address_belongs_to_another_broker() -> None:
    """KIP-1242: the address of a broker belongs to another broker now."""
    cluster = ScriptedCluster(brokers=2)
    side, engine = started(cluster, bootstrap_servers="broker1:9092")
    refusal = cluster[2].api_versions(ErrorCode.REBOOTSTRAP_REQUIRED)
    cluster[2].answers[ApiVersionsRequest] = lambda request, version: refusal
    before = len(cluster[1].of(MetadataRequest))
    side.do(lambda: engine.client.ready(2))
    cluster.until(lambda: len(cluster[1].of(MetadataRequest)) > before, 5 * SECOND)
    cluster.until(lambda: bool(engine.metadata.image.nodes), 5 * SECOND)


def test_brokers_of_another_cluster_end_the_engine() -> None:
    cluster = ScriptedCluster()
    side, engine = started(cluster)
    cluster.cluster_id = "another-cluster"
    waiter = side.do(lambda: spawn(engine.fresh_image()))
    cluster.until(lambda: waiter.done, 2 * SECOND)
    assert isinstance(waiter.error, WrongCluster)
    node = side.do(lambda: spawn(engine.any_node()))
    assert isinstance(node.error, WrongCluster)
    asked = len(cluster[1].of(MetadataRequest))
    cluster.run(3600 * SECOND)
    assert len(cluster[1].of(MetadataRequest)) == asked


def test_auto_creation_is_requested_only_if_allowed() -> None:
    cluster = ScriptedCluster()
    started(cluster)
    assert not any(r.allow_auto_topic_creation for r in cluster[1].of(MetadataRequest))


def test_an_old_broker_gets_no_field_for_auto_creation() -> None:
    cluster = ScriptedCluster()
    cluster[1].versions[3] = (0, 3)
    _, engine = started(cluster)
    assert engine.metadata.image.nodes


def test_closing_ends_all_waits_and_leaves_nothing_behind() -> None:
    cluster = ScriptedCluster()
    side, engine = started(cluster)
    waiters = [
        side.do(lambda: engine.wait_for_topic("orders")),
        side.do(lambda: spawn(engine.fresh_image())),
    ]
    side.do(engine.close)
    side.do(engine.close)
    assert all(isinstance(waiter.error, ClientClosed) for waiter in waiters)  # type: ignore[attr-defined]
    asked = len(cluster[1].asked)
    cluster.run(3600 * SECOND)
    assert len(cluster[1].asked) == asked
    assert side.timer.size == 0
    assert isinstance(side.do(lambda: engine.sleep(1)).error, ClientClosed)
