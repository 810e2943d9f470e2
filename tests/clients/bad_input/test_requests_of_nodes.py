"""Requests that only nodes of a cluster send each other, on the listener of clients."""

from __future__ import annotations

import pytest

from clients.bad_input.filling import Filling, request_frame
from clients.wire import RawConnection
from odradek.broker.apis import ROWS, Api
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.codec import encode_bytes
from odradek.testing.broker import Broker

ROWS_OF_NODES = [row for row in ROWS if row.between_nodes]


@pytest.mark.parametrize("row", ROWS_OF_NODES, ids=lambda row: row.name)
def test_a_request_between_nodes_closes_its_connection(broker: Broker, row: Api) -> None:
    for version in range(row.min_version, row.max_version + 1):
        request = Filling(version, 1, "name", ZERO_UUID).message(row.request)
        with RawConnection(broker.bootstrap) as wire:
            wire.send(request_frame(row.key, version, encode_bytes(request, version)))
            assert wire.closed_by_peer(), f"v{version}"


def test_clients_are_not_told_of_requests_between_nodes(broker: Broker) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    with RawConnection(broker.bootstrap) as wire:
        answer = wire.ask(request, 3, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.NONE
    told = {each.api_key for each in answer.api_keys}
    assert told.isdisjoint(row.key for row in ROWS_OF_NODES)
