"""The connection of a replica fetcher to its leader, over the broker's clients for other nodes."""

from __future__ import annotations

from collections.abc import Callable

from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import NetworkClient
from odradek.protocol.hot_fetch import FetchRequest, FetchResponse
from odradek.timing import SystemTimer


class LeaderConnection:
    """Sends the fetches of one fetcher to one node (`replica_fetcher.FetcherEnvironment`).

    Whatever keeps a fetch from being answered, the lost connection, a node that is not known or
    the request timeout, is no answer for the fetcher, which then makes a new session.
    """

    def __init__(self, client: NetworkClient, timer: SystemTimer, node_id: int) -> None:
        self._client = client
        self._timer = timer
        self._node_id = node_id

    def send(self, request: FetchRequest, answered: Callable[[FetchResponse | None], None]) -> None:
        """Send a request; `answered` gets the response, or None."""

        def ended(call: ClientRequest) -> None:
            answered(None if call.error is not None else call.response)

        self._client.send(self._node_id, request, ended)

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after some time."""
        self._timer.call_later(delay_ms, function)
