"""Groups through a whole broker: `__consumer_offsets`, the coordinator, and restarts."""

from __future__ import annotations

from collections.abc import Iterator

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
from unit.broker.memory_broker import NOW_MS, MemoryBroker, SentRequest

OFFSETS = "__consumer_offsets"
TOPIC_RESOURCE = 2


def find(serving: MemoryBroker, *groups: str) -> SentRequest:
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


def joined(serving: MemoryBroker, group: str) -> JoinGroupResponse:
    """A join of the only, static member of a group."""
    asked = serving.send(joining(group), 9)
    serving.run_until_idle()
    serving.pass_time(10_000)
    return asked.answer(JoinGroupResponse)


def test_the_first_find_coordinator_creates_the_topic_and_waits_for_it() -> None:
    serving = MemoryBroker(offsets_topic_num_partitions="3")
    first, second = find(serving, "a"), find(serving, "b", "c")
    assert (first.parts, second.parts) == (None, None)
    serving.run_until_idle()
    for asked in (first, second):
        for each in asked.answer(FindCoordinatorResponse).coordinators:
            assert (each.error_code, each.node_id, each.port) == (ErrorCode.NONE, 1, 9092)
    topic = serving.node.broker.image.topic(OFFSETS)
    assert topic is not None
    assert len(topic.partitions) == 3
    assert find(serving, "d").answer(FindCoordinatorResponse).coordinators[0].node_id == 1


def test_find_coordinator_waits_until_all_partitions_are_open() -> None:
    """Many partitions are opened in slices after the commit; a join would be refused meanwhile."""
    serving = MemoryBroker(offsets_topic_num_partitions="200")
    first = find(serving, "a")
    while serving.node.broker.image.topic(OFFSETS) is None:
        serving.run_round()
        if not serving.soon:
            serving.run_work()
    second = find(serving, "b")
    assert serving.node.broker.opening
    assert (first.parts, second.parts) == (None, None)
    serving.run_until_idle()
    for asked in (first, second):
        (found,) = asked.answer(FindCoordinatorResponse).coordinators
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)
    assert len(serving.node.replicas.by_name) == 200


def test_the_topic_is_compacted_and_has_at_most_one_replica_per_broker() -> None:
    serving = MemoryBroker()
    find(serving, "a")
    serving.run_until_idle()
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


def test_a_metadata_request_creates_the_same_topic() -> None:
    serving = MemoryBroker(offsets_topic_num_partitions="2", num_partitions="7")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)])
    serving.send(request, 9)
    serving.run_until_idle()
    (topic,) = serving.call(request, 9, MetadataResponse).topics
    assert topic.is_internal
    assert len(topic.partitions) == 2


def test_without_the_topic_there_are_no_groups() -> None:
    serving = MemoryBroker()
    assert serving.call(joining("g"), 9, JoinGroupResponse).error_code == (
        ErrorCode.NOT_COORDINATOR
    )
    listed = serving.call(ListGroupsRequest(), 4, ListGroupsResponse)
    assert (listed.error_code, listed.groups) == (ErrorCode.NONE, [])


def test_a_failed_shard_lists_no_groups_and_the_other_shards_do() -> None:
    """One of two partitions has a record that cannot be decoded."""
    serving = MemoryBroker(offsets_topic_num_partitions="2")
    find(serving, "any")
    serving.run_until_idle()
    names = {partition_for(name, 2): name for name in ("f", "g")}
    assert all(joined(serving, name).member_id for name in names.values())
    damaged = serving.node.replicas.by_name[OFFSETS, 0]
    data = build([(b"\0\2\0\5g", b"\0\3", (), NOW_MS)])
    serving.node.replicas.append(damaged, ByteRange(data, 0, len(data)), 13)
    serving.node.replicas.appended(damaged)
    serving.run_until_idle()
    serving.disk.locks.clear()  # as the system does for a process that was killed
    again = MemoryBroker(serving.disk)
    asked = joining(names[0])
    assert again.call(asked, 9, JoinGroupResponse).error_code == ErrorCode.NOT_COORDINATOR
    listed = again.call(ListGroupsRequest(), 4, ListGroupsResponse)
    assert listed.error_code == ErrorCode.NONE
    assert [group.group_id for group in listed.groups] == [names[1]]


class Looked(list[str]):
    """A list that counts how often it is iterated."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_filters_of_list_groups_are_parsed_once_for_all_shards() -> None:
    """They may be as long as a request: parsing them for each shard would take seconds."""
    serving = MemoryBroker(offsets_topic_num_partitions="50")
    find(serving, "g")
    serving.run_until_idle()
    assert joined(serving, "g").member_id
    states, types = Looked(["STABLE", "completingrebalance"]), Looked(["Classic"])
    answers: list[ListGroupsResponse] = []
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    serving.node.broker.groups.list_groups(request, answers.append)
    serving.run_until_idle()
    (answer,) = answers
    assert [group.group_id for group in answer.groups] == ["g"]
    assert (states.times, types.times) == (1, 1)


def test_a_group_keeps_its_partition_when_partitions_are_added() -> None:
    """Until a restart, as in Kafka."""
    serving = MemoryBroker(offsets_topic_num_partitions="1")
    find(serving, "g")
    serving.run_until_idle()
    member = joined(serving, "g").member_id
    wider = CreatePartitionsTopic(name=OFFSETS, count=20, assignments=None)
    asked = serving.send(
        CreatePartitionsRequest(topics=[wider], timeout_ms=1000, validate_only=False), 3
    )
    serving.run_until_idle()
    assert asked.answer(CreatePartitionsResponse).results[0].error_code == ErrorCode.NONE
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    assert serving.call(beat, 4, HeartbeatResponse).error_code == ErrorCode.NONE


def test_a_produce_to_the_offsets_topic_is_refused() -> None:
    serving = MemoryBroker()
    find(serving, "g")
    serving.run_until_idle()
    assert serving.produce_and_wait(OFFSETS) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_stable_group_survives_a_restart_of_the_broker() -> None:
    """Also after a crash: its members continue without a rebalance."""
    serving = MemoryBroker()
    find(serving, "g")
    serving.run_until_idle()
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
    serving.run_until_idle()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    for stopped in (False, True):
        if stopped:
            serving.node.stop(lambda: None)
            serving.run_until_idle()
        serving.disk.locks.clear()  # as the system does for a process that was killed
        serving = MemoryBroker(serving.disk)
        assert serving.call(beat, 4, HeartbeatResponse).error_code == ErrorCode.NONE
        assert serving.call(request, 5, SyncGroupResponse).error_code == ErrorCode.NONE


def test_join_group_version_0_uses_the_session_timeout_as_rebalance_timeout() -> None:
    """The first member sends heartbeats but does not join again."""
    serving = MemoryBroker(group_initial_rebalance_delay_ms="0")
    find(serving, "g")
    serving.run_until_idle()
    request = joining("g", instance=None)
    first = serving.send(request, 0)
    serving.run_until_idle()
    serving.pass_time(1)
    member = first.answer(JoinGroupResponse).member_id
    second = serving.send(request, 0)
    serving.run_until_idle()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    for _ in range(3):
        serving.pass_time(3_000)
        answer = serving.call(beat, 0, HeartbeatResponse)
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    serving.pass_time(999)
    assert second.parts is None
    serving.pass_time(1)
    joined = second.answer(JoinGroupResponse)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 2)
    assert [each.member_id for each in joined.members] == [joined.member_id]
    gone = serving.call(beat, 0, HeartbeatResponse)
    assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_whose_joins_have_arrived_together_are_in_one_generation() -> None:
    """Also with a delay of 0: due timers wait for the requests of the same round."""
    serving = MemoryBroker(group_initial_rebalance_delay_ms="0")
    find(serving, "g")
    serving.run_until_idle()
    first = serving.send(joining("g", instance="a"), 9)
    serving.run_until_idle()
    serving.timer.advance_clock(serving.clock.monotonic_ms())
    second = serving.send(joining("g", instance="b"), 9)
    serving.run_until_idle()
    serving.pass_time(0)
    answers = [each.answer(JoinGroupResponse) for each in (first, second)]
    assert [each.generation_id for each in answers] == [1, 1]
    assert len(answers[0].members) == 2
