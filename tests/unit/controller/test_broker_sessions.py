"""Sessions of brokers: when they end, and how far the brokers are."""

from __future__ import annotations

from odradek.controller.broker_sessions import DISCONNECTED_MS, BrokerSessions
from unit.controller.cluster_making import an_image, replay_all
from unit.controller.controlled_cluster import ControlledCluster

TIMEOUT_MS = 9_000


def sessions(*broker_ids: int) -> BrokerSessions:
    made = BrokerSessions(TIMEOUT_MS)
    for broker_id in broker_ids:
        made.heard(broker_id, 5, 0)
    return made


def test_a_session_ends_a_timeout_after_the_last_heartbeat() -> None:
    of_one = sessions(1)
    of_one.heard(1, 5, 100)
    assert of_one.next_end_ms() == 100 + TIMEOUT_MS
    assert of_one.is_valid(1, 5, 99 + TIMEOUT_MS)
    assert of_one.pop_expired(99 + TIMEOUT_MS) is None
    assert not of_one.is_valid(1, 5, 100 + TIMEOUT_MS)
    assert of_one.pop_expired(100 + TIMEOUT_MS) == (1, 5)
    assert of_one.next_end_ms() is None


def test_a_session_without_connection_ends_sooner_unless_something_is_heard() -> None:
    both = sessions(1, 2)
    both.disconnected(1, 1_000)
    both.disconnected(1, 1_200)
    both.disconnected(7, 1_000)
    assert both.next_end_ms() == 1_000 + DISCONNECTED_MS
    both.heard(1, 5, 1_100)
    assert both.next_end_ms() == TIMEOUT_MS


def test_a_connection_that_ends_does_not_prolong_a_session() -> None:
    of_one = sessions(1)
    of_one.disconnected(1, TIMEOUT_MS - 1)
    assert of_one.next_end_ms() == TIMEOUT_MS


def test_a_session_is_of_one_incarnation() -> None:
    of_one = sessions(1)
    assert not of_one.is_valid(1, 6, 0)
    of_one.heard(1, 5, 0).metadata_offset = 77
    assert of_one.heard(1, 6, 10).metadata_offset == -1
    assert not of_one.is_valid(1, 5, 10)
    of_one.end(1)
    assert not of_one.is_valid(1, 6, 10)


def test_the_lowest_offset_is_that_of_active_brokers() -> None:
    image = an_image(1, 2, 3)
    three = sessions(1, 2, 3)
    for broker_id, offset in ((1, 30), (2, 20), (3, 10)):
        three.heard(broker_id, 5, 0).metadata_offset = offset
    assert three.lowest_active_offset(image) == 10
    broker = image.brokers[3].record()
    broker.fenced = True
    replay_all(image, [broker])
    assert three.lowest_active_offset(image) == 20
    three.end(2)
    assert three.lowest_active_offset(image) == -1
    assert three.lowest_active_offset(an_image(9)) == -1


def test_a_broker_is_fenced_a_session_after_its_last_heartbeat() -> None:
    cluster = ControlledCluster(1, 2, broker_session_timeout_ms="2000").create("t", {0: [2, 1]})
    cluster.wait(1_500)
    cluster.beat(1)
    cluster.wait(500)
    assert [cluster.image.brokers[each].fenced for each in (1, 2)] == [False, True]
    assert cluster.partition().leader == 1
