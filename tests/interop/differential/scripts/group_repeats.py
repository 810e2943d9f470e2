"""JoinGroup and SyncGroup repeated before the response, on one connection and on two."""

from __future__ import annotations

from interop.differential.peer import Peer, PendingRequest
from interop.differential.scripts.group_steps import (
    JOIN,
    SYNC,
    alone,
    coordinator_found,
    joining,
    member_id,
    syncing,
    until_rebalancing,
)


def on_one_connection(peer: Peer) -> None:
    """Both are answered, with the same answer."""
    coordinator_found(peer)
    leader = alone(peer, "pipelined")
    follower = member_id(peer, "pipelined")
    joins = peer.begin(joining("pipelined", follower), JOIN)
    joins.again()
    until_rebalancing(peer, "pipelined", 1, leader)
    joins.waits("both joins wait")
    peer.call("the leader joins", joining("pipelined", leader), JOIN)
    both(joins, "joins")
    syncs = peer.begin(syncing("pipelined", 2, follower), SYNC)
    syncs.again()
    syncs.waits("both syncs wait")
    assignments = {leader: b"one", follower: b"two"}
    peer.call("the leader syncs", syncing("pipelined", 2, leader, assignments), SYNC)
    both(syncs, "syncs")


def both(begun: PendingRequest, what: str) -> None:
    begun.one(f"the first of two {what}")
    begun.end(f"the second of two {what}")


def on_two_connections(peer: Peer) -> None:
    """The later one is answered. Kafka drops the earlier one."""
    coordinator_found(peer)
    leader = alone(peer, "twice")
    follower = member_id(peer, "twice")
    older = peer.begin(joining("twice", follower), JOIN)
    until_rebalancing(peer, "twice", 1, leader)
    younger = peer.begin(joining("twice", follower), JOIN)
    younger.waits("the younger join waits")
    peer.call("the leader joins", joining("twice", leader), JOIN)
    younger.end("the younger join")
    older.end("the older join", hangs=True)
    older = peer.begin(syncing("twice", 2, follower), SYNC)
    older.waits("the older sync waits")
    younger = peer.begin(syncing("twice", 2, follower), SYNC)
    younger.waits("the younger sync waits")
    assignments = {leader: b"one", follower: b"two"}
    peer.call("the leader syncs", syncing("twice", 2, leader, assignments), SYNC)
    younger.end("the younger sync")
    older.end("the older sync", hangs=True)
