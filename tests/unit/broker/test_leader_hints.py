"""A client that asks the wrong broker learns that, and from Produce and Fetch who leads."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.controller.brokers import register_broker
from odradek.controller.image import Endpoint
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.record_batch_builder import build
from unit.broker.memory_broker import NOW_MS, MemoryBroker

HERE, THERE = 1, 2
LED_HERE, LED_THERE, MISSING = range(3)
NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def two_brokers() -> MemoryBroker:
    """Broker 1, with the metadata of broker 2; each leads a partition of `orders`."""
    memory = MemoryBroker(node_id="1")
    metadata = memory.node.broker.metadata
    other = register_broker(
        metadata.controller.pending,
        THERE,
        epoch=metadata.end_offset,
        incarnation_id=UUID(int=2),
        endpoints=[Endpoint("PLAINTEXT", "two.example", 9093, 0)],
        rack="r2",
        log_dirs=[UUID(int=22)],
        clean=True,
    )
    metadata.controller.submit(other.records)
    memory.run_until_idle()
    topic = CreatableTopic(
        name="orders",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=LED_HERE, broker_ids=[HERE]),
            CreatableReplicaAssignment(partition_index=LED_THERE, broker_ids=[THERE]),
        ],
        configs=[],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    created = memory.call(request, 7, CreateTopicsResponse)
    assert created.topics[0].error_code == NONE, created
    return memory


def topic_id(memory: MemoryBroker) -> UUID:
    topic = memory.node.broker.image.topic("orders")
    assert topic is not None
    return topic.id


def produced(memory: MemoryBroker, version: int) -> ProduceResponse:
    data = build([(None, b"value", [], NOW_MS)])
    records = ByteRange(data, 0, len(data))
    topic = TopicProduceData(
        name="orders",
        topic_id=topic_id(memory),
        partition_data=[PartitionProduceData(index=i, records=records) for i in range(3)],
    )
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    return memory.call(request, version, ProduceResponse)


def fetched(memory: MemoryBroker, version: int, replica_id: int = -1) -> FetchResponse:
    partitions = [
        FetchPartition(
            partition=i,
            fetch_offset=0,
            partition_max_bytes=1000,
            current_leader_epoch=-1,
        )
        for i in range(3)
    ]
    topic = FetchTopic(topic="orders", topic_id=topic_id(memory), partitions=partitions)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])
    if replica_id >= 0:
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=-1)
    return memory.call(request, version, FetchResponse)


def leaders(partitions: list[Any]) -> list[tuple[int, int] | None]:
    found = [each.current_leader for each in partitions]
    return [None if each is None else (each.leader_id, each.leader_epoch) for each in found]


def addresses(response: Any) -> list[tuple[int, str, int, str | None]]:
    return [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_produce_names_the_leader_from_version_10(version: int) -> None:
    response = produced(two_brokers(), version)
    partitions = response.responses[0].partition_responses
    assert [each.error_code for each in partitions] == [NONE, NOT_LEADER, UNKNOWN]
    named = version >= 10
    assert leaders(partitions) == [None, (THERE, 0) if named else None, None]
    assert addresses(response) == ([(THERE, "two.example", 9093, "r2")] if named else [])


@pytest.mark.parametrize("version", [12, 13, 15, 16, 18])
def test_fetch_names_the_leader_from_version_16(version: int) -> None:
    response = fetched(two_brokers(), version)
    partitions = {each.partition_index: each for each in response.responses[0].partitions}
    codes = [partitions[i].error_code for i in range(3)]
    assert codes == [NONE, NOT_LEADER, UNKNOWN]
    named = version >= 16
    assert leaders([partitions[i] for i in range(3)]) == [
        None,
        (THERE, 0) if named else None,
        None,
    ]
    assert addresses(response) == ([(THERE, "two.example", 9093, "r2")] if named else [])


def test_a_follower_gets_no_addresses() -> None:
    response = fetched(two_brokers(), 18, replica_id=3)
    named = leaders(response.responses[0].partitions)
    assert (THERE, 0) in named and addresses(response) == []


def test_a_leader_whose_address_is_not_known_is_named_without_one() -> None:
    memory = two_brokers()
    broker = memory.node.broker
    broker.alive_brokers = list  # type: ignore[method-assign]
    response = produced(memory, 13)
    assert leaders(response.responses[0].partition_responses)[LED_THERE] == (THERE, 0)
    assert addresses(response) == []


def test_list_offsets_of_a_partition_led_elsewhere_is_not_leader_or_follower() -> None:
    topic = ListOffsetsTopic(
        name="orders",
        partitions=[
            ListOffsetsPartition(partition_index=i, current_leader_epoch=-1, timestamp=-1)
            for i in range(3)
        ],
    )
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    response = two_brokers().call(request, 8, ListOffsetsResponse)
    codes = [each.error_code for each in response.topics[0].partitions]
    assert codes == [NONE, NOT_LEADER, UNKNOWN]


def test_the_end_of_an_epoch_of_a_partition_led_elsewhere_is_not_leader_or_follower() -> None:
    topic = OffsetForLeaderTopic(
        topic="orders",
        partitions=[
            OffsetForLeaderPartition(partition=i, current_leader_epoch=-1, leader_epoch=0)
            for i in range(3)
        ],
    )
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
    response = two_brokers().call(request, 4, OffsetForLeaderEpochResponse)
    codes = [each.error_code for each in response.topics[0].partitions]
    assert codes == [NONE, NOT_LEADER, UNKNOWN]


def test_deleting_records_of_a_partition_led_elsewhere_is_not_leader_or_follower() -> None:
    partitions = [DeleteRecordsPartition(partition_index=i, offset=0) for i in range(3)]
    topic = DeleteRecordsTopic(name="orders", partitions=partitions)
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    response = two_brokers().call(request, 2, DeleteRecordsResponse)
    found = {each.partition_index: each.error_code for each in response.topics[0].partitions}
    assert found == {LED_HERE: NONE, LED_THERE: NOT_LEADER, MISSING: UNKNOWN}


def test_producers_of_a_partition_led_elsewhere_are_not_described() -> None:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name="orders", partition_indexes=[0, 1, 2])]
    )
    response = two_brokers().call(request, 0, DescribeProducersResponse)
    codes = [each.error_code for each in response.topics[0].partitions]
    assert codes == [NONE, NOT_LEADER, UNKNOWN]


def test_a_partition_that_is_being_opened_here_is_unknown_until_then() -> None:
    memory = two_brokers()
    replicas = memory.node.broker.replicas
    partition = next(each for each in replicas if each.topic_partition == ("orders", LED_HERE))
    replicas.remove(partition.topic_partition)
    response = produced(memory, 13)
    assert response.responses[0].partition_responses[LED_HERE].error_code == UNKNOWN
