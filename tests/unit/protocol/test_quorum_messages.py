"""Messages and control records of the metadata quorum. The bytes are Apache Kafka 4.3.1's."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.model.errors import ProtocolError
from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.api.end_quorum_epoch import (
    EndQuorumEpochPartition,
    EndQuorumEpochRequest,
    EndQuorumEpochTopic,
    PreferredCandidate,
)
from odradek.protocol.api.fetch_snapshot import (
    FetchedSnapshotId,
    FetchSnapshotRequest,
    SnapshotPartition,
    SnapshotTopic,
)
from odradek.protocol.api.update_raft_voter import KRaftVersionRange
from odradek.protocol.api.vote import VotePartition, VoteRequest, VoteTopic
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.control_records import ControlRecordType, marker_key
from odradek.protocol.quorum_records import (
    EpochVoter,
    KRaftVersionRecord,
    LeaderChangeMessage,
    QuorumRecord,
    RecordedVoter,
    SnapshotHeaderRecord,
    VotersRecord,
    control_batch,
    quorum_records_in,
)
from odradek.protocol.record_batch import batches, is_intact
from odradek.protocol.record_batch_builder import RecordBatchBuilder

FIRST = UUID(int=(1 << 64) + 2)
SECOND = UUID(int=(3 << 64) + 4)


def vote(version: int) -> VoteRequest:
    keys = version >= 1
    return VoteRequest(
        cluster_id="c",
        voter_id=2 if keys else -1,
        topics=[
            VoteTopic(
                topic_name="__cluster_metadata",
                partitions=[
                    VotePartition(
                        partition_index=0,
                        replica_epoch=5,
                        replica_id=1,
                        replica_directory_id=FIRST if keys else UUID(int=0),
                        voter_directory_id=SECOND if keys else UUID(int=0),
                        last_offset_epoch=4,
                        last_offset=9,
                        pre_vote=version == 2,
                    )
                ],
            )
        ],
    )


END_QUORUM_EPOCH = EndQuorumEpochRequest(
    cluster_id=None,
    topics=[
        EndQuorumEpochTopic(
            topic_name="m",
            partitions=[
                EndQuorumEpochPartition(
                    partition_index=0,
                    leader_id=1,
                    leader_epoch=5,
                    preferred_candidates=[
                        PreferredCandidate(candidate_id=3, candidate_directory_id=FIRST)
                    ],
                )
            ],
        )
    ],
)
FETCH_SNAPSHOT = FetchSnapshotRequest(
    cluster_id="c",
    replica_id=2,
    max_bytes=100,
    topics=[
        SnapshotTopic(
            name="m",
            partitions=[
                SnapshotPartition(
                    partition=0,
                    current_leader_epoch=5,
                    snapshot_id=FetchedSnapshotId(end_offset=10, epoch=4),
                    position=7,
                    replica_directory_id=FIRST,
                )
            ],
        )
    ],
)
VOTERS = VotersRecord(
    voters=[
        RecordedVoter(
            voter_id=1,
            voter_directory_id=FIRST,
            endpoints=[QuorumListener(name="CLUSTER", host="h", port=19092)],
            k_raft_version_feature=KRaftVersionRange(
                min_supported_version=0, max_supported_version=1
            ),
        )
    ]
)
LEADER = LeaderChangeMessage(
    version=1,
    leader_id=1,
    voters=[EpochVoter(voter_id=1, voter_directory_id=FIRST)],
    granting_voters=[],
)
VOTE_HEAD = "026302135f5f636c75737465725f6d65746164617461"


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (
            vote(0),
            0,
            f"{VOTE_HEAD}02000000000000000500000001000000040000000000000009000000",
        ),
        (
            vote(1),
            1,
            "02630000000202135f5f636c75737465725f6d657461646174610200000000000000050000000100000000"
            "00000001000000000000000200000000000000030000000000000004000000040000000000000009000000",
        ),
        (
            vote(2),
            2,
            "02630000000202135f5f636c75737465725f6d657461646174610200000000000000050000000100000000"
            "0000000100000000000000020000000000000003000000000000000400000004000000000000000901"
            "000000",
        ),
        (
            END_QUORUM_EPOCH,
            1,
            "0002026d0200000000000000010000000502000000030000000000000001000000000000000200000001"
            "00",
        ),
        (
            FETCH_SNAPSHOT,
            1,
            "000000020000006402026d020000000000000005000000000000000a00000004"
            "00000000000000000701001000000000000000010000000000000002000100020263",
        ),
        (
            VOTERS,
            0,
            "00000200000001000000000000000100000000000000020208434c555354455202684a94000000000100"
            "0000",
        ),
        (LEADER, 1, "000100000001020000000100000000000000010000000000000002000100"),
        (KRaftVersionRecord(k_raft_version=1), 0, "0000000100"),
    ],
)
def test_messages_are_encoded_as_kafka_encodes_them(
    message: object, version: int, expected: str
) -> None:
    data = encode_bytes(message, version)
    assert data.hex() == expected
    assert decode(type(message), version, data) == message


def test_a_control_batch_holds_several_records_with_offsets_of_their_own() -> None:
    records: list[QuorumRecord] = [LEADER, KRaftVersionRecord(k_raft_version=1), VOTERS]
    data = control_batch(records, 1_000, base_offset=40, epoch=7)
    (header,) = batches(data)
    assert header.is_control
    assert int.from_bytes(data[12:16], "big") == 7  # The epoch, which the checksum leaves out.
    assert is_intact(data, header)
    found = list(quorum_records_in(data, header))
    assert [offset for offset, _ in found] == [40, 41, 42]
    assert [record for _, record in found] == records


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (marker_key(ControlRecordType.COMMIT), b"\x00\x00"),
        (b"\x00", b"\x00\x00"),
        (marker_key(ControlRecordType.KRAFT_VERSION), b"\x00\x01\x00\x01\x00"),
        (marker_key(ControlRecordType.KRAFT_VERSION), b""),
    ],
)
def test_control_records_of_unknown_types_and_versions_are_refused(
    key: bytes, value: bytes
) -> None:
    builder = RecordBatchBuilder(base_offset=0, leader_epoch=0, control=True)
    builder.append(key, value, timestamp=0)
    data = builder.build()
    (header,) = batches(data)
    with pytest.raises(ProtocolError):
        list(quorum_records_in(data, header))


def test_a_snapshot_header_keeps_the_time_of_its_last_record() -> None:
    data = control_batch([SnapshotHeaderRecord(last_contained_log_timestamp=77)], 77)
    (header,) = batches(data)
    ((_, record),) = quorum_records_in(data, header)
    assert record == SnapshotHeaderRecord(last_contained_log_timestamp=77)
