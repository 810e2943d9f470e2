"""Requests for transactions fail at once, with errors that clients do not retry."""

from __future__ import annotations

import pytest

from odradek.broker.apis import APIS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api_keys import MESSAGES
from unit.broker.memory_broker import MemoryBroker

TRANSACTION = 1
FOR_TRANSACTIONS_ONLY = ("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers")
ALSO = ("TxnOffsetCommit", "DescribeTransactions")


@pytest.mark.parametrize("version", range(1, 7))
def test_find_coordinator_of_a_transaction_is_refused(version: int) -> None:
    """In versions 2 and 3 with an error upon which librdkafka does not try again."""
    serving = MemoryBroker()
    asked = FindCoordinatorRequest(key_type=TRANSACTION)
    if version < 4:
        asked.key = "an id"
    else:
        asked.coordinator_keys = ["an id"]
    answer = serving.call(asked, version, FindCoordinatorResponse)
    found = answer if version < 4 else answer.coordinators[0]
    unsupported, refused = (
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
    assert found.error_code == (refused if version in (2, 3) else unsupported)
    assert "no transactions" in (found.error_message or "")
    assert found.node_id == -1
    assert not serving.node.broker.image.topics, "nothing is made for it"


def test_init_producer_id_with_a_transactional_id_is_unsupported_version() -> None:
    request = InitProducerIdRequest(transactional_id="an id", transaction_timeout_ms=1000)
    answer = MemoryBroker().call(request, 4, InitProducerIdResponse)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_unsupported_version_is_not_retriable() -> None:
    assert not ErrorCode.UNSUPPORTED_VERSION.retriable


def test_api_versions_lists_no_transaction_requests() -> None:
    served = {MESSAGES[key].name for key in APIS}
    assert served.isdisjoint((*FOR_TRANSACTIONS_ONLY, *ALSO))
