"""Requests of group members in the newest versions, and steps common to scripts about groups."""

from __future__ import annotations

import struct
from typing import Any

from interop.differential.peer import Peer
from odradek.model.errors import ErrorCode
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
SESSION_MS, REBALANCE_MS = 60_000, 60_000
LONG_AGO = "script-00000000-0000-0000-0000-000000000000"


def subscription(*topics: str) -> bytes:
    """Return the subscription of a consumer in version 0.

    Kafka's coordinator decodes it, and hangs if it cannot.
    """
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


TOPICS, MORE, OTHERS = subscription("a"), subscription("a", "b"), subscription("c")


# -- requests --------------------------------------------------------------------------------------


def joining(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: tuple[str, ...] = ("range",),
    metadata: bytes = TOPICS,
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
        reason="the script wants it",
    )


def syncing(
    group: str,
    generation: int,
    member_id: str,
    assignments: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol: str | None = "range",
    protocol_type: str | None = "consumer",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ],
    )


def beating(
    group: str, generation: int, member_id: str, instance: str | None = None
) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
    )


def leaving(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=group,
        members=[
            MemberIdentity(member_id=member, group_instance_id=instance, reason="enough")
            for member, instance in members
        ],
    )


def for_version(request: Any, version: int) -> Any:
    """Return the request with only the fields of an older version."""
    if isinstance(request, LeaveGroupRequest) and version < 3:
        return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)
    if isinstance(request, JoinGroupRequest) and version < 5:
        request.group_instance_id = None
    if isinstance(request, (SyncGroupRequest, HeartbeatRequest)) and version < 3:
        request.group_instance_id = None
    return request


# -- steps -----------------------------------------------------------------------------------------


def coordinator_found(peer: Peer) -> None:
    """Find the coordinator. Kafka creates the topic of offsets at the first request and has it
    retried.
    """
    request = FindCoordinatorRequest(coordinator_keys=["any"])
    peer.until(lambda: peer.ask(request, 4).coordinators[0].error_code == ErrorCode.NONE)
    rough = leaving("any", ("nobody", None))
    peer.until(lambda: peer.ask(rough, LEAVE).error_code == ErrorCode.NONE)


def member_id(peer: Peer, group: str, **said: Any) -> str:
    """Return a member id to join with."""
    response: JoinGroupResponse = peer.ask(joining(group, **said), JOIN)
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED, response
    return response.member_id


def alone(peer: Peer, group: str, *, stable: bool = True, **said: Any) -> str:
    """Make a group of one in its first generation; return its member."""
    member = member_id(peer, group, **said)
    response: JoinGroupResponse = peer.ask(joining(group, member, **said), JOIN)
    assert response.generation_id == 1, response
    if stable:
        peer.ask(syncing(group, 1, member, {member: b"all"}), SYNC)
    return member


def pair(peer: Peer, group: str, *, stable: bool = True) -> tuple[str, str]:
    """Make a group of two in its second generation; return the leader and the other member."""
    leader = alone(peer, group)
    follower = member_id(peer, group)
    joined = peer.begin(joining(group, follower), JOIN)
    until_rebalancing(peer, group, 1, leader)
    assert peer.ask(joining(group, leader), JOIN).generation_id == 2
    joined.end_unnoted()
    if stable:
        peer.ask(syncing(group, 2, leader, {leader: b"one", follower: b"two"}), SYNC)
        peer.ask(syncing(group, 2, follower), SYNC)
    return leader, follower


def until_rebalancing(peer: Peer, group: str, generation: int, member: str) -> None:
    """Wait until a join sent on another connection has arrived."""
    request = beating(group, generation, member)
    rebalancing = ErrorCode.REBALANCE_IN_PROGRESS
    peer.until(lambda: peer.ask(request, HEARTBEAT).error_code == rebalancing)
