"""RaftClient: the quorum's core over real logs, with elections, crashes, snapshots and changes."""

from __future__ import annotations

import errno

import pytest

from odradek.log.fence import LogDirFailure
from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.raft.core import NotLeader
from odradek.raft.effects import AddVoter, RemoveVoter
from odradek.raft.messages import RaftError, RaftResponse
from odradek.raft.raft_client import SLICE_BYTES
from odradek.raft.raft_log import WrongQuorum
from odradek.raft.replicas import ReplicaKey, VoterSet
from odradek.raft.snapshot_files import list_snapshots
from unit.raft.raft_nodes import (
    DIRECTORY,
    Nodes,
    RaftNode,
    endpoint,
    three_voters,
    voter,
)


def alone(disk: MemoryDisk | None = None) -> tuple[Nodes, RaftNode]:
    nodes = Nodes()
    return nodes, nodes.add(1, disk)


def bytes_of(node: RaftNode) -> bytes:
    names = [name for name in node.disk.list(DIRECTORY) if name.endswith(".log")]
    return b"".join(node.disk.read_file(f"{DIRECTORY}/{name}") for name in names)


def test_an_only_voter_leads_at_once_and_commits_what_is_on_its_disk() -> None:
    nodes, node = alone()
    assert node.raft.is_leader
    assert node.raft.has_applied_epoch
    end = node.append("a", "b")
    assert node.values == []
    nodes.run(5)
    assert node.values == ["a", "b"]
    assert node.raft.applied_offset == end
    assert node.raft.idle


def test_an_only_voter_replays_everything_when_it_starts_again() -> None:
    nodes, node = alone()
    node.append("a")
    nodes.run(5)
    again = nodes.restart(1)
    assert again.values == ["a"]
    assert again.raft.epoch == node.raft.epoch + 1


def test_three_voters_elect_one_leader_and_commit_everywhere() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    leader.append("a", "b")
    leader.append("c")
    nodes.until(lambda: all(n.values == ["a", "b", "c"] for n in nodes.nodes.values()))
    assert [n.raft.is_leader for n in nodes.nodes.values()].count(True) == 1
    assert len({bytes_of(node) for node in nodes.nodes.values()}) == 1


def test_records_that_are_committed_at_once_are_delivered_in_slices_everywhere() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    value = "v" * 1000
    for _ in range(100):
        leader.append(value)
    nodes.until(lambda: all(len(node.values) == 100 for node in nodes.nodes.values()))
    for node in nodes.nodes.values():
        assert 5 * len(value) < max(node.delivered_bytes) < SLICE_BYTES + 2 * len(value)


def test_records_of_a_majority_survive_their_leader() -> None:
    nodes = three_voters()
    first = nodes.elect()
    first.append("a")
    nodes.until(lambda: first.values == ["a"])
    first.kill()
    second = nodes.elect()
    assert second.id != first.id
    second.append("b")
    others = [node for node in nodes.nodes.values() if node.alive]
    nodes.until(lambda: all(node.values == ["a", "b"] for node in others))
    again = nodes.restart(first.id)
    nodes.until(lambda: again.values == ["a", "b"])


def test_records_that_only_a_deposed_leader_has_are_truncated() -> None:
    nodes = three_voters()
    first = nodes.elect()
    first.append("a")
    nodes.until(lambda: all(node.values == ["a"] for node in nodes.nodes.values()))
    nodes.cut.add(first.id)
    first.append("never committed")
    nodes.run(20)
    second = nodes.elect()
    second.append("b")
    nodes.until(lambda: second.values == ["a", "b"])
    nodes.cut.clear()
    nodes.until(lambda: first.values == ["a", "b"])
    assert not first.raft.is_leader
    nodes.run(50)
    assert bytes_of(first) == bytes_of(second)


def test_a_replica_that_is_far_behind_gets_a_snapshot_and_goes_on_from_it() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    behind = next(node for node in nodes.nodes.values() if node is not leader)
    nodes.cut.add(behind.id)
    for number in range(20):
        leader.append(f"v{number}")
        nodes.run(10)
    nodes.until(lambda: len(leader.values) == 20)
    snapshot = leader.take_snapshot()
    leader.append("after")
    nodes.cut.clear()
    nodes.until(lambda: behind.values == [*(f"v{n}" for n in range(20)), "after"])
    assert list_snapshots(behind.disk, DIRECTORY) == [snapshot]
    assert behind.raft.log.log_start_offset == snapshot.end_offset
    again = nodes.restart(behind.id)
    nodes.until(lambda: again.values == leader.values)


def test_a_process_that_ended_between_snapshot_and_log_goes_on_from_the_snapshot() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    leader.append("a", "b")
    nodes.until(lambda: leader.values == ["a", "b"])
    behind = next(node for node in nodes.nodes.values() if node is not leader)
    snapshot = leader.take_snapshot()
    behind.kill()
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    name = f"{DIRECTORY}/{snapshot.file_name}"
    disk.replace_file(name, leader.disk.read_file(name))
    state = f"{DIRECTORY}/quorum-state"
    disk.replace_file(state, behind.disk.read_file(state))
    again = nodes.add(behind.id, disk, **behind.place)
    assert again.raft.log.log_end_offset == snapshot.end_offset
    leader = nodes.elect()
    leader.append("c")
    nodes.until(lambda: again.values == ["a", "b", "c"])


def test_observers_become_voters_of_a_quorum_that_began_with_one() -> None:
    nodes, first = alone()
    answers: list[RaftResponse] = []

    def reply(response: RaftResponse, _: object) -> None:
        answers.append(response)

    for number in (2, 3):
        nodes.add(number, bootstrap=(endpoint(1),))
    first.append("a")
    nodes.until(lambda: all(node.values == ["a"] for node in nodes.nodes.values()))
    nodes.run(100)
    first.raft.change_voters(AddVoter(reply, voter(2)))
    nodes.until(lambda: len(answers) == 1)
    first.raft.change_voters(AddVoter(reply, voter(3)))
    nodes.until(lambda: len(answers) == 2)
    assert [answer.error for answer in answers] == [RaftError.NONE] * 2
    nodes.run(600)
    assert {n.raft.core.log.voters.ids for n in nodes.nodes.values()} == {frozenset({1, 2, 3})}
    first.kill()
    leader = nodes.elect()
    assert leader.id in (2, 3)
    leader.append("b")
    nodes.until(lambda: leader.values == ["a", "b"])
    again = nodes.restart(1)
    assert again.raft.core.log.voters.get(2) == voter(2)
    nodes.until(lambda: again.values == ["a", "b"])


def test_voters_in_a_snapshot_outlive_the_log_that_recorded_them() -> None:
    nodes, first = alone()
    first.append("a")
    nodes.run(5)
    first.take_snapshot()
    nodes.run(5)
    again = nodes.restart(1)
    assert again.raft.core.log.voters.get(1) == voter(1)
    assert again.raft.recorded_voters_at(again.raft.end_offset) is not None
    assert again.values == ["a"]


def test_voters_that_only_settings_name_do_not_change() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    answers: list[RaftResponse] = []
    leader.raft.change_voters(
        RemoveVoter(lambda response, _: answers.append(response), ReplicaKey(2))
    )
    nodes.run(5)
    assert [answer.error for answer in answers] == [RaftError.UNSUPPORTED_VERSION]


def wiped(nodes: Nodes, node_id: int) -> RaftNode:
    """Start a node again with an empty disk."""
    nodes.nodes[node_id].kill()
    return nodes.add(node_id, **nodes.nodes[node_id].place)


def lagging_and_wiped() -> tuple[Nodes, RaftNode]:
    """Three voters of which one was down when a record was committed by the two others, and one of
    those has lost its disk. Return the one that has the record, stopped.
    """
    nodes = three_voters()
    nodes.elect()
    nodes.nodes[3].kill()
    nodes.elect().append("a")
    nodes.until(lambda: all(nodes.nodes[n].values == ["a"] for n in (1, 2)))
    nodes.nodes[2].kill()
    wiped(nodes, 1)
    nodes.restart(3)
    return nodes, nodes.nodes[2]


def test_a_voter_that_lost_its_disk_elects_nobody_who_lacks_what_it_acknowledged() -> None:
    nodes, _ = lagging_and_wiped()
    nodes.run(3_000)
    assert nodes.leader is None
    nodes.restart(1)  # It still knows that its disk was empty.
    nodes.run(3_000)
    assert nodes.leader is None
    nodes.restart(2)
    nodes.elect()
    nodes.until(lambda: all(node.values == ["a"] for node in nodes.nodes.values()))


def test_a_voter_that_lost_its_disk_counts_again_when_it_is_up_to_date() -> None:
    nodes, last = lagging_and_wiped()
    nodes.restart(last.id)
    nodes.elect().append("b")
    nodes.until(lambda: all(node.values == ["a", "b"] for node in nodes.nodes.values()))
    nodes.nodes[3].kill()
    nodes.restart(1)
    nodes.elect().append("c")
    nodes.until(lambda: nodes.nodes[1].values == ["a", "b", "c"])


def test_voters_with_empty_disks_elect_nobody_without_the_others() -> None:
    nodes = three_voters()
    nodes.nodes[3].kill()
    nodes.run(3_000)
    assert nodes.leader is None
    nodes.restart(3)
    nodes.elect().append("a")
    nodes.until(lambda: all(node.values == ["a"] for node in nodes.nodes.values()))


def test_only_the_leader_appends_and_only_in_its_epoch() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    follower = next(node for node in nodes.nodes.values() if node is not leader)
    with pytest.raises(NotLeader):
        follower.append("a")
    with pytest.raises(NotLeader):
        leader.raft.append(leader.raft.epoch - 1, ["a"], b"")


class RefusingDisk(MemoryDisk):
    """A disk that fails one kind of change to files of one name, with one error."""

    refused = ("", "")
    code = errno.ENOSPC

    def effect(self, kind: str, path: str) -> None:
        if kind == self.refused[0] and path.endswith(self.refused[1]):
            raise OSError(self.code, "the disk refuses", path)
        super().effect(kind, path)


def test_a_full_disk_refuses_a_leaders_records_as_if_they_had_not_come() -> None:
    disk = RefusingDisk()
    nodes, node = alone(disk)
    nodes.run(5)
    end = node.raft.end_offset
    disk.refused = ("append", ".log")
    with pytest.raises(OSError, match="refuses"):
        node.append("a")
    assert node.raft.end_offset == end
    disk.refused = ("", "")
    node.append("b")
    nodes.run(5)
    assert node.values == ["b"]


def test_a_leader_of_several_with_a_full_disk_resigns() -> None:
    disks: list[RefusingDisk] = []

    def disk() -> RefusingDisk:
        disks.append(RefusingDisk())
        return disks[-1]

    nodes = three_voters(disk)
    full = nodes.elect()
    others = [node for node in nodes.nodes.values() if node is not full]
    full_disk = disks[full.id - 1]
    full_disk.refused = ("append", ".log")
    with pytest.raises(NotLeader, match="has no room"):
        full.append("a")
    nodes.until(lambda: any(node.raft.is_leader for node in others))
    next(node for node in others if node.raft.is_leader).append("b")
    nodes.until(lambda: all(node.values == ["b"] for node in others))
    full_disk.refused = ("", "")
    nodes.until(lambda: full.values == ["b"])


def test_a_full_disk_of_a_follower_only_delays_it() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    follower = next(node for node in nodes.nodes.values() if node is not leader)
    follower.kill()
    disk = RefusingDisk()
    again = nodes.add(follower.id, disk, **follower.place)
    disk.refused = ("append", ".log")
    leader.append("a")
    nodes.run(300)
    assert again.values == []
    disk.refused = ("", "")
    nodes.until(lambda: again.values == ["a"])
    assert again.failures == []


class UnreadableFile(MemoryFile):
    """A file of a disk that may fail to read."""

    def read(self, offset: int, count: int) -> bytes:
        disk = self.disk
        assert isinstance(disk, UnreadableDisk)
        if disk.code and self.path.endswith(".log"):
            raise OSError(disk.code, "the disk does not read", self.path)
        return super().read(offset, count)


class UnreadableDisk(MemoryDisk):
    """A disk that fails to read logs, if it is told so."""

    code = 0

    def new_file(self, path: str) -> MemoryFile:
        return UnreadableFile(self, path)


@pytest.mark.parametrize(("code", "failures"), [(errno.EIO, 1), (errno.ENOMEM, 0)])
def test_committed_records_that_cannot_be_read_fail_the_disk_unless_that_may_pass(
    code: int, failures: int
) -> None:
    nodes = three_voters()
    leader = nodes.elect()
    follower = next(node for node in nodes.nodes.values() if node is not leader)
    follower.kill()
    disk = UnreadableDisk()
    again = nodes.add(follower.id, disk, **follower.place)
    nodes.until(lambda: again.raft.end_offset == leader.raft.end_offset)
    nodes.run(300)
    disk.code = code
    leader.append("a")
    nodes.run(300)
    assert len(again.failures) == failures
    assert again.values == []
    disk.code = 0
    nodes.run(2_000)
    assert again.values == ([] if failures else ["a"])


def test_a_replica_that_cannot_save_its_vote_does_not_give_it() -> None:
    nodes = three_voters()
    leader = nodes.elect()
    others = [node.id for node in nodes.nodes.values() if node is not leader]
    for node in nodes.nodes.values():
        node.kill()
    disk = RefusingDisk()
    disk.code = errno.EIO
    wiped = nodes.add(others[0], disk, **leader.place)
    disk.refused = ("replace", "quorum-state")
    candidate = nodes.restart(others[1])
    nodes.run(2_000)
    assert isinstance(wiped.failures[0], LogDirFailure)
    assert not disk.exists(f"{DIRECTORY}/quorum-state")
    assert not candidate.raft.is_leader


def test_a_node_that_followed_others_does_not_lead_alone() -> None:
    nodes, first = alone()
    observer = nodes.add(2, bootstrap=(endpoint(1),))
    first.append("a")
    nodes.until(lambda: observer.values == ["a"])
    observer.kill()
    names = [name for name in observer.disk.list(DIRECTORY) if name != "quorum-state"]
    for name in names:  # As if it had ended before it fetched the record of the voters.
        observer.disk.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(WrongQuorum, match=r"followed node 1"):
        Nodes().add(2, observer.disk, endpoints=())


def test_a_directory_that_led_alone_is_not_taken_into_a_configured_quorum() -> None:
    nodes = Nodes()
    node = nodes.add(1, endpoints=())
    node.append("a")
    nodes.run(5)
    node.kill()
    node.disk.remove(f"{DIRECTORY}/quorum-state")  # Older versions had none.
    with pytest.raises(WrongQuorum, match="AddRaftVoter"):
        Nodes().add(1, node.disk, voters=VoterSet([voter(1), voter(2), voter(3)]))
    again = Nodes().add(1, node.disk, endpoints=())
    assert again.raft.is_leader
    assert again.values == ["a"]


@pytest.mark.parametrize("what", [("create", ".part"), ("append", ".part"), ("create", ".log")])
def test_a_full_disk_of_a_replica_that_gets_a_snapshot_only_delays_it(
    what: tuple[str, str],
) -> None:
    disks = [RefusingDisk() for _ in range(3)]
    nodes = three_voters(iter(disks).__next__)
    leader = nodes.elect()
    other, behind = (node for node in nodes.nodes.values() if node is not leader)
    nodes.cut.add(behind.id)
    for number in range(20):
        leader.append(f"v{number}")
        nodes.run(10)
    nodes.until(lambda: len(leader.values) == len(other.values) == 20)
    leader.take_snapshot()
    other.take_snapshot()
    leader.append("after")
    disks[behind.id - 1].refused = what
    nodes.cut.clear()
    nodes.run(3_000)
    assert (behind.values, behind.raft.failure) == ([], None)
    disks[behind.id - 1].refused = ("", "")
    nodes.until(lambda: behind.values == [*(f"v{n}" for n in range(20)), "after"])
