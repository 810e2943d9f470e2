"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup: groups, in and out of order."""

from __future__ import annotations

import struct
from typing import Any

from interop.differential.peer import Begun, Peer
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
    """What a consumer says in version 0 of its protocol. Kafka's coordinator reads it, and hangs if
    it cannot: the broker itself is not to be confused here."""
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
    """The same as an older version can say it."""
    if isinstance(request, LeaveGroupRequest) and version < 3:
        return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)
    if isinstance(request, JoinGroupRequest) and version < 5:
        request.group_instance_id = None
    if isinstance(request, (SyncGroupRequest, HeartbeatRequest)) and version < 3:
        request.group_instance_id = None
    return request


# -- steps that many scripts take ------------------------------------------------------------------


def coordinator_found(peer: Peer) -> None:
    """Kafka makes the topic of the groups when somebody asks, and has the client ask again."""
    request = FindCoordinatorRequest(coordinator_keys=["any"])
    peer.until(lambda: peer.ask(request, 4).coordinators[0].error_code == ErrorCode.NONE)
    rough = leaving("any", ("nobody", None))
    peer.until(lambda: peer.ask(rough, LEAVE).error_code == ErrorCode.NONE)


def member_id(peer: Peer, group: str, **said: Any) -> str:
    """An id to join with."""
    response: JoinGroupResponse = peer.ask(joining(group, **said), JOIN)
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED, response
    return response.member_id


def alone(peer: Peer, group: str, *, stable: bool = True, **said: Any) -> str:
    """A group of one, in its first generation; its member."""
    member = member_id(peer, group, **said)
    response: JoinGroupResponse = peer.ask(joining(group, member, **said), JOIN)
    assert response.generation_id == 1, response
    if stable:
        peer.ask(syncing(group, 1, member, {member: b"all"}), SYNC)
    return member


def pair(peer: Peer, group: str, *, stable: bool = True) -> tuple[str, str]:
    """A group of two, in its second generation: the leader and the other."""
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
    """Until a join that was begun on another connection has arrived."""
    request = beating(group, generation, member)
    rebalancing = ErrorCode.REBALANCE_IN_PROGRESS
    peer.until(lambda: peer.ask(request, HEARTBEAT).error_code == rebalancing)


# -- scripts ---------------------------------------------------------------------------------------


def find_coordinator(peer: Peer) -> None:
    """Every kind of key, alone and in company; keys that are empty, repeated, or odd."""
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
    """Groups that nobody made, ids that nobody gave, names that are empty."""
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
    """The life of a member alone, in every version of every request."""
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


def protocols(peer: Peer) -> None:
    """Who may join whom, and which protocol wins."""
    coordinator_found(peer)
    for version in peer.each_version(JoinGroupRequest):
        none = joining(f"nothing {version}", protocols=())
        peer.call(f"v{version}: speaks nothing", none, version)
        kind = joining(f"of no kind {version}", protocol_type="")
        peer.call(f"v{version}: is of no kind", kind, version)
    alone(peer, "kinds", protocols=("a", "b"))
    peer.call("another kind", joining("kinds", protocol_type="connect"), JOIN)
    peer.call("nothing in common", joining("kinds", protocols=("c", "d")), JOIN)
    peer.call("nothing at all", joining("kinds", protocols=()), JOIN)
    peer.call("something in common", joining("kinds", protocols=("c", "b")), JOIN)
    votes: list[tuple[str, ...]] = [("a", "b"), ("b", "a"), ("b", "a")]
    elect(peer, "most votes", votes)
    elect(peer, "a tie of two", [("a", "b"), ("b", "a")])
    elect(peer, "a tie of assignors", [("range", "roundrobin"), ("roundrobin", "range")])
    elect(
        peer,
        "a tie of others",
        [("sticky", "cooperative-sticky"), ("cooperative-sticky", "sticky")],
    )
    elect(peer, "only one in common", [("a", "b", "c"), ("c", "d"), ("e", "c")])


def elect(peer: Peer, group: str, spoken: list[tuple[str, ...]]) -> None:
    """Members join one after the other; then the first, who leads, has all join again."""
    leader = alone(peer, group, protocols=spoken[0], stable=False)
    peer.ask(syncing(group, 1, leader, protocol=spoken[0][0]), SYNC)
    others: list[tuple[str, Begun]] = []
    for number, protocols_ in enumerate(spoken[1:]):
        member = member_id(peer, group, protocols=protocols_)
        others.append((member, peer.begin(joining(group, member, protocols=protocols_), JOIN)))
        if number == 0:
            until_rebalancing(peer, group, 1, leader)
    for _, begun in others:
        begun.waits(f"{group}: {len(peer.steps)} waits")
    peer.call(f"{group}: the leader joins", joining(group, leader, protocols=spoken[0]), JOIN)
    for number, (_, begun) in enumerate(others):
        begun.end(f"{group}: {number} joined")


def together(peer: Peer) -> None:
    """Two members: what each may do in each state, and who has to wait for whom."""
    coordinator_found(peer)
    leader, follower = pair(peer, "two", stable=False)
    peer.call("completing: leader beats", beating("two", 2, leader), HEARTBEAT)
    peer.call("completing: follower joins the same", joining("two", follower), JOIN)
    peer.call("completing: leader joins the same", joining("two", leader), JOIN)
    waiting = peer.begin(syncing("two", 2, follower), SYNC)
    waiting.waits("completing: follower syncs")
    assignments = {leader: b"one", follower: b"two", "nobody": b"three"}
    peer.call("completing: leader syncs", syncing("two", 2, leader, assignments), SYNC)
    waiting.end("follower has synced")
    peer.call("stable: follower syncs again", syncing("two", 2, follower), SYNC)
    changed = syncing("two", 2, leader, {leader: b"all"})
    peer.call("stable: leader assigns otherwise", changed, SYNC)
    peer.call("stable: follower still has", syncing("two", 2, follower), SYNC)
    peer.call("stable: follower joins the same", joining("two", follower), JOIN)
    joined = peer.begin(joining("two", follower, metadata=MORE), JOIN)
    joined.waits("stable: follower joins with news")
    peer.call("preparing: leader beats", beating("two", 2, leader), HEARTBEAT)
    peer.call("preparing: leader syncs", syncing("two", 2, leader), SYNC)
    peer.call("preparing: leader beats in another", beating("two", 1, leader), HEARTBEAT)
    peer.call("preparing: leader joins", joining("two", leader), JOIN)
    joined.end("both have joined")
    waiting = peer.begin(syncing("two", 3, follower), SYNC)
    waiting.waits("completing: follower syncs before the leader")
    joined = peer.begin(joining("two", leader, metadata=OTHERS), JOIN)
    waiting.end("the leader wants another generation")
    joined.waits("the leader waits for it")
    peer.call("the follower joins", joining("two", follower, metadata=MORE), JOIN)
    joined.end("and so they have it")
    peer.call("nobody is assigned anything", syncing("two", 4, leader), SYNC)
    peer.call("so the follower has nothing", syncing("two", 4, follower), SYNC)


def departures(peer: Peer) -> None:
    """Leaving in every state, alone and in company; who stays is told."""
    coordinator_found(peer)
    leader, follower = pair(peer, "the leader goes")
    peer.call("leader leaves", leaving("the leader goes", (leader, None)), LEAVE)
    peer.call("follower beats", beating("the leader goes", 2, follower), HEARTBEAT)
    peer.call("follower joins and leads", joining("the leader goes", follower), JOIN)
    peer.call(
        "follower leaves before it syncs", leaving("the leader goes", (follower, None)), LEAVE
    )
    peer.call("nobody is left", joining("the leader goes", follower), JOIN)

    leader, follower = pair(peer, "all go")
    request = leaving("all go", (leader, None), (LONG_AGO, None), (follower, None), (leader, None))
    peer.call("all leave", request, LEAVE)
    peer.call("one more", beating("all go", 2, leader), HEARTBEAT)
    again = member_id(peer, "all go")
    peer.call("the generation after", joining("all go", again), JOIN)

    leader, follower = pair(peer, "goes while waiting")
    joined = peer.begin(joining("goes while waiting", follower, metadata=MORE), JOIN)
    until_rebalancing(peer, "goes while waiting", 2, leader)
    peer.call("the other leaves", leaving("goes while waiting", (leader, None)), LEAVE)
    joined.end("the one that waits has all")

    leader, follower = pair(peer, "taken out")
    joined = peer.begin(joining("taken out", follower, metadata=MORE), JOIN)
    until_rebalancing(peer, "taken out", 2, leader)
    peer.call("the one that waits leaves", leaving("taken out", (follower, None)), LEAVE)
    joined.end("its join is in vain")
    peer.call("the leader joins alone", joining("taken out", leader), JOIN)

    for version in peer.each_version(LeaveGroupRequest):
        group = f"strangers leave {version}"
        member = alone(peer, group)
        request = for_version(leaving(group, (LONG_AGO, None)), version)
        peer.call(f"v{version}: a stranger leaves", request, version)
        peer.call(f"v{version}: the member stays", beating(group, 1, member), HEARTBEAT)
    peer.call("nobody leaves", leaving("strangers leave 5"), LEAVE)


def static_members(peer: Peer) -> None:
    """Instances that come back: before, during and after a generation; their ghosts are fenced."""
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
    """What the predecessor of an instance is told."""
    where = f"{group}: {len(peer.steps)}"
    peer.call(f"{where} ghost joins", joining(group, member, instance="i"), JOIN)
    peer.call(f"{where} ghost joins as if dynamic", joining(group, member), JOIN)
    peer.call(f"{where} ghost beats", beating(group, 1, member, "i"), HEARTBEAT)
    peer.call(f"{where} ghost beats as if dynamic", beating(group, 1, member), HEARTBEAT)
    peer.call(f"{where} ghost syncs", syncing(group, 1, member, instance="i"), SYNC)
    peer.call(f"{where} ghost leaves", leaving(group, (member, "i")), LEAVE)


def fencing(peer: Peer) -> None:
    """A ghost that waits for a join or a sync is told at once."""
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
    """A static leader with a follower: who leads, who assigns, and what a new protocol does."""
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
    """Until a static member that began to join has taken the place of its predecessor."""
    fenced = ErrorCode.FENCED_INSTANCE_ID
    peer.until(lambda: peer.ask(request, HEARTBEAT).error_code == fenced)


def limits(peer: Peer) -> None:
    """Sessions that are too short or too long; groups that are full."""
    coordinator_found(peer)
    for session_ms in (-1, 0, 99, 100, 1_800_000, 1_800_001, 2**31 - 1):
        request = joining(f"session {session_ms}", session_ms=session_ms)
        peer.call(f"a session of {session_ms}", request, JOIN)
    for rebalance_ms in (-1, 0, 2**31 - 1):
        group = f"rebalance {rebalance_ms}"
        member = member_id(peer, group)
        request = joining(group, member, rebalance_ms=rebalance_ms)
        peer.call(f"a rebalance of {rebalance_ms}", request, JOIN)
    leader = alone(peer, "full")
    begun = []
    for number in range(5):
        member = member_id(peer, "full")
        begun.append(peer.begin(joining("full", member), JOIN))
        if number == 0:
            until_rebalancing(peer, "full", 1, leader)
    peer.call("the leader joins", joining("full", leader), JOIN)
    for number, each in enumerate(begun):
        each.end(f"{number} has joined")
    peer.call("a seventh asks for an id", joining("full"), JOIN)
    peer.call("a static one", joining("full", instance="i"), JOIN)
