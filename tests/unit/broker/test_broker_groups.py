"""Groups through a whole broker: their topic, their coordinator, and what a start finds of them."""

from __future__ import annotations

from collections.abc import Iterator

from serving import NOW_MS, Asked, Serving

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.java_hash import partition_for
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.record_batch_builder import build

OFFSETS = "__consumer_offsets"
TOPIC_RESOURCE = 2


def find(serving: Serving, *groups: str) -> Asked:
    return serving.send(FindCoordinatorRequest(coordinator_keys=list(groups)), 4)


def joining(group: str, member_id: str = "", instance: str | None = "i") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"topics")],
    )


def joined(serving: Serving, group: str) -> JoinGroupResponse:
    """A static member alone in its group."""
    asked = serving.send(joining(group), 9)
    serving.settle()
    serving.pass_time(10_000)
    return asked.answer(JoinGroupResponse)


def test_the_first_who_asks_makes_the_topic_and_is_answered_when_it_is_there() -> None:
    serving = Serving(offsets_topic_num_partitions="3")
    first, second = find(serving, "a"), find(serving, "b", "c")
    assert (first.parts, second.parts) == (None, None)
    serving.settle()
    for asked in (first, second):
        for each in asked.answer(FindCoordinatorResponse).coordinators:
            assert (each.error_code, each.node_id, each.port) == (ErrorCode.NONE, 1, 9092)
    topic = serving.node.broker.image.topic(OFFSETS)
    assert topic is not None
    assert len(topic.partitions) == 3
    assert find(serving, "d").answer(FindCoordinatorResponse).coordinators[0].node_id == 1


def test_nobody_is_sent_to_a_partition_that_is_still_to_be_opened() -> None:
    """Of many the rest comes in slices, after the commit; a join would be refused meanwhile."""
    serving = Serving(offsets_topic_num_partitions="200")
    first = find(serving, "a")
    while serving.node.broker.image.topic(OFFSETS) is None:
        serving.turn()
        if not serving.soon:
            serving.run_work()
    second = find(serving, "b")
    assert serving.node.broker.opening
    assert (first.parts, second.parts) == (None, None)
    serving.settle()
    for asked in (first, second):
        (found,) = asked.answer(FindCoordinatorResponse).coordinators
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)
    assert len(serving.node.replicas.by_name) == 200


def test_the_topic_is_compacted_and_never_larger_than_there_are_brokers() -> None:
    """Three replicas are wanted, but there is one broker."""
    serving = Serving()
    find(serving, "a")
    serving.settle()
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE,
        resource_name=OFFSETS,
        configuration_keys=["cleanup.policy", "segment.bytes", "compression.type"],
    )
    asked = serving.send(DescribeConfigsRequest(resources=[resource]), 4)
    (result,) = asked.answer(DescribeConfigsResponse).results
    assert {each.name: each.value for each in result.configs} == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }


def test_whoever_asks_for_its_metadata_makes_the_same_topic() -> None:
    serving = Serving(offsets_topic_num_partitions="2", num_partitions="7")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)])
    serving.send(request, 9)
    serving.settle()
    (topic,) = serving.ask(request, 9, MetadataResponse).topics
    assert topic.is_internal
    assert len(topic.partitions) == 2


def test_before_the_topic_is_there_nobody_has_groups() -> None:
    serving = Serving()
    assert serving.ask(joining("g"), 9, JoinGroupResponse).error_code == (ErrorCode.NOT_COORDINATOR)
    listed = serving.ask(ListGroupsRequest(), 4, ListGroupsResponse)
    assert (listed.error_code, listed.groups) == (ErrorCode.NONE, [])


def test_groups_that_cannot_be_read_are_not_listed_and_hide_no_others() -> None:
    """Of two partitions one has a record that nobody understands: its groups are not served."""
    serving = Serving(offsets_topic_num_partitions="2")
    find(serving, "any")
    serving.settle()
    names = {partition_for(name, 2): name for name in ("f", "g")}
    assert all(joined(serving, name).member_id for name in names.values())
    damaged = serving.node.replicas.by_name[OFFSETS, 0]
    data = build([(b"\0\2\0\5g", b"\0\3", (), NOW_MS)])
    serving.node.replicas.append(damaged, ByteRange(data, 0, len(data)), 13)
    serving.node.replicas.appended(damaged)
    serving.settle()
    serving.disk.locks.clear()  # as the system does for a process that was killed
    again = Serving(serving.disk)
    asked = joining(names[0])
    assert again.ask(asked, 9, JoinGroupResponse).error_code == ErrorCode.NOT_COORDINATOR
    listed = again.ask(ListGroupsRequest(), 4, ListGroupsResponse)
    assert listed.error_code == ErrorCode.NONE
    assert [group.group_id for group in listed.groups] == [names[1]]


class Looked(list[str]):
    """Counts how often somebody goes through it."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_filters_are_looked_at_once_however_many_shards_there_are() -> None:
    """They may be as long as a request: once for each of fifty shards would take seconds."""
    serving = Serving(offsets_topic_num_partitions="50")
    find(serving, "g")
    serving.settle()
    assert joined(serving, "g").member_id
    states, types = Looked(["STABLE", "completingrebalance"]), Looked(["Classic"])
    answers: list[ListGroupsResponse] = []
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    serving.node.broker.groups.list_groups(request, answers.append)
    serving.settle()
    (answer,) = answers
    assert [group.group_id for group in answer.groups] == ["g"]
    assert (states.times, types.times) == (1, 1)


def test_a_group_stays_where_it_is_when_partitions_are_added() -> None:
    """Until a restart, as in Kafka."""
    serving = Serving(offsets_topic_num_partitions="1")
    find(serving, "g")
    serving.settle()
    member = joined(serving, "g").member_id
    wider = CreatePartitionsTopic(name=OFFSETS, count=20, assignments=None)
    asked = serving.send(
        CreatePartitionsRequest(topics=[wider], timeout_ms=1000, validate_only=False), 3
    )
    serving.settle()
    assert asked.answer(CreatePartitionsResponse).results[0].error_code == ErrorCode.NONE
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    assert serving.ask(beat, 4, HeartbeatResponse).error_code == ErrorCode.NONE


def test_nobody_but_the_coordinator_writes_the_topic() -> None:
    serving = Serving()
    find(serving, "g")
    serving.settle()
    assert serving.produced(OFFSETS) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_stable_group_outlives_the_broker() -> None:
    """Stopped or killed: its members go on as if nothing had happened."""
    serving = Serving()
    find(serving, "g")
    serving.settle()
    member = joined(serving, "g").member_id
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    serving.send(request, 5)
    serving.settle()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    for stopped in (False, True):
        if stopped:
            serving.node.stop(lambda: None)
            serving.settle()
        serving.disk.locks.clear()  # as the system does for a process that was killed
        serving = Serving(serving.disk)
        assert serving.ask(beat, 4, HeartbeatResponse).error_code == ErrorCode.NONE
        assert serving.ask(request, 5, SyncGroupResponse).error_code == ErrorCode.NONE


def test_in_version_0_of_a_join_the_session_is_also_the_time_to_rebalance() -> None:
    """The version has no other. The first member goes on sending heartbeats but does not join."""
    serving = Serving(group_initial_rebalance_delay_ms="0")
    find(serving, "g")
    serving.settle()
    request = joining("g", instance=None)
    first = serving.send(request, 0)
    serving.settle()
    serving.pass_time(1)
    member = first.answer(JoinGroupResponse).member_id
    second = serving.send(request, 0)
    serving.settle()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    for _ in range(3):
        serving.pass_time(3_000)
        answer = serving.ask(beat, 0, HeartbeatResponse)
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    serving.pass_time(999)
    assert second.parts is None
    serving.pass_time(1)
    joined = second.answer(JoinGroupResponse)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 2)
    assert [each.member_id for each in joined.members] == [joined.member_id]
    gone = serving.ask(beat, 0, HeartbeatResponse)
    assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
