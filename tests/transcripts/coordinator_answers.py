"""Answers of a coordinator, from the words of a transcript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.api.leave_group import LeaveGroupResponse
from odradek.protocol.api.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.protocol.api.sync_group import SyncGroupResponse
from odradek.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)

Values = dict[str, str]


def partitions(text: str) -> list[TopicPartition]:
    """`t-0,t-1`."""
    parts = (each.rpartition("-") for each in text.split(",") if each)
    return [TopicPartition(topic, int(number)) for topic, _, number in parts]


def find_coordinator(code: ErrorCode, values: Values) -> FindCoordinatorResponse:
    """`node=1`."""
    node = int(values.get("node", -1))
    found = Coordinator(key="g", node_id=node, host="broker", port=9092 + node, error_code=code)
    return FindCoordinatorResponse(coordinators=[found])


def join_group(code: ErrorCode, values: Values) -> JoinGroupResponse:
    """`generation=1 member=m1 leader=m1 protocol=range m1=t,u owned.m1=t-0 skip=yes`."""
    generation = int(values.pop("generation", -1))
    member, leader = values.pop("member", ""), values.pop("leader", "")
    protocol, skip = values.pop("protocol", "range"), values.pop("skip", "no") == "yes"
    members = [
        JoinGroupResponseMember(
            member_id=name,
            group_instance_id=values.get(f"instance.{name}"),
            metadata=encode_subscription(
                Subscription(
                    topics.split(","),
                    owned_partitions=partitions(values.get(f"owned.{name}", "")),
                    generation_id=generation - 1,
                )
            ),
        )
        for name, topics in values.items()
        if "." not in name
    ]
    return JoinGroupResponse(
        error_code=code,
        generation_id=generation,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        leader=leader,
        skip_assignment=skip,
        member_id=member,
        members=members,
    )


def sync_group(code: ErrorCode, values: Values) -> SyncGroupResponse:
    """`assigned=t-0,t-1`."""
    return SyncGroupResponse(
        error_code=code,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=values.get("protocol"),
        assignment=encode_assignment(Assignment(partitions(values.get("assigned", "")))),
    )


def offset_commit(code: ErrorCode, values: Values) -> OffsetCommitResponse:
    """`t-0=CODE`; without any, `error` of one partition."""
    rows = {partitions(name)[0]: ErrorCode[text] for name, text in values.items()}
    rows = rows or {TopicPartition("t", 0): code}
    topics: dict[str, OffsetCommitResponseTopic] = {}
    for (name, number), error in rows.items():
        topic = topics.setdefault(name, OffsetCommitResponseTopic(name=name, partitions=[]))
        topic.partitions.append(
            OffsetCommitResponsePartition(partition_index=number, error_code=error)
        )
    return OffsetCommitResponse(topics=list(topics.values()))


def offset_fetch(code: ErrorCode, values: Values) -> OffsetFetchResponse:
    """`t-0=5 t-1=-1 t-2=UNSTABLE_OFFSET_COMMIT`."""
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for name, text in values.items():
        topic, number = partitions(name)[0]
        is_offset = text.lstrip("-").isdigit()
        topics.setdefault(topic, OffsetFetchResponseTopics(name=topic, partitions=[]))
        topics[topic].partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=number,
                committed_offset=int(text) if is_offset else -1,
                metadata="",
                error_code=ErrorCode.NONE if is_offset else ErrorCode[text],
            )
        )
    group = OffsetFetchResponseGroup(group_id="g", topics=list(topics.values()), error_code=code)
    return OffsetFetchResponse(groups=[group])


ANSWERS: dict[str, Callable[[ErrorCode, Values], Any]] = {
    "FindCoordinator": find_coordinator,
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": lambda code, _: HeartbeatResponse(error_code=code),
    "LeaveGroup": lambda code, _: LeaveGroupResponse(error_code=code),
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
}
