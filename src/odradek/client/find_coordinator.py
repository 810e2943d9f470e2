"""FindCoordinator: which broker coordinates a group or a transactional id.

`find_coordinator` and `coordinator_answer` hide that the request has one key up to version 3, and
several from 4 on. `located` sends it, once, for clients that await answers. A consumer looks its
group's up in `consumer.group.membership`, a producer its id's in `producer.transaction_steps`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.client.engine import Engine
from odradek.model.errors import ErrorCode
from odradek.model.node import Node
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
"""The type of a key that is the id of a group."""
TRANSACTION: Final = 1
"""The type of a key that is a transactional id."""
NO_NODE: Final = -1


class CoordinatorAnswer(NamedTuple):
    """The answer for one key. Without an error it has the coordinator; else `node` is None."""

    node: Node | None
    error: int
    broker_text: str | None
    """The broker's error message."""


class LocatedCoordinator(NamedTuple):
    """The answer for one key. Without an error it has the coordinator's ids; else both are -1."""

    broker_id: int
    node_id: int
    """The id to send to: a coordinator has a connection of its own."""
    error: int
    broker_text: str | None


def find_coordinator(key: str, key_type: int = GROUP) -> RequestBuilder:
    """FindCoordinator for a group, or for a transactional id."""

    def build(version: int) -> FindCoordinatorRequest:
        if version < 4:
            return FindCoordinatorRequest(key=key, key_type=key_type)
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])

    return RequestBuilder(FindCoordinatorRequest, build)


def coordinator_answer(response: FindCoordinatorResponse) -> CoordinatorAnswer:
    """Return the answer for the one key of the request."""
    answer = response.coordinators[0] if response.coordinators else response
    if answer.error_code != ErrorCode.NONE:
        return CoordinatorAnswer(None, answer.error_code, answer.error_message)
    node = Node(answer.node_id, answer.host, answer.port)
    return CoordinatorAnswer(node, ErrorCode.NONE, None)


async def located(
    engine: Engine, key: str, key_type: int = GROUP, timeout_ms: int | None = None
) -> LocatedCoordinator:
    """Ask any broker for the coordinator of a key. Raises the `KafkaError` of the connection.
    `timeout_ms`: as for `Engine.call`."""
    node_id, request = await engine.any_node(), find_coordinator(key, key_type)
    response = await engine.call(node_id, request, FindCoordinatorResponse, timeout_ms)
    node, error, broker_text = coordinator_answer(response)
    if node is None:
        return LocatedCoordinator(NO_NODE, NO_NODE, error, broker_text)
    return LocatedCoordinator(node.id, engine.client.coordinator(node), error, None)
