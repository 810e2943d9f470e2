"""UnregisterBroker, sent to a broker that is alone."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from unit.broker.memory_broker import MemoryBroker


def test_the_only_broker_stays_and_an_unknown_one_is_not_known() -> None:
    broker = MemoryBroker()

    def unregister(broker_id: int) -> int:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        return broker.call(request, 0, UnregisterBrokerResponse).error_code

    assert unregister(broker.node.config.node_id) == ErrorCode.POLICY_VIOLATION
    assert unregister(77) == ErrorCode.BROKER_ID_NOT_REGISTERED
