"""Row 21 of the fault matrix: the answer to a request is lost after the request was carried out.

The client gives its connection up, and sends the same request again over another one. Either it is
known to be the same one and answered as before, or its error says that what it asks for is so
already; in both cases it was carried out once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest

from odradek.controller.image import ConfigResource, ResourceType, TopicImage
from odradek.coordinator.transaction.transaction_state import TransactionState
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.api.produce import ProduceResponse
from odradek.testing.scheduler import SECOND
from sim.live_cluster import PRODUCE_VERSION, LiveCluster
from sim.live_transactions import (
    NO_ANSWER,
    Client,
    Producer,
    Send,
    committed_values,
    live_cluster,
    stable_offset,
)

NONE = ErrorCode.NONE


def error_in(response: object) -> ErrorCode:
    """Return the first error of a response, wherever it is in there."""
    if isinstance(response, list):
        return next((found for each in response if (found := error_in(each))), NONE)
    if not is_dataclass(response):
        return NONE
    own = ErrorCode(getattr(response, "error_code", 0))
    parts = (getattr(response, each.name) for each in fields(response))
    return own or next((found for each in parts if (found := error_in(each))), NONE)


LISTING = MetadataRequest(topics=[]), 12, MetadataResponse, error_in
"""A request that changes nothing."""


@pytest.fixture(scope="module")
def cluster() -> LiveCluster:
    return live_cluster()


@dataclass(frozen=True, slots=True)
class Case:
    """A request, its error when it is sent again, and what must hold then."""

    send: Send
    again: ErrorCode = NONE
    check: Callable[[], object] = lambda: True
    is_carried_out: Callable[[], object] | None = None
    """By default `check`: it has no effect."""


class Target:
    """What requests are about: a topic of their own in the cluster, and who serves it."""

    def __init__(self, cluster: LiveCluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        cluster.create(name)

    @property
    def topic(self) -> TopicImage | None:
        return self.cluster.node(self.cluster.controller).metadata.committed.topic(self.name)

    @property
    def log_end(self) -> int:
        return self.cluster.partition(self.cluster.leader(self.name), self.name).log.log_end_offset

    @property
    def producer(self) -> Producer:
        made = Producer(self.cluster, f"id-{self.name}", self.name, 2)
        assert made.init() is NONE
        return made

    def to_controller(self, request: Any, version: int, response: type[Any]) -> Send:
        return self.cluster.controller, request, version, response, error_in

    def commit(self, offset: int) -> Send:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=f"group-id-{self.name}",
            topics=[OffsetCommitRequestTopic(name=self.name, partitions=[partition])],
        )
        coordinator = Producer(self.cluster, f"id-{self.name}", self.name, 2).group_coordinator
        return coordinator, request, 8, OffsetCommitResponse, error_in

    def commit_now(self, offset: int) -> int:
        """Commit an offset; return the number of the group's coordinator."""
        send = self.commit(offset)
        assert Client(self.cluster, f"committer-{self.name}", send[0]).ask(send) is NONE
        return send[0]

    def committed(self) -> int:
        return stable_offset(Producer(self.cluster, f"id-{self.name}", self.name, 2))


def create_topics(target: Target) -> Case:
    name = f"{target.name}-new"
    topic = CreatableTopic(
        name=name, num_partitions=2, replication_factor=3, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    send = target.to_controller(request, 7, CreateTopicsResponse)
    target.name = name
    return Case(send, ErrorCode.TOPIC_ALREADY_EXISTS, lambda: target.topic is not None)


def delete_topics(target: Target) -> Case:
    assert target.topic is not None
    topics = [DeleteTopicState(name=None, topic_id=target.topic.id)]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=5_000)
    send = target.to_controller(request, 6, DeleteTopicsResponse)
    return Case(send, ErrorCode.UNKNOWN_TOPIC_ID, lambda: target.topic is None)


def create_partitions(target: Target) -> Case:
    topics = [CreatePartitionsTopic(name=target.name, count=3, assignments=None)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=5_000, validate_only=False)
    send = target.to_controller(request, 3, CreatePartitionsResponse)

    def check() -> bool:
        return target.topic is not None and len(target.topic.partitions) == 3

    return Case(send, ErrorCode.INVALID_PARTITIONS, check)


def append_to_a_setting(target: Target) -> Case:
    config = AlterableConfig(name="cleanup.policy", config_operation=2, value="compact")
    resource = AlterConfigsResource(resource_type=2, resource_name=target.name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    send = target.to_controller(request, 1, IncrementalAlterConfigsResponse)

    def check() -> bool:
        image = target.cluster.node(target.cluster.controller).metadata.committed
        resource = ConfigResource(ResourceType.TOPIC, target.name)
        return image.configs[resource]["cleanup.policy"] == "delete,compact"

    return Case(send, check=check)


def reassign(target: Target) -> Case:
    assert target.topic is not None
    replicas = target.topic.partitions[0].replicas[:2]
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topic = ReassignableTopic(name=target.name, partitions=[partition])
    request = AlterPartitionReassignmentsRequest(timeout_ms=5_000, topics=[topic])
    send = target.to_controller(request, 0, AlterPartitionReassignmentsResponse)

    def check() -> bool:
        target.cluster.await_healed()
        return target.topic is not None and set(target.topic.partitions[0].replicas) == set(
            replicas
        )

    return Case(send, check=check)


def elect_leaders(target: Target) -> Case:
    cluster = target.cluster
    preferred = cluster.leader(target.name)
    cluster.machine(preferred).kill()
    cluster.until(lambda: cluster.leads(target.name) and cluster.leader(target.name) != preferred)
    cluster.machine(preferred).boot()
    cluster.connect_anew()
    cluster.await_healed()
    partitions = [TopicPartitions(topic=target.name, partitions=[0])]
    request = ElectLeadersRequest(election_type=0, topic_partitions=partitions)
    send = target.to_controller(request, 2, ElectLeadersResponse)
    return Case(
        send, ErrorCode.ELECTION_NOT_NEEDED, lambda: cluster.leader(target.name) == preferred
    )


def delete_records(target: Target) -> Case:
    target.cluster.produce(target.name, [b"a", b"b", b"c"])
    leader = target.cluster.leader(target.name)
    topic = DeleteRecordsTopic(
        name=target.name, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
    )
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)

    def check() -> bool:
        return target.cluster.partition(leader, target.name).log.log_start_offset == 2

    return Case((leader, request, 2, DeleteRecordsResponse, error_in), check=check)


def idempotent_produce(target: Target) -> Case:
    leader = target.cluster.leader(target.name)
    request = target.cluster.idempotent_request(target.name, 7_000, 0)
    send = leader, request, PRODUCE_VERSION, ProduceResponse, error_in
    return Case(send, check=lambda: target.log_end == 1)


def commit_offsets(target: Target) -> Case:
    return Case(target.commit(5), check=lambda: target.committed() == 5)


def delete_offsets(target: Target) -> Case:
    coordinator = target.commit_now(5)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(
        group_id=f"group-id-{target.name}",
        topics=[OffsetDeleteRequestTopic(name=target.name, partitions=partitions)],
    )
    send = coordinator, request, 0, OffsetDeleteResponse, error_in
    return Case(send, check=lambda: target.committed() == -1)


def delete_groups(target: Target) -> Case:
    coordinator = target.commit_now(5)
    request = DeleteGroupsRequest(groups_names=[f"group-id-{target.name}"])
    send = coordinator, request, 2, DeleteGroupsResponse, error_in
    return Case(send, ErrorCode.GROUP_ID_NOT_FOUND, lambda: target.committed() == -1)


def transactional_produce(target: Target) -> Case:
    producer = target.producer
    send = producer.produce_request(0, b"x")

    def check() -> bool:
        assert producer.end(commit=True) is NONE
        return committed_values(target.cluster, target.name, 1) == [b"x"]

    return Case(send, check=check, is_carried_out=lambda: target.log_end == 1)


def commit_offset_of_a_transaction(target: Target) -> Case:
    producer = target.producer
    assert producer.write(0, b"x") is NONE

    def check() -> bool:
        assert producer.end(commit=True) is NONE
        return stable_offset(producer) == 9

    send = producer.offset_request(9)
    offsets = producer.newest.broker.groups.runtime.partition_of(producer.group)

    def log_end() -> int:
        return target.cluster.partition(send[0], CONSUMER_OFFSETS, offsets).log.log_end_offset

    before = log_end()
    return Case(send, check=check, is_carried_out=lambda: log_end() == before + 1)


def end_of_a_transaction(target: Target) -> Case:
    producer = target.producer
    assert producer.write(0, b"x") is NONE

    def check() -> bool:
        again = producer.write(0, b"y"), producer.end(commit=False)
        return again == (NONE, NONE) and committed_values(target.cluster, target.name, 1) == [b"x"]

    def is_ended() -> bool:
        return producer.state is TransactionState.COMPLETE_COMMIT

    return Case(producer.end_request(commit=True), check=check, is_carried_out=is_ended)


def identification_of_a_producer(target: Target) -> Case:
    producer = target.producer
    send = producer.init_request()

    def check() -> bool:
        again = producer.write(0, b"x"), producer.end(commit=True)
        return again == (NONE, NONE) and committed_values(target.cluster, target.name, 1) == [b"x"]

    coordinator = target.cluster.node(send[0]).broker.transactions

    def epoch() -> int:
        shard = coordinator.runtime.state_machine(producer.id)
        known = None if shard is None else shard.get(producer.id)
        assert known is not None
        return known.producer_epoch

    before = epoch()
    return Case(send, check=check, is_carried_out=lambda: epoch() == before + 1)


CASES: list[Callable[[Target], Case]] = [
    create_topics,
    delete_topics,
    create_partitions,
    append_to_a_setting,
    reassign,
    elect_leaders,
    delete_records,
    idempotent_produce,
    commit_offsets,
    delete_offsets,
    delete_groups,
    transactional_produce,
    commit_offset_of_a_transaction,
    end_of_a_transaction,
    identification_of_a_producer,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_row_21_a_request_whose_answer_was_lost_is_carried_out_once(
    cluster: LiveCluster, case: Callable[[Target], Case]
) -> None:
    made = case(Target(cluster, case.__name__))
    node = made.send[0]
    first = Client(cluster, f"first-{case.__name__}", node)
    # Connected before the way back is cut.
    assert first.ask((node, *LISTING)) is NONE
    first.lose_answers()
    answers = first.send(made.send)
    cluster.scheduler.run(cluster.scheduler.now_ns + SECOND)
    first.close()
    assert answers == [NO_ANSWER]
    assert (made.is_carried_out or made.check)(), "before it is sent again"
    again = Client(cluster, f"again-{case.__name__}", node)
    assert again.ask(made.send) is made.again
    assert made.check()
