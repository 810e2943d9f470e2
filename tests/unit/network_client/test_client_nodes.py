"""The nodes of a client: throttling, moved, dropped, and the least loaded one."""

from __future__ import annotations

from odradek.client.metadata.metadata import CurrentLeader
from odradek.client.waiter import spawn
from odradek.model.node import Node
from odradek.network_client.errors import Disconnected
from odradek.network_client.node_connection import LEAVING_MS
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponseBroker
from odradek.testing.scripted import PORT, SILENT, DelayedAnswer
from unit.network_client.scripted_nodes import SECOND, Asking, described


def test_a_throttling_broker_gets_no_request_until_the_time_is_over() -> None:
    asking = Asking()
    throttling = described()
    throttling.throttle_time_ms = 3 * SECOND
    asking.answer(lambda request, version: throttling)
    first = asking.ask()
    asking.cluster.until(lambda: first.done)
    assert not asking.client.is_ready(1)
    throttled_ms = asking.cluster.now_ms
    asking.answer(lambda request, version: described())
    second = asking.ask()
    asking.cluster.until(lambda: second.done)
    assert second.error is None
    assert asking.cluster.now_ms - throttled_ms >= 3 * SECOND


def test_a_listener_learns_when_a_throttling_broker_is_ready_again() -> None:
    asking = Asking()
    throttling = described()
    throttling.throttle_time_ms = SECOND
    asking.answer(lambda request, version: throttling)
    first = asking.ask()
    asking.cluster.until(lambda: first.done)
    asking.listener.ready.clear()
    assert not asking.side.do(lambda: asking.client.ready(1))
    asking.cluster.until(lambda: asking.listener.ready == [1], 2 * SECOND)


def test_a_listener_learns_when_a_broker_is_ready_after_the_back_off() -> None:
    asking = Asking()
    asking.connect()
    asking.listener.ready.clear()
    asking.cluster[1].close_connections()
    asking.cluster.until(lambda: bool(asking.listener.lost))
    assert not asking.side.do(lambda: asking.client.ready(1))
    asking.cluster.until(lambda: asking.listener.ready == [1])


def test_a_coordinator_has_a_connection_of_its_own() -> None:
    asking = Asking()
    asking.answer(lambda request, version: DelayedAnswer(100 if version else 0, described()))
    asking.connect()
    before = asking.cluster[1].connections
    node_id = asking.side.do(lambda: asking.client.coordinator(Node(1, "broker1", 9092)))
    call = asking.ask(node_id)
    asking.cluster.until(lambda: call.done)
    assert call.error is None
    assert asking.cluster[1].connections == before + 1
    assert node_id not in asking.client.node_ids
    asking.side.do(lambda: asking.client.update_nodes({1: Node(1, "broker1", 9092)}))
    assert asking.client.is_ready(node_id), "what the cluster's nodes are does not concern it"


def test_a_node_that_left_the_cluster_is_dropped_when_nothing_is_in_flight() -> None:
    asking = Asking(brokers=2)
    asking.answer(lambda request, version: DelayedAnswer(500, described()), node_id=2)
    call = asking.ask(2)
    asking.cluster.until(lambda: asking.client.in_flight.count(2) == 1)
    asking.side.do(lambda: asking.client.update_nodes({1: Node(1, "broker1", 9092)}))
    assert asking.client.node_ids == [1]
    asking.cluster.until(lambda: call.done)
    assert call.error is None, "what was asked is answered"
    late = asking.ask(2)
    asking.cluster.until(lambda: late.done, 10)
    assert "not part of the cluster" in str(late.error)


def test_a_node_that_left_the_cluster_and_is_silent_is_given_up_after_a_second() -> None:
    """A broker that lost its power closes no connection; the cluster fences it."""
    asking = Asking(brokers=2)
    asking.answer(lambda request, version: SILENT, node_id=2)
    call = asking.ask(2)
    asking.cluster.until(lambda: asking.client.in_flight.count(2) == 1)
    asking.side.do(lambda: asking.client.update_nodes({1: Node(1, "broker1", 9092)}))
    left_ms = asking.cluster.now_ms
    asking.cluster.until(lambda: call.done)
    assert asking.cluster.now_ms - left_ms == LEAVING_MS
    assert isinstance(call.error, Disconnected)
    assert "left the cluster and did not answer" in str(call.error)
    assert call.was_sent, "it may have been carried out"


def test_a_node_that_comes_back_in_time_keeps_its_requests() -> None:
    asking = Asking(brokers=2)
    asking.answer(lambda request, version: DelayedAnswer(3 * SECOND, described()), node_id=2)
    call = asking.ask(2)
    asking.cluster.until(lambda: asking.client.in_flight.count(2) == 1)
    nodes = {number: Node(number, f"broker{number}", 9092) for number in (1, 2)}
    asking.side.do(lambda: asking.client.update_nodes({1: nodes[1]}))
    asking.side.do(lambda: asking.client.update_nodes(nodes))
    asking.cluster.until(lambda: call.done)
    assert call.error is None


def test_a_node_that_moved_is_connected_at_its_new_address() -> None:
    asking = Asking()
    asking.connect()
    asking.cluster.add_broker(2, host="elsewhere")
    asking.answer(lambda request, version: described("elsewhere"), node_id=2)
    moved = asking.cluster.metadata(MetadataRequest(topics=[]))
    moved.brokers = [MetadataResponseBroker(node_id=1, host="elsewhere", port=9092)]
    asking.cluster.answers[MetadataRequest] = lambda request, version: moved
    asking.side.wait(lambda: spawn(asking.engine.fresh_image()))
    assert asking.client.is_ready(1), "the old connection is as good as before"
    asking.cluster[1].stop()
    asking.cluster.until(lambda: bool(asking.listener.lost))
    call = asking.ask()
    asking.cluster.until(lambda: call.done)
    assert call.response.cluster_id == "elsewhere"


class TestLeastLoadedNode:
    def test_the_ready_node_with_the_fewest_requests_is_chosen(self) -> None:
        asking = Asking(brokers=3)
        for node_id in (1, 2, 3):
            asking.answer(lambda request, version: SILENT, node_id)
            asking.connect(node_id)
        asking.ask(1)
        asking.ask(1)
        asking.ask(3)
        assert {asking.client.least_loaded_node() for _ in range(20)} == {2}

    def test_equal_nodes_are_chosen_at_random(self) -> None:
        asking = Asking(brokers=3)
        for node_id in (1, 2, 3):
            asking.connect(node_id)
        assert {asking.client.least_loaded_node() for _ in range(50)} == {1, 2, 3}

    def test_a_ready_node_is_chosen_before_an_unconnected_one(self) -> None:
        asking = Asking(brokers=2)
        asking.connect(2)
        asking.answer(lambda request, version: SILENT, 2)
        asking.ask(2)
        assert {asking.client.least_loaded_node() for _ in range(20)} == {2}

    def test_no_node_is_chosen_while_all_are_in_back_off(self) -> None:
        asking = Asking(brokers=2, metadata_recovery_strategy="none")
        for node_id in (1, 2):
            asking.cluster[node_id].stop()
            asking.ask(node_id)
        asking.cluster.until(lambda: len(asking.listener.lost) >= 2)
        assert asking.client.least_loaded_node() is None
        asking.cluster.run(2 * SECOND)

    def test_a_throttling_node_is_chosen_last(self) -> None:
        asking = Asking(brokers=2)
        throttling = described()
        throttling.throttle_time_ms = SECOND
        asking.answer(lambda request, version: throttling, 1)
        call = asking.ask(1)
        asking.cluster.until(lambda: call.done)
        assert {asking.client.least_loaded_node() for _ in range(20)} == {2}


def test_a_node_that_only_a_response_named_gets_requests() -> None:
    """Produce and Fetch name new leaders with their addresses (KIP-951)."""
    asking = Asking(brokers=2)
    cluster, metadata = asking.cluster, asking.engine.metadata
    cluster.create("orders", leaders=[1])
    asking.side.wait(lambda: spawn(asking.engine.topic("orders")))
    cluster.add_broker(3, host="new")
    cluster[3].answers[DescribeClusterRequest] = lambda request, version: described("three")
    change = CurrentLeader("orders", 0, leader_id=3, leader_epoch=1)
    asking.side.do(lambda: metadata.update_leaders([change], [Node(3, "new", PORT)]))
    call = asking.ask(3)
    cluster.until(lambda: call.done, SECOND)
    assert call.error is None and call.response.cluster_id == "three"
    assert metadata.image.leader("orders", 0) == 3
