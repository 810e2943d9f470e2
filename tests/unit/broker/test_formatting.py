"""Directories that are formatted with the voters of a new cluster (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from odradek.broker.formatting import format_directory
from odradek.log.directory_identity import MetaProperties
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.raft.snapshot_files import SnapshotId
from odradek.testing.machine import DATA_DIRECTORY, host_of
from unit.broker.cluster_nodes import CLUSTER_ID, CLUSTER_PORT, ClusterNodes

METADATA = f"{DATA_DIRECTORY}/__cluster_metadata-0"


def identity(number: int) -> MetaProperties:
    return MetaProperties(CLUSTER_ID, number, UUID(int=1000 + number))


def voters(port: int = CLUSTER_PORT) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(number, identity(number).directory_id),
            (QuorumEndpoint("CLUSTER", host_of(number), port),),
        )
        for number in (1, 2, 3)
    )


def formatted(port: int = CLUSTER_PORT) -> ClusterNodes:
    """Four machines, the first three with a formatted directory."""
    nodes = ClusterNodes(4)
    for number in (1, 2, 3):
        disk = nodes.machines[number].disk.mount()
        format_directory(disk, DATA_DIRECTORY, identity(number), voters(port), now_ms=0)
    return nodes


def test_formatted_nodes_are_voters_known_by_their_directories_from_the_start() -> None:
    nodes = formatted().boot(1, 2, 3)
    nodes.until(nodes.all_ready)
    assert len(nodes.controllers) == 1
    for node in nodes.running:
        assert node.metadata.raft.core.log.voters == voters()
        assert node.directory.meta == identity(node.config.node_id)


def test_a_node_that_joins_later_learns_the_voters_from_the_log() -> None:
    nodes = formatted().boot(1, 2, 3)
    nodes.until(nodes.all_ready)
    nodes.of_node[4] = {"controller.quorum.bootstrap.servers": f"{host_of(2)}:{CLUSTER_PORT}"}
    nodes.boot(4)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert nodes.node(4).metadata.raft.core.log.voters == voters()


def test_a_formatted_directory_survives_a_power_failure_right_after() -> None:
    nodes = formatted()
    for number in (1, 2, 3):
        nodes.machines[number].power_loss()
    nodes.boot(1, 2, 3)
    nodes.until(nodes.all_ready)
    assert len(nodes.controllers) == 1


def test_voters_that_have_all_moved_find_each_other_by_their_new_addresses() -> None:
    nodes = formatted(port=1)  # Nobody listens there.
    moved = ",".join(f"{number}@{host_of(number)}:{CLUSTER_PORT}" for number in (1, 2, 3, 9))
    nodes.settings["controller.quorum.moved.voters"] = moved
    nodes.boot(1, 2, 3)
    nodes.until(nodes.all_ready)
    assert len(nodes.controllers) == 1


def test_the_voters_are_known_if_the_first_snapshot_went_before_the_log_was_shortened() -> None:
    nodes = formatted().boot(1, 2, 3)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    for number in (1, 2, 3):
        node = nodes.node(number)
        node.metadata.snapshot()
        nodes.until(lambda each=node: each.metadata.idle)  # type: ignore[misc]
        assert node.metadata.raft.log.log_start_offset == 0
        nodes.machines[number].kill()
    for number in (1, 2, 3):
        disk = nodes.machines[number].disk.mount()
        disk.remove(f"{METADATA}/{SnapshotId(0, 0).file_name}")
    nodes.boot(1, 2, 3)
    nodes.until(nodes.all_ready)
    assert nodes.node(1).metadata.raft.core.log.voters == voters()
