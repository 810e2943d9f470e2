"""FindCoordinator: v0-6. Which broker has a group; from version 4 on, of several (KIP-699).

The first who asks makes `__consumer_offsets`, and is answered when it is there. (Kafka answers
COORDINATOR_NOT_AVAILABLE, and the client asks again.) Share groups are INVALID_REQUEST, as anything
else.

This broker has no transactions: their coordinator would be found here, by the leader of a partition
of `__transaction_state`, as that of groups is. Until then the answer is UNSUPPORTED_VERSION, which
tells a producer at once; upon COORDINATOR_NOT_AVAILABLE it would ask until its time is over. None
of the requests that only transactions need is listed in ApiVersions, and InitProducerId, which
idempotence needs as well, refuses a transactional id with the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import Waiting
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
GROUP, TRANSACTION, SHARE = 0, 1, 2
NO_TRANSACTIONS = ErrorCode.UNSUPPORTED_VERSION


def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Waiting:
    several = context.version >= FIRST_VERSION_WITH_SEVERAL
    keys = request.coordinator_keys if several else [request.key]

    def answer() -> FindCoordinatorResponse:
        found = [coordinator(broker, key, request.key_type) for key in keys]
        return FindCoordinatorResponse(coordinators=found) if several else alone(found[0])

    if request.key_type != GROUP or is_open(broker):
        return answer()
    offset = broker.auto_create([CONSUMER_OFFSETS])
    topic = broker.metadata.pending.topic(CONSUMER_OFFSETS)
    if offset is None or topic is None:
        return answer()

    def respond() -> None:
        context.respond(answer())

    return broker.after_commit(offset, CREATION_TIMEOUT_MS, respond, respond, [topic.id])


def is_open(broker: Broker) -> bool:
    """Whether groups may be looked for: the topic is there, with all its partitions."""
    topic = broker.image.topic(CONSUMER_OFFSETS)
    return topic is not None and topic.id not in broker.opening


def coordinator(broker: Broker, key: str, key_type: int) -> Coordinator:
    """Where one key is."""
    if key_type == TRANSACTION:
        return nowhere(key, NO_TRANSACTIONS, "This broker has no transactions.")
    if key_type == SHARE:
        return nowhere(key, ErrorCode.INVALID_REQUEST)
    if key_type != GROUP:
        return nowhere(key, ErrorCode.INVALID_REQUEST, f"There are no keys of type {key_type}.")
    number = broker.groups.runtime.partition_of(key)
    topic = broker.image.topic(CONSUMER_OFFSETS)
    leader = -1 if topic is None else topic.partitions[number].leader
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
    return nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def nowhere(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )


def alone(found: Coordinator) -> FindCoordinatorResponse:
    """The answer below version 4, to one key; its message says what the code says, or more."""
    unsupported = found.error_code == NO_TRANSACTIONS
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message if unsupported else ErrorCode(found.error_code).text,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
