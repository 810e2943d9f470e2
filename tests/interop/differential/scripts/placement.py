"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments with one broker."""

from __future__ import annotations

from interop.differential.peer import Peer
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

TYPE_SINCE, FACTOR_SINCE = 1, 1
PARTITIONS: tuple[tuple[str, list[int]], ...] = (
    ("placed", [0]),
    ("placed", [0, 1]),
    ("placed", [1, 1]),
    ("placed", [5]),
    ("placed", [-1]),
    ("placed", []),
    ("placed-none", [0]),
    ("bad name", [0]),
    ("", [0]),
)


def elections(peer: Peer) -> None:
    """Elections of each type, of some partitions, of all, of unknown ones."""
    peer.new_topic("placed", 2)
    for version in peer.each_version(ElectLeadersRequest):
        for kind in (0, 1, 2, -1) if version >= TYPE_SINCE else (0,):
            for name, partitions in PARTITIONS:
                request = ElectLeadersRequest(
                    election_type=kind,
                    topic_partitions=[TopicPartitions(topic=name, partitions=partitions)],
                )
                peer.call(f"v{version} type {kind} {name!r} {partitions}", request, version)
            for label, topics in (
                ("all", None),
                ("nothing", []),
                ("twice", [("placed", [0]), ("placed", [1])]),
                ("several", [("placed", [0]), ("placed-none", [0])]),
            ):
                request = ElectLeadersRequest(
                    election_type=kind,
                    topic_partitions=None
                    if topics is None
                    else [TopicPartitions(topic=name, partitions=each) for name, each in topics],
                )
                peer.call(f"v{version} type {kind} {label}", request, version)


Move = tuple[str, int, list[int] | None]
MOVES: tuple[tuple[Move, ...], ...] = (
    (("moved", 0, [1]),),
    (("moved", 0, [77]),),
    (("moved", 0, [1, 77]),),
    (("moved", 0, [1, 1]),),
    (("moved", 0, [-1]),),
    (("moved", 0, []),),
    (("moved", 0, None),),
    (("moved", 9, [1]),),
    (("moved", 9, None),),
    (("moved-none", 0, [1]),),
    (("moved-none", 0, None),),
    (("", 0, [1]),),
    (("moved", 0, [1]), ("moved", 1, [1])),
    (("moved", 0, [1]), ("moved", 0, [1])),
    (("moved", 0, [1]), ("moved", 0, [77]), ("moved-none", 3, None)),
    (),
)


def reassignments(peer: Peer) -> None:
    """Reassignments to where the partitions are, elsewhere, and none; cancelling; listing."""
    peer.new_topic("moved", 2)
    for version in peer.each_version(AlterPartitionReassignmentsRequest):
        for moves in MOVES:
            for allowed in (True, False) if version >= FACTOR_SINCE else (True,):
                request = AlterPartitionReassignmentsRequest(
                    allow_replication_factor_change=allowed,
                    topics=[
                        ReassignableTopic(
                            name=name,
                            partitions=[
                                ReassignablePartition(partition_index=index, replicas=replicas)
                            ],
                        )
                        for name, index, replicas in moves
                    ],
                )
                peer.call(f"v{version} {moves} {allowed}", request, version)
    for version in peer.each_version(ListPartitionReassignmentsRequest):
        for label, topics in (
            ("all", None),
            ("nothing", []),
            ("some", [("moved", [0, 1])]),
            ("unknown", [("moved", [9]), ("moved-none", [0]), ("bad name", [0])]),
            ("twice", [("moved", [0]), ("moved", [0])]),
        ):
            listing = ListPartitionReassignmentsRequest(
                topics=None
                if topics is None
                else [
                    ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                    for name, indexes in topics
                ]
            )
            peer.call(f"v{version} listing {label}", listing, version)
