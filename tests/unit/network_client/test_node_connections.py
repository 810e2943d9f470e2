"""The ends of a connection to a node: idle, with a wrong response, closed."""

from __future__ import annotations

from odradek.client.errors import ClientClosed, Disconnected
from odradek.model.errors import ProtocolError
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.testing.scripted import CLOSE, SILENT, DelayedAnswer
from unit.network_client.scripted_nodes import SECOND, Asking, described


def test_an_idle_connection_is_closed_and_reopened_when_needed() -> None:
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


def test_a_connection_in_use_is_not_closed_as_idle() -> None:
    asking = Asking(connections_max_idle_ms=5 * SECOND, metadata_max_age_ms=3600 * SECOND)
    asking.answer(lambda request, version: DelayedAnswer(12 * SECOND, described()))
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


def test_a_response_to_another_request_ends_the_connection() -> None:
    asking = Asking()
    asking.answer(lambda request, version: described())
    asking.connect()
    first, second = asking.ask(), asking.ask()
    first.correlation_id += 7
    asking.cluster.until(lambda: second.done)
    assert isinstance(first.error, Disconnected) and "not the oldest" in str(first.error)
    assert isinstance(second.error, Disconnected)


def test_an_unreadable_response_ends_the_connection() -> None:
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


def test_closing_fails_all_requests_and_later_ones() -> None:
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


def test_closing_gives_up_connection_attempts() -> None:
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
