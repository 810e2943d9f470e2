"""Connections: versions agreed on, answers in order, and what happens when a node misbehaves."""

import socket

import pytest
from scripted_server import DROP, SILENCE, ScriptedServer

from odradek.client.simple.connection import Disconnected
from odradek.client.simple.network_client import NetworkClient, UnsupportedVersion, parse_addresses
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse

METADATA = MetadataRequest(topics=[])


def client_of(server, **more):
    return NetworkClient(server.bootstrap, **{"request_timeout_ms": 5000, **more})


def test_requests_travel_in_the_highest_version_both_know():
    with ScriptedServer() as server:
        server.versions[3] = (0, 9)
        client = client_of(server)
        client.call(-1, METADATA, MetadataResponse)
        assert server.seen[-1][1] == 9
        client.call(-1, METADATA, MetadataResponse, max_version=5)
        assert server.seen[-1][1] == 5
        client.close()


def test_no_version_in_common_is_said():
    with ScriptedServer() as server:
        server.versions[2] = (0, 0)
        client = client_of(server)
        request = ListOffsetsRequest(replica_id=-1, topics=[])
        with pytest.raises(UnsupportedVersion, match="versions 0 to 0 of API 2, this client 1 to"):
            client.call(-1, request, ListOffsetsResponse)
        client.close()


def test_an_older_broker_answers_api_versions_in_version_0():
    def old(request, version):
        if version > 2:
            known = [ApiVersion(api_key=18, min_version=0, max_version=2)]
            code = ErrorCode.UNSUPPORTED_VERSION
            return ApiVersionsResponse(error_code=code, api_keys=known), 0
        known = [ApiVersion(api_key=3, min_version=0, max_version=7)]
        return ApiVersionsResponse(error_code=0, api_keys=known)

    with ScriptedServer({ApiVersionsRequest: old}) as server:
        client = client_of(server)
        client.call(-1, METADATA, MetadataResponse)
        assert [version for _, version in server.seen] == [5, 2, 7]
        client.close()


def test_pipelined_answers_can_be_taken_out_of_order():
    count = 0

    def numbered(request, version):
        nonlocal count
        count += 1
        return InitProducerIdResponse(error_code=0, producer_id=count, producer_epoch=0)

    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    with ScriptedServer({InitProducerIdRequest: numbered}) as server:
        client = client_of(server)
        sent = [client.send(-1, request, InitProducerIdResponse) for _ in range(3)]
        found = [client.receive(sent[i]).producer_id for i in (2, 0, 1)]
        assert found == [3, 1, 2]
        client.close()


def test_a_lost_connection_is_opened_again():
    answers = iter([DROP])

    def first_time_lost(request, version):
        return next(answers, MetadataResponse(brokers=[], topics=[]))

    with ScriptedServer({MetadataRequest: first_time_lost}) as server:
        client = client_of(server, reconnect_backoff_ms=1)
        with pytest.raises(Disconnected):
            client.call(-1, METADATA, MetadataResponse)
        assert client.call(-1, METADATA, MetadataResponse).topics == []
        assert len(server.connections) == 2
        client.close()


def test_an_answer_that_does_not_come_closes_the_connection():
    with ScriptedServer({MetadataRequest: lambda request, version: SILENCE}) as server:
        client = client_of(server)
        with pytest.raises(Disconnected, match="did not answer in time"):
            client.call(-1, METADATA, MetadataResponse, timeout_ms=20)
        assert client.nodes[-1].connection is None
        client.close()


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"\x7f\xff\xff\xff", "announced a response of 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "announced a response of -1 bytes"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x63\x00\x00\x00\x00", "answered 99 where 1 is due"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\xff", "Metadata"),
    ],
)
def test_a_response_that_breaks_the_protocol_is_refused_and_the_connection_closed(frame, complaint):
    with ScriptedServer({MetadataRequest: lambda request, version: frame}) as server:
        client = client_of(server)
        with pytest.raises(ProtocolError, match=complaint):
            client.call(-1, METADATA, MetadataResponse)
        assert client.nodes[-1].connection is None
        client.close()


def test_nobody_at_the_address():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = NetworkClient(f"127.0.0.1:{port}")
    with pytest.raises(Disconnected, match=f"cannot connect to 127.0.0.1:{port}"):
        client.call(-1, METADATA, MetadataResponse)


def test_nodes_keep_their_connection_while_their_address_stays():
    with ScriptedServer() as server:
        client = client_of(server)
        client.update_nodes({7: ("127.0.0.1", server.port)})
        client.call(7, METADATA, MetadataResponse)
        connection = client.nodes[7].connection
        client.update_nodes({7: ("127.0.0.1", server.port), 8: ("127.0.0.1", 1)})
        assert client.nodes[7].connection is connection
        client.update_nodes({7: ("127.0.0.1", 1)})
        assert connection.closed
        client.close()


def test_addresses():
    assert parse_addresses("a:1, [::1]:9092 ,") == [("a", 1), ("::1", 9092)]
    for wrong in ("a", "a:x", ":1", "a:0", "a:70000", ""):
        with pytest.raises(ValueError, match=r"host:port|no bootstrap"):
            parse_addresses(wrong)
