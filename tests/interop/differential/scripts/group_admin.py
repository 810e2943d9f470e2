"""DescribeGroups, ListGroups, DeleteGroups, and session timeouts."""

from __future__ import annotations

from interop.differential.peer import Peer
from interop.differential.scripts.group_steps import (
    HEARTBEAT,
    JOIN,
    MORE,
    SYNC,
    alone,
    beating,
    coordinator_found,
    joining,
    leaving,
    member_id,
    pair,
    syncing,
    until_rebalancing,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse

DESCRIBE, LIST, DELETE = 6, 5, 2
SHORT_SESSION_MS = 3_000
"""Short enough to wait for, and long enough for the requests before it ends, on a busy machine."""


def in_every_state(peer: Peer) -> list[str]:
    """Groups without and with members, in each lasting state."""
    member_id(peer, "pending only")
    left = alone(peer, "left")
    peer.ask(leaving("left", (left, None)), 5)
    leader, follower = pair(peer, "stable")
    del leader, follower
    pair(peer, "completing", stable=False)
    leader, follower = pair(peer, "preparing")
    peer.begin(joining("preparing", follower, metadata=MORE), JOIN)
    until_rebalancing(peer, "preparing", 2, leader)
    static = peer.ask(joining("static", instance="i"), JOIN).member_id
    peer.ask(syncing("static", 1, static, {static: b"all"}, instance="i"), SYNC)
    worker = member_id(peer, "workers", protocol_type="connect", protocols=("sessioned",))
    join = joining("workers", worker, protocol_type="connect", protocols=("sessioned",))
    peer.ask(join, JOIN)
    peer.call("speaks nothing", joining("refused", protocols=()), JOIN)
    groups = [
        "pending only",
        "left",
        "stable",
        "completing",
        "preparing",
        "static",
        "workers",
        "refused",
    ]
    # Kafka answers the first join of a group before the record that makes the group is committed,
    # and lists and describes what is committed.
    peer.ask_until(
        ListGroupsRequest(),
        LIST,
        lambda listed: {each.group_id for each in listed.groups} >= set(groups),
    )
    return groups


def describe(peer: Peer) -> None:
    """Each state in each version; unknown groups, empty names, repeated names."""
    coordinator_found(peer)
    groups = in_every_state(peer)
    for version in peer.each_version(DescribeGroupsRequest):
        for group in [*groups, "not there", ""]:
            request = DescribeGroupsRequest(groups=[group])
            peer.call(f"v{version} {group!r}", request, version)
        peer.call(f"v{version} none", DescribeGroupsRequest(groups=[]), version)
        request = DescribeGroupsRequest(groups=["left", "not there", "left"])
        peer.call(f"v{version} several", request, version)
        if version >= 3:
            request = DescribeGroupsRequest(
                groups=["left", "not there"], include_authorized_operations=True
            )
            peer.call(f"v{version} operations", request, version)


def list_groups(peer: Peer) -> None:
    """All groups, and by state and type, in any case of letters, known or not."""
    coordinator_found(peer)
    in_every_state(peer)
    for version in peer.each_version(ListGroupsRequest):
        peer.call(f"v{version} all", ListGroupsRequest(), version)
    for states in (
        ["Stable"],
        ["stable"],
        ["Empty", "PreparingRebalance"],
        ["Dead"],
        ["CompletingRebalance", "Unheard-of"],
        ["Assigning"],
        [""],
    ):
        for version in (4, 5):
            request = ListGroupsRequest(states_filter=states)
            peer.call(f"v{version} {states}", request, version)
    for types in (["classic"], ["Classic"], ["consumer"], ["share", "CLASSIC"], ["odd"], [""]):
        peer.call(f"types {types}", ListGroupsRequest(types_filter=types), LIST)
    both = ListGroupsRequest(states_filter=["empty"], types_filter=["classic"])
    peer.call("both", both, LIST)


def delete(peer: Peer) -> None:
    """Deletion in each state, repeated, of unknown groups; the group's description afterwards."""
    coordinator_found(peer)
    groups = in_every_state(peer)
    for version in peer.each_version(DeleteGroupsRequest):
        for group in ["stable", "completing", "preparing", "static", "not there", ""]:
            request = DeleteGroupsRequest(groups_names=[group])
            peer.call(f"v{version} {group!r}", request, version)
        peer.call(f"v{version} none", DeleteGroupsRequest(groups_names=[]), version)
        group = f"left {version}"
        member = alone(peer, group)
        peer.ask(leaving(group, (member, None)), 5)
        for label in ("once", "again"):
            request = DeleteGroupsRequest(groups_names=[group])
            peer.call(f"v{version} {label}", request, version)
    several = DeleteGroupsRequest(groups_names=[*groups, "left", "not there"])
    peer.call("all of them", several, DELETE)
    peer.call("those that are left", ListGroupsRequest(), LIST)
    peer.call("a new one", joining("left", "somebody"), JOIN)
    member = alone(peer, "left")
    peer.call("in its first generation", beating("left", 1, member), HEARTBEAT)


def state(peer: Peer, group: str) -> str:
    found: ListGroupsResponse = peer.ask(ListGroupsRequest(), LIST)
    return next((each.group_state for each in found.groups if each.group_id == group), "")


def sessions(peer: Peer) -> None:
    """Silent members: a stable one, one of two, one that never joined, one that waits."""
    coordinator_found(peer)
    member = alone(peer, "silent", session_ms=SHORT_SESSION_MS)
    peer.until(lambda: state(peer, "silent") == "Empty")
    peer.call("silent: beats too late", beating("silent", 1, member), HEARTBEAT)
    peer.call("silent: described", DescribeGroupsRequest(groups=["silent"]), DESCRIBE)

    leader = alone(peer, "one of two")
    dying = member_id(peer, "one of two", session_ms=SHORT_SESSION_MS)
    join = joining("one of two", dying, session_ms=SHORT_SESSION_MS)
    begun = peer.begin(join, JOIN)
    until_rebalancing(peer, "one of two", 1, leader)
    peer.ask(joining("one of two", leader), JOIN)
    begun.end_unnoted()
    given = {leader: b"1", dying: b"2"}
    peer.ask(syncing("one of two", 2, leader, given), SYNC)
    peer.ask(syncing("one of two", 2, dying), SYNC)
    until_rebalancing(peer, "one of two", 2, leader)
    peer.call("one of two: the other joins", joining("one of two", leader), JOIN)
    peer.call("one of two: too late", joining("one of two", dying), JOIN)

    member_id(peer, "never came", session_ms=SHORT_SESSION_MS)
    waiting = member_id(peer, "never came")
    begun = peer.begin(joining("never came", waiting), JOIN)
    begun.end("never came: the other need not wait")

    first = alone(peer, "does not sync", rebalance_ms=SHORT_SESSION_MS, stable=False)
    expelled = ErrorCode.UNKNOWN_MEMBER_ID
    request = beating("does not sync", 1, first)
    peer.until(lambda: peer.ask(request, HEARTBEAT).error_code == expelled)
    peer.call("does not sync: described", DescribeGroupsRequest(groups=["does not sync"]), DESCRIBE)

    leader = alone(peer, "does not join", rebalance_ms=SHORT_SESSION_MS)
    other = member_id(peer, "does not join", rebalance_ms=SHORT_SESSION_MS)
    join = joining("does not join", other, rebalance_ms=SHORT_SESSION_MS)
    peer.begin(join, JOIN).end("does not join: the other goes on")
    peer.call("does not join: late", joining("does not join", leader), JOIN)

    instance = peer.ask(joining("static", instance="i", rebalance_ms=SHORT_SESSION_MS), JOIN)
    peer.ask(syncing("static", 1, instance.member_id, instance="i"), SYNC)
    other = member_id(peer, "static", rebalance_ms=SHORT_SESSION_MS)
    join = joining("static", other, rebalance_ms=SHORT_SESSION_MS)
    peer.begin(join, JOIN).end("static: stays though it did not join")
    peer.call("static: its place", beating("static", 2, instance.member_id, "i"), HEARTBEAT)
