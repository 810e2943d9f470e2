"""OffsetDelete, and other ends of committed offsets: deleted groups and topics, size limits."""

from __future__ import annotations

from typing import Any

from interop.differential.peer import Peer
from interop.differential.scripts.committed import (
    BY_ID,
    FETCH,
    LONGEST_METADATA,
    Offset,
    all_of,
    commit,
    committing,
    fetching,
    one,
    two_topics,
)
from interop.differential.scripts.group_steps import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    alone,
    beating,
    coordinator_found,
    joining,
    leaving,
    member_id,
    pair,
    subscription,
    syncing,
    until_rebalancing,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def deleting(group: str, topics: dict[str, list[int]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in topics.items()
        ],
    )


def deletes(peer: Peer) -> None:
    """Offsets of groups with and without members, of topics that they read and do not read."""
    two_topics(peer)
    kept: dict[str, list[Offset]] = {"a": [(0, 5, 3, ""), (1, 6, -1, "")], "b": [(0, 7, 0, "")]}
    commit(peer, "commit", committing("simple", kept))
    cases = {
        "one": {"a": [0]},
        "one again": {"a": [0]},
        "what is not there": {"a": [0, 7, -1], "unknown": [0], "b": [1]},
        "nothing that is there": {"unknown": [0], "a": [7]},
        "nothing": {},
        "no partitions": {"a": []},
    }
    for group in ("simple", "nobody", ""):
        for label, topics in cases.items():
            peer.call(f"{group!r}: {label}", deleting(group, topics), 0)  # type: ignore[arg-type]
        all_of(peer, f"{group!r}: is left", group)
    reads_a = subscription("a")
    for label, stable in (("stable", True), ("completing", False)):
        member = alone(peer, label, metadata=reads_a, stable=stable)
        if stable:
            request = committing(label, kept, generation=1, member=member)
            commit(peer, f"{label}: commits", request)
        peer.call(f"{label}: deletes", deleting(label, {"a": [0, 9], "b": [0, 1]}), 0)
        all_of(peer, f"{label}: is left", label)
    peer.ask(leaving("stable", (peer_member(peer, "stable"), None)), LEAVE)
    peer.call("left: deletes", deleting("stable", {"a": [0], "b": [0]}), 0)
    all_of(peer, "left: is left", "stable")
    leader, follower = pair(peer, "preparing")
    commit(peer, "preparing: commits", committing("preparing", kept, generation=2, member=leader))
    peer.begin(joining("preparing", follower, metadata=subscription("b")), JOIN)
    until_rebalancing(peer, "preparing", 2, leader)
    peer.call("preparing: deletes", deleting("preparing", {"a": [0], "b": [0]}), 0)
    worker: dict[str, Any] = {"protocol_type": "connect", "protocols": ("sessioned",)}
    member = member_id(peer, "workers", **worker)
    peer.ask(joining("workers", member, **worker), JOIN)
    peer.call("workers: delete", deleting("workers", {"a": [0], "unknown": [0]}), 0)
    peer.ask(leaving("workers", (member, None)), LEAVE)
    peer.call("workers have left: delete", deleting("workers", {"a": [0]}), 0)


def deletes_of_instances(peer: Peer) -> None:
    """A group reads the topics of its generation, whatever its members sent since."""
    two_topics(peer)
    kept: dict[str, list[Offset]] = {"a": [(0, 5, 3, "")], "b": [(0, 7, 0, "")]}
    from_a, from_b = (joining("", instance="i", metadata=subscription(name)) for name in "ab")
    for group in ("stable", "preparing"):
        commit(peer, f"{group}: commits", committing(group, kept))
        from_a.group_id = from_b.group_id = group
        first = peer.ask(from_a, JOIN).member_id
        if group == "stable":
            peer.ask(syncing(group, 1, first, {first: b"all"}, instance="i"), SYNC)
            peer.call("stable: comes back and reads another", from_b, JOIN)
        else:
            member_id(
                peer, group
            )  # The member with this id has not joined yet: the rebalance waits for it.
            peer.begin(from_b, JOIN)
            until_fenced(peer, beating(group, 1, first, "i"))
        peer.call(f"{group}: deletes", deleting(group, {"a": [0], "b": [0]}), 0)
        all_of(peer, f"{group}: is left", group)


def until_fenced(peer: Peer, ghost: HeartbeatRequest) -> None:
    """Wait until the next incarnation, which joins on another connection, has arrived."""
    fenced = ErrorCode.FENCED_INSTANCE_ID
    peer.until(lambda: peer.ask(ghost, HEARTBEAT).error_code == fenced)


def peer_member(peer: Peer, group: str) -> str:
    """Return the id of the only member of a group, which a leave with an unknown id reveals."""
    described = peer.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0]
    member: str = described.members[0].member_id
    return member


def ends(peer: Peer) -> None:
    """Offsets end with their group and with their topic; the next ones start without."""
    ids = two_topics(peer)
    kept: dict[str, list[Offset]] = {"a": [(0, 5, 3, "")], "b": [(0, 7, 0, "")]}
    for group in ("one", "two"):
        commit(peer, f"{group}: commits", committing(group, kept))
    peer.call("delete a group", DeleteGroupsRequest(groups_names=["one"]), 2)
    all_of(peer, "the group is gone", "one")
    peer.call("delete it again", DeleteGroupsRequest(groups_names=["one"]), 2)
    commit(peer, "it commits again", committing("one", {"b": [(1, 1, -1, "")]}))
    all_of(peer, "and has that", "one")
    for group in ("one", "two"):
        commit(peer, f"{group}: commits by id", committing(group, kept, ids=ids), BY_ID)
    old = dict(ids)
    peer.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=15000), 5)
    asked = fetching(FETCH, {"two": {"a": [0]}})
    gone = -1
    peer.until(
        lambda: peer.ask(asked, FETCH).groups[0].topics[0].partitions[0].committed_offset == gone
    )
    peer.until_partition("a", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for group in ("one", "two"):
        all_of(peer, f"{group}: without the topic", group)
        for version in (FETCH, BY_ID):
            request = fetching(version, {group: {"a": [0], "b": [0]}}, ids=old)
            peer.call(f"{group}: v{version} asks for it", request, version)
    commit(peer, "commits to it", one("two"))
    commit(peer, "commits to its id", one("two", ids=old), BY_ID)
    ids["a"] = peer.new_topic("a", 2)
    for group in ("one", "two"):
        for version in (FETCH, BY_ID):
            request = fetching(version, {group: {"a": [0], "b": [0]}}, ids=ids)
            peer.call(f"{group}: v{version} asks for the new one", request, version)
    commit(peer, "commits to the new one by the old id", one("two", ids=old), BY_ID)
    commit(peer, "commits to the new one", one("two", ids=ids), BY_ID)
    all_of(peer, "and has it", "two")


def large(peer: Peer) -> None:
    """A commit larger than a batch: all or nothing."""
    coordinator_found(peer)
    peer.new_topic("wide", 300)
    offsets: list[Offset] = [(index, 1, -1, "m" * LONGEST_METADATA) for index in range(300)]
    commit(peer, "too much", committing("wide", {"wide": offsets}))
    all_of(peer, "nothing is kept", "wide")
    commit(peer, "less", committing("wide", {"wide": offsets[:200]}))
