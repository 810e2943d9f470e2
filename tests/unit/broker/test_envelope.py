"""The active controller's side of a request that another broker sent on, and its listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.dispatch import Dispatcher
from odradek.model.errors import ErrorCode, UnservedRequest
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.frame import decode_response_header
from odradek.protocol.principal import (
    ANONYMOUS,
    DefaultPrincipalData,
    decode_principal,
    encode_principal,
)
from unit.broker.controller import Controller, enveloped, frame
from unit.broker.memory_broker import SentRequest
from unit.broker.simulated_nodes import creation

ENVELOPE = 58


def opened(response: EnvelopeResponse, version: int = 7) -> CreateTopicsResponse:
    """The answer inside."""
    assert response.error_code == 0 and response.response_data is not None, response
    correlation_id, position = decode_response_header(response.response_data, version >= 5)
    assert correlation_id == 77
    return decode(CreateTopicsResponse, version, response.response_data, position)


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_the_answer_inside_is_what_the_client_would_get(version: int) -> None:
    controller = Controller()
    response = controller.ask(enveloped(frame(creation("orders"), version)))
    assert [t.error_code for t in opened(response, version).topics] == [0]
    assert list(controller.node.broker.image.topics) == ["orders"]


def test_the_request_inside_is_that_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller()
    seen = []
    submit = controller.node.broker.respond_when_committed

    def noting(context: Any, *rest: Any) -> Any:
        seen.append((context.client_id, context.client_host, context.from_node))
        return submit(context, *rest)

    monkeypatch.setattr(controller.node.broker, "respond_when_committed", noting)
    controller.ask(enveloped(frame(creation("orders"), 7)))
    controller.ask(enveloped(frame(creation("others"), 7), address=bytes(15) + b"\1"))
    assert seen == [("the client", "/10.1.2.3", False), ("the client", "/::1", False)]


def test_a_node_that_is_not_the_active_controller_says_so() -> None:
    controller = Controller()
    controller.elect(2)
    response = controller.ask(enveloped(frame(creation("orders"), 7)))
    assert response == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert not controller.node.broker.image.topics


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        (enveloped(frame(creation("a"), 7), principal=None), "PRINCIPAL_DESERIALIZATION_FAILURE"),
        (enveloped(frame(creation("a"), 7), b"\0\1"), "PRINCIPAL_DESERIALIZATION_FAILURE"),
        (enveloped(frame(creation("a"), 7), b"\0\0\5"), "PRINCIPAL_DESERIALIZATION_FAILURE"),
        (enveloped(frame(creation("a"), 7), address=b"127.0.0.1"), "INVALID_REQUEST"),
        (enveloped(b"\0"), "UNSUPPORTED_VERSION"),
        (enveloped(b"\0\x13\0\x63" + bytes(8)), "UNSUPPORTED_VERSION"),
        (enveloped(frame(creation("a"), 7)[:-4]), "UNSUPPORTED_VERSION"),
        (enveloped(frame(creation(*"ab" * 3000), 7)[:-4]), "UNSUPPORTED_VERSION"),
        (
            enveloped(frame(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)),
            "INVALID_REQUEST",
        ),
        (enveloped(frame(enveloped(b""), 0)), "INVALID_REQUEST"),
        (enveloped(b"\x7f\xff\0\0" + bytes(8)), "INVALID_REQUEST"),
    ],
    ids=[
        "no principal",
        "a principal of another version",
        "a truncated principal",
        "an address as text",
        "no header",
        "an unserved version",
        "a truncated request",
        "a truncated long request",
        "a request that any broker answers",
        "an envelope",
        "an unknown API",
    ],
)
def test_an_envelope_that_cannot_be_opened_is_refused(
    envelope: EnvelopeRequest, error: str
) -> None:
    response = Controller().ask(envelope)
    assert ErrorCode(response.error_code).name == error
    assert response.response_data is None


def test_a_long_request_inside_is_handled_in_parts() -> None:
    names = [f"topic-{number}-with-a-long-name" for number in range(200)]
    response = opened(Controller().ask(enveloped(frame(creation(*names), 7))))
    assert [topic.error_code for topic in response.topics] == [0] * 200


def leading(lost: Callable[[Controller], None], error: ErrorCode) -> EnvelopeResponse:
    """The answer to an envelope whose request ends with this error after `lost`."""
    controller = Controller()
    broker = controller.node.broker

    def respond(context: Any, decision: Any, timeout_ms: int, failed: Callable[..., Any]) -> Any:
        lost(controller)
        return failed(error)

    broker.respond_when_committed = respond  # type: ignore[method-assign, assignment]
    return controller.ask(enveloped(frame(creation("orders"), 7)))


def test_a_request_that_was_not_decided_because_the_leadership_was_lost_may_be_sent_again() -> None:
    lost = leading(lambda controller: controller.elect(2, 2), ErrorCode.NOT_CONTROLLER)
    assert lost == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    regained = leading(lambda controller: controller.elect(1, 3), ErrorCode.NOT_CONTROLLER)
    assert regained == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


def test_a_request_that_was_decided_is_answered_also_after_the_leadership_was_lost() -> None:
    lost = leading(lambda controller: controller.elect(2, 2), ErrorCode.INVALID_CONFIG)
    assert opened(lost).topics[0].error_code == ErrorCode.INVALID_CONFIG


def test_a_broker_that_disconnects_completes_what_it_sent_on() -> None:
    controller = Controller()
    asked = controller.send(enveloped(frame(creation("orders"), 7)), 0)
    assert not asked.answered and asked.abandoned is not None and asked.waiting is not None
    asked.abandoned()
    answer = opened(asked.answer(EnvelopeResponse))
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_principal_has_the_bytes_of_kafka() -> None:
    data = encode_principal(ANONYMOUS)
    assert data == b"\0\0\x05User\x0aANONYMOUS\0\0"
    delegated = DefaultPrincipalData(type="User", name="alice", token_authenticated=True)
    assert decode_principal(encode_principal(delegated)) == delegated


# The two listeners.


def test_clients_cannot_send_what_is_between_nodes() -> None:
    controller = Controller()
    asked = SentRequest(enveloped(frame(creation("orders"), 7)), 0)
    with pytest.raises(UnservedRequest, match="served to nodes of the cluster only"):
        controller.clients.received(asked)
    assert controller.node.broker.request_metrics.unserved == {(ENVELOPE, 0): 1}


def keys(controller: Controller, dispatcher: Dispatcher) -> set[int]:
    request = ApiVersionsRequest(client_software_name="any", client_software_version="1")
    asked = SentRequest(request, 4)
    dispatcher.received(asked)
    return {each.api_key for each in asked.answer(ApiVersionsResponse).api_keys}


def test_only_nodes_see_the_apis_between_nodes() -> None:
    controller = Controller()
    to_clients, to_nodes = (
        keys(controller, dispatcher) for dispatcher in (controller.clients, controller.dispatcher)
    )
    assert to_clients < to_nodes and ENVELOPE in to_nodes - to_clients


def test_a_node_that_is_wrong_about_the_controller_is_told_so_and_not_sent_on() -> None:
    controller = Controller()
    controller.elect(2)
    request: CreateTopicsRequest = creation("orders")
    response = controller.call(request, 7, CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("message", "kafkas"),
    [
        (enveloped(b"\1\2\3", b"\4\5"), "0401020303040505" + "0a01020300"),
        (enveloped(b"\1", None), "0201" + "00" + "050a01020300"),
        (EnvelopeResponse(response_data=b"\7\x08"), "0307080000" + "00"),
        (EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER), "00002900"),
    ],
)
def test_envelopes_have_the_bytes_of_kafkas_own_serializer(message: Any, kafkas: str) -> None:
    """The hexadecimal values come from Kafka 4.3.1."""
    assert encode_bytes(message, 0).hex() == kafkas
    assert decode(type(message), 0, bytes.fromhex(kafkas)) == message
