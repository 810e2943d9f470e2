"""BrokerChannel: requests of one purpose to other brokers of the cluster, by their ids.

A request is sent once, and ends once: with its response or, when the connection is lost, the node
is not known or the time is over, without one. It is not repeated here, because by then another
broker may be the one to ask: who sends it looks for that one again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.network_client.in_flight_requests import ClientRequest
    from odradek.network_client.network_client import NetworkClient


class BrokerChannel:
    """Owner thread."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client

    def send(
        self,
        node_id: int,
        request: Any,
        answered: Callable[[Any], None],
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request to a broker that is not this one; `answered` gets the response, or None.

        `timeout_ms`: by default the request timeout of connections between brokers.
        """

        def ended(call: ClientRequest) -> None:
            answered(None if call.error is not None else call.response)

        self._client.send(node_id, request, ended, timeout_ms=timeout_ms)
