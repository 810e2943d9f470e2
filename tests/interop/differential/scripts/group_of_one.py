"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup: one member, and non-members."""

from __future__ import annotations

from typing import Any

from interop.differential.peer import Peer
from interop.differential.scripts.group_steps import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    LONG_AGO,
    SYNC,
    alone,
    beating,
    coordinator_found,
    for_version,
    joining,
    leaving,
    member_id,
    syncing,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import JoinGroupRequest
from odradek.protocol.api.leave_group import LeaveGroupRequest
from odradek.protocol.api.sync_group import SyncGroupRequest


def find_coordinator(peer: Peer) -> None:
    """Every kind of key, alone and with others; empty, repeated and unusual keys."""
    coordinator_found(peer)
    for version in peer.each_version(FindCoordinatorRequest):
        if version < 4:
            for key in ("g", "", "ä/€\0"):
                peer.call(f"v{version} {key!r}", FindCoordinatorRequest(key=key), version)
            if version > 0:
                for kind in (2, 3, -1):
                    request = FindCoordinatorRequest(key="g", key_type=kind)
                    peer.call(f"v{version} type {kind}", request, version)
        else:
            for keys in (["g"], [], ["a", "b", "a"], ["", "ä/€\0"]):
                request = FindCoordinatorRequest(coordinator_keys=keys)
                peer.call(f"v{version} {keys}", request, version)
            for kind in (2, 3, -1):
                request = FindCoordinatorRequest(coordinator_keys=["g", "h"], key_type=kind)
                peer.call(f"v{version} type {kind}", request, version)


def strangers(peer: Peer) -> None:
    """Unknown groups, unknown member ids, empty names."""
    coordinator_found(peer)
    requests: list[tuple[str, Any]] = [
        ("no group", joining("nowhere", LONG_AGO)),
        ("static, no group", joining("nowhere", LONG_AGO, instance="i")),
        ("no name", joining("")),
        ("no name, a member", joining("", LONG_AGO)),
        ("no group", syncing("nowhere", 1, LONG_AGO)),
        ("static, no group", syncing("nowhere", 1, LONG_AGO, instance="i")),
        ("no name", syncing("", 1, LONG_AGO)),
        ("no group", beating("nowhere", 1, LONG_AGO)),
        ("static, no group", beating("nowhere", 1, LONG_AGO, "i")),
        ("no name", beating("", 1, LONG_AGO)),
        ("no group", leaving("nowhere", (LONG_AGO, None))),
        ("no name", leaving("", (LONG_AGO, None))),
    ]
    for label, request in requests:
        for version in peer.each_version(type(request)):
            kind = type(request).__name__
            peer.call(f"{kind} v{version}: {label}", for_version(request, version), version)
    peer.call("nobody leaves", leaving("nowhere"), LEAVE)
    peer.call("two leave", leaving("nowhere", ("a", None), ("", "i")), LEAVE)


def lives(peer: Peer) -> None:
    """The life of a single member, in every version of every request."""
    coordinator_found(peer)
    for version in peer.each_version(JoinGroupRequest):
        group = f"life {version}"
        join = peer.call(f"{group}: joins", for_version(joining(group), version), version)
        if join.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            again = joining(group, join.member_id)
            join = peer.call(f"{group}: joins with its id", again, version)
        member = join.member_id
        for sync_version in peer.each_version(SyncGroupRequest):
            label = f"{group}: syncs v{sync_version}"
            peer.call(label, syncing(group, 1, member, {member: b"all"}), sync_version)
        for beat_version in peer.each_version(HeartbeatRequest):
            label = f"{group}: beats v{beat_version}"
            peer.call(label, beating(group, 1, member), beat_version)
        again = for_version(joining(group, member), version)
        peer.call(f"{group}: leads again", again, version)
        peer.call(f"{group}: beats before it syncs", beating(group, 2, member), HEARTBEAT)
        peer.call(f"{group}: syncs again", syncing(group, 2, member, {member: b"x"}), SYNC)
    for version in peer.each_version(LeaveGroupRequest):
        group = f"left {version}"
        member = alone(peer, group)
        request = for_version(leaving(group, (member, None)), version)
        peer.call(f"{group}: leaves", request, version)
        peer.call(f"{group}: leaves again", request, version)
        peer.call(f"{group}: beats", beating(group, 1, member), HEARTBEAT)
        peer.call(f"{group}: syncs", syncing(group, 1, member), SYNC)
        peer.call(f"{group}: joins", joining(group, member), JOIN)


def wrong_tokens(peer: Peer) -> None:
    """A stable group of one, and a new one: other generations, members, protocols, instances."""
    coordinator_found(peer)
    member = alone(peer, "stable")
    for generation in (-1, 0, 2, 2**31 - 1):
        peer.call(f"beats in {generation}", beating("stable", generation, member), HEARTBEAT)
        peer.call(f"syncs in {generation}", syncing("stable", generation, member), SYNC)
    for other in ("", LONG_AGO):
        peer.call(f"beats as {other!r}", beating("stable", 1, other), HEARTBEAT)
        peer.call(f"syncs as {other!r}", syncing("stable", 1, other), SYNC)
    peer.call("joins as another", joining("stable", LONG_AGO), JOIN)
    peer.call("joins as an instance", joining("stable", member, instance="i"), JOIN)
    peer.call("beats as an instance", beating("stable", 1, member, "i"), HEARTBEAT)
    peer.call("syncs as an instance", syncing("stable", 1, member, instance="i"), SYNC)
    peer.call("leaves as an instance", leaving("stable", (member, "i")), LEAVE)
    for kind, name in (
        ("consumer", "range"),
        ("connect", "range"),
        ("consumer", "other"),
        ("", ""),
        (None, "range"),
        ("consumer", None),
        (None, None),
    ):
        request = syncing("stable", 1, member, protocol_type=kind, protocol=name)
        for version in (4, 5):
            peer.call(f"syncs v{version} {kind} {name}", request, version)
    pending = member_id(peer, "stable")
    peer.call("pending beats", beating("stable", 1, pending), HEARTBEAT)
    peer.call("pending syncs", syncing("stable", 1, pending), SYNC)
    peer.call("pending joins as an instance", joining("stable", pending, instance="i"), JOIN)
    peer.call("pending leaves", leaving("stable", (pending, None)), LEAVE)
    peer.call("and leaves again", leaving("stable", (pending, None)), LEAVE)
    peer.call("what the member hears", beating("stable", 1, member), HEARTBEAT)
