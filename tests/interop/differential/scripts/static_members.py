"""Static members (KIP-345): instances that return, and fencing of their predecessors."""

from __future__ import annotations

from typing import Any

from interop.differential.peer import Peer
from interop.differential.scripts.group_steps import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    MORE,
    SYNC,
    alone,
    beating,
    coordinator_found,
    joining,
    leaving,
    syncing,
    until_rebalancing,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import JoinGroupRequest


def returning(peer: Peer) -> None:
    """Instances that return before, during and after a generation; predecessors are fenced."""
    coordinator_found(peer)
    for version in peer.each_version(JoinGroupRequest, since=5):
        group = f"static {version}"
        first = peer.call(f"{group}: joins", joining(group, instance="i"), version).member_id
        sync = syncing(group, 1, first, {first: b"all"}, instance="i")
        peer.call(f"{group}: syncs", sync, SYNC)
        second = peer.call(f"{group}: comes back", joining(group, instance="i"), version).member_id
        ghost(peer, group, first)
        sync = syncing(group, 1, second, instance="i")
        peer.call(f"{group}: has what it had", sync, SYNC)
        peer.call(f"{group}: beats", beating(group, 1, second, "i"), HEARTBEAT)
        peer.call(f"{group}: beats without saying who", beating(group, 1, second), HEARTBEAT)
        peer.call(f"{group}: joins again", joining(group, second, instance="i"), version)
        changed = joining(group, instance="i", metadata=MORE)
        third = peer.call(f"{group}: comes back while completing", changed, version).member_id
        ghost(peer, group, second)
        peer.call(f"{group}: leaves", leaving(group, ("", "i"), ("", "j")), LEAVE)
        peer.call(f"{group}: has left", beating(group, 3, third, "i"), HEARTBEAT)
    fencing(peer)
    returning_leader(peer)


def ghost(peer: Peer, group: str, member: str) -> None:
    """The answers to the predecessor of an instance."""
    where = f"{group}: {len(peer.steps)}"
    peer.call(f"{where} ghost joins", joining(group, member, instance="i"), JOIN)
    peer.call(f"{where} ghost joins as if dynamic", joining(group, member), JOIN)
    peer.call(f"{where} ghost beats", beating(group, 1, member, "i"), HEARTBEAT)
    peer.call(f"{where} ghost beats as if dynamic", beating(group, 1, member), HEARTBEAT)
    peer.call(f"{where} ghost syncs", syncing(group, 1, member, instance="i"), SYNC)
    peer.call(f"{where} ghost leaves", leaving(group, (member, "i")), LEAVE)


def fencing(peer: Peer) -> None:
    """A predecessor that waits for a join or a sync is answered at once."""
    leader = alone(peer, "fenced")
    waiting = peer.begin(joining("fenced", instance="i"), JOIN)
    until_rebalancing(peer, "fenced", 1, leader)
    second = peer.begin(joining("fenced", instance="i"), JOIN)
    waiting.end("the first incarnation joins in vain")
    second.waits("the second waits")
    peer.call("the leader joins", joining("fenced", leader), JOIN)
    member = second.end("the second has joined").member_id
    waiting = peer.begin(syncing("fenced", 2, member, instance="i"), SYNC)
    waiting.waits("the second syncs")
    third = peer.begin(joining("fenced", instance="i"), JOIN)
    waiting.end("the second syncs in vain")
    third.waits("the third waits")
    peer.call("the leader has to join again", beating("fenced", 2, leader), HEARTBEAT)
    peer.call("the leader joins again", joining("fenced", leader), JOIN)
    third.end("the third has joined")


def returning_leader(peer: Peer) -> None:
    """A static leader with a follower: leader, assignments, and a changed protocol."""
    for version in peer.each_version(JoinGroupRequest, since=5):
        group = f"leader returns {version}"
        said: dict[str, Any] = {"protocols": ("a", "b")}
        leader = peer.ask(joining(group, instance="L", **said), JOIN).member_id
        peer.ask(syncing(group, 1, leader, {leader: b"1"}, instance="L", protocol="a"), SYNC)
        joined = peer.begin(joining(group, instance="F", **said), JOIN)
        until_rebalancing(peer, group, 1, leader)
        peer.ask(joining(group, leader, instance="L", **said), JOIN)
        follower = joined.end(f"{group}: follower").member_id
        given = {leader: b"1", follower: b"2"}
        peer.ask(syncing(group, 2, leader, given, instance="L", protocol="a"), SYNC)
        follow = syncing(group, 2, follower, instance="F", protocol="a")
        peer.ask(follow, SYNC)
        back = peer.call(f"{group}: back", joining(group, instance="L", **said), version)
        sync = syncing(group, 2, back.member_id, instance="L", protocol="a")
        peer.call(f"{group}: back and synced", sync, SYNC)
        peer.call(f"{group}: follower back", joining(group, instance="F", **said), version)
        request = joining(group, instance="L", protocols=("b",), rebalance_ms=1000)
        waiting = peer.begin(request, version)
        until_fenced(peer, beating(group, 2, back.member_id, "L"))
        waiting.waits(f"{group}: with another protocol it waits")


def until_fenced(peer: Peer, request: HeartbeatRequest) -> None:
    """Wait until a static member that is joining has replaced its predecessor."""
    fenced = ErrorCode.FENCED_INSTANCE_ID
    peer.until(lambda: peer.ask(request, HEARTBEAT).error_code == fenced)
