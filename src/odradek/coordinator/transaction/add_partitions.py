"""AddPartitionsToTxn and AddOffsetsToTxn: partitions become part of a transaction, or are verified.

The partition that keeps a group's offsets is added in the same way. A transaction begins with its
first partition. A partition takes records of the transaction when this is on disk (KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.transaction.transaction_state import (
    ENDING,
    ONGOING,
    TIMEOUT,
    Event,
    outcome,
)
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek.coordinator.transaction.transaction_metadata import TransactionMetadata
    from odradek.coordinator.transaction.transaction_shard import TransactionShard


class ProducerIdentity(NamedTuple):
    """The producer that a request says it comes from."""

    transactional_id: str
    producer_id: int
    epoch: int


NO_CONNECTION = -1
"""The request came from another broker, or from none: it says nothing about connections."""


def add_partitions(
    shard: TransactionShard,
    result: OperationResult,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    transaction_version: int,
    connection: int,
    reply: Reply[ErrorCode],
) -> None:
    """Add partitions to the producer's transaction. `connection`: the number of the client's."""
    metadata = shard.get(producer.transactional_id)
    if metadata is None:
        result.answer(reply, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return
    after = outcome(Event.ADD_PARTITIONS, metadata.state)
    error = after if isinstance(after, ErrorCode) else producer_error(metadata, producer)
    if error is ErrorCode.NONE:
        newest = shard.newest_connections
        if metadata.state is ONGOING:
            note_connection(newest, producer.transactional_id, connection)
            if metadata.partitions.issuperset(partitions):
                result.answer(reply, ErrorCode.NONE)
                return
        else:
            result.after_append(partial(begun, result, metadata, newest, connection))
        following = metadata.with_partitions(partitions, transaction_version, result.now_ms)
        result.write(following.record())
    result.answer(reply, error)


def begun(
    result: OperationResult,
    metadata: TransactionMetadata,
    newest: dict[str, int],
    connection: int,
) -> None:
    """Begin the timeout of a transaction, and note its first connection."""
    transactional_id = metadata.transactional_id
    result.schedule((TIMEOUT, transactional_id), metadata.timeout_ms)
    newest.pop(transactional_id, None)
    note_connection(newest, transactional_id, connection)


def note_connection(newest: dict[str, int], transactional_id: str, connection: int) -> None:
    """Note the connection of a request that adds to a transaction."""
    if connection != NO_CONNECTION:
        newest[transactional_id] = max(connection, newest.get(transactional_id, NO_CONNECTION))


def producer_error(metadata: TransactionMetadata, producer: ProducerIdentity) -> ErrorCode:
    """The error of a request that is not of the present producer of its id."""
    if metadata.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def verify_partitions(
    shard: TransactionShard,
    result: OperationResult,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    reply: Reply[dict[TopicPartition, ErrorCode]],
) -> None:
    """Answer which partitions are in the producer's transaction; TRANSACTION_ABORTABLE if not."""
    metadata = shard.get(producer.transactional_id)
    if metadata is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    else:
        error = producer_error(metadata, producer)
        if error is ErrorCode.NONE and metadata.state in ENDING:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error is not ErrorCode.NONE or metadata is None:
        result.answer(reply, dict.fromkeys(partitions, error))
        return
    known = metadata.partitions
    result.answer(
        reply,
        {
            each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        },
    )
