"""Requests to nodes: pending, in flight, answered, timed out, disconnected."""

from __future__ import annotations

from odradek.client.errors import Disconnected, RequestTimeout, UnsupportedVersion
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.testing.scripted import NO_ANSWER, SILENT, DelayedAnswer
from unit.network_client.scripted_nodes import SECOND, Asking, described


def test_a_request_opens_its_connection() -> None:
    asking = Asking()
    asking.answer(lambda request, version: described())
    call = asking.ask()
    assert not call.done, "never from within send"
    asking.cluster.until(lambda: call.done)
    assert call.response.cluster_id == "it" and call.error is None
    assert asking.ended == [call]
    assert asking.listener.ready == [1]


def test_responses_come_in_the_order_of_the_requests() -> None:
    asking = Asking()
    names = iter("abcdefgh")
    asking.answer(
        lambda request, version: DelayedAnswer(50 if request else 0, described(next(names)))
    )
    calls = [asking.ask() for _ in range(8)]
    asking.cluster.until(lambda: len(asking.ended) == 8)
    assert asking.ended == calls
    assert [call.response.cluster_id for call in calls] == list("abcdefgh")


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    asking = Asking(max_in_flight=3)
    asking.answer(lambda request, version: DelayedAnswer(20, described()))
    asking.connect()
    for _ in range(10):
        asking.ask()
    assert asking.client.in_flight.count(1) == 3
    assert not asking.client.is_ready(1)
    asking.cluster.until(lambda: len(asking.ended) == 10)
    assert asking.client.in_flight.total == 0
    assert asking.client.is_ready(1)


def test_a_request_timeout_ends_the_connection_and_fails_later_requests() -> None:
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


def test_a_lost_connection_fails_requests_in_flight_then_pending_ones_in_order() -> None:
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


def test_a_request_to_a_silent_broker_fails_after_the_setup_timeout() -> None:
    asking = Asking(brokers=2, socket_connection_setup_timeout_ms=3 * SECOND)
    asking.cluster[2].fall_silent()
    call = asking.ask(2)
    asking.cluster.until(lambda: call.done)
    assert isinstance(call.error, Disconnected) and "no connection within" in str(call.error)
    assert asking.cluster.now_ms < 4 * SECOND


def test_a_request_during_the_back_off_waits_for_its_end() -> None:
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


def test_requests_beyond_the_maximum_pending_are_refused() -> None:
    asking = Asking(max_in_flight=1)
    asking.answer(lambda request, version: SILENT)
    asking.connect()
    calls = [asking.ask() for _ in range(1002)]
    assert not calls[1000].done
    asking.cluster.until(lambda: calls[1001].done, 10)
    assert "1000 requests are already waiting" in str(calls[1001].error)


def test_a_request_to_an_unknown_broker_fails() -> None:
    asking = Asking()
    assert not asking.client.ready(77)
    call = asking.ask(77)
    asking.cluster.until(lambda: call.done, 10)
    assert "broker 77 is not part of the cluster" in str(call.error)


def test_a_request_without_a_response_ends_when_it_is_written() -> None:
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


def test_an_unwritten_request_without_a_response_fails_with_the_connection() -> None:
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


def test_a_builder_is_called_when_the_version_is_known() -> None:
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


def test_a_request_without_a_usable_version_fails_with_the_reason() -> None:
    asking = Asking()
    asking.cluster[1].versions[3] = (0, 3)
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    call = asking.side.do(lambda: asking.client.send(1, request, asking.ended.append))
    asking.cluster.until(lambda: call.done)
    assert isinstance(call.error, UnsupportedVersion)
    assert "broker 1" in str(call.error) and "allow_auto_topic_creation" in str(call.error)
