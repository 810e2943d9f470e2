"""Requests to nodes: waiting for a connection, in flight, answered, timed out, disconnected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.api_versions import RequestBuilder
from odradek.client.cluster_image import Node
from odradek.client.connection_listener import ConnectionListener
from odradek.client.engine import Engine
from odradek.client.errors import (
    ClientClosed,
    Disconnected,
    KafkaError,
    RequestTimeout,
    UnsupportedVersion,
)
from odradek.client.in_flight_requests import ClientRequest
from odradek.client.waiter import spawn
from odradek.model.errors import ProtocolError
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponseBroker
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.testing.scripted import CLOSE, NO_ANSWER, SILENT, ClientSide, Later, ScriptedCluster

SECOND = 1000


class Listener(ConnectionListener):
    def __init__(self) -> None:
        self.ready: list[int] = []
        self.lost: list[tuple[int, KafkaError]] = []

    def node_ready(self, node_id: int) -> None:
        if node_id >= 0:
            self.ready.append(node_id)

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        if node_id >= 0:
            self.lost.append((node_id, error))


class Asking:
    """A cluster, a client that has learnt what it looks like, and questions to it."""

    def __init__(self, brokers: int = 1, max_in_flight: int = 100, **settings: object) -> None:
        self.cluster = ScriptedCluster(brokers)
        self.side: ClientSide = self.cluster.client()
        self.engine: Engine = self.side.engine(max_in_flight=max_in_flight, **settings)
        self.client = self.engine.client
        self.listener = Listener()
        self.client.listen(self.listener)
        self.ended: list[ClientRequest] = []
        self.side.wait(lambda: self.engine.metadata.newer_than(0))

    def answer(self, answers: Callable[[Any, int], Any], node_id: int = 1) -> None:
        self.cluster[node_id].answers[DescribeClusterRequest] = answers

    def ask(self, node_id: int = 1, **options: Any) -> ClientRequest:
        """Something that only the script answers."""
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        return self.side.do(
            lambda: self.client.send(node_id, request, self.ended.append, **options)
        )

    def connect(self, node_id: int = 1) -> None:
        self.side.do(lambda: self.client.ready(node_id))
        self.cluster.until(lambda: self.client.is_ready(node_id))


def described(name: str = "it") -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=0, cluster_id=name, controller_id=1, brokers=[])


def test_a_request_opens_the_connection_it_needs() -> None:
    asking = Asking()
    asking.answer(lambda request, version: described())
    call = asking.ask()
    assert not call.done, "never from within send"
    asking.cluster.until(lambda: call.done)
    assert call.response.cluster_id == "it" and call.error is None
    assert asking.ended == [call]
    assert asking.listener.ready == [1]


def test_answers_come_in_the_order_of_the_requests() -> None:
    asking = Asking()
    names = iter("abcdefgh")
    asking.answer(lambda request, version: Later(50 if request else 0, described(next(names))))
    calls = [asking.ask() for _ in range(8)]
    asking.cluster.until(lambda: len(asking.ended) == 8)
    assert asking.ended == calls
    assert [call.response.cluster_id for call in calls] == list("abcdefgh")


def test_no_more_are_in_flight_than_allowed_and_the_rest_follows() -> None:
    asking = Asking(max_in_flight=3)
    asking.answer(lambda request, version: Later(20, described()))
    asking.connect()
    for _ in range(10):
        asking.ask()
    assert asking.client.in_flight.count(1) == 3
    assert not asking.client.is_ready(1)
    asking.cluster.until(lambda: len(asking.ended) == 10)
    assert asking.client.in_flight.total == 0
    assert asking.client.is_ready(1)


def test_a_request_that_is_not_answered_in_time_ends_the_connection_and_all_behind_it() -> None:
    asking = Asking(request_timeout_ms=2 * SECOND)
    asking.answer(lambda request, version: SILENT)
    asking.connect()
    first, second = asking.ask(), asking.ask(timeout_ms=60 * SECOND)
    started_ms = asking.cluster.now_ms
    asking.cluster.until(lambda: second.done)
    assert isinstance(first.error, RequestTimeout) and "2000 ms" in str(first.error)
    assert isinstance(second.error, Disconnected)
    assert asking.ended == [first, second]
    assert 2 * SECOND <= asking.cluster.now_ms - started_ms < 2 * SECOND + 100
    assert [node for node, _ in asking.listener.lost] == [1]


def test_a_short_timeout_behind_a_long_one_counts() -> None:
    asking = Asking()
    asking.answer(lambda request, version: SILENT)
    asking.connect()
    patient, hasty = asking.ask(timeout_ms=300 * SECOND), asking.ask(timeout_ms=SECOND)
    asking.cluster.until(lambda: hasty.done, 2 * SECOND)
    assert isinstance(hasty.error, RequestTimeout)
    assert isinstance(patient.error, Disconnected)


def test_a_lost_connection_fails_what_is_in_flight_then_what_waits_in_order() -> None:
    asking = Asking(max_in_flight=2)
    asking.answer(lambda request, version: SILENT)
    asking.connect()
    calls = [asking.ask() for _ in range(5)]
    asking.cluster[1].close_connections()
    asking.cluster.until(lambda: calls[-1].done)
    assert asking.ended == calls
    assert all(isinstance(call.error, Disconnected) for call in calls)
    assert "broker 1 (broker1:9092)" in str(calls[0].error)
    assert asking.listener.lost[0][0] == 1


def test_a_request_to_a_broker_that_refuses_fails_after_one_attempt() -> None:
    asking = Asking(brokers=2)
    asking.cluster[2].stop()
    call = asking.ask(2)
    asking.cluster.until(lambda: call.done, SECOND)
    assert isinstance(call.error, Disconnected) and "refused" in str(call.error)


def test_a_request_to_a_silent_broker_fails_when_connecting_took_too_long() -> None:
    asking = Asking(brokers=2, socket_connection_setup_timeout_ms=3 * SECOND)
    asking.cluster[2].fall_silent()
    call = asking.ask(2)
    asking.cluster.until(lambda: call.done)
    assert isinstance(call.error, Disconnected) and "no connection within" in str(call.error)
    assert asking.cluster.now_ms < 4 * SECOND


def test_a_request_given_during_the_back_off_waits_for_its_end() -> None:
    asking = Asking(reconnect_backoff_ms=5 * SECOND, reconnect_backoff_max_ms=5 * SECOND)
    asking.answer(lambda request, version: described())
    asking.connect()
    asking.cluster[1].close_connections()
    asking.cluster.until(lambda: bool(asking.listener.lost))
    lost_ms = asking.cluster.now_ms
    call = asking.ask()
    assert 3 * SECOND < asking.client.connection_delay_ms(1) <= 5 * SECOND
    asking.cluster.until(lambda: call.done)
    assert call.error is None
    assert asking.cluster.now_ms - lost_ms >= 4 * SECOND - 1


def test_a_request_that_cannot_be_sent_in_time_fails_alone() -> None:
    asking = Asking(reconnect_backoff_ms=10 * SECOND, reconnect_backoff_max_ms=10 * SECOND)
    asking.answer(lambda request, version: described())
    asking.connect()
    asking.cluster[1].close_connections()
    asking.cluster.until(lambda: bool(asking.listener.lost))
    hasty, patient = asking.ask(timeout_ms=SECOND), asking.ask()
    asking.cluster.until(lambda: patient.done)
    assert isinstance(hasty.error, RequestTimeout) and patient.error is None


def test_too_many_waiting_requests_are_refused() -> None:
    asking = Asking(max_in_flight=1)
    asking.answer(lambda request, version: SILENT)
    asking.connect()
    calls = [asking.ask() for _ in range(1002)]
    assert not calls[1000].done
    asking.cluster.until(lambda: calls[1001].done, 10)
    assert "1000 requests wait" in str(calls[1001].error)


def test_a_broker_that_is_not_known() -> None:
    asking = Asking()
    assert not asking.client.ready(77)
    call = asking.ask(77)
    asking.cluster.until(lambda: call.done, 10)
    assert "broker 77 is not part of the cluster" in str(call.error)


def test_a_request_without_answer_is_over_when_it_was_written() -> None:
    asking = Asking()
    asking.cluster[1].answers[ProduceRequest] = lambda request, version: NO_ANSWER
    asking.connect()
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    call = asking.side.do(
        lambda: asking.client.send(1, request, asking.ended.append, expects_response=False)
    )
    assert asking.ended == [call], "at the end of the event"
    assert (call.response, call.error) == (None, None)
    asking.cluster.until(lambda: bool(asking.cluster[1].of(ProduceRequest)))
    assert asking.client.in_flight.total == 0


def test_a_request_without_answer_fails_with_the_connection_if_it_was_not_written() -> None:
    asking = Asking()
    asking.connect()
    asking.cluster[1].fall_silent()
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[], transactional_id="x" * 30_000)
    calls = [
        asking.side.do(
            lambda: asking.client.send(1, request, asking.ended.append, expects_response=False)
        )
        for _ in range(5)
    ]
    written = [call for call in calls if call.done]
    assert len(written) < 5, "the simulated connection takes 64 KiB"
    asking.cluster.until(lambda: calls[-1].done)
    assert [call for call in calls if isinstance(call.error, RequestTimeout | Disconnected)]
    assert asking.ended == calls


def test_a_builder_is_asked_when_the_version_is_known() -> None:
    asking = Asking()
    asking.cluster[1].versions[0] = (0, 8)
    asking.cluster[1].answers[ProduceRequest] = lambda request, version: ProduceResponse(
        responses=[]
    )
    built: list[int] = []

    def build(version: int) -> ProduceRequest:
        built.append(version)
        return ProduceRequest(acks=1, timeout_ms=1, topic_data=[])

    call = asking.side.do(
        lambda: asking.client.send(1, RequestBuilder(ProduceRequest, build), asking.ended.append)
    )
    assert built == []
    asking.cluster.until(lambda: call.done)
    assert built == [8] and call.version == 8


def test_a_request_that_no_version_can_carry_fails_with_the_reason() -> None:
    asking = Asking()
    asking.cluster[1].versions[3] = (0, 3)
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    call = asking.side.do(lambda: asking.client.send(1, request, asking.ended.append))
    asking.cluster.until(lambda: call.done)
    assert isinstance(call.error, UnsupportedVersion)
    assert "broker 1" in str(call.error) and "allow_auto_topic_creation" in str(call.error)


def test_a_throttled_broker_is_sent_nothing_until_the_time_is_over() -> None:
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


def test_who_asked_for_a_throttled_broker_is_told_when_it_is_ready() -> None:
    asking = Asking()
    throttling = described()
    throttling.throttle_time_ms = SECOND
    asking.answer(lambda request, version: throttling)
    first = asking.ask()
    asking.cluster.until(lambda: first.done)
    asking.listener.ready.clear()
    assert not asking.side.do(lambda: asking.client.ready(1))
    asking.cluster.until(lambda: asking.listener.ready == [1], 2 * SECOND)


def test_who_asked_during_the_back_off_is_told_when_it_is_ready() -> None:
    asking = Asking()
    asking.connect()
    asking.listener.ready.clear()
    asking.cluster[1].close_connections()
    asking.cluster.until(lambda: bool(asking.listener.lost))
    assert not asking.side.do(lambda: asking.client.ready(1))
    asking.cluster.until(lambda: asking.listener.ready == [1])


def test_an_idle_connection_is_closed_and_opened_again_when_needed() -> None:
    asking = Asking(connections_max_idle_ms=20 * SECOND, metadata_max_age_ms=3600 * SECOND)
    asking.answer(lambda request, version: described())
    first = asking.ask()
    asking.cluster.until(lambda: first.done)
    asking.cluster.run(19 * SECOND)
    assert asking.client.is_ready(1)
    asking.cluster.run(2 * SECOND)
    assert not asking.client.is_ready(1)
    assert not asking.listener.lost, "that is no failure"
    again = asking.ask()
    asking.cluster.until(lambda: again.done, SECOND)
    assert again.error is None


def test_a_connection_in_use_is_not_idle() -> None:
    asking = Asking(connections_max_idle_ms=5 * SECOND, metadata_max_age_ms=3600 * SECOND)
    asking.answer(lambda request, version: Later(12 * SECOND, described()))
    call = asking.ask()
    asking.cluster.until(lambda: call.done)
    assert call.error is None


def test_correlation_ids_wrap_on_the_wire() -> None:
    asking = Asking()
    asking.answer(lambda request, version: described())
    asking.connect()
    asking.client.sent = (1 << 31) - 2
    calls = [asking.ask() for _ in range(4)]
    asking.cluster.until(lambda: calls[-1].done)
    assert [call.error for call in calls] == [None] * 4


def test_an_answer_to_another_request_ends_the_connection() -> None:
    asking = Asking()
    asking.answer(lambda request, version: described())
    asking.connect()
    first, second = asking.ask(), asking.ask()
    first.correlation_id += 7
    asking.cluster.until(lambda: second.done)
    assert isinstance(first.error, Disconnected) and "not the oldest" in str(first.error)
    assert isinstance(second.error, Disconnected)


def test_an_answer_that_cannot_be_read_ends_the_connection() -> None:
    asking = Asking()
    asking.answer(lambda request, version: described())
    asking.connect()
    first, second = asking.ask(), asking.ask()
    assert first.codec is not None
    first.codec.read = nonsense
    asking.cluster.until(lambda: second.done)
    assert isinstance(first.error, Disconnected) and "cannot be read" in str(first.error)
    assert isinstance(second.error, Disconnected)


def nonsense(frame: bytes, position: int) -> None:
    raise ProtocolError("nonsense")


def test_closing_fails_everything_and_nothing_can_be_sent_after() -> None:
    asking = Asking(max_in_flight=1)
    asking.answer(lambda request, version: SILENT)
    asking.connect()
    in_flight, waiting = asking.ask(), asking.ask()
    asking.side.do(asking.engine.close)
    assert asking.ended == [in_flight, waiting]
    assert all(isinstance(call.error, ClientClosed) for call in asking.ended)
    late = asking.ask()
    asking.cluster.until(lambda: late.done, 10)
    assert isinstance(late.error, ClientClosed)
    assert not asking.client.ready(1)
    assert asking.side.timer.size == 0, "nothing is left behind"


def test_closing_gives_up_connections_that_are_being_made() -> None:
    asking = Asking(brokers=2)
    asking.cluster[1].fall_silent()
    before = asking.cluster[2].connections
    calls = [asking.ask(1), asking.ask(2)]
    asking.side.do(asking.engine.close)
    assert [type(call.error) for call in calls] == [ClientClosed] * 2
    assert asking.side.timer.size == 0
    asking.cluster.run(60 * SECOND)
    assert asking.cluster[2].connections == before
    assert not asking.cluster.fabric.connections()


def test_handlers_may_send_while_a_connection_is_lost() -> None:
    asking = Asking()
    asking.answer(lambda request, version: CLOSE)
    again: list[ClientRequest] = []

    def resend(call: ClientRequest) -> None:
        asking.answer(lambda request, version: described())
        again.append(asking.client.send(1, call.request, asking.ended.append))

    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    asking.side.do(lambda: asking.client.send(1, request, resend))
    asking.cluster.until(lambda: bool(asking.ended))
    assert asking.ended == again and again[0].error is None


def test_a_coordinator_has_a_connection_of_its_own() -> None:
    asking = Asking()
    asking.answer(lambda request, version: Later(100 if version else 0, described()))
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
    asking.answer(lambda request, version: Later(500, described()), node_id=2)
    call = asking.ask(2)
    asking.cluster.until(lambda: asking.client.in_flight.count(2) == 1)
    asking.side.do(lambda: asking.client.update_nodes({1: Node(1, "broker1", 9092)}))
    assert asking.client.node_ids == [1]
    asking.cluster.until(lambda: call.done)
    assert call.error is None, "what was asked is answered"
    late = asking.ask(2)
    asking.cluster.until(lambda: late.done, 10)
    assert "not part of the cluster" in str(late.error)


def test_a_node_that_moved_is_met_at_its_new_address() -> None:
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
    def test_the_ready_one_with_the_least_in_flight(self) -> None:
        asking = Asking(brokers=3)
        for node_id in (1, 2, 3):
            asking.answer(lambda request, version: SILENT, node_id)
            asking.connect(node_id)
        asking.ask(1)
        asking.ask(1)
        asking.ask(3)
        assert {asking.client.least_loaded_node() for _ in range(20)} == {2}

    def test_any_of_several_that_are_as_good(self) -> None:
        asking = Asking(brokers=3)
        for node_id in (1, 2, 3):
            asking.connect(node_id)
        assert {asking.client.least_loaded_node() for _ in range(50)} == {1, 2, 3}

    def test_one_that_is_ready_before_one_that_is_not_connected(self) -> None:
        asking = Asking(brokers=2)
        asking.connect(2)
        asking.answer(lambda request, version: SILENT, 2)
        asking.ask(2)
        assert {asking.client.least_loaded_node() for _ in range(20)} == {2}

    def test_none_while_all_are_in_back_off(self) -> None:
        asking = Asking(brokers=2, metadata_recovery_strategy="none")
        for node_id in (1, 2):
            asking.cluster[node_id].stop()
            asking.ask(node_id)
        asking.cluster.until(lambda: len(asking.listener.lost) >= 2)
        assert asking.client.least_loaded_node() is None
        asking.cluster.run(2 * SECOND)

    def test_a_throttled_one_last(self) -> None:
        asking = Asking(brokers=2)
        throttling = described()
        throttling.throttle_time_ms = SECOND
        asking.answer(lambda request, version: throttling, 1)
        call = asking.ask(1)
        asking.cluster.until(lambda: call.done)
        assert {asking.client.least_loaded_node() for _ in range(20)} == {2}
