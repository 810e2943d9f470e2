"""The connections of a broker to other nodes: by purpose, bounded, lost at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.config.broker import BrokerConfig
from odradek.model.env import SocketBuffers
from odradek.model.errors import ErrorCode
from odradek.model.node import Node
from odradek.model.version import VERSION
from odradek.network_client.broker_connections import (
    IN_FLIGHT,
    TO_BROKERS,
    BrokerChannel,
    BrokerConnections,
    Purpose,
    settings_for,
)
from odradek.network_client.errors import (
    ClientClosed,
    Disconnected,
    KafkaError,
    RequestTimeout,
    UnsupportedVersion,
)
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import ConnectionListener, NetworkClient
from odradek.protocol.api.api_versions import (
    SOFTWARE_NAME,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.testing.scripted import CLOSE, PORT, SILENT, DelayedAnswer, ScriptedCluster, raise_bug

OWN, SECOND = 9, 1000
DESCRIBE = 60


class Listener(ConnectionListener):
    def __init__(self) -> None:
        self.events: list[str] = []

    def node_ready(self, node_id: int) -> None:
        self.events.append(f"{node_id} ready")

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        self.events.append(f"{node_id} lost")

    def rebootstrap_required(self) -> None:
        self.events.append("another node")


class Sending:
    """Broker 9 with two scripted nodes, which answer DescribeCluster."""

    def __init__(self, **settings: str) -> None:
        self.cluster = ScriptedCluster(2)
        self.side = self.cluster.client("broker9")
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.load({"node.id": str(OWN), **given})
        self.connections = BrokerConnections(
            self.side.env, self.side.timer, self.config, on_bug=raise_bug
        )
        self.answer(lambda request, version: described())
        self.nodes = {i: Node(i, f"broker{i}", PORT) for i in (1, 2)}
        self.update()
        self.ended: list[ClientRequest] = []

    def answer(self, answer: Callable[[Any, int], Any], node_id: int | None = None) -> None:
        answers = self.cluster.answers if node_id is None else self.cluster[node_id].answers
        answers[DescribeClusterRequest] = answer

    def update(self) -> None:
        def update() -> None:
            self.connections.update_controllers(self.nodes)
            self.connections.update_brokers(self.nodes)

        self.side.do(update)

    def listen(self, purpose: Purpose) -> Listener:
        listener = Listener()
        self.connections.client(purpose).listen(listener)
        return listener

    def ask(self, node_id: int = 1, purpose: Purpose = Purpose.FETCHER) -> ClientRequest:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        client = self.connections.client(purpose)
        return self.side.do(lambda: client.send(node_id, request, self.ended.append))

    def outcome(self, call: ClientRequest) -> tuple[str, int]:
        """How a request ended, and after how many ms from now."""
        begun_ms = self.cluster.now_ms
        self.cluster.until(lambda: call.done)
        error = "answered" if call.error is None else type(call.error).__name__
        return error, self.cluster.now_ms - begun_ms


def described() -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=0, cluster_id="it", controller_id=1, brokers=[])


def test_each_purpose_has_a_connection_of_its_own() -> None:
    sending = Sending()
    calls = [sending.ask(purpose=purpose) for purpose in Purpose if purpose is not Purpose.QUORUM]
    sending.cluster.until(lambda: all(call.done for call in calls))
    assert [call.error for call in calls] == [None] * 7
    assert sending.cluster[1].connections == 7
    seen = {asked.client_id for asked in sending.cluster[1].asked}
    assert seen == {
        "broker-9-controller-channel",
        "broker-9-forwarding",
        "broker-9-fetcher",
        "broker-9-catch-up-fetcher",
        "broker-9-transaction-markers",
        "broker-9-transaction-verification",
        "broker-9-partition-ends",
    }


def test_a_request_that_waits_does_not_delay_another_purpose() -> None:
    sending = Sending()
    sending.answer(lambda request, version: DelayedAnswer(5 * SECOND, described()))
    parked = sending.ask(purpose=Purpose.FETCHER)
    sending.cluster.run(SECOND)
    sending.answer(lambda request, version: described())
    urgent = sending.ask(purpose=Purpose.CONTROLLER)
    sending.cluster.until(lambda: urgent.done)
    assert not parked.done
    sending.cluster.until(lambda: parked.done)
    assert parked.error is None


def test_a_broker_names_its_software_and_the_node_it_expects() -> None:
    sending = Sending()
    sending.connections.set_cluster_id("it")
    sending.outcome(sending.ask(2))
    (asked,) = sending.cluster[2].of(ApiVersionsRequest)
    assert (asked.client_software_name, asked.client_software_version) == (SOFTWARE_NAME, VERSION)
    assert (asked.cluster_id, asked.node_id) == ("it", 2)


def test_a_node_of_another_cluster_gets_no_request() -> None:
    sending = Sending()
    sending.connections.set_cluster_id("it")
    listener = sending.listen(Purpose.FETCHER)
    sending.cluster[1].answers[ApiVersionsRequest] = lambda request, version: ApiVersionsResponse(
        error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[]
    )
    call = sending.ask()
    assert sending.outcome(call)[0] == "Disconnected"
    assert listener.events[:2] == ["1 lost", "another node"]
    assert not sending.cluster[1].of(DescribeClusterRequest)


def test_a_refused_connection_fails_the_request_at_once() -> None:
    sending = Sending()
    sending.cluster[1].stop()
    listener = sending.listen(Purpose.FETCHER)
    error, after_ms = sending.outcome(sending.ask())
    assert (error, listener.events) == ("Disconnected", ["1 lost"])
    assert after_ms < 50


def test_a_closed_connection_is_told_at_once_to_requests_and_listeners() -> None:
    sending = Sending()
    sending.answer(lambda request, version: SILENT)
    listener = sending.listen(Purpose.FETCHER)
    calls = [sending.ask(), sending.ask()]
    sending.cluster.run(SECOND)
    assert listener.events == ["1 ready"]
    sending.cluster[1].close_connections()
    assert sending.outcome(calls[1])[1] < 50
    assert [type(call.error) for call in sending.ended] == [Disconnected, Disconnected]
    assert listener.events == ["1 ready", "1 lost"]


def test_a_half_open_connection_ends_with_the_time_limit_of_its_purpose() -> None:
    sending = Sending(replica_socket_timeout_ms="7000")
    sending.outcome(sending.ask())
    sending.cluster[1].fall_silent()
    listener = sending.listen(Purpose.FETCHER)
    call, behind = sending.ask(), sending.ask()
    error, after_ms = sending.outcome(call)
    assert (error, listener.events) == ("RequestTimeout", ["1 lost"])
    assert 7 * SECOND <= after_ms < 7 * SECOND + 100
    assert isinstance(behind.error, Disconnected)


def test_a_silent_host_ends_the_attempt_after_the_setup_timeout() -> None:
    sending = Sending(socket_connection_setup_timeout_ms="2000")
    sending.cluster[1].fall_silent()
    error, after_ms = sending.outcome(sending.ask())
    assert error == "Disconnected"
    assert 1.6 * SECOND <= after_ms <= 2.4 * SECOND, "20 % of chance either way"


def test_a_slow_node_answers_in_order_and_gets_no_more_than_the_limit() -> None:
    sending = Sending()
    sending.answer(lambda request, version: DelayedAnswer(300, described()))
    calls = [sending.ask() for _ in range(6)]
    sending.cluster.run(250)
    assert len(sending.cluster[1].of(DescribeClusterRequest)) == IN_FLIGHT[Purpose.FETCHER] == 4
    sending.cluster.until(lambda: len(sending.ended) == 6)
    assert sending.ended == calls


def test_requests_beyond_the_limit_of_waiting_ones_fail() -> None:
    sending = Sending()
    sending.answer(lambda request, version: SILENT)
    sending.cluster.run(10)
    most = sending.connections.client(Purpose.CATCH_UP).max_pending
    calls = [sending.ask(purpose=Purpose.CATCH_UP) for _ in range(most + 1)]
    sending.cluster.run(10)
    assert [call.done for call in calls] == [False] * most + [True]
    assert isinstance(calls[-1].error, Disconnected)


def test_a_version_without_overlap_fails_the_request_and_keeps_the_connection() -> None:
    sending = Sending()
    sending.cluster[1].versions[DESCRIBE] = (77, 78)
    listener = sending.listen(Purpose.FETCHER)
    call = sending.ask()
    assert sending.outcome(call)[0] == "UnsupportedVersion"
    assert isinstance(call.error, UnsupportedVersion) and "77 to 78" in str(call.error)
    assert listener.events == ["1 ready"]


def test_waits_between_attempts_grow_within_the_bounds_of_the_purpose() -> None:
    sending = Sending()
    sending.cluster[1].answers[ApiVersionsRequest] = lambda request, version: CLOSE
    begun = []
    for _ in range(12):
        sending.outcome(sending.ask())
        begun.append(sending.cluster.now_ms)
    waits = [after - before for before, after in itertools.pairwise(begun)]
    assert 40 <= waits[0] <= 70
    assert waits == sorted(waits[:6]) + waits[6:]
    assert all(750 <= wait <= 1100 for wait in waits[6:])


def test_a_node_that_moved_loses_its_old_connection_at_once() -> None:
    sending = Sending()
    sending.answer(lambda request, version: SILENT)
    lost = sending.ask()
    sending.cluster.run(SECOND)
    sending.cluster.add_broker(3, host="elsewhere")
    sending.cluster[3].answers[DescribeClusterRequest] = lambda request, version: described()
    sending.nodes[1] = Node(1, "elsewhere", PORT)
    sending.update()
    assert isinstance(lost.error, Disconnected)
    assert sending.outcome(sending.ask())[0] == "answered"
    assert len(sending.cluster[3].of(DescribeClusterRequest)) == 1


def test_the_new_address_does_not_wait_for_the_back_off_of_the_old_one() -> None:
    sending = Sending()
    sending.cluster[1].stop()
    for _ in range(8):
        sending.outcome(sending.ask())
    waiting = sending.ask()  # For the back-off, which is about a second now.
    sending.cluster.run(100)
    sending.cluster.add_broker(3, host="elsewhere")
    sending.nodes[1] = Node(1, "elsewhere", PORT)
    sending.update()
    error, after_ms = sending.outcome(waiting)
    assert error == "answered" and after_ms < 50


def test_a_node_that_left_takes_no_more_requests() -> None:
    sending = Sending()
    sending.outcome(sending.ask(2))
    del sending.nodes[2]
    sending.update()
    call = sending.ask(2)
    assert sending.outcome(call)[0] == "Disconnected"
    assert "broker 2 is not part of the cluster" in str(call.error)


def test_a_broker_is_no_node_of_its_own_connections() -> None:
    sending = Sending()
    sending.nodes[OWN] = Node(OWN, "broker9", PORT)
    sending.update()
    assert sending.connections.client(Purpose.FETCHER).node_ids == [1, 2]


def test_the_quorum_sets_its_own_nodes() -> None:
    sending = Sending()
    client = sending.connections.client(Purpose.QUORUM)
    assert client.node_ids == []
    sending.side.do(lambda: client.update_nodes({-2: Node(-2, "broker2", PORT)}))
    sending.update()
    assert client.node_ids == [-2]
    assert sending.outcome(sending.ask(-2, Purpose.QUORUM))[0] == "answered"


def test_closing_fails_open_and_later_requests_of_every_purpose() -> None:
    sending = Sending()
    sending.answer(lambda request, version: SILENT)
    open_call = sending.ask()
    sending.cluster.run(SECOND)
    sending.side.do(sending.connections.close)
    late = [sending.ask(), sending.ask(purpose=Purpose.CATCH_UP)]
    sending.cluster.run(SECOND)
    assert [type(call.error) for call in (open_call, *late)] == [ClientClosed] * 3


def test_a_request_of_the_quorum_has_its_own_time_limit() -> None:
    sending = Sending(controller_quorum_request_timeout_ms="1500")
    client = sending.connections.client(Purpose.QUORUM)
    sending.side.do(lambda: client.update_nodes(sending.nodes))
    sending.answer(lambda request, version: SILENT)
    call = sending.ask(purpose=Purpose.QUORUM)
    assert sending.outcome(call)[0] == "RequestTimeout"
    assert isinstance(call.error, RequestTimeout) and "within 1500 ms" in str(call.error)


@pytest.mark.parametrize("purpose", list(Purpose))
def test_connections_take_their_settings_from_the_broker(purpose: Purpose) -> None:
    config = BrokerConfig.load(
        {
            "node.id": "4",
            "connections.max.idle.ms": "-1",
            "replica.socket.receive.buffer.bytes": "70000",
            "controller.socket.timeout.ms": "11",
            "controller.quorum.request.timeout.ms": "12",
            "replica.socket.timeout.ms": "1300",
            "socket.connection.setup.timeout.ms": "14",
            "socket.connection.setup.timeout.max.ms": "15",
        }
    )
    found = settings_for(purpose, config)
    follows = purpose in TO_BROKERS
    timeout_ms = 12 if purpose is Purpose.QUORUM else 1300 if follows else 11
    assert found.request_timeout_ms == timeout_ms
    assert found.buffers == (SocketBuffers(-1, 70_000) if follows else SocketBuffers())
    assert found.socket_connection_setup_timeout_ms == 14
    assert found.socket_connection_setup_timeout_max_ms == 15
    assert found.connections_max_idle_ms > 365 * 24 * 3600 * SECOND


def test_a_request_that_waits_for_a_former_controller_fails_at_once() -> None:
    sending = Sending()
    sending.answer(lambda request, version: SILENT)
    waiting = sending.ask(purpose=Purpose.CONTROLLER)
    other = sending.ask(purpose=Purpose.FETCHER)
    sending.cluster.run(SECOND)
    sending.side.do(lambda: sending.connections.leave_controller(1))
    assert isinstance(waiting.error, Disconnected)
    assert not other.done


def test_a_request_to_a_broker_that_is_left_fails_at_once() -> None:
    sending = Sending()
    sending.answer(lambda request, version: SILENT)
    waiting = [sending.ask(purpose=each) for each in TO_BROKERS]
    elsewhere = sending.ask(2, Purpose.MARKERS)
    other = sending.ask(purpose=Purpose.CONTROLLER)
    sending.cluster.run(SECOND)
    sending.side.do(lambda: sending.connections.leave_broker(1, "it is fenced"))
    assert all(isinstance(each.error, Disconnected) for each in waiting)
    assert not elsewhere.done
    assert not other.done


def test_a_channel_gives_the_response_or_none_when_the_request_failed():
    sent: list[tuple[int, Any]] = []

    def send(node: int, request: Any, handler: Any, *, timeout_ms: int | None) -> None:
        sent.append((node, handler))

    channel = BrokerChannel(cast("NetworkClient", SimpleNamespace(send=send)))
    heard: list[str | None] = []
    channel.send(3, "request", heard.append)
    channel.send(3, "request", heard.append)
    assert [node for node, _ in sent] == [3, 3]
    sent[0][1](SimpleNamespace(error=None, response="response"))
    sent[1][1](SimpleNamespace(error=Disconnected("gone"), response=None))
    assert heard == ["response", None]
