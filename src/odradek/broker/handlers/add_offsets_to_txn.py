"""AddOffsetsToTxn: v0-4. Adds the partition of `__consumer_offsets` that keeps a group's offsets.

Clients send it before transaction version 2; see `coordinator.transaction.add_partitions`. Which
partition that is depends on how many there are. So while the topic does not exist, or this node
does not know it yet, it is created, and clients try again upon COORDINATOR_LOAD_IN_PROGRESS.
(Kafka takes the number that it would create, and drops a partition that does not exist.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse, DelayedResponse
from odradek.broker.handlers.find_coordinator import after_creation
from odradek.broker.producer_fenced import error_for_version
from odradek.coordinator.transaction.add_partitions import ProducerIdentity
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS, TopicPartition
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> CallbackResponse | DelayedResponse:
    def respond(error: ErrorCode) -> None:
        told = error_for_version(error, context.version)
        context.respond(AddOffsetsToTxnResponse(error_code=told))

    def is_known() -> bool:
        return broker.image.topic(CONSUMER_OFFSETS) is not None

    def add() -> None:
        if not is_known():
            respond(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        number = broker.groups.runtime.partition_of(request.group_id)
        broker.transactions.add_partitions(
            ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch),
            (TopicPartition(CONSUMER_OFFSETS, number),),
            context.connection_number,
            respond,
        )

    waiting = None if is_known() else after_creation(broker, CONSUMER_OFFSETS, add)
    if waiting is not None:
        return waiting
    add()
    return CALLBACK_RESPONSE
