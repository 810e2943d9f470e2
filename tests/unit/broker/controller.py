"""A broker in memory that is a controller with a listener for nodes, and envelopes for it."""

from __future__ import annotations

from typing import Any

from odradek.broker.dispatch import Dispatcher
from odradek.controller.quorum_controller import ActiveController
from odradek.network_client.broker_connections import BrokerConnections
from odradek.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.codec import encode
from odradek.protocol.frame import request_parts
from odradek.protocol.principal import ANONYMOUS, encode_principal
from unit.broker.memory_broker import MemoryBroker, SentRequest

ADDRESS = bytes((10, 1, 2, 3))


class Controller(MemoryBroker):
    """A broker with a listener for nodes, on which requests arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.node.broker.join_cluster(
            BrokerConnections(self.node.env, self.timer, self.node.config), lambda: self.active
        )
        self.elect(1)
        self.clients = self.dispatcher
        self.dispatcher = Dispatcher(self.node.broker, between_nodes=True)

    def elect(self, node_id: int, epoch: int = 1) -> None:
        self.active: ActiveController | None = ActiveController(node_id, epoch)

    def ask(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        return self.call(envelope, 0, EnvelopeResponse)


def frame(request: Any, version: int, correlation_id: int = 77) -> bytes:
    """A request as a client sends it, without its length."""
    key = SentRequest(request, version).key
    parts = request_parts(key, version, correlation_id, "the client", encode(request, version))
    return b"".join(map(bytes, parts))[4:]  # type: ignore[arg-type]


def enveloped(
    data: bytes, principal: bytes | None = encode_principal(ANONYMOUS), address: bytes = ADDRESS
) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=address
    )
