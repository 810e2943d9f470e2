"""Requests of a group member, in a line each."""

from __future__ import annotations

from typing import Any

from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import JoinGroupRequest
from odradek.protocol.api.leave_group import LeaveGroupRequest
from odradek.protocol.api.offset_commit import OffsetCommitRequest
from odradek.protocol.api.offset_fetch import OffsetFetchRequest
from odradek.protocol.api.sync_group import SyncGroupRequest
from odradek.protocol.consumer_protocol import decode_assignment, decode_subscription


def describe(request: Any) -> str:
    """Name and what matters."""
    name = type(request).__name__.removesuffix("Request")
    return f"{name} {text_of(request)}"


def text_of(request: Any) -> str:
    match request:
        case FindCoordinatorRequest():
            return f"of {', '.join(request.coordinator_keys)}"
        case JoinGroupRequest():
            protocols = "; ".join(subscription(each) for each in request.protocols)
            reason = f", because: {request.reason}" if request.reason else ""
            return f"{who(request)}: {protocols}{reason}"
        case SyncGroupRequest():
            return f"{signed(request)}{assignments(request)}"
        case HeartbeatRequest():
            return signed(request)
        case LeaveGroupRequest():
            member = request.members[0]
            return f"{who(member)}, because: {member.reason}"
        case OffsetCommitRequest():
            offsets = ", ".join(
                f"{topic.name}-{each.partition_index}={each.committed_offset}"
                for topic in request.topics
                for each in topic.partitions
            )
            generation = request.generation_id_or_member_epoch
            as_whom = (
                "from outside" if generation < 0 else f"generation {generation} {who(request)}"
            )
            return f"{as_whom}: {offsets}"
        case OffsetFetchRequest():
            stable = "stable " if request.require_stable else ""
            topics = request.groups[0].topics or []
            wanted = [f"{t.name}-{number}" for t in topics for number in t.partition_indexes]
            return f"{stable}{', '.join(wanted)}"
    raise AssertionError(request)


def who(request: Any) -> str:
    """Member and instance."""
    member = f"as {request.member_id}" if request.member_id else "as a new member"
    return f"{member} ({request.group_instance_id})" if request.group_instance_id else member


def signed(request: Any) -> str:
    return f"generation {request.generation_id} {who(request)}"


def subscription(protocol: Any) -> str:
    """One assignor, with what the member says under it."""
    said = decode_subscription(protocol.metadata)
    owned = ""
    if said.owned_partitions:
        owned = f", owns {' '.join(map(str, said.owned_partitions))} of {said.generation_id}"
    rack = f", in rack {said.rack_id}" if said.rack_id else ""
    return f"{protocol.name} wants {' '.join(said.topics) or 'nothing'}{owned}{rack}"


def assignments(request: SyncGroupRequest) -> str:
    """What the leader gives to whom."""
    if not request.assignments:
        return ""
    given = (
        f"{each.member_id} {' '.join(map(str, decode_assignment(each.assignment).partitions))}"
        for each in request.assignments
    )
    return ": " + "; ".join(each.rstrip() for each in given)
