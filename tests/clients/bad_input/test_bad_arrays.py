"""Every array of every API and version: empty, with one element, with one element repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clients.asking import create, until
from clients.bad_input.filling import Filling, Sized, error_codes, request_frame
from clients.wire import RawConnection
from fuzz.tokens import Token, joined, sized
from odradek.broker.apis import CLIENT_ROWS, Api
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.testing.broker import Broker

TOPIC = "there"
REFUSED_TWICE = {
    "ListOffsets": {ErrorCode.INVALID_REQUEST},
    "CreateTopics": {ErrorCode.INVALID_REQUEST},
    "DeleteTopics": {ErrorCode.INVALID_REQUEST},
    "CreatePartitions": {ErrorCode.INVALID_REQUEST},
    "AlterConfigs": {ErrorCode.INVALID_REQUEST},
    "IncrementalAlterConfigs": {ErrorCode.INVALID_REQUEST},
    "DescribeUserScramCredentials": {ErrorCode.NONE, ErrorCode.DUPLICATE_RESOURCE},
}
"""As in Kafka, except for AlterConfigs, to which Kafka sends no response."""


def filling(wire: RawConnection, version: int, times: int) -> Filling:
    """Values about an existing topic."""
    create(wire, (TOPIC, 1))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    (topic,) = wire.ask(asked, 12, MetadataResponse).topics
    return Filling(version, times, TOPIC, topic.topic_id)


def errors(wire: RawConnection, row: Api, version: int, times: int) -> set[int]:
    request = filling(wire, version, times).message(row.request)
    found: set[int] = set()

    def answered() -> bool:
        nonlocal found
        found = error_codes(wire.ask(request, version, row.response))
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED not in found

    assert until(answered)
    return found


@pytest.fixture
def wire(known: RawConnection) -> RawConnection:
    """A connection to a broker that coordinates the group of that name."""

    def coordinates() -> bool:
        found = known.ask(FindCoordinatorRequest(key=TOPIC), 3, FindCoordinatorResponse)
        return found.error_code == ErrorCode.NONE

    assert until(coordinates)
    return known


@pytest.mark.parametrize("row", CLIENT_ROWS, ids=lambda row: row.name)
def test_arrays_of_any_length_are_answered(wire: RawConnection, row: Api) -> None:
    for version in range(row.min_version, row.max_version + 1):
        for times in (0, 1, 2, 5):
            request = Filling(version, times, "", ZERO_UUID).message(row.request)
            wire.ask(request, version, row.response)


@pytest.mark.parametrize("row", CLIENT_ROWS, ids=lambda row: row.name)
def test_the_same_element_twice_is_answered_as_once_or_refused(
    wire: RawConnection, row: Api
) -> None:
    for version in range(row.min_version, row.max_version + 1):
        once, twice = (errors(wire, row, version, times) for times in (1, 2))
        assert twice == REFUSED_TWICE.get(row.name, once), f"v{version}"


@pytest.mark.parametrize("row", CLIENT_ROWS, ids=lambda row: row.name)
def test_null_where_it_is_not_allowed_closes_the_connection(
    broker: Broker, wire: RawConnection, row: Api
) -> None:
    for version in {row.min_version, row.max_version}:
        tokens = Sized(row.request, version)
        tokens.struct(filling(wire, version, 1).message(row.request))
        for place in tokens.not_nullable:
            with RawConnection(broker.bootstrap) as hostile:
                hostile.send(with_null(row, version, tokens.found, place))
                assert hostile.closed_by_peer(), f"v{version}, token {place}"


def with_null(row: Api, version: int, tokens: list[Token], place: int) -> bytes:
    """Return the request with null in place of the size at `place` and its contents."""
    was = tokens[place]
    null = replace(was, data=sized(-1, was.wide))
    behind = place + 1
    while behind < len(tokens) and (
        tokens[behind].depth > was.depth or tokens[behind].kind in ("text", "bytes")
    ):
        behind += 1
    return request_frame(row.key, version, joined([*tokens[:place], null, *tokens[behind:]]))
