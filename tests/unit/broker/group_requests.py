"""Requests of consumer groups to a `MemoryBroker`: join, sync, leave, commit and fetch offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from unit.broker.memory_broker import MemoryBroker

MINUTE_MS = 60_000
SETTINGS = {
    "offsets_topic_num_partitions": "2",
    "offsets_retention_minutes": "60",
    "offsets_retention_check_interval_ms": str(MINUTE_MS),
    "group_initial_rebalance_delay_ms": "0",
    "group_max_session_timeout_ms": str(1 << 30),
}
Offsets = dict[tuple[str, int], int]


def serving(disk: MemoryDisk | None = None, /, **settings: str) -> MemoryBroker:
    """A broker with `__consumer_offsets`."""
    node = MemoryBroker(disk, **{**SETTINGS, **settings})
    asked = FindCoordinatorRequest(coordinator_keys=["any"])
    found = node.call(asked, 4, FindCoordinatorResponse).coordinators[0]
    assert found.error_code == ErrorCode.NONE
    return node


def commit(
    node: MemoryBroker,
    group: str,
    offsets: Offsets,
    *,
    generation: int = -1,
    member: str = "",
    version: int = 9,
    retention_ms: int = -1,
    metadata: str = "",
) -> set[int]:
    """Commit offsets; return the errors of all partitions."""
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
    response = node.call(request, version, OffsetCommitResponse)
    return {p.error_code for topic in response.topics for p in topic.partitions}


def committed(node: MemoryBroker, group: str) -> Offsets:
    """All committed offsets of a group."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (found,) = node.call(asked, 9, OffsetFetchResponse).groups
    assert found.error_code == ErrorCode.NONE
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
    }


def groups(node: MemoryBroker) -> list[str]:
    found = node.call(ListGroupsRequest(), 4, ListGroupsResponse)
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
    """A join of a consumer with these topics or this metadata; its session does not expire."""
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


def with_id(node: MemoryBroker, join: JoinGroupRequest) -> JoinGroupRequest:
    """Join again with the member id of a MEMBER_ID_REQUIRED response."""
    answer = node.call(join, 9, JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return replace(join, member_id=answer.member_id)


def assign(
    node: MemoryBroker,
    group: str,
    leader: str,
    generation: int = 1,
    protocol_type: str = "consumer",
) -> None:
    """Sync as the leader with an empty assignment, which makes the group stable."""
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=leader,
        protocol_type=protocol_type,
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=leader, assignment=b"")],
    )
    assert node.call(request, 5, SyncGroupResponse).error_code == ErrorCode.NONE


def stable_member(node: MemoryBroker, group: str, *topics: str, **fields: Any) -> str:
    """A stable group of one member, with these topics or this metadata (see `joining`)."""
    asked = node.send(with_id(node, joining(group, *topics, **fields)), 9)
    node.run_until_idle()
    node.pass_time(1)
    member = asked.answer(JoinGroupResponse).member_id
    assign(node, group, member, protocol_type=fields.get("protocol_type", "consumer"))
    return member


def leave(node: MemoryBroker, group: str, member: str = "", instance: str | None = None) -> None:
    """Remove a member by its member id or its instance id."""
    who = MemberIdentity(member_id=member, group_instance_id=instance)
    answer = node.call(LeaveGroupRequest(group_id=group, members=[who]), 5, LeaveGroupResponse)
    assert answer.members[0].error_code == ErrorCode.NONE


def delete(node: MemoryBroker, topic: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=1000
    )
    assert node.call(request, 6, DeleteTopicsResponse).responses[0].error_code == ErrorCode.NONE
