"""Several nodes in one simulation: their quorum, registrations, and the metadata they share."""

from __future__ import annotations

import errno
from collections.abc import Callable
from copy import deepcopy

import pytest

from odradek.broker.node import StartFailed
from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.log.fence import LogDirFailure
from odradek.log.log_directory import DURABLE_EPOCH_FILE
from odradek.network_client.broker_connections import Purpose
from odradek.raft.effects import AddVoter
from odradek.raft.messages import RaftResponse
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter
from odradek.testing.machine import DATA_DIRECTORY, host_of
from odradek.testing.scheduler import MS, SECOND
from unit.broker.cluster_nodes import CLUSTER_PORT, VOTERS, ClusterNodes, three_voters


def test_three_nodes_elect_a_controller_and_are_registered_before_clients_come() -> None:
    nodes = ClusterNodes(3, controller_quorum_voters=VOTERS)
    nodes.boot(1)
    nodes.scheduler.run(5 * SECOND)
    assert not nodes.node(1).is_ready  # One of three voters decides nothing.
    nodes.boot(2, 3)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert len(nodes.controllers) == 1
    brokers = nodes.node(1).metadata.committed.brokers
    assert {number: broker.fenced for number, broker in brokers.items()} == {
        1: False,
        2: False,
        3: False,
    }


def test_new_nodes_do_not_wait_for_election_timeouts() -> None:
    nodes = ClusterNodes(3, controller_quorum_voters=VOTERS).boot()
    assert nodes.until(nodes.all_ready) < 500


def test_a_decision_asked_of_any_node_is_committed_on_all() -> None:
    nodes = three_voters()
    nodes.create(nodes.other_than_controller(), "asked-elsewhere")
    nodes.create(nodes.controllers[0], "asked-here")
    nodes.until(nodes.agree)


def test_the_metadata_survives_a_killed_controller_and_its_node_comes_back() -> None:
    nodes = three_voters()
    nodes.create(nodes.controllers[0], "before")
    first = nodes.controllers[0].config.node_id
    nodes.machines[first].kill()
    took_ms = nodes.until(lambda: len(nodes.controllers) == 1)
    assert took_ms < 500  # The closed connections begin an election, not the fetch timeout.
    nodes.create(nodes.other_than_controller(), "after")
    nodes.boot(first)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert set(nodes.node(first).metadata.committed.topics) >= {"before", "after"}


def test_a_power_failure_of_all_nodes_loses_nothing_committed() -> None:
    nodes = three_voters()
    nodes.create(nodes.controllers[0], "kept")
    for machine in nodes.machines.values():
        machine.power_loss()
    nodes.boot()
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert nodes.has_topic("kept")()


def joined(count: int) -> ClusterNodes:
    """Node 1 begins a cluster alone, others join it as observers of its quorum."""
    nodes = ClusterNodes(count)
    for number in range(2, count + 1):
        bootstrap = f"{host_of(1)}:{CLUSTER_PORT}"
        nodes.of_node[number] = {"controller.quorum.bootstrap.servers": bootstrap}
    nodes.boot(1)
    nodes.until(nodes.all_ready)
    return nodes


def test_nodes_that_join_one_become_voters_and_outlive_it() -> None:
    nodes = joined(3)
    nodes.create(nodes.node(1), "alone")
    nodes.boot(2, 3)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    raft = nodes.node(1).metadata.raft
    assert raft.core.log.voters.ids == {1}
    answers: list[RaftResponse] = []
    for number in (2, 3):
        key = ReplicaKey(number, nodes.node(number).directory.meta.directory_id)
        at = QuorumEndpoint("CLUSTER", host_of(number), CLUSTER_PORT)
        raft.change_voters(
            AddVoter(lambda response, _: answers.append(response), Voter(key, (at,)))
        )
        nodes.until(lambda wanted=number - 1: len(answers) == wanted)  # type: ignore[misc]
    assert [answer.error.name for answer in answers] == ["NONE", "NONE"]
    nodes.machines[1].kill()
    nodes.until(lambda: len(nodes.controllers) == 1)
    nodes.create(nodes.controllers[0], "without-the-first")
    nodes.boot(1)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert nodes.node(1).metadata.raft.core.log.voters.ids == {1, 2, 3}


def test_a_node_that_joins_late_gets_a_snapshot_and_the_records_after_it() -> None:
    nodes = joined(2)
    first = nodes.node(1)
    for number in range(3):
        nodes.create(first, f"t{number}")
        first.metadata.snapshot()
        nodes.until(lambda: first.metadata.idle)
    assert first.metadata.raft.log.log_start_offset > 0
    nodes.create(first, "after")
    nodes.boot(2)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert nodes.node(2).metadata.raft.log.log_start_offset > 0


def fenced(nodes: ClusterNodes, number: int) -> bool:
    """True if the active controller has fenced a node."""
    return all(each.metadata.committed.brokers[number].fenced for each in nodes.controllers)


def test_a_killed_broker_is_fenced_half_a_second_later_and_comes_back_at_once() -> None:
    nodes = three_voters()
    away = nodes.other_than_controller().config.node_id
    nodes.machines[away].kill()
    assert 500 <= nodes.until(lambda: fenced(nodes, away)) < 600
    nodes.boot(away)
    nodes.until(lambda: nodes.all_ready() and not fenced(nodes, away))


def test_a_broker_that_is_killed_and_started_again_does_not_wait_for_its_session_to_end() -> None:
    nodes = three_voters()
    away = nodes.other_than_controller().config.node_id
    nodes.machines[away].kill()
    nodes.boot(away)
    assert nodes.until(nodes.all_ready) < 500


def test_the_broker_of_a_killed_controller_is_fenced_by_the_next_one() -> None:
    nodes = three_voters()
    first = nodes.controllers[0].config.node_id
    nodes.machines[first].kill()
    nodes.until(lambda: len(nodes.controllers) == 1)
    assert nodes.until(lambda: fenced(nodes, first)) < 600
    assert not any(fenced(nodes, node.config.node_id) for node in nodes.running)


def test_all_nodes_that_are_killed_are_ready_again_without_waiting_for_sessions() -> None:
    nodes = three_voters()
    for machine in nodes.machines.values():
        machine.kill()
    nodes.boot()
    assert nodes.until(nodes.all_ready) < 500


def test_a_lost_connection_of_a_broker_that_runs_does_not_fence_it() -> None:
    nodes = three_voters()
    away = nodes.other_than_controller()
    number = away.config.node_id
    client = nodes.member(away).connections.client(Purpose.CONTROLLER)
    for _ in range(5):
        at = nodes.controllers[0].config.node_id
        nodes.run(number, lambda: client.disconnect(at, "the test"))  # noqa: B023 (runs at once)
        nodes.scheduler.run(nodes.scheduler.now_ns + 700 * MS)
        assert not fenced(nodes, number)


def stopped(nodes: ClusterNodes, *numbers: int) -> Callable[[], bool]:
    """Stop nodes as SIGTERM does; return what is true once all have ended by themselves."""
    ended: list[bool] = []
    for number in numbers:
        nodes.machines[number].stop(60 * SECOND, ended.append)
    return lambda: ended == [True] * len(numbers)


def test_a_node_that_stops_is_fenced_before_it_is_gone_and_may_register_at_once() -> None:
    nodes = three_voters()
    number = nodes.other_than_controller().config.node_id
    assert nodes.until(stopped(nodes, number)) < 300
    assert fenced(nodes, number)
    epoch = nodes.controllers[0].metadata.committed.brokers[number].epoch
    nodes.boot(number)
    assert nodes.node(number).directory.previous_broker_epoch == epoch
    assert nodes.until(nodes.all_ready) < 500


@pytest.mark.parametrize(("durability", "keeps"), [("fsync", True), ("os", False)])
def test_a_node_that_is_killed_tells_its_epoch_if_only_durable_bytes_counted(
    durability: str, *, keeps: bool
) -> None:
    nodes = three_voters(log_durability=durability)
    number = nodes.other_than_controller().config.node_id
    epoch = nodes.controllers[0].metadata.committed.brokers[number].epoch
    nodes.machines[number].kill()
    nodes.boot(number)
    assert nodes.node(number).directory.previous_broker_epoch == (epoch if keeps else -1)


def test_only_a_life_with_fsyncs_keeps_its_epoch() -> None:
    nodes = three_voters()
    number = nodes.other_than_controller().config.node_id
    for durability in ("fsync", "os", "fsync"):
        nodes.machines[number].kill()
        nodes.of_node[number] = {"log.durability": durability}
        nodes.boot(number)
        nodes.until(nodes.all_ready)
        nodes.scheduler.run(nodes.scheduler.now_ns + 100 * MS)
        files = nodes.machines[number].disk.names(DATA_DIRECTORY)
        assert (DURABLE_EPOCH_FILE in files) is (durability == "fsync")


def test_a_node_whose_disk_failed_tells_no_epoch() -> None:
    nodes = three_voters()
    number = nodes.other_than_controller().config.node_id
    failure = LogDirFailure(DATA_DIRECTORY, OSError(errno.EIO, "failed"))
    nodes.run(number, lambda: nodes.node(number).replicas.fail_directory(failure))
    nodes.scheduler.run(nodes.scheduler.now_ns + 100 * MS)
    nodes.machines[number].kill()
    nodes.boot(number)
    assert nodes.node(number).directory.previous_broker_epoch == -1


def test_an_older_copy_of_a_directory_has_an_epoch_that_is_over() -> None:
    nodes = three_voters()
    number = nodes.other_than_controller().config.node_id
    machine = nodes.machines[number]
    machine.kill()
    copy = deepcopy(machine.disk.root)
    nodes.boot(number)
    nodes.until(nodes.all_ready)
    epoch = nodes.controllers[0].metadata.committed.brokers[number].epoch
    machine.kill()
    machine.disk.root = copy
    nodes.boot(number)
    assert -1 < nodes.node(number).directory.previous_broker_epoch < epoch
    nodes.until(nodes.all_ready)


def test_a_controller_that_stops_hands_over() -> None:
    nodes = three_voters()
    first = nodes.controllers[0].config.node_id
    assert nodes.until(stopped(nodes, first)) < 300
    assert nodes.until(lambda: len(nodes.controllers) == 1) < 200
    assert fenced(nodes, first)
    nodes.create(nodes.controllers[0], "after")


def test_nodes_that_stop_all_at_once_do_not_wait_for_a_controller_for_long() -> None:
    nodes = three_voters()
    assert nodes.until(stopped(nodes, 1, 2, 3)) < 500
    nodes.boot()
    nodes.until(nodes.all_ready)


def test_a_new_directory_that_is_to_join_others_needs_the_id_of_their_cluster() -> None:
    nodes = ClusterNodes(1, controller_quorum_voters=VOTERS)
    nodes.of_node[1] = {"cluster.id": ""}
    with pytest.raises(StartFailed, match=r"give cluster\.id"):
        nodes.boot(1)


def test_voters_without_a_listener_for_them_are_refused() -> None:
    with pytest.raises(ConfigError, match="add CLUSTER://HOST:PORT"):
        BrokerConfig.load({"controller.quorum.voters": VOTERS})
