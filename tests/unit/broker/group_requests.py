"""A broker with a coordinator of groups: what is committed there, and how."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from serving import Serving

from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from odradek.protocol.api.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.consumer_protocol import Subscription, encode_subscription

MINUTE_MS = 60_000
SETTINGS = {
    "offsets_topic_num_partitions": "2",
    "offsets_retention_minutes": "60",
    "offsets_retention_check_interval_ms": str(MINUTE_MS),
    "group_initial_rebalance_delay_ms": "0",
    "group_max_session_timeout_ms": str(1 << 30),
}
Offsets = dict[tuple[str, int], int]


def serving(disk: MemoryDisk | None = None, /, **settings: str) -> Serving:
    """A broker with a coordinator."""
    node = Serving(disk, **{**SETTINGS, **settings})
    asked = FindCoordinatorRequest(coordinator_keys=["any"])
    found = node.ask(asked, 4, FindCoordinatorResponse).coordinators[0]
    assert found.error_code == ErrorCode.NONE
    return node


def commit(
    node: Serving,
    group: str,
    offsets: Offsets,
    *,
    generation: int = -1,
    member: str = "",
    version: int = 9,
    retention_ms: int = -1,
    metadata: str = "",
) -> set[int]:
    """Commit, and the errors of all partitions."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    response = node.ask(request, version, OffsetCommitResponse)
    return {p.error_code for topic in response.topics for p in topic.partitions}


def committed(node: Serving, group: str) -> Offsets:
    """Everything that the group has committed."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (found,) = node.ask(asked, 9, OffsetFetchResponse).groups
    assert found.error_code == ErrorCode.NONE
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
    }


def groups(node: Serving) -> list[str]:
    found = node.ask(ListGroupsRequest(), 4, ListGroupsResponse)
    return sorted(group.group_id for group in found.groups)


def joining(
    group: str,
    *topics: str,
    protocol_type: str = "consumer",
    metadata: bytes | None = None,
    instance: str | None = None,
    session_ms: int = 1 << 29,
    rebalance_ms: int = 1000,
) -> JoinGroupRequest:
    """A consumer that reads these topics, or says something else; its session is as good as
    endless.
    """
    if metadata is None:
        metadata = encode_subscription(Subscription(topics))
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id="",
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def with_id(node: Serving, join: JoinGroupRequest) -> JoinGroupRequest:
    """The same join, with the id that the coordinator wants it to come back with."""
    answer = node.ask(join, 9, JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return replace(join, member_id=answer.member_id)


def assign(
    node: Serving,
    group: str,
    leader: str,
    generation: int = 1,
    protocol_type: str = "consumer",
) -> None:
    """The leader of a generation assigns nothing to anybody: the group is stable."""
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=leader,
        protocol_type=protocol_type,
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=leader, assignment=b"")],
    )
    assert node.ask(request, 5, SyncGroupResponse).error_code == ErrorCode.NONE


def stable_member(node: Serving, group: str, *topics: str, **said: Any) -> str:
    """A group of one, which reads these topics or says something else (see `joining`)."""
    asked = node.send(with_id(node, joining(group, *topics, **said)), 9)
    node.settle()
    node.pass_time(1)
    member = asked.answer(JoinGroupResponse).member_id
    assign(node, group, member, protocol_type=said.get("protocol_type", "consumer"))
    return member


def leave(node: Serving, group: str, member: str = "", instance: str | None = None) -> None:
    """A member leaves, or somebody takes an instance out."""
    who = MemberIdentity(member_id=member, group_instance_id=instance)
    answer = node.ask(LeaveGroupRequest(group_id=group, members=[who]), 5, LeaveGroupResponse)
    assert answer.members[0].error_code == ErrorCode.NONE


def delete(node: Serving, topic: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=1000
    )
    assert node.ask(request, 6, DeleteTopicsResponse).responses[0].error_code == ErrorCode.NONE
