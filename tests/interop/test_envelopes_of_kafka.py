"""Envelopes (KIP-590): the controller of a real Apache Kafka answers them as ours does."""

from __future__ import annotations

import pytest

from clients.wire import RawConnection
from interop.apache_kafka import ApacheKafka
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreateTopicsResponse
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.codec import decode
from odradek.protocol.frame import decode_response_header
from odradek.protocol.principal import DefaultPrincipalData, encode_principal
from unit.broker.controller import Controller, enveloped, frame
from unit.broker.simulated_nodes import creation

VERSION = 7
WHOLE = frame(creation("enveloped", "bad name"), VERSION)
ALICE = encode_principal(DefaultPrincipalData(type="User", name="alice"))
CASES = {
    "a request": enveloped(WHOLE),
    "of another user": enveloped(frame(creation("of-alice"), VERSION), ALICE),
    "from IPv6": enveloped(frame(creation("v6"), VERSION), address=bytes(15) + b"\1"),
    "no principal": enveloped(WHOLE, None),
    "an unknown version of a principal": enveloped(WHOLE, b"\0\x09" + ALICE[2:]),
    "a truncated principal": enveloped(WHOLE, ALICE[:5]),
    "an address of three bytes": enveloped(WHOLE, address=b"\1\2\3"),
    "an unserved version": enveloped(b"\0\x13\0\x63" + bytes(8)),
    "no header": enveloped(b"\0"),
    "a truncated request": enveloped(WHOLE[:-4]),
    "an envelope": enveloped(frame(enveloped(b""), 0)),
    "what any broker answers": enveloped(
        frame(DescribeClusterRequest(include_cluster_authorized_operations=False), 0)
    ),
}


def outcome(answer: EnvelopeResponse) -> tuple[str, list[tuple[str, str]], int]:
    """The error, the results inside, and the correlation id inside; or that it hung up."""
    results: list[tuple[str, str]] = []
    correlation_id = -1
    if answer.response_data is not None:
        correlation_id, position = decode_response_header(answer.response_data, True)
        inside = decode(CreateTopicsResponse, VERSION, answer.response_data, position)
        results = [(each.name, ErrorCode(each.error_code).name) for each in inside.topics]
    return ErrorCode(answer.error_code).name, sorted(results), correlation_id


@pytest.mark.parametrize("name", CASES)
def test_an_envelope_gets_the_answer_of_kafkas_controller(kafka: ApacheKafka, name: str) -> None:
    envelope: EnvelopeRequest = CASES[name]
    with RawConnection(f"127.0.0.1:{kafka.controller_port}") as wire:
        theirs = wire.ask(envelope, 0, EnvelopeResponse)
    assert outcome(Controller().ask(envelope)) == outcome(theirs)
