"""A cluster of three nodes: creating, reassigning, electing, describing it and its quorum.

Leaders are those that Kafka's rules give: assignments are given by hand, and each step waits until
all replicas are in sync. Who is the active controller is up to elections, so it is left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from interop.differential.peer import Peer, creatable
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from odradek.protocol.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest
from odradek.protocol.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TOPIC = "placed"
STABLE_S = 1.0
ASSIGNED: tuple[tuple[int, ...], ...] = ((1, 2, 3), (2, 3, 1), (3, 1, 2))

REFUSED: tuple[tuple[str, list[int] | None], ...] = (
    ("unknown broker", [1, 2, 77]),
    ("twice the same", [1, 1, 2]),
    ("negative", [-1]),
    ("empty", []),
    ("nothing to cancel", None),
)


def create(peer: Peer, label: str, **given: Any) -> None:
    topic = creatable(given.pop("name", TOPIC), given.pop("partitions", -1), **given)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=15_000)
    peer.call(label, request, peer.versions[19][-1])


def await_in_sync(peer: Peer) -> None:
    """Wait until all partitions have a leader, all replicas are in sync and nothing moves."""

    def is_in_sync() -> bool:
        topics = peer.ask(MetadataRequest(topics=None), 9).topics
        moving = peer.ask(ListPartitionReassignmentsRequest(), 0).topics
        return not moving and all(
            each.leader_id > 0 and sorted(each.isr_nodes) == sorted(each.replica_nodes)
            for topic in topics
            for each in topic.partitions
        )

    peer.until(is_in_sync)


def placement(peer: Peer, label: str) -> None:
    """Record leaders, replicas and in-sync replicas, once all are in sync."""
    await_in_sync(peer)
    found, since = placed(peer), time.monotonic()
    while time.monotonic() - since < STABLE_S:  # A decision reaches the node that is asked later.
        time.sleep(0.05)
        now = placed(peer)
        if now != found:
            found, since = now, time.monotonic()
    peer.note(label, found)


def placed(peer: Peer) -> list[list[str]]:
    """Return leader, replicas and in-sync replicas of each partition."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    (topic,) = peer.ask(asked, 9).topics
    return [
        [str(each.leader_id), str(each.replica_nodes), str(sorted(each.isr_nodes))]
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]


def creations(peer: Peer) -> None:
    """Replication factors and assignments that three brokers can have, and others."""
    create(peer, "factor 3", name="three", partitions=2, factor=3)
    create(peer, "factor 4", name="four", partitions=1, factor=4)
    create(peer, "factor 0", name="zero", partitions=1, factor=0)
    for label, assignment in (
        ("on all", ASSIGNED),
        ("on one twice", ((1, 1),)),
        ("on an unknown one", ((1, 77),)),
        ("of different sizes", ((1, 2), (3,))),
        ("on none", ((),)),
    ):
        create(
            peer,
            f"assigned {label}",
            name=TOPIC if label == "on all" else "others",
            factor=-1,
            assignments=dict(enumerate(map(list, assignment))),
        )
    placement(peer, "placed")
    described(peer, "described")
    for label, assignments in (
        ("more", [[1, 2, 3]]),
        ("more of another size", [[1, 2]]),
        ("more on an unknown one", [[1, 2, 77]]),
    ):
        added = CreatePartitionsTopic(
            name=TOPIC,
            count=4,
            assignments=[CreatePartitionsAssignment(broker_ids=ids) for ids in assignments],
        )
        request = CreatePartitionsRequest(topics=[added], timeout_ms=15_000, validate_only=True)
        peer.call(label, request, peer.versions[37][-1])


def described(peer: Peer, label: str) -> None:
    """Record DescribeTopicPartitions, which has eligible leader replicas."""
    await_in_sync(peer)
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])
    response = peer.ask(request, 0)
    for topic in response.topics:
        for partition in topic.partitions:
            partition.isr_nodes.sort()  # A set: Kafka's order is that of a hash table.
            partition.leader_epoch = 0
    peer.note(label, peer.plain(response))


def move(
    peer: Peer, label: str, *moves: tuple[str, int, list[int] | None], factor: bool = True
) -> None:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=factor,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=number, replicas=replicas)],
            )
            for name, number, replicas in moves
        ],
    )
    peer.call(label, request, peer.versions[45][-1])


def elect(peer: Peer, label: str, kind: int, *partitions: tuple[str, Sequence[int]]) -> None:
    topics = [TopicPartitions(topic=name, partitions=list(numbers)) for name, numbers in partitions]
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=topics or None, timeout_ms=15_000
    )
    peer.call(label, request, peer.versions[43][-1])


def moves(peer: Peer) -> None:
    """Reassignments that grow, shrink, move and reorder, what is refused, and elections after."""
    create(peer, "created", factor=-1, assignments=dict(enumerate(map(list, ASSIGNED))))
    await_in_sync(peer)
    for label, replicas in (
        ("in another order", [2, 1, 3]),
        ("fewer", [1, 2]),
        ("one", [3]),
        ("two again", [3, 1]),
        ("all again", [1, 2, 3]),
    ):
        move(peer, label, (TOPIC, 0, replicas))
        placement(peer, f"{label}: placed")
    for label, target in REFUSED:
        move(peer, label, (TOPIC, 0, target))
    move(peer, "other factor refused", (TOPIC, 0, [1, 2]), factor=False)
    move(peer, "same factor", (TOPIC, 0, [3, 2, 1]), factor=False)
    placement(peer, "same factor: placed")
    move(peer, "some refused", (TOPIC, 1, [3, 2]), (TOPIC, 9, [1]), ("none", 0, [1]))
    placement(peer, "some refused: placed")
    for label, asked in (("all", None), ("some", [(TOPIC, [0, 1])]), ("unknown", [("none", [0])])):
        listing = ListPartitionReassignmentsRequest(
            topics=None
            if asked is None
            else [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in asked
            ]
        )
        peer.call(f"listing {label}", listing, 0)
    elect(peer, "preferred", 0, (TOPIC, [0, 1, 2]))
    placement(peer, "preferred: placed")
    elect(peer, "preferred again", 0, (TOPIC, [0, 1, 2]))
    elect(peer, "preferred of all", 0)
    elect(peer, "unclean", 1, (TOPIC, [0, 1]))
    elect(peer, "unclean of all", 1)
    elect(peer, "unknown", 0, (TOPIC, [9]), ("none", [0]))
    described(peer, "described")


def cluster(peer: Peer) -> None:
    """The cluster, its quorum, its features, brokers that do not exist."""
    for version in peer.each_version(DescribeClusterRequest):
        response = peer.ask(
            DescribeClusterRequest(include_cluster_authorized_operations=False), version
        )
        assert response.controller_id in (1, 2, 3)
        response.controller_id = 0
        response.cluster_id = "the cluster"
        peer.note(f"cluster v{version}", peer.plain(response))
    for version in peer.each_version(DescribeQuorumRequest):
        response = peer.ask(quorum_request(), version)
        peer.note(f"quorum v{version}", unpositioned(peer.plain(response)))
    for broker_id in (77, -1):
        request = UnregisterBrokerRequest(broker_id=broker_id)
        peer.call(f"unregister {broker_id}", request, 0)
    for feature, level, kind in (
        ("eligible.leader.replicas.version", 1, 1),
        ("eligible.leader.replicas.version", 2, 1),
        ("metadata.version", 30, 1),
        ("metadata.version", 99, 1),
        ("no.such.feature", 1, 1),
    ):
        update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
        request_ = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
        peer.call(f"{feature}={level}", request_, peer.versions[57][-1])


def quorum_request() -> DescribeQuorumRequest:
    partition = DescribeQuorumPartition(partition_index=0)
    topic = DescribeQuorumTopic(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


POSITIONS = ("leader_id", "leader_epoch", "high_watermark", "log_end_offset")
DRAWN = ("replica_directory_id",)
OWN_NAMES = ("CLUSTER", "CONTROLLER")
"""The listener for nodes has this name here, and that one by Kafka's settings."""


def unpositioned(tree: Any) -> Any:
    """Return the tree without what depends on elections and on the length of the log."""
    if isinstance(tree, dict):
        return {
            "<own>" if key in OWN_NAMES else key: "<n>"
            if key in POSITIONS or (key in DRAWN and value != "no id")
            else unpositioned(value)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [unpositioned(each) for each in tree]
    return "<own>" if tree in OWN_NAMES else tree


SCRIPTS = {"creations": creations, "moves": moves, "cluster": cluster}
