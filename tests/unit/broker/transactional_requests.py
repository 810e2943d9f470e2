"""Produce, TxnOffsetCommit and DescribeProducers of a transactional client, in few words."""

from __future__ import annotations

from typing import Any

from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from unit.broker.transactional_broker import TransactionalBroker

Producer = tuple[int, int]
TV1_PRODUCE, ABORTABLE_PRODUCE, TV2_PRODUCE = 10, 11, 12
TV1_END = 4


def batch(
    producer: Producer = (-1, -1), sequence: int = -1, transactional: bool = True, value: str = "v"
) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
    )
    builder.append(None, value.encode(), timestamp=0)
    return builder.build()


def produce_request(
    batches: dict[int, bytes], transactional_id: str | None = "id", acks: int = -1
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=each) for index, each in batches.items()]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )


def errors_of(answer: ProduceResponse) -> dict[int, str]:
    return {
        each.index: ErrorCode(each.error_code).name
        for topic in answer.responses
        for each in topic.partition_responses
    }


def produce(
    broker: TransactionalBroker,
    batches: dict[int, bytes],
    version: int = TV2_PRODUCE,
    transactional_id: str | None = "id",
) -> dict[int, str]:
    request = produce_request(batches, transactional_id)
    return errors_of(broker.call(request, version, ProduceResponse))


def open_from(broker: TransactionalBroker, partition: int = 0) -> list[int]:
    """The first offsets of the open transactions of a partition."""
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[partition])])
    answer = broker.call(asked, 0, DescribeProducersResponse)
    found = answer.topics[0].partitions[0].active_producers
    return [each.current_txn_start_offset for each in found if each.current_txn_start_offset >= 0]


def partitions_of(broker: TransactionalBroker) -> list[tuple[str, list[int]]]:
    """The partitions that the coordinator has in the transaction."""
    return [(each.topic, sorted(each.partitions)) for each in broker.described().topics]


def commit_offset(
    broker: TransactionalBroker, producer: Producer, version: int = 5, topic: str = "t", **more: Any
) -> str:
    request = TxnOffsetCommitRequest(
        transactional_id=broker.id,
        group_id=more.pop("group", "g"),
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=7, committed_metadata=""
                    )
                ],
            )
        ],
        **more,
    )
    answer = broker.call(request, version, TxnOffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code).name


def committed(broker: TransactionalBroker) -> int | str:
    asked = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    found = broker.call(request, 8, OffsetFetchResponse).groups[0].topics[0].partitions[0]
    return ErrorCode(found.error_code).name if found.error_code else found.committed_offset
