"""OffsetCommit and OffsetFetch: committed offsets of groups, and who may commit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from interop.differential.peer import Peer
from interop.differential.scripts.group_steps import (
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
    until_rebalancing,
)
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
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
    """Return a commit: each topic with (partition, offset, leader epoch, metadata); `ids` from
    version 10.
    """
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
    """Return a commit of one partition of topic `a`."""
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
    """Return a fetch of topics by group; None: all. Below version 8 there is one group."""
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


def commit(peer: Peer, label: str, request: OffsetCommitRequest, version: int = COMMIT) -> None:
    if version < 7:
        request.group_instance_id = None
    peer.call(label, request, version)


def all_of(peer: Peer, label: str, group: str) -> None:
    """Record all committed offsets of a group."""
    peer.call(label, fetching(FETCH, {group: None}), FETCH)


def two_topics(peer: Peer) -> dict[str, UUID]:
    """Create topics `a` and `b` of two partitions, and find the coordinator."""
    coordinator_found(peer)
    return {"unknown": UNKNOWN_ID, **{name: peer.new_topic(name, 2) for name in ("a", "b")}}


# -- scripts ---------------------------------------------------------------------------------------


def commits(peer: Peer) -> None:
    """Commits without a member, in every version: partitions, offsets, all kinds of metadata."""
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
    """Commits in each state of a group, by generation, member and instance."""
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
    """Commits with a correct or incorrect generation, member id, or both."""
    for wanted in dict.fromkeys((generation, generation - 1, generation + 1, -1)):
        for who in (member, LONG_AGO, ""):
            label = f"{group}: {wanted - generation if wanted >= 0 else 'none'} "
            label += "itself" if who == member else "nobody" if not who else "another"
            request = one(group, 100 + wanted, generation=wanted, member=who, ids=ids)
            commit(peer, label, request, version)
    all_of(peer, f"{group}: is kept", group)
    peer.call(f"{group}: beats", beating(group, generation, member), HEARTBEAT)


def fetches(peer: Peer) -> None:
    """Committed and missing offsets, for one group and several, in every version."""
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
