"""When a client updates its metadata, and the waiters for it."""

from __future__ import annotations

import pytest

from odradek.client.errors import Disconnected, WrongCluster
from odradek.client.metadata.cluster_image import NO_LEADER
from odradek.model.errors import ErrorCode
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponseTopic
from unit.client.metadata_responses import MAX_AGE_MS, NEWEST, Knowing, response, topic
from unit.network_client.scripted_nodes import Asking


def test_an_update_is_due_at_first_and_after_the_maximum_age() -> None:
    knowing = Knowing()
    assert knowing.wait_ms == 0
    knowing.learn()
    assert knowing.wait_ms == MAX_AGE_MS
    knowing.clock.now_ms += MAX_AGE_MS - 10
    assert knowing.wait_ms == 10


def test_a_requested_update_is_due_at_once() -> None:
    knowing = Knowing()
    asked: list[int] = []
    knowing.metadata.on_request = lambda: asked.append(knowing.wait_ms)
    knowing.learn()
    knowing.clock.now_ms += 2000
    knowing.metadata.request_update()
    assert asked[-1] == 0


def test_after_failures_the_wait_grows() -> None:
    knowing = Knowing()
    waits = []
    for _ in range(6):
        knowing.metadata.failed(Disconnected("no"))
        waits.append(knowing.wait_ms)
        knowing.clock.now_ms += waits[-1]
    assert waits == [100, 200, 400, 800, 1000, 1000]
    assert isinstance(knowing.metadata.last_error, Disconnected)
    knowing.learn()
    assert knowing.metadata.last_error is None
    knowing.metadata.request_update()
    knowing.metadata.failed(Disconnected("no"))
    assert knowing.wait_ms == 100


def test_after_unchanged_responses_the_wait_grows() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 1)))
    waits = []
    for _ in range(5):
        knowing.metadata.request_update()
        waits.append(knowing.wait_ms)
        knowing.clock.now_ms += waits[-1]
        knowing.learn(topic("orders", (1, 1)))
    assert waits == [0, 100, 200, 400, 800]
    knowing.learn(topic("orders", (2, 2)))
    knowing.metadata.request_update()
    assert knowing.wait_ms == 0


def test_whoever_asks_for_the_present_state_does_not_wait_for_another_answer() -> None:
    knowing = Knowing()
    for _ in range(5):
        knowing.metadata.request_update()
        knowing.learn()
        knowing.metadata.request_at_once()
        assert knowing.wait_ms == 0
    knowing.learn()
    knowing.metadata.request_update()
    assert knowing.wait_ms == 100
    knowing.metadata.failed(Disconnected("no"))
    knowing.metadata.request_at_once()
    assert knowing.wait_ms == 100, "a failure is waited for"


def test_a_new_topic_is_requested_at_once() -> None:
    knowing = Knowing()
    for _ in range(5):
        knowing.learn()
    knowing.metadata.add_topic("orders")
    assert knowing.wait_ms == 0


@pytest.mark.parametrize(
    "bad",
    [
        topic("orders", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        topic("orders", (1, 1), (NO_LEADER, 1)),
    ],
    ids=["no such topic (yet)", "no leader"],
)
def test_an_update_is_requested_when_a_response_announces_a_change(
    bad: MetadataResponseTopic,
) -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(bad)
    knowing.learn(bad)
    assert knowing.metadata.update_requested
    assert knowing.wait_ms == 100
    knowing.learn(topic("orders", (1, 1)))
    assert not knowing.metadata.update_requested


def test_a_request_in_flight_does_not_serve_later_requests_for_updates() -> None:
    knowing = Knowing()
    knowing.metadata.request_update()
    _, token = knowing.metadata.topics_to_request()
    knowing.metadata.request_update()
    knowing.metadata.updated(response(), NEWEST, token)
    assert knowing.metadata.update_requested
    knowing.learn()
    assert not knowing.metadata.update_requested


# Waiting.


def test_a_waiter_for_a_newer_image_gets_the_next_one() -> None:
    knowing = Knowing()
    first = knowing.metadata.newer_than(0)
    later = knowing.metadata.newer_than(1)
    knowing.learn()
    assert first.result() is knowing.metadata.image
    assert not later.done
    knowing.learn()
    assert later.result().version == 2
    assert knowing.metadata.newer_than(1).done, "there is one already"


def test_retriable_failures_do_not_fail_the_waiters() -> None:
    knowing = Knowing()
    waiter = knowing.metadata.newer_than(0)
    knowing.metadata.failed(Disconnected("no"))
    assert not waiter.done
    knowing.learn()
    assert waiter.done


def test_brokers_of_another_cluster_are_a_fatal_error() -> None:
    knowing = Knowing()
    knowing.learn()
    waiter = knowing.metadata.newer_than(1)
    knowing.learn(cluster_id="theirs")
    with pytest.raises(WrongCluster, match="theirs, not to ours"):
        waiter.result()
    assert isinstance(knowing.metadata.newer_than(1).error, WrongCluster)
    assert knowing.metadata.image.cluster_id == "ours"


def test_a_response_without_a_cluster_id_is_accepted() -> None:
    knowing = Knowing()
    knowing.learn()
    knowing.learn(cluster_id=None)
    assert knowing.metadata.fatal is None and knowing.metadata.image.cluster_id == "ours"


def test_a_waiter_that_is_done_is_dropped() -> None:
    knowing = Knowing()
    for _ in range(100):
        knowing.metadata.newer_than(0).fail(TimeoutError())
    assert len(knowing.metadata._waiters) <= 1


def test_another_broker_is_asked_when_answers_change_nothing() -> None:
    asking = Asking(brokers=3)

    def asked() -> list[int]:
        return [
            sum(isinstance(each.request, MetadataRequest) for each in asking.cluster[number].asked)
            for number in (1, 2, 3)
        ]

    before = asked()
    for _ in range(8):
        asking.side.wait(
            lambda: asking.engine.metadata.newer_than(asking.engine.metadata.request_update())
        )
    more = [now - then for now, then in zip(asked(), before, strict=True)]
    assert sum(more) == 8
    assert sorted(more)[1] >= 2  # Two brokers at least, in turns.


def test_a_broker_whose_connections_fail_is_not_preferred_to_one_that_answers() -> None:
    asking = Asking(brokers=2)
    asking.connect(1)
    asking.cluster[2].stop()
    for _ in range(8):
        asking.side.wait(
            lambda: asking.engine.metadata.newer_than(asking.engine.metadata.request_update())
        )
    state = asking.client.states.nodes.get(2)
    assert state is None or state.failed_attempts <= 1
