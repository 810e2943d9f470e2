"""FindCoordinator: v0-6. The broker that coordinates a group; from version 4 on, of several groups
(KIP-699).

The first request creates `__consumer_offsets` and waits until it is there. (Kafka responds with
COORDINATOR_NOT_AVAILABLE, and the client tries again.) Share groups are INVALID_REQUEST, as is
every unknown key type.

This broker has no transactions. Their coordinator would be found here, as the leader of a partition
of `__transaction_state`. Until then every transactional id is refused, with a message that says
why, and with an error upon which a producer fails at once:

    versions 2 and 3   TRANSACTIONAL_ID_AUTHORIZATION_FAILED: these are librdkafka's, which tries
                       again upon all other errors until its timeout; it shows the message
    all others         UNSUPPORTED_VERSION; Kafka's client shows the message

ApiVersions lists none of the requests that only transactions need; InitProducerId, which
idempotence needs too, refuses a transactional id with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import DelayedResponse
from odradek.broker.leader_hints import CUT_OFF, is_cut_off
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS
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
NO_TRANSACTIONS_MESSAGE = (
    "This broker has no transactions; use a producer without transactional.id "
    "(enable.idempotence=true works)."
)
GROUP, TRANSACTION, SHARE = 0, 1, 2
NO_TRANSACTIONS = ErrorCode.UNSUPPORTED_VERSION
LIBRDKAFKA_VERSIONS = (2, 3)
TRANSACTIONAL_ID_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | DelayedResponse:
    several = context.version >= FIRST_VERSION_WITH_SEVERAL
    keys = request.coordinator_keys if several else [request.key]

    def answer() -> FindCoordinatorResponse:
        found = [coordinator(broker, key, request.key_type) for key in keys]
        if request.key_type == TRANSACTION and context.version in LIBRDKAFKA_VERSIONS:
            found[0].error_code = TRANSACTIONAL_ID_REFUSED
        return FindCoordinatorResponse(coordinators=found) if several else single_response(found[0])

    if request.key_type == GROUP and any(coordinator_is_cut_off(broker, key) for key in keys):
        context.exchange.end_connection(CUT_OFF)
    if request.key_type != GROUP or is_open(broker):
        return answer()
    offset = broker.auto_create_topics([CONSUMER_OFFSETS])
    if offset is None:
        return answer()
    topic = broker.controller.pending.topic(CONSUMER_OFFSETS)
    if topic is None:
        return answer()

    def respond() -> None:
        context.respond(answer())

    return broker.after_commit(offset, CREATION_TIMEOUT_MS, respond, respond, [topic.id])


def is_open(broker: Broker) -> bool:
    """True if `__consumer_offsets` exists with all its partitions open."""
    topic = broker.image.topic(CONSUMER_OFFSETS)
    return topic is not None and topic.id not in broker.opening


def coordinator(broker: Broker, key: str, key_type: int) -> Coordinator:
    """The coordinator of one key."""
    if key_type == TRANSACTION:
        return coordinator_error(key, NO_TRANSACTIONS, NO_TRANSACTIONS_MESSAGE)
    if key_type == SHARE:
        return coordinator_error(key, ErrorCode.INVALID_REQUEST)
    if key_type != GROUP:
        return coordinator_error(
            key, ErrorCode.INVALID_REQUEST, f"There are no keys of type {key_type}."
        )
    number = broker.groups.runtime.partition_of(key)
    topic = broker.image.topic(CONSUMER_OFFSETS)
    leader = -1 if topic is None else topic.partitions[number].leader
    if coordinator_is_cut_off(broker, key):
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


def coordinator_is_cut_off(broker: Broker, group: str) -> bool:
    """True if this broker coordinates the group by its metadata, which may be outdated."""
    return is_cut_off(broker, CONSUMER_OFFSETS, broker.groups.runtime.partition_of(group))


def coordinator_error(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )


def single_response(found: Coordinator) -> FindCoordinatorResponse:
    """The response below version 4, for one key, with the error's text as its message."""
    refused = found.error_code in (NO_TRANSACTIONS, TRANSACTIONAL_ID_REFUSED)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message if refused else ErrorCode(found.error_code).text,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
