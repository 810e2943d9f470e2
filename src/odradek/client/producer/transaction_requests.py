"""Requests of a producer about its transaction, and what their responses say.

Versions differ by how the transaction works (`client.transaction`): in version 1 clients add
partitions and offsets themselves; in version 2 TxnOffsetCommit 5 does so, and EndTxn 5 returns the
epoch of the next transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.transaction import VERSION_2, OpenTransaction
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.consumer_protocol import group_by_topic
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

ADD_PARTITIONS_MAX = 3
"""From the next version on, AddPartitionsToTxn is for brokers."""
END_TXN_OF_VERSION_2 = 5
OFFSET_COMMIT_OF_VERSION_2 = 5
MEMBER_FIELDS_VERSION = 3
"""The first version of TxnOffsetCommit with a member's place in its group (KIP-447)."""
CURRENT_EPOCH = 3
"""The first version of InitProducerId with the present id and epoch (KIP-360)."""


def init_producer_id(
    transactional_id: str,
    timeout_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    epoch: int = NO_PRODUCER_EPOCH,
) -> RequestBuilder:
    """InitProducerId: returns another epoch, which fences all earlier ones. A request with a
    producer id and epoch is refused unless these are the newest."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    lowest = 0 if producer_id == NO_PRODUCER_ID else CURRENT_EPOCH
    return RequestBuilder(InitProducerIdRequest, lambda _: request, min_version=lowest)


def add_partitions(
    transaction: OpenTransaction, partitions: Iterable[TopicPartition]
) -> RequestBuilder:
    """AddPartitionsToTxn (version 1 of transactions)."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=each.topic, partitions=each.partitions)
            for each in group_by_topic(partitions)
        ],
    )
    return RequestBuilder(
        AddPartitionsToTxnRequest, lambda _: request, max_version=ADD_PARTITIONS_MAX
    )


def added_error(response: AddPartitionsToTxnResponse) -> tuple[ErrorCode, str]:
    """Return the first error, with the partition's name. All are added, or none."""
    found = ErrorCode.NONE, ""
    for topic in response.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            code = error_code(result.partition_error_code)
            if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
                return code, f"{topic.name}-{result.partition_index}"
            if code is not ErrorCode.NONE:
                found = code, f"{topic.name}-{result.partition_index}"
    return found


def add_offsets(transaction: OpenTransaction, group_id: str) -> RequestBuilder:
    """AddOffsetsToTxn (version 1 of transactions)."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        group_id=group_id,
    )
    return RequestBuilder(AddOffsetsToTxnRequest, lambda _: request)


def commit_offsets(
    transaction: OpenTransaction,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> RequestBuilder:
    """TxnOffsetCommit: offsets of a group that are committed with the transaction."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, partition), (offset, metadata, leader_epoch) in offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    request = TxnOffsetCommitRequest(
        transactional_id=transaction.transactional_id,
        group_id=group.group_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )
    newest = transaction.transaction_version >= VERSION_2
    is_member = bool(group.member_id) or group.generation_id >= 0
    lowest = MEMBER_FIELDS_VERSION if is_member or group.group_instance_id is not None else 0
    return RequestBuilder(
        TxnOffsetCommitRequest,
        lambda _: request,
        min_version=OFFSET_COMMIT_OF_VERSION_2 if newest else lowest,
        max_version=OFFSET_COMMIT_OF_VERSION_2 if newest else OFFSET_COMMIT_OF_VERSION_2 - 1,
    )


def offsets_error(response: TxnOffsetCommitResponse) -> tuple[ErrorCode, str]:
    """Return the first error, with the partition's name."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code != ErrorCode.NONE:
                name = f"{topic.name}-{partition.partition_index}"
                return error_code(partition.error_code), name
    return ErrorCode.NONE, ""


def end_txn(transaction: OpenTransaction, *, committed: bool) -> RequestBuilder:
    """EndTxn, as the transaction was begun: version 5 bumps the epoch."""
    request = EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=committed,
    )
    newest = transaction.transaction_version >= VERSION_2
    return RequestBuilder(
        EndTxnRequest,
        lambda _: request,
        min_version=END_TXN_OF_VERSION_2 if newest else 0,
        max_version=END_TXN_OF_VERSION_2 if newest else END_TXN_OF_VERSION_2 - 1,
    )
