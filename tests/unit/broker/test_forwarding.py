"""Requests for the active controller that another broker got: sent on as they came."""

from __future__ import annotations

from typing import Any

import pytest

from clients.bad_input.filling import Filling, error_codes
from odradek.broker.apis import ROWS
from odradek.broker.forwarding import FRAME_BYTES_MAX, TIMEOUT_MS, address_bytes
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.network_client.errors import Disconnected
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.api.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.codec import decode, encode, encode_bytes
from odradek.protocol.frame import decode_request_header, response_parts
from odradek.protocol.principal import decode_principal
from odradek.testing.scripted import CLOSE, SILENT, ScriptedCluster
from unit.broker.simulated_nodes import (
    NODES_PORT,
    SECOND,
    Client,
    SimulatedNode,
    creation,
    scripted_controller,
    two_nodes,
)

NONE = ErrorCode.NONE
DESCRIBE = DescribeClusterRequest(include_cluster_authorized_operations=False)


def created(envelope: EnvelopeRequest) -> EnvelopeResponse:
    """The answer of a controller that creates all topics of a request."""
    header, position = decode_request_header(envelope.request_data)
    request = decode(CreateTopicsRequest, header.api_version, envelope.request_data, position)
    results = [
        CreatableTopicResult(name=topic.name, error_code=0, error_message=None)
        for topic in request.topics
    ]
    body = encode(CreateTopicsResponse(topics=results), header.api_version)
    frame = response_parts(header.correlation_id, body, header.api_version >= 5)
    return EnvelopeResponse(response_data=b"".join(map(bytes, frame))[4:])  # type: ignore[arg-type]


def scripted(cluster: ScriptedCluster, *answers: Any) -> None:
    """Script the controller's answers to envelopes; the last one repeats."""
    left = list(answers)

    def answer(envelope: EnvelopeRequest, version: int) -> Any:
        found = left.pop(0) if len(left) > 1 else left[0]
        return found(envelope) if callable(found) else found

    cluster[2].answers[EnvelopeRequest] = answer


def test_the_controller_answers_what_a_client_asked_another_broker() -> None:
    cluster, one, two = two_nodes()
    client = Client(cluster)
    assert client.codes("orders", "") == [NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert (one.topics, two.topics) == ([], ["orders"])
    metrics = one.broker.request_metrics.by_key[19]
    assert sum(metrics.waited.counts) == 1 and metrics.response_bytes.sum > 0


def test_a_request_that_any_broker_answers_is_not_forwarded() -> None:
    cluster, _, two = two_nodes()
    Client(cluster).ask(DESCRIBE)
    assert not two.nodes.counters.connections_accepted


def test_the_active_controller_sends_nothing_on() -> None:
    cluster, one, two = two_nodes()
    one.elect(1)
    assert Client(cluster).codes("orders") == [NONE]
    assert one.topics == ["orders"]
    assert not two.nodes.counters.connections_accepted


def test_the_envelope_has_the_request_as_it_came_and_who_sent_it() -> None:
    cluster, _ = scripted_controller()
    scripted(cluster, created)
    client = Client(cluster)
    call = client.send(creation("orders"))
    cluster.until(lambda: call.done)
    assert call.error is None and [t.name for t in call.response.topics] == ["orders"]
    (envelope,) = cluster[2].of(EnvelopeRequest)
    header, position = decode_request_header(envelope.request_data)
    assert (header.client_id, header.correlation_id) == ("the client", call.correlation_id)
    request = decode(CreateTopicsRequest, header.api_version, envelope.request_data, position)
    assert request == creation("orders")
    principal = decode_principal(envelope.request_principal or b"")
    assert (principal.type, principal.name) == ("User", "ANONYMOUS")


@pytest.mark.parametrize(
    ("host", "size"), [("10.1.2.3", 4), ("fe80::1", 16), ("fe80::1%eth0", 16), ("simulated", 4)]
)
def test_the_address_of_a_client_has_the_bytes_of_its_kind(host: str, size: int) -> None:
    assert len(address_bytes(host)) == size


def test_answers_leave_in_the_order_of_the_connection() -> None:
    cluster, _, _ = two_nodes()
    client = Client(cluster)
    calls = [
        client.send(creation("orders")),
        client.send(DESCRIBE),
    ]
    cluster.until(lambda: calls[0].done)
    cluster.until(lambda: calls[1].done)
    assert [call.error for call in calls] == [None, None]


def test_a_request_waits_until_a_controller_is_known() -> None:
    cluster, one, two = two_nodes()
    client = Client(cluster)
    one.elect(None)
    call = client.send(creation("orders"))
    cluster.run(7 * SECOND)
    assert not call.done
    one.elect(2)
    cluster.until(lambda: call.done, SECOND // 20)
    assert two.topics == ["orders"]


def test_a_node_that_is_not_the_controller_any_more_is_asked_again_or_the_next_one() -> None:
    cluster, _, two = two_nodes()
    client = Client(cluster)
    two.elect(None)
    call = client.send(creation("orders"))
    cluster.run(SECOND)
    assert not call.done
    asked = two.broker.request_metrics.by_key[58].errors[ErrorCode.NOT_CONTROLLER]
    assert 8 <= asked <= 11, "every 100 ms"
    two.elect(2, epoch=3)
    cluster.until(lambda: call.done, SECOND // 5)
    assert call.response.topics[0].error_code == NONE and two.topics == ["orders"]


def test_a_request_is_decided_here_if_this_node_becomes_the_controller_meanwhile() -> None:
    cluster, one, two = two_nodes()
    client = Client(cluster)
    two.elect(None)
    call = client.send(creation("orders"))
    cluster.run(SECOND)
    one.elect(1, epoch=2)
    cluster.until(lambda: call.done, SECOND)
    assert call.response.topics[0].error_code == NONE
    assert (one.topics, two.topics) == (["orders"], [])


def test_a_request_that_no_controller_answers_is_timed_out_in_its_own_form() -> None:
    cluster, one = scripted_controller()
    scripted(cluster, EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
    client = Client(cluster)
    begun_ms = cluster.now_ms
    assert client.codes("a", "b") == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert TIMEOUT_MS <= cluster.now_ms - begun_ms < TIMEOUT_MS + SECOND
    assert one.broker.forwarding is not None and one.broker.forwarding.waiting_bytes == 0
    metrics = one.broker.request_metrics.by_key[19]
    assert metrics.errors == {ErrorCode.REQUEST_TIMED_OUT: 2}


def test_a_request_whose_connection_was_lost_is_sent_again() -> None:
    cluster, _ = scripted_controller()
    scripted(cluster, CLOSE, created)
    assert Client(cluster).codes("orders") == [NONE]
    assert len(cluster[2].of(EnvelopeRequest)) == 2


def test_a_silent_controller_is_given_up_for_the_next_one() -> None:
    cluster, one = scripted_controller()
    scripted(cluster, SILENT)
    three = SimulatedNode(cluster, 3)
    three.join({}, controller=3)
    client = Client(cluster)
    call = client.send(creation("orders"))
    cluster.run(5 * SECOND)
    one.join({2: ("broker2", 9092), 3: (three.name, NODES_PORT)}, controller=3)
    later = client.send(creation("later"))
    cluster.until(lambda: "later" in three.topics, SECOND)
    cluster[2].close_connections()
    cluster.until(lambda: call.done and later.done, 40 * SECOND)
    assert three.topics == ["later", "orders"]


def test_a_version_that_the_controller_does_not_serve_disconnects_the_client() -> None:
    cluster, _ = scripted_controller()
    scripted(cluster, EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    call = Client(cluster).send(creation("orders"))
    cluster.until(lambda: call.done, SECOND)
    assert isinstance(call.error, Disconnected)


def test_a_controller_that_knows_no_envelopes_disconnects_the_client() -> None:
    cluster, _ = scripted_controller()
    del cluster[2].versions[58]
    call = Client(cluster).send(creation("orders"))
    cluster.until(lambda: call.done, SECOND)
    assert isinstance(call.error, Disconnected)


def test_a_refused_envelope_is_an_unknown_error_to_the_client() -> None:
    cluster, _ = scripted_controller()
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    scripted(cluster, EnvelopeResponse(error_code=code))
    assert Client(cluster).codes("orders") == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_the_answer_to_another_request_disconnects_the_client() -> None:
    cluster, _ = scripted_controller()
    scripted(cluster, EnvelopeResponse(response_data=b"\0\0\0\x63" + bytes(20)))
    call = Client(cluster).send(creation("orders"))
    cluster.until(lambda: call.done, SECOND)
    assert isinstance(call.error, Disconnected)


def test_a_client_that_goes_frees_what_waits_for_it() -> None:
    cluster, one, _ = two_nodes()
    client = Client(cluster)
    one.elect(None)
    client.send(creation("orders"))
    cluster.run(SECOND)
    forwarding = one.broker.forwarding
    assert forwarding is not None and forwarding.waiting_bytes > 0
    client.side.kill()
    cluster.run(SECOND)
    assert forwarding.waiting_bytes == 0 and forwarding.channel.open_calls == 0


def test_a_long_request_is_sent_on_whole_and_refused_in_parts() -> None:
    cluster, _ = scripted_controller()
    scripted(cluster, created, EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
    client = Client(cluster)
    names = [f"topic-with-a-long-name-{number}" for number in range(300)]
    assert client.codes(*names) == [NONE] * 300
    assert len(cluster[2].of(EnvelopeRequest)) == 1
    assert client.codes(*names) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 300


def test_a_frame_that_no_record_could_hold_is_refused_here() -> None:
    cluster, _ = scripted_controller()
    client = Client(cluster)
    response = client.ask(creation("x" * 30_000, *("y" * 30_000,) * (FRAME_BYTES_MAX // 30_000)))
    assert {each.error_code for each in response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert not cluster[2].of(EnvelopeRequest)


def test_a_broker_that_stops_disconnects_the_clients_that_wait() -> None:
    cluster, one, _ = two_nodes()
    client = Client(cluster)
    one.elect(None)
    call = client.send(creation("orders"))
    cluster.run(SECOND)
    one.do(one.broker.leave_cluster)
    cluster.until(lambda: call.done, SECOND)
    assert isinstance(call.error, Disconnected)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.of_controller], ids=lambda row: row.name
)
def test_every_api_of_the_controller_has_a_response_for_its_failure(row: Any) -> None:
    for version in range(row.min_version, row.max_version + 1):
        request = Filling(version, 2, "name", ZERO_UUID).message(row.request)
        response = row.failed(request, ErrorCode.REQUEST_TIMED_OUT)
        read = decode(row.response, version, encode_bytes(response, version))
        assert ErrorCode.REQUEST_TIMED_OUT in error_codes(read), f"v{version}"


# What a broker asks of the controller in passing.


def test_topics_that_a_request_names_in_passing_are_made_by_the_controller() -> None:
    cluster, one, two = two_nodes()
    client = Client(cluster)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="passing")], allow_auto_topic_creation=True
    )
    first = client.ask(request)
    assert first.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.ask(request)
    cluster.run(SECOND)
    assert (one.topics, two.topics) == ([], ["passing"])
    assert two.broker.request_metrics.by_key[19].request_bytes.counts != [0] * 45


def test_a_topic_is_asked_for_once_at_a_time() -> None:
    cluster, _ = scripted_controller()
    scripted(cluster, SILENT)
    client = Client(cluster)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="passing")], allow_auto_topic_creation=True
    )
    for _ in range(5):
        client.ask(request)
    cluster.run(SECOND)
    assert len(cluster[2].of(EnvelopeRequest)) == 1


def test_the_topic_of_committed_offsets_is_made_by_the_controller() -> None:
    cluster, one, two = two_nodes()
    client = Client(cluster)
    found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]))
    assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.run(5 * SECOND)
    assert two.topics == ["__consumer_offsets"] and one.topics == []


def granted(first: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=0, producer_id_start=first, producer_id_len=3)


def producer_ids(client: Client, count: int) -> list[int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    return [client.ask(request).producer_id for _ in range(count)]


def test_producer_ids_come_in_blocks_from_the_controller() -> None:
    cluster, one = scripted_controller()
    blocks = iter([granted(7000), granted(9000)])
    cluster[2].answers[AllocateProducerIdsRequest] = lambda request, version: next(blocks)
    assert producer_ids(Client(cluster), 5) == [7000, 7001, 7002, 9000, 9001]
    asked = cluster[2].of(AllocateProducerIdsRequest)
    assert [each.broker_id for each in asked] == [1, 1]
    assert {each.broker_epoch for each in asked} == {one.broker.image.brokers[1].epoch}


def test_no_producer_id_is_given_twice_in_a_cluster() -> None:
    cluster, one, two = two_nodes()
    registered = one.broker.image.brokers[1]
    two.do(lambda: two.broker.controller.submit([registered.record()]))
    first = producer_ids(Client(cluster), 3)
    assert two.do(two.broker.producer_id_manager.request_block) is None
    cluster.run(SECOND)
    assert first == [0, 1, 2] and two.do(two.broker.producer_id_manager.next_id) == 1000


def test_producers_that_wait_for_ids_share_one_block() -> None:
    cluster, _ = scripted_controller()
    cluster[2].answers[AllocateProducerIdsRequest] = lambda request, version: granted(7000)
    client = Client(cluster)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    calls = [client.send(request) for _ in range(3)]
    cluster.until(lambda: all(call.done for call in calls), SECOND)
    assert sorted(call.response.producer_id for call in calls) == [7000, 7001, 7002]
    assert len(cluster[2].of(AllocateProducerIdsRequest)) == 1


def test_a_refusal_of_producer_ids_is_repeated_while_a_producer_waits() -> None:
    cluster, _ = scripted_controller()
    refused = AllocateProducerIdsResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, producer_id_start=-1, producer_id_len=0
    )
    answers = iter([refused, refused, granted(7000)])
    cluster[2].answers[AllocateProducerIdsRequest] = lambda request, version: next(answers)
    assert producer_ids(Client(cluster), 1) == [7000]


def test_without_a_controller_a_producer_is_told_to_try_again() -> None:
    cluster, one = scripted_controller()
    one.elect(None)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    begun_ms = cluster.now_ms
    response = Client(cluster).ask(request)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert 30 * SECOND <= cluster.now_ms - begun_ms < 32 * SECOND


def test_a_block_that_a_former_controller_did_not_commit_is_never_used() -> None:
    cluster, one = scripted_controller()
    one.elect(1)
    manager = one.broker.producer_id_manager
    cluster[2].answers[AllocateProducerIdsRequest] = lambda request, version: granted(7000)

    def begin_and_lose() -> None:
        manager.request_block()
        one.controller = None
        one.broker.controller_changed()

    one.do(begin_and_lose)
    one.elect(2, epoch=2)
    cluster.run(SECOND)
    assert one.do(manager.next_id) == 7000
