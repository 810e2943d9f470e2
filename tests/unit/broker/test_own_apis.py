"""Odradek's own APIs are listed to our clients only; to others the answer has no trace of them."""

from __future__ import annotations

import pytest

from odradek.broker.apis import CLIENT_ROWS, ROWS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.api_versions import (
    SOFTWARE_NAME,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.api_keys import FIRST_OWN_KEY
from unit.broker.memory_broker import MemoryBroker

OWN = {row.key for row in ROWS if row.is_own}
LISTED = {row.key for row in CLIENT_ROWS}
FOREIGN = (
    ("librdkafka", "2.11.0"),
    ("apache-kafka-java", "4.3.1"),
    ("odradek-python-fork", "1"),
    ("Odradek-Python", "1"),
)


def listed(version: int, name: str = "") -> set[int]:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    answer = MemoryBroker().call(request, version, ApiVersionsResponse)
    return {each.api_key for each in answer.api_keys}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_own_apis_are_listed_to_our_clients(version: int) -> None:
    assert OWN and listed(version, SOFTWARE_NAME) == LISTED


@pytest.mark.parametrize("name", [name for name, _ in FOREIGN])
@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_the_answer_to_other_clients_is_the_same_to_the_byte_as_without_own_apis(
    version: int, name: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    with_them = MemoryBroker().send(request, version).parts
    with pytest.MonkeyPatch.context() as patch:
        kafkas = tuple(row for row in ROWS if row.key < FIRST_OWN_KEY)
        patch.setattr("odradek.broker.apis.ROWS", kafkas)
        without = MemoryBroker().send(request, version).parts
    assert with_them is not None and without is not None
    assert b"".join(map(bytes, with_them)) == b"".join(map(bytes, without))


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("this", -1, ErrorCode.NONE),
        ("this", 1, ErrorCode.NONE),
        ("this", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", -1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_means_another_node_is_told_to_start_again(
    cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    broker = MemoryBroker(node_id="1")
    request = ApiVersionsRequest(
        client_software_name="any",
        client_software_version="1",
        cluster_id=broker.node.broker.image.cluster_id if cluster_id == "this" else cluster_id,
        node_id=node_id,
    )
    answer = broker.call(request, 5, ApiVersionsResponse)
    assert answer.error_code == error
    assert bool(answer.api_keys) is (error is ErrorCode.NONE)


def test_versions_without_a_software_name_list_kafkas_apis_only() -> None:
    assert listed(2, SOFTWARE_NAME) == LISTED - OWN
