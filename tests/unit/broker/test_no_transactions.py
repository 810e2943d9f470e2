"""Who wants transactions is told at once that there are none: nothing that it would try again."""

from __future__ import annotations

import pytest
from serving import Serving

from odradek.broker.apis import APIS
from odradek.model.errors import ErrorCode
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api_keys import MESSAGES

TRANSACTION = 1
FOR_TRANSACTIONS_ONLY = ("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers")
ALSO = ("TxnOffsetCommit", "DescribeTransactions", "ListTransactions")


@pytest.mark.parametrize("version", range(1, 7))
def test_there_is_no_coordinator_of_transactions(version: int) -> None:
    serving = Serving()
    asked = FindCoordinatorRequest(key_type=TRANSACTION)
    if version < 4:
        asked.key = "an id"
    else:
        asked.coordinator_keys = ["an id"]
    answer = serving.ask(asked, version, FindCoordinatorResponse)
    found = answer if version < 4 else answer.coordinators[0]
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "no transactions" in (found.error_message or "")
    assert found.node_id == -1
    assert not serving.node.broker.image.topics, "nothing is made for it"


def test_no_transactional_id_is_initialised() -> None:
    request = InitProducerIdRequest(transactional_id="an id", transaction_timeout_ms=1000)
    answer = Serving().ask(request, 4, InitProducerIdResponse)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_clients_do_not_try_again() -> None:
    assert not ErrorCode.UNSUPPORTED_VERSION.retriable


def test_what_only_transactions_need_is_not_listed() -> None:
    served = {MESSAGES[key].name for key in APIS}
    assert served.isdisjoint((*FOR_TRANSACTIONS_ONLY, *ALSO))
