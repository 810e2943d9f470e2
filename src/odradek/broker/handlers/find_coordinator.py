"""FindCoordinator: v0-6. The broker that coordinates a group, or a transactional id; from version 4
on, of several of them (KIP-699).

The first request creates the coordinators' topic, `__consumer_offsets` or `__transaction_state`,
and waits until it is there. (Kafka responds with COORDINATOR_NOT_AVAILABLE, and the client tries
again.) Share groups are INVALID_REQUEST, as is every unknown key type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.context import DelayedResponse
from odradek.broker.leader_hints import CUT_OFF, is_cut_off
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.protocol.api.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_WITH_SEVERAL = 4
CREATION_TIMEOUT_MS = 30_000
GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
"""The topic of the coordinators of each key type."""


def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | DelayedResponse:
    several = context.version >= FIRST_VERSION_WITH_SEVERAL
    keys = request.coordinator_keys if several else [request.key]
    name = TOPICS.get(request.key_type)

    def answer() -> FindCoordinatorResponse:
        found = [coordinator(broker, key, request.key_type) for key in keys]
        return FindCoordinatorResponse(coordinators=found) if several else single_response(found[0])

    if name is None:
        return answer()
    if any(coordinator_is_cut_off(broker, name, key) for key in keys):
        context.exchange.end_connection(CUT_OFF)
    waiting = after_creation(broker, name, lambda: context.respond(answer()))
    return answer() if waiting is None else waiting


def after_creation(broker: Broker, name: str, ended: Callable[[], None]) -> DelayedResponse | None:
    """Create a coordinators' topic that does not exist, and call `ended` when it is open, or will
    not be in time; None, without that, if it is open or another node is to create it.
    """
    if is_open(broker, name):
        return None
    offset = broker.auto_create_topics([name])
    topic = None if offset is None else broker.controller.pending.topic(name)
    if offset is None or topic is None:
        return None
    return broker.after_commit(offset, CREATION_TIMEOUT_MS, ended, ended, [topic.id])


def is_open(broker: Broker, name: str) -> bool:
    """True if the topic exists with all its partitions open."""
    topic = broker.image.topic(name)
    return topic is not None and topic.id not in broker.opening


def partition_of(broker: Broker, name: str, key: str) -> int:
    """The partition of a coordinators' topic that a key belongs to."""
    coordinators = broker.groups if name == CONSUMER_OFFSETS else broker.transactions
    return coordinators.runtime.partition_of(key)


def coordinator(broker: Broker, key: str, key_type: int) -> Coordinator:
    """The coordinator of one key."""
    if key_type == SHARE:
        return coordinator_error(key, ErrorCode.INVALID_REQUEST)
    name = TOPICS.get(key_type)
    if name is None:
        return coordinator_error(
            key, ErrorCode.INVALID_REQUEST, f"There are no keys of type {key_type}."
        )
    number = partition_of(broker, name, key)
    topic = broker.image.topic(name)
    leader = -1 if topic is None else topic.partitions[number].leader
    if coordinator_is_cut_off(broker, name, key):
        leader = -1
    for node, host, port, _ in broker.alive_brokers():
        if node == leader:
            return Coordinator(
                key=key,
                node_id=node,
                host=host,
                port=port,
                error_code=ErrorCode.NONE,
                error_message="",
            )
    return coordinator_error(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def coordinator_is_cut_off(broker: Broker, name: str, key: str) -> bool:
    """True if this broker coordinates the key by its metadata, which may be outdated."""
    return is_cut_off(broker, name, partition_of(broker, name, key))


def coordinator_error(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )


def single_response(found: Coordinator) -> FindCoordinatorResponse:
    """The response below version 4, for one key, with the error's text as its message."""
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=ErrorCode(found.error_code).text,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
