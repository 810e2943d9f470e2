"""AddPartitionsToTxn: v0-5. See `coordinator.transaction.add_partitions`.

Versions up to 3 are of clients, for one transaction. From version 4 on it is of other brokers, for
several (KIP-890), and a client is refused with CLUSTER_AUTHORIZATION_FAILED. If one partition of a
transaction does not exist, none is added: the others get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.broker.producer_fenced import error_for_version
from odradek.coordinator.operation import CombinedReply
from odradek.coordinator.transaction.add_partitions import ProducerIdentity
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_OF_BROKERS = 4
Errors = Mapping[TopicPartition, int]


def handle(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | CallbackResponse:
    if context.version < FIRST_VERSION_OF_BROKERS:
        return of_client(broker, context, request)
    if not context.from_node:
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def respond(results: list[AddPartitionsToTxnResult]) -> None:
        context.respond(AddPartitionsToTxnResponse(results_by_transaction=results))

    transactions = request.transactions
    combined: CombinedReply[AddPartitionsToTxnResult] = CombinedReply(len(transactions), respond)
    for index, transaction in enumerate(transactions):
        of_broker(broker, transaction, combined.respond(index))
    return CALLBACK_RESPONSE


def of_client(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | CallbackResponse:
    """Handle a client's request, which has one transaction."""
    partitions = partitions_of(request.v3_and_below_topics)
    missing = missing_errors(broker, partitions)
    if missing:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topic_results(missing))

    def respond(error: ErrorCode) -> None:
        told = error_for_version(error, context.version)
        results = topic_results(dict.fromkeys(partitions, told))
        context.respond(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

    broker.transactions.add_partitions(
        ProducerIdentity(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        ),
        partitions,
        context.connection_number,
        respond,
    )
    return CALLBACK_RESPONSE


def of_broker(
    broker: Broker,
    transaction: AddPartitionsToTxnTransaction,
    respond: Callable[[AddPartitionsToTxnResult], None],
) -> None:
    """Handle one transaction of a broker's request."""
    transactional_id = transaction.transactional_id
    partitions = partitions_of(transaction.topics)

    def answer(errors: Errors) -> None:
        respond(
            AddPartitionsToTxnResult(
                transactional_id=transactional_id, topic_results=topic_results(errors)
            )
        )

    missing = missing_errors(broker, partitions)
    if missing:
        answer(missing)
        return
    broker.transactions.add_partitions_to_transaction(
        transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.verify_only,
        partitions,
        answer,
    )


def partitions_of(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """The partitions of a request, each once."""
    return list(
        dict.fromkeys(
            TopicPartition(topic.name, number) for topic in topics for number in topic.partitions
        )
    )


def missing_errors(broker: Broker, partitions: list[TopicPartition]) -> Errors:
    """The errors of all partitions if one of them does not exist; else none."""
    errors = {}
    found_all = True
    for partition in partitions:
        topic = broker.image.topic(partition.topic)
        exists = topic is not None and partition.partition in topic.partitions
        found_all = found_all and exists
        errors[partition] = (
            ErrorCode.OPERATION_NOT_ATTEMPTED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    return {} if found_all else errors


def topic_results(errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    """The errors of partitions by topic."""
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, number), error in errors.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AddPartitionsToTxnTopicResult(name=name, results_by_partition=[])
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
        )
    return list(topics.values())
