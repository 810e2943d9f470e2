"""OffsetCommit, OffsetFetch, OffsetDelete: how far groups have read, and who may say so."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from interop.differential.peer import Peer
from interop.differential.scripts.groups import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    LONG_AGO,
    MORE,
    alone,
    beating,
    coordinator_found,
    joining,
    leaving,
    member_id,
    pair,
    subscription,
    until_rebalancing,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_UUID
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

COMMIT, FETCH, BY_ID = 9, 9, 10
SEVERAL = 8
UNKNOWN_ID = UUID(int=0x1234_5678_9ABC_DEF0 << 64 | 77)
LONGEST_METADATA = 4096
Offset = tuple[int, int, int, str | None]


# -- requests --------------------------------------------------------------------------------------


def committing(
    group: str,
    topics: dict[str, list[Offset]],
    *,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    retention_ms: int = -1,
    ids: dict[str, UUID] | None = None,
) -> OffsetCommitRequest:
    """Each topic with (partition, offset, leader epoch, metadata); `ids` for version 10."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=(ids or {}).get(name, ZERO_UUID),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                    for index, offset, epoch, metadata in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def one(group: str, offset: int = 5, **said: Any) -> OffsetCommitRequest:
    """A commit of one partition of the topic `a`."""
    return committing(group, {"a": [(0, offset, -1, "")]}, **said)


def fetching(
    version: int,
    groups: dict[str, dict[str, list[int]] | None],
    *,
    stable: bool = False,
    member: str | None = None,
    epoch: int = -1,
    ids: dict[str, UUID] | None = None,
) -> OffsetFetchRequest:
    """Topics by group; None: all. Below version 8 there is one group."""
    if version < SEVERAL:
        ((group, topics),) = groups.items()
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        return OffsetFetchRequest(
            group_id=group, topics=asked, require_stable=stable and version >= 7
        )
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                member_id=member if version >= 9 else None,
                member_epoch=epoch if version >= 9 else -1,
                topics=None
                if topics is None
                else [
                    OffsetFetchRequestTopics(
                        name=name,
                        topic_id=(ids or {}).get(name, ZERO_UUID),
                        partition_indexes=indexes,
                    )
                    for name, indexes in topics.items()
                ],
            )
            for group, topics in groups.items()
        ],
        require_stable=stable,
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


def commit(peer: Peer, label: str, request: OffsetCommitRequest, version: int = COMMIT) -> None:
    if version < 7:
        request.group_instance_id = None
    peer.call(label, request, version)


def all_of(peer: Peer, label: str, group: str) -> None:
    """Note everything that a group has committed."""
    peer.call(label, fetching(FETCH, {group: None}), FETCH)


def two_topics(peer: Peer) -> dict[str, UUID]:
    """The topics `a` and `b` of two partitions, and a coordinator."""
    coordinator_found(peer)
    return {"unknown": UNKNOWN_ID, **{name: peer.new_topic(name, 2) for name in ("a", "b")}}


# -- scripts ---------------------------------------------------------------------------------------


def commits(peer: Peer) -> None:
    """Commits without a member, in every version: partitions, offsets, metadata of every kind."""
    ids = two_topics(peer)
    for version in peer.each_version(OffsetCommitRequest):
        group = f"simple {version}"
        everything: dict[str, list[Offset]] = {
            "a": [(0, 5, 0, "told"), (1, 0, 7, None), (2, 1, -1, ""), (-1, 1, -1, "")],
            "b": [(1, 2**63 - 1, 2**31 - 1, "ä/€\0")],
            "unknown": [(0, 1, -1, "")],
        }
        commit(peer, f"{group}: of everything", committing(group, everything, ids=ids), version)
        all_of(peer, f"{group}: is kept", group)
        for offset in (-1, -2, -(2**63)):
            label = f"{group}: offset {offset}"
            commit(peer, label, committing(group, {"a": [(0, offset, -5, "")]}, ids=ids), version)
        all_of(peer, f"{group}: is kept of that", group)
        longest: dict[str, list[Offset]] = {
            "a": [(0, 6, -1, "m" * LONGEST_METADATA), (1, 6, -1, "m" * (LONGEST_METADATA + 1))],
            "b": [(0, 6, -1, "€" * LONGEST_METADATA)],
        }
        commit(peer, f"{group}: long metadata", committing(group, longest, ids=ids), version)
        all_of(peer, f"{group}: is kept of long metadata", group)
        commit(peer, f"{group}: of nothing", committing(group, {}), version)
        commit(peer, f"{group}: no partitions", committing(group, {"a": []}, ids=ids), version)
        only: dict[str, list[Offset]] = {"unknown": [(0, 1, -1, "")], "a": [(9, 1, -1, "")]}
        commit(peer, f"{group}: nothing that is there", committing(group, only, ids=ids), version)
        both: dict[str, list[Offset]] = {"a": [(0, 7, -1, "x"), (0, 8, -1, "y")]}
        commit(peer, f"{group}: one partition twice", committing(group, both, ids=ids), version)
        all_of(peer, f"{group}: the last one counts", group)
        commit(peer, f"{group}: no name", one("", ids=ids), version)
        if version < 5:
            for retention_ms in (-2, 0, 60_000, 2**63 - 1):
                request = one(f"{group} kept", retention_ms, retention_ms=retention_ms)
                commit(peer, f"{group}: for {retention_ms} ms", request, version)
                all_of(peer, f"{group}: kept for {retention_ms} ms", f"{group} kept")
    all_of(peer, "the group without a name", "")


def commits_of_members(peer: Peer) -> None:
    """Who may commit in each state of a group, by which generation, member and instance."""
    ids = two_topics(peer)
    for version in peer.each_version(OffsetCommitRequest):
        nowhere = f"nowhere {version}"
        for generation in (0, 1, 2**31 - 1, -1, -2):
            for member in ("", LONG_AGO):
                group = f"{nowhere} {generation} {member[:1]}"
                request = one(group, generation=generation, member=member, ids=ids)
                commit(peer, group, request, version)
        in_all_states(peer, version, ids)
    static = peer.ask(joining("static", instance="i"), JOIN).member_id
    for version in peer.each_version(OffsetCommitRequest, since=7):
        for instance in (None, "i", "j"):
            for member in (static, LONG_AGO, ""):
                label = f"static v{version} {instance} {member == static} {member == ''}"
                said: dict[str, Any] = {"generation": 1, "member": member, "instance": instance}
                commit(peer, label, one("static", ids=ids, **said), version)
        request = one("static", instance="i", ids=ids)
        commit(peer, f"static v{version}: only the instance", request, version)


def in_all_states(peer: Peer, version: int, ids: dict[str, UUID]) -> None:
    tag = f"v{version}"
    member = alone(peer, f"stable {tag}")
    tokens(peer, f"stable {tag}", 1, member, version, ids)
    member = alone(peer, f"completing {tag}", stable=False)
    tokens(peer, f"completing {tag}", 1, member, version, ids)
    leader, follower = pair(peer, f"preparing {tag}")
    peer.begin(joining(f"preparing {tag}", follower, metadata=MORE), JOIN)
    until_rebalancing(peer, f"preparing {tag}", 2, leader)
    tokens(peer, f"preparing {tag}", 2, leader, version, ids)
    member = alone(peer, f"left {tag}")
    peer.ask(leaving(f"left {tag}", (member, None)), LEAVE)
    tokens(peer, f"left {tag}", 2, member, version, ids)
    pending = member_id(peer, f"pending {tag}")
    tokens(peer, f"pending {tag}", 0, pending, version, ids)


def tokens(
    peer: Peer, group: str, generation: int, member: str, version: int, ids: dict[str, UUID]
) -> None:
    """Commits that are right, and wrong in one thing or in both."""
    for wanted in dict.fromkeys((generation, generation - 1, generation + 1, -1)):
        for who in (member, LONG_AGO, ""):
            label = f"{group}: {wanted - generation if wanted >= 0 else 'none'} "
            label += "itself" if who == member else "nobody" if not who else "another"
            request = one(group, 100 + wanted, generation=wanted, member=who, ids=ids)
            commit(peer, label, request, version)
    all_of(peer, f"{group}: is kept", group)
    peer.call(f"{group}: beats", beating(group, generation, member), HEARTBEAT)


def fetches(peer: Peer) -> None:
    """What was committed and what was not, for one group and for several, in every version."""
    ids = two_topics(peer)
    kept: dict[str, list[Offset]] = {
        "a": [(0, 5, 3, "told"), (1, 6, -1, None)],
        "b": [(0, 7, 0, "")],
    }
    commit(peer, "commit", committing("kept", kept))
    commit(peer, "commit in another", committing("other", {"b": [(1, 1, 1, "else")]}))
    member = alone(peer, "members")
    commit(peer, "commit of a member", one("members", generation=1, member=member))
    for version in peer.each_version(OffsetFetchRequest):
        some: dict[str, list[int]] = {"a": [0, 1, 2, -1], "unknown": [0], "b": [1]}
        for group in ("kept", "members", "nobody", ""):
            for stable in (False, True):
                label = f"v{version} {group!r} {stable}"
                request = fetching(version, {group: some}, stable=stable, ids=ids)
                peer.call(label, request, version)
                if version >= 2:
                    request = fetching(version, {group: None}, stable=stable)
                    peer.call(f"{label}: all", request, version)
            peer.call(f"v{version} {group!r}: none", fetching(version, {group: {}}), version)
            empty = fetching(version, {group: {"a": [], "unknown": []}}, ids=ids)
            peer.call(f"v{version} {group!r}: no partitions", empty, version)
            twice = fetching(version, {group: {"a": [0, 0]}}, ids=ids)
            peer.call(f"v{version} {group!r}: twice", twice, version)
    for version in peer.each_version(OffsetFetchRequest, since=SEVERAL):
        several = {"kept": None, "nobody": {"a": [0]}, "other": {"b": [0, 1]}, "": None}
        peer.call(f"v{version}: several", fetching(version, several, ids=ids), version)
        peer.call(f"v{version}: no groups", OffsetFetchRequest(groups=[]), version)
        for who in (None, "", member, LONG_AGO):
            for epoch in (-1, 0, 1, 2):
                label = f"v{version}: as {'itself' if who == member else who!r} in {epoch}"
                groups: dict[str, dict[str, list[int]] | None] = {"members": {"a": [0]}}
                request = fetching(version, groups, member=who, epoch=epoch, ids=ids)
                peer.call(label, request, version)
                peer.call(
                    f"{label}: all",
                    fetching(version, {"members": None}, member=who, epoch=epoch),
                    version,
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
            peer.call(f"{group!r}: {label}", deleting(group, topics), 0)
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


def peer_member(peer: Peer, group: str) -> str:
    """The id of the only member of a group: whoever leaves under an unknown one is told so."""
    described = peer.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0]
    member: str = described.members[0].member_id
    return member


def ends(peer: Peer) -> None:
    """Offsets end with their group and with their topic; the next ones begin without."""
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
    """More than a batch holds: all or nothing."""
    coordinator_found(peer)
    peer.new_topic("wide", 300)
    offsets: list[Offset] = [(index, 1, -1, "m" * LONGEST_METADATA) for index in range(300)]
    commit(peer, "too much", committing("wide", {"wide": offsets}))
    all_of(peer, "nothing is kept", "wide")
    commit(peer, "less", committing("wide", {"wide": offsets[:200]}))
