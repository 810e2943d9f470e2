"""Requests of a group member and their responses, for every version that a broker may support.

Versions differ in shape; callers see no difference: JoinGroup and SyncGroup (instance ids from 5
and 3), LeaveGroup (several members from 3), OffsetFetch (several groups from 8). Topics go by name,
so OffsetCommit and OffsetFetch are limited to version 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.group.member import Generation, GroupRebalanceConfig
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE, group_by_topic

BY_NAME_MAX = 9
"""From the next version on, OffsetCommit and OffsetFetch name topics by id."""
REASON_MAX = 255
"""How many characters of a reason are sent (KIP-800)."""


def join_group(
    config: GroupRebalanceConfig,
    member_id: str,
    protocols: Sequence[tuple[str, bytes]],
    reason: str,
) -> RequestBuilder:
    """JoinGroup, with a subscription for each assignor in the order of preference."""
    request = JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        reason=reason[:REASON_MAX] or None,
    )
    return same_in_all_versions(request, 0 if config.is_dynamic else 5)


def sync_group(
    config: GroupRebalanceConfig, generation: Generation, assignments: Mapping[str, bytes]
) -> RequestBuilder:
    """SyncGroup. The leader sends the assignments of all members, the others send none."""
    request = SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=data)
            for member_id, data in assignments.items()
        ],
    )
    return same_in_all_versions(request, 0 if config.is_dynamic else 3)


def heartbeat(config: GroupRebalanceConfig, generation: Generation) -> RequestBuilder:
    """Heartbeat of a member."""
    request = HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )
    return same_in_all_versions(request, 0 if config.is_dynamic else 3)


def leave_group(
    config: GroupRebalanceConfig, generation: Generation, reason: str
) -> RequestBuilder:
    """LeaveGroup of one member."""

    def build(version: int) -> LeaveGroupRequest:
        member_id = generation.member_id
        if version < 3:
            return LeaveGroupRequest(group_id=config.group_id, member_id=member_id)
        identity = MemberIdentity(
            member_id=member_id,
            group_instance_id=config.group_instance_id,
            reason=reason[:REASON_MAX],
        )
        return LeaveGroupRequest(group_id=config.group_id, members=[identity])

    return RequestBuilder(LeaveGroupRequest, build)


def leave_error(response: LeaveGroupResponse) -> int:
    """Return the error code of the one member that was to leave."""
    if response.error_code == ErrorCode.NONE and response.members:
        return response.members[0].error_code
    return response.error_code


def offset_commit(
    config: GroupRebalanceConfig,
    generation: Generation,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    as_member: bool,
) -> RequestBuilder:
    """OffsetCommit, as a member of the generation or from outside the group."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, partition), (offset, metadata, leader_epoch) in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    instance_id = config.group_instance_id if as_member else None
    request = OffsetCommitRequest(
        group_id=config.group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )
    return same_in_all_versions(request, 0 if instance_id is None else 7, BY_NAME_MAX)


def commit_errors(response: OffsetCommitResponse) -> list[tuple[TopicPartition, ErrorCode]]:
    """Return the partitions that were not committed, with their errors."""
    return [
        (TopicPartition(topic.name, partition.partition_index), error_code(partition.error_code))
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code != ErrorCode.NONE
    ]


def offset_fetch(group_id: str, partitions: Iterable[TopicPartition]) -> RequestBuilder:
    """OffsetFetch of committed offsets, excluding those that an open transaction may still change.

    Brokers before KIP-447 (version 7) cannot wait for transactions; they are asked without.
    """
    by_names = group_by_topic(partitions)

    def build(version: int) -> OffsetFetchRequest:
        if version < 8:
            old = [
                OffsetFetchRequestTopic(name=topic.topic, partition_indexes=topic.partitions)
                for topic in by_names
            ]
            return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=version >= 7)
        topics = [
            OffsetFetchRequestTopics(name=topic.topic, partition_indexes=topic.partitions)
            for topic in by_names
        ]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        return OffsetFetchRequest(groups=[group], require_stable=True)

    return RequestBuilder(OffsetFetchRequest, build, max_version=BY_NAME_MAX)


class CommittedOffset(NamedTuple):
    """The result for one partition; `found` is None if nothing was committed."""

    partition: TopicPartition
    error: ErrorCode
    found: OffsetAndMetadata | None


def fetch_answer(response: OffsetFetchResponse) -> tuple[ErrorCode, list[CommittedOffset]]:
    """Return the group's error and the results per partition."""
    answer = response.groups[0] if response.groups else response
    rows = [
        CommittedOffset(
            TopicPartition(topic.name, row.partition_index),
            error_code(row.error_code),
            OffsetAndMetadata(row.committed_offset, row.metadata or "", row.committed_leader_epoch)
            if row.committed_offset >= 0
            else None,
        )
        for topic in answer.topics
        for row in topic.partitions
    ]
    return error_code(answer.error_code), rows


def same_in_all_versions(
    request: object, min_version: int, max_version: int = 32767
) -> RequestBuilder:
    """Return a builder whose request is the same in every version from `min_version` on."""
    return RequestBuilder(
        type(request), lambda _: request, min_version=min_version, max_version=max_version
    )
