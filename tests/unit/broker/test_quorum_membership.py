"""What a node asks of the quorum about its own entry among the voters."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.broker.quorum_membership import next_voter_change
from odradek.protocol.api.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.api.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.api.update_raft_voter import UpdateRaftVoterRequest
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.testing.machine import host_of
from odradek.testing.scheduler import SECOND
from unit.broker.cluster_nodes import CLUSTER_PORT, ClusterNodes

JOINS = "controller.quorum.auto.join.enable"


def voter(number: int, port: int = CLUSTER_PORT, disk: int = 0) -> Voter:
    key = ReplicaKey(number, UUID(int=1000 + number + 100 * disk))
    return Voter(key, (QuorumEndpoint("CLUSTER", host_of(number), port),))


def wanted(
    me: Voter, *voters: Voter, joins: bool = True, brokers: int = 3
) -> AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest | None:
    return next_voter_change(
        me, VoterSet(voters), joins=joins, brokers=brokers, cluster_id="c", epoch=5
    )


@pytest.mark.parametrize("joins", [False, True])
def test_a_voter_as_it_is_wants_nothing(joins: bool) -> None:
    assert wanted(voter(1), voter(1), voter(2), joins=joins) is None


def test_a_voter_that_moved_tells_its_address() -> None:
    change = wanted(voter(1, port=7), voter(1), voter(2), joins=False)
    assert isinstance(change, UpdateRaftVoterRequest)
    assert (change.voter_id, change.current_leader_epoch) == (1, 5)
    assert [each.port for each in change.listeners] == [7]


def test_the_third_node_makes_three_voters_of_one() -> None:
    assert wanted(voter(2), voter(1), brokers=2) is None
    change = wanted(voter(3), voter(1), brokers=3)
    assert isinstance(change, AddRaftVoterRequest)
    assert not change.ack_when_committed
    assert isinstance(wanted(voter(2), voter(1), voter(3)), AddRaftVoterRequest)


def test_a_fourth_node_does_not_become_a_voter_by_itself() -> None:
    assert wanted(voter(4), voter(1), voter(2), voter(3), brokers=4) is None


def test_a_node_that_does_not_join_by_itself_asks_for_nothing() -> None:
    assert wanted(voter(3), voter(1), joins=False) is None
    assert wanted(voter(1, disk=1), voter(1), joins=False) is None


def test_the_voter_of_a_disk_that_was_replaced_is_removed_first() -> None:
    change = wanted(voter(2, disk=1), voter(1), voter(2), voter(3))
    assert isinstance(change, RemoveRaftVoterRequest)
    assert change.voter_directory_id == voter(2).key.directory_id


def test_voters_of_the_settings_do_not_change() -> None:
    assert wanted(voter(3), Voter(ReplicaKey(1))) is None


# In a cluster


def joining(count: int) -> ClusterNodes:
    """Node 1, and others that join it and become voters by themselves."""
    nodes = ClusterNodes(count)
    for number in range(2, count + 1):
        bootstrap = f"{host_of(1)}:{CLUSTER_PORT}"
        nodes.of_node[number] = {"controller.quorum.bootstrap.servers": bootstrap, JOINS: "true"}
    nodes.boot(1)
    nodes.until(nodes.all_ready)
    return nodes


def voters_of(nodes: ClusterNodes) -> set[int]:
    return set(nodes.running[0].metadata.raft.core.log.voters.ids)


def test_two_nodes_have_one_voter_and_three_nodes_three_of_whom_one_may_fail() -> None:
    nodes = joining(3)
    nodes.boot(2)
    nodes.until(nodes.all_ready)
    nodes.scheduler.run(nodes.scheduler.now_ns + 5 * SECOND)
    assert voters_of(nodes) == {1}
    nodes.boot(3)
    nodes.until(lambda: voters_of(nodes) == {1, 2, 3})
    nodes.until(nodes.agree)
    nodes.machines[1].kill()
    nodes.until(lambda: len(nodes.controllers) == 1)
    nodes.create(nodes.controllers[0], "without-the-first")


def test_a_voter_whose_disk_was_replaced_votes_again_with_its_new_directory() -> None:
    nodes = joining(3)
    nodes.boot(2, 3)
    nodes.until(lambda: voters_of(nodes) == {1, 2, 3})
    nodes.until(nodes.all_ready)
    nodes.machines[3].kill()
    nodes.machines[3].wipe()
    nodes.scheduler.run(nodes.scheduler.now_ns + SECOND)  # Its session ends.
    nodes.boot(3)

    def votes_with_its_disk() -> bool:
        replaced = nodes.node(3).directory.meta.directory_id
        present = nodes.node(1).metadata.raft.core.log.voters.get(3)
        return present is not None and present.key.directory_id == replaced

    nodes.until(votes_with_its_disk)
    nodes.until(nodes.all_ready)


@pytest.mark.parametrize("moved", [1, 2])
def test_a_voter_that_comes_back_at_another_address_is_known_there(moved: int) -> None:
    nodes = joining(3)
    nodes.boot(2, 3)
    nodes.until(lambda: voters_of(nodes) == {1, 2, 3})
    nodes.until(nodes.all_ready)
    nodes.machines[moved].kill()
    host, port = host_of(moved), CLUSTER_PORT + 1
    nodes.of_node.setdefault(moved, {}).update(
        {
            "listeners": f"PLAINTEXT://0.0.0.0:9092,CLUSTER://0.0.0.0:{port}",
            "advertised.listeners": f"PLAINTEXT://{host}:9092,CLUSTER://{host}:{port}",
        }
    )
    nodes.boot(moved)

    def is_known() -> bool:
        return all(
            voter is not None and voter.endpoints[0].port == port
            for node in nodes.running
            if (voter := node.metadata.raft.core.log.voters.get(moved)) is not None
        )

    nodes.until(is_known)
    nodes.until(nodes.all_ready)
