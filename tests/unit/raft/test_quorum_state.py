"""The file `quorum-state`, in the form that Kafka writes and reads."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.log.memory_disk import MemoryDisk
from odradek.raft.effects import ElectionState
from odradek.raft.quorum_state import QuorumStateDamaged, decode, encode, load, save
from odradek.raft.replicas import ReplicaKey

DIRECTORY = UUID(bytes=bytes(range(16)))
WRITTEN = (
    b'{"leaderId":1,"leaderEpoch":5,"votedId":2,"votedDirectoryId":"AAECAwQFBgcICQoLDA0ODw",'
    b'"data_version":1}'
)


def test_a_state_is_written_as_kafka_writes_it() -> None:
    state = ElectionState(5, 1, ReplicaKey(2, DIRECTORY))
    assert encode(state) == WRITTEN
    assert decode(WRITTEN) == state


def test_a_state_without_leader_and_vote_has_minus_one() -> None:
    data = encode(ElectionState(3))
    assert data == (
        b'{"leaderId":-1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
        b'"data_version":1}'
    )
    assert decode(data) == ElectionState(3)


def test_a_new_voter_is_remembered_and_a_file_without_a_word_of_it_is_of_an_old_one() -> None:
    state = ElectionState(5, 1, ReplicaKey(2, DIRECTORY), is_new=True)
    assert encode(state) == WRITTEN[:-1] + b',"newVoter":true}'
    assert decode(encode(state)) == state
    assert not decode(WRITTEN).is_new


def test_version_0_of_a_quorum_without_directory_ids_is_read() -> None:
    data = (
        b'{"clusterId":"","leaderId":3,"leaderEpoch":9,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":3}],"data_version":0}'
    )
    assert decode(data) == ElectionState(9, 3, ReplicaKey(3))


def test_a_directory_without_the_file_has_no_state() -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    assert load(disk, "d") is None
    save(disk, "d", ElectionState(2, 1))
    assert load(disk, "d") == ElectionState(2, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        WRITTEN[:-1],
        WRITTEN.replace(b'"data_version":1', b'"data_version":2'),
        WRITTEN.replace(b'"leaderEpoch":5', b'"leaderEpoch":"5"'),
        WRITTEN.replace(b"AAEC", b""),
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_stops_the_start_and_says_what_to_do(data: bytes) -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    disk.replace_file("d/quorum-state", data)
    with pytest.raises(QuorumStateDamaged, match=r"quorum-state.*vote twice.*join again"):
        load(disk, "d")
