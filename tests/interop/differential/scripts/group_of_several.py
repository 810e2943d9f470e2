"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup with several members: agreement, waiting, leaving.

Also the limits of sessions and group sizes.
"""

from __future__ import annotations

from interop.differential.peer import Peer, PendingRequest
from interop.differential.scripts.group_steps import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    LONG_AGO,
    MORE,
    OTHERS,
    SYNC,
    alone,
    beating,
    coordinator_found,
    for_version,
    joining,
    leaving,
    member_id,
    pair,
    syncing,
    until_rebalancing,
)
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.join_group import JoinGroupRequest
from odradek.protocol.api.leave_group import LeaveGroupRequest

DESCRIBE_GROUPS = 5
LONG_REQUEST_GROUPS = 5_000
TOGETHER_ATTEMPTS = 5


def protocols(peer: Peer) -> None:
    """Which members may join together, and which protocol is chosen."""
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
    """Join members one after the other; then the leader makes all of them rejoin."""
    leader = alone(peer, group, protocols=spoken[0], stable=False)
    peer.ask(syncing(group, 1, leader, protocol=spoken[0][0]), SYNC)
    others: list[tuple[str, PendingRequest]] = []
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
    """Two members: the requests allowed in each state, and which of them wait."""
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
    """Leaving in every state, alone and with others; remaining members learn of it."""
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

    for instance in (None, "i"):
        group = f"leaves while it syncs as {instance}"
        leader = alone(peer, group)
        new = "" if instance else member_id(peer, group)
        joined = peer.begin(joining(group, new, instance=instance), JOIN)
        until_rebalancing(peer, group, 1, leader)
        peer.ask(joining(group, leader), JOIN)
        follower = joined.end_unnoted().member_id
        waiting = peer.begin(syncing(group, 2, follower, instance=instance), SYNC)
        waiting.waits(f"{group}: syncs")
        peer.call(f"{group}: leaves", leaving(group, (follower, instance)), LEAVE)
        waiting.waits(f"{group}: its sync")
        waiting.close()
        peer.call(f"{group}: the leader beats", beating(group, 2, leader), HEARTBEAT)
        peer.call(f"{group}: the leader joins", joining(group, leader), JOIN)

    for version in peer.each_version(LeaveGroupRequest):
        group = f"strangers leave {version}"
        member = alone(peer, group)
        request = for_version(leaving(group, (LONG_AGO, None)), version)
        peer.call(f"v{version}: a stranger leaves", request, version)
        peer.call(f"v{version}: the member stays", beating(group, 1, member), HEARTBEAT)
    peer.call("nobody leaves", leaving("strangers leave 5"), LEAVE)


def limits(peer: Peer) -> None:
    """Session timeouts that are too short or too long; full groups."""
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


def joined_together(peer: Peer) -> None:
    """Two members whose joins wait together behind a long request begin one generation, though
    `group.initial.rebalance.delay.ms` is 0.
    """
    coordinator_found(peer)
    attempts = range(TOGETHER_ATTEMPTS)
    members = [generation_of_two(peer, f"together {number}") for number in attempts]
    peer.note("members of the first generation, at most", max(members))


def generation_of_two(peer: Peer, group: str) -> int:
    """Return how many members the first generation has: the joins may have come too late."""
    joins = [joining(group, member_id(peer, group)) for _ in range(2)]
    busy = DescribeGroupsRequest(groups=[f"busy {number}" for number in range(LONG_REQUEST_GROUPS)])
    waiting = peer.begin_together([busy, *joins], [DESCRIBE_GROUPS, JOIN, JOIN])
    waiting.pop(0).end_unnoted()
    answered = waiting[0] if waiting[0].is_answered() else waiting[1]
    response = answered.end_unnoted()
    for each in waiting:
        each.close()
    return len(response.members) or len(joins)
