"""CreateTopics, CreatePartitions, DeleteTopics: every version, every reason for refusal."""

from __future__ import annotations

from uuid import UUID

from interop.differential.peer import Peer, creatable
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.api.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic

NODE = 1
BY_ID_SINCE = 6
UNKNOWN_ID = UUID(int=0x99)


def creating(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=15000, validate_only=validate_only)


def described(peer: Peer, label: str, *names: str) -> None:
    """Record the resulting topics."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    peer.call(label, request, 12)


def create(peer: Peer) -> None:
    """One topic at a time, then several in a request."""
    for version in peer.each_version(CreateTopicsRequest):
        for label, topic in [*shapes(f"create-v{version}"), *settings(f"create-v{version}")]:
            for validate_only in (True, False):
                request = creating(topic, validate_only=validate_only)
                told = "checked" if validate_only else "made"
                peer.call(f"v{version} {label}, {told}", request, version)
        several(peer, version)


def shapes(name: str) -> list[tuple[str, CreatableTopic]]:
    """Names, numbers of partitions and replicas, assignments."""
    return [
        ("plain", creatable(f"{name}-plain")),
        ("plain again", creatable(f"{name}-plain")),
        ("three partitions", creatable(f"{name}-three", 3)),
        ("defaults", creatable(f"{name}-defaults", -1, -1)),
        ("no partitions", creatable(f"{name}-none", 0)),
        ("partitions -2", creatable(f"{name}-none", -2)),
        ("no replicas", creatable(f"{name}-none", 1, 0)),
        ("replicas -2", creatable(f"{name}-none", 1, -2)),
        ("too many replicas", creatable(f"{name}-none", 1, 2)),
        ("empty name", creatable("")),
        ("a dot", creatable(".")),
        ("two dots", creatable("..")),
        ("a space", creatable("bad name")),
        ("umlaut", creatable("\u00fcbel")),
        ("249 characters", creatable(f"{name}-".ljust(249, "x"))),
        ("250 characters", creatable(f"{name}-".ljust(250, "x"))),
        ("dots and underscores", creatable(f"{name}.a_b")),
        ("colliding", creatable(f"{name}_a.b")),
        ("cluster metadata", creatable("__cluster_metadata")),
        ("assigned", creatable(f"{name}-assigned", -1, -1, assignments={0: [NODE], 1: [NODE]})),
        ("assigned, count given", creatable(f"{name}-both", 1, -1, assignments={0: [NODE]})),
        ("assigned, replicas given", creatable(f"{name}-both", -1, 1, assignments={0: [NODE]})),
        ("assigned, both given", creatable(f"{name}-both", 1, 1, assignments={0: [NODE]})),
        ("assigned from 1", creatable(f"{name}-gap", -1, -1, assignments={1: [NODE]})),
        (
            "assigned with a gap",
            creatable(f"{name}-gap", -1, -1, assignments={0: [NODE], 2: [NODE]}),
        ),
        ("assigned -1", creatable(f"{name}-gap", -1, -1, assignments={-1: [NODE]})),
        ("assigned to a stranger", creatable(f"{name}-gap", -1, -1, assignments={0: [77]})),
        ("assigned to -1", creatable(f"{name}-gap", -1, -1, assignments={0: [-1]})),
        ("assigned to nobody", creatable(f"{name}-gap", -1, -1, assignments={0: []})),
        ("assigned twice", creatable(f"{name}-gap", -1, -1, assignments={0: [NODE, NODE]})),
        ("uneven", creatable(f"{name}-gap", -1, -1, assignments={0: [NODE], 1: [NODE, 77]})),
    ]


def settings(name: str) -> list[tuple[str, CreatableTopic]]:
    """Settings with valid and invalid names and values."""
    given: list[dict[str, str | None]] = [
        {"retention.ms": "1000"},
        {"retention.ms": "-1", "retention.bytes": "5", "cleanup.policy": "delete"},
        {"retention.ms": "-2"},
        {"retention.ms": "soon"},
        {"retention.ms": ""},
        {"retention.ms": None},
        {"no.such.setting": "1"},
        {"cleanup.policy": "burn"},
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact, delete"},
        {"cleanup.policy": "delete,delete"},
        {"cleanup.policy": "compact,burn"},
        {"cleanup.policy": ""},
        {"compression.type": "lzma"},
        {"compression.type": "zstd", "compression.zstd.level": "99"},
        {"compression.gzip.level": "10"},
        {"max.message.bytes": "-1"},
        {"max.message.bytes": "12345678901"},
        {"segment.bytes": "10"},
        {"segment.bytes": "1048576"},
        {"segment.ms": "0"},
        {"min.insync.replicas": "0"},
        {"min.insync.replicas": "5"},
        {"message.timestamp.type": "Whenever"},
        {"message.timestamp.type": "LogAppendTime"},
        {"unclean.leader.election.enable": "yes"},
        {"unclean.leader.election.enable": "TRUE"},
        {"flush.messages": "0"},
        {"local.retention.ms": "-3"},
        {"retention.ms": " 77 "},
    ]
    return [
        (str(configs), creatable(f"{name}-config-{number}", configs=configs))
        for number, configs in enumerate(given)
    ]


def several(peer: Peer, version: int) -> None:
    """Several topics in a request: valid ones, an invalid one, the same twice."""
    name = f"create-v{version}-several"
    good = creating(creatable(f"{name}-a"), creatable(f"{name}-b", 2), creatable("bad name"))
    peer.call(f"v{version} two good ones and a bad one", good, version)
    twice = creating(creatable(f"{name}-c"), creatable(f"{name}-c", 2), creatable(f"{name}-d"))
    peer.call(f"v{version} the same twice", twice, version)
    repeated = creatable(f"{name}-e", configs={"retention.ms": "5"})
    repeated.configs = repeated.configs * 2
    peer.call(f"v{version} a setting twice", creating(repeated), version)
    peer.call(f"v{version} nothing", creating(), version)
    names = [f"{name}-{letter}" for letter in "abcde"]
    for made in ("a", "b", "d", "e"):
        peer.until_partition(f"{name}-{made}", 0, 0)
    described(peer, f"v{version} afterwards", *names)


def create_partitions(peer: Peer) -> None:
    """Counts and assignments."""
    for version in peer.each_version(CreatePartitionsRequest):
        name = f"grow-v{version}"
        peer.new_topic(name, 2)
        peer.new_topic(f"{name}-b", 1)
        for count, assignments in (
            (0, None),
            (-1, None),
            (1, None),
            (2, None),
            (3, [[77]]),
            (3, [[]]),
            (3, []),
            (3, [[1], [1]]),
            (3, [[1, 1]]),
            (4, [[1], [1, 2]]),
            (3, None),
            (4, [[1]]),
        ):
            wanted = growing(name, count, assignments)  # type: ignore[arg-type]
            for validate_only in (True, False):
                request = CreatePartitionsRequest(
                    topics=[wanted], timeout_ms=15000, validate_only=validate_only
                )
                told = "checked" if validate_only else "made"
                peer.call(f"v{version} {count} as {assignments}, {told}", request, version)
        for label, topics in (
            ("unknown", [growing(f"{name}-none", 3)]),
            ("empty name", [growing("", 3)]),
            ("twice", [growing(f"{name}-b", 2), growing(f"{name}-b", 3)]),
            ("one of two", [growing(f"{name}-b", 2), growing(f"{name}-none", 3)]),
            ("nothing", []),
        ):
            request = CreatePartitionsRequest(topics=topics, timeout_ms=15000, validate_only=False)
            peer.call(f"v{version} {label}", request, version)
        huge = CreatePartitionsRequest(
            topics=[growing(name, 100_000)], timeout_ms=15000, validate_only=True
        )
        peer.call(f"v{version} huge", huge, version)
        peer.until_partition(f"{name}-b", 1, 0)
        peer.until_partition(name, 3, 0)
        described(peer, f"v{version} afterwards", name, f"{name}-b")


def growing(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    given = None
    if assignments is not None:
        given = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


def delete(peer: Peer) -> None:
    """By name and by id, twice, both at once, unknown topics."""
    for version in peer.each_version(DeleteTopicsRequest):
        name = f"delete-v{version}"
        ids = {letter: peer.new_topic(f"{name}-{letter}") for letter in "abcdef"}
        for label, names in (
            ("one", [f"{name}-a"]),
            ("again", [f"{name}-a"]),
            ("unknown", [f"{name}-none", ""]),
            ("the same twice", [f"{name}-b", f"{name}-b"]),
            ("unknown twice", ["no", "no"]),
            ("a good one and a bad one", [f"{name}-c", "bad name"]),
            ("nothing", []),
        ):
            peer.call(f"v{version} {label}", by_name(version, *names), version)
        if version >= BY_ID_SINCE:
            delete_by_id(peer, version, name, ids)
        for gone in ("a", "c"):
            peer.until_partition(f"{name}-{gone}", 0, 3)
        described(peer, f"v{version} afterwards", *(f"{name}-{letter}" for letter in "abcdef"))


def delete_by_id(peer: Peer, version: int, name: str, ids: dict[str, UUID]) -> None:
    def state(topic: str | None, topic_id: UUID = ZERO_UUID) -> DeleteTopicState:
        return DeleteTopicState(name=topic, topic_id=topic_id)

    for label, states in (
        ("by id", [state(None, ids["d"])]),
        ("by id again", [state(None, ids["d"])]),
        ("by id and name", [state(f"{name}-e", ids["e"])]),
        ("by id, and by name", [state(f"{name}-e"), state(None, ids["e"])]),
        ("by id twice", [state(None, ids["e"]), state(None, ids["e"])]),
        ("unknown id", [state(None, UNKNOWN_ID)]),
        ("unknown id twice", [state(None, UNKNOWN_ID), state(None, UNKNOWN_ID)]),
        ("neither", [state(None)]),
        ("one of each", [state(None, ids["e"]), state(f"{name}-f"), state("bad name")]),
    ):
        request = DeleteTopicsRequest(topics=states, timeout_ms=15000)
        peer.call(f"v{version} {label}", request, version)
    peer.until_partition(f"{name}-f", 0, 3)


def by_name(version: int, *names: str) -> DeleteTopicsRequest:
    """Return the request in the form of this version."""
    if version >= BY_ID_SINCE:
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
        return DeleteTopicsRequest(topics=states, timeout_ms=15000)
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=15000)
