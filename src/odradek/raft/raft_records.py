"""The batches of the metadata log as the quorum's core sees them, and its control records.

LeaderChange    LEADER_CHANGE, and with the first voters KRAFT_VERSION and KRAFT_VOTERS (as
                Kafka, in one batch)
a voter set     KRAFT_VOTERS
anything else   records of whoever leads, opaque here
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.log.fence import LogDamaged
from odradek.log.log import Log
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.api.update_raft_voter import KRaftVersionRange
from odradek.protocol.quorum_records import (
    EpochVoter,
    KRaftVersionRecord,
    LeaderChangeMessage,
    QuorumRecord,
    RecordedVoter,
    VotersRecord,
    control_batch,
    quorum_records_in,
)
from odradek.protocol.record_batch import (
    UNREADABLE,
    CorruptBatch,
    RecordBatchHeader,
    batches,
    is_intact,
)
from odradek.raft.core import LeaderChange
from odradek.raft.log_state import RaftBatch
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet

KRAFT_VERSIONS: Final = KRaftVersionRange(min_supported_version=0, max_supported_version=1)


def voter_set(record: VotersRecord) -> VoterSet:
    """Return the voters of a record."""
    return VoterSet(
        Voter(
            ReplicaKey(each.voter_id, each.voter_directory_id),
            tuple(QuorumEndpoint(at.name, at.host, at.port) for at in each.endpoints),
        )
        for each in record.voters
    )


def voters_record(voters: VoterSet) -> VotersRecord:
    """Return the record of a voter set."""
    return VotersRecord(
        voters=[
            RecordedVoter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    QuorumListener(name=at.listener, host=at.host, port=at.port)
                    for at in voter.endpoints
                ],
                k_raft_version_feature=KRAFT_VERSIONS,
            )
            for voter in voters
        ]
    )


def leader_change(change: LeaderChange) -> LeaderChangeMessage:
    """Return the first record of an epoch.

    It has version 0, without the directories of voters, which `VotersRecord` has: Kafka 4.3.1 reads
    every version as 0, and its DumpLogSegments fails on version 1.
    """
    return LeaderChangeMessage(
        version=0,
        leader_id=change.leader_id,
        voters=[EpochVoter(voter_id=each) for each in change.voters],
        granting_voters=[EpochVoter(voter_id=each) for each in change.granting],
    )


def control_data(batch: RaftBatch, timestamp_ms: int) -> bytes:
    """Encode a batch that the core made itself."""
    records: list[QuorumRecord] = []
    if isinstance(batch.payload, LeaderChange):
        records.append(leader_change(batch.payload))
        if batch.voters is not None:
            records.append(KRaftVersionRecord(k_raft_version=1))
    if batch.voters is not None:
        records.append(voters_record(batch.voters))
    assert len(records) == batch.record_count, f"{batch} is no batch of the quorum"
    return control_batch(records, timestamp_ms, base_offset=batch.base_offset, epoch=batch.epoch)


class BatchData:
    """One encoded batch within a larger buffer."""

    __slots__ = ("data", "header")

    def __init__(self, data: bytes, header: RecordBatchHeader) -> None:
        self.data = data
        self.header = header


def raft_batches(data: bytes, offset: int, last_epoch: int) -> Iterator[RaftBatch]:
    """Yield the batches in `data`, the first at `offset`, after a record of `last_epoch`; the
    payload of each is a `BatchData`.

    Raises `ProtocolError` if one is damaged or does not follow the one before.
    """
    try:
        for header in batches(data):
            if header.base_offset != offset or not is_intact(data, header):
                raise ProtocolError(f"the batch of offset {offset} fails its checksum")
            epoch, voters = header.partition_leader_epoch, None
            if epoch < last_epoch:
                raise ProtocolError(
                    f"the batch of offset {offset} is of epoch {epoch}, after {last_epoch}"
                )
            last_epoch = epoch
            if header.is_control:
                for _, record in quorum_records_in(data, header):
                    if isinstance(record, VotersRecord):
                        voters = voter_set(record)
            yield RaftBatch(
                offset, header.next_offset - offset, epoch, BatchData(data, header), voters
            )
            offset = header.next_offset
    except UNREADABLE as error:
        raise ProtocolError(f"the batch of offset {offset}: {error}") from error


def read_batches(
    log: Log, offset: int, end_offset: int, max_bytes: int, last_epoch: int = -1
) -> list[RaftBatch]:
    """Read the batches from `offset` on, at least one and about `max_bytes`, up to `end_offset`.

    Raises `LogDamaged`.
    """
    read = log.read(offset, max_bytes, end_offset)
    if read.error is not ErrorCode.NONE:
        raise LogDamaged(log.directory, f"it has no offset {offset}: {read.error.name}")
    try:
        data = b"".join(piece.read() for piece in read.slices)
    finally:
        read.release()
    try:
        found = list(raft_batches(data, offset, last_epoch))
    except (ProtocolError, CorruptBatch) as error:
        raise LogDamaged(log.directory, str(error)) from error
    if not found:
        raise LogDamaged(log.directory, f"there is no batch of offset {offset}")
    return found
