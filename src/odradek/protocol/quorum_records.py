"""The control records of the metadata log and its snapshots, with KRaft's schemas.

    key     see `control_records`
    value   a message, all flexible, whose first field is its version

    LEADER_CHANGE                       the first record of an epoch
    KRAFT_VERSION, KRAFT_VOTERS         the voters, from here on (KIP-853); also in snapshots
    SNAPSHOT_HEADER, SNAPSHOT_FOOTER    the first and the last record of a snapshot (KIP-630)

A control batch holds one or more of them. A voter that was configured by its id alone is in no
KRAFT_VOTERS record: the quorum then has version 0 of KRaft.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.model.errors import ProtocolError
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.api.update_raft_voter import KRaftVersionRange
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.control_records import ControlRecordType, marker_key
from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.schema import declaration, field, i16, i32, i64, message, struct


@struct
class EpochVoter:
    """A voter, in the record that begins an epoch; its directory id from version 1 on."""

    voter_id: i32
    voter_directory_id: UUID = field(default=ZERO_UUID, since=1)


@message(api=2, versions=(0, 1), flexible=0)
class LeaderChangeMessage:
    """The leader of the epoch that begins here, and the voters that elected it."""

    version: i16
    leader_id: i32
    voters: list[EpochVoter]
    granting_voters: list[EpochVoter]


@message(api=3, versions=(0, 0), flexible=0)
class SnapshotHeaderRecord:
    """Begins a snapshot."""

    version: i16 = 0
    last_contained_log_timestamp: i64


@message(api=4, versions=(0, 0), flexible=0)
class SnapshotFooterRecord:
    """Ends a snapshot."""

    version: i16 = 0


@message(api=5, versions=(0, 0), flexible=0)
class KRaftVersionRecord:
    """Version 1 of KRaft: the voters are records of the log."""

    version: i16 = 0
    k_raft_version: i16


@struct
class RecordedVoter:
    """A voter with its directory and addresses."""

    voter_id: i32
    voter_directory_id: UUID
    endpoints: list[QuorumListener]
    k_raft_version_feature: KRaftVersionRange


@message(api=6, versions=(0, 0), flexible=0)
class VotersRecord:
    """All voters of the quorum."""

    version: i16 = 0
    voters: list[RecordedVoter]


QuorumRecord = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)
CLASSES: dict[int, type[QuorumRecord]] = {
    declaration(cls).api: cls
    for cls in (
        LeaderChangeMessage,
        SnapshotHeaderRecord,
        SnapshotFooterRecord,
        KRaftVersionRecord,
        VotersRecord,
    )
}


def control_batch(
    records: Sequence[QuorumRecord], timestamp_ms: int, *, base_offset: int = 0, epoch: int = 0
) -> bytes:
    """Return a control batch of these records."""
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=epoch, control=True)
    for record in records:
        kind = ControlRecordType(declaration(type(record)).api)
        value = encode_bytes(record, record.version)
        builder.append(marker_key(kind), value, timestamp=timestamp_ms)
    return builder.build()


class RecordAndOffset(NamedTuple):
    """A control record and where it is in the log."""

    offset: int
    record: QuorumRecord


def quorum_records_in(data: bytes, header: RecordBatchHeader) -> Iterator[RecordAndOffset]:
    """Decode the records of a control batch of the metadata log or a snapshot.

    Raises `ProtocolError` and the errors of `record_batch.records_of`.
    """
    for record in records_of(data, header):
        key, value = record.key or b"", record.value or b""
        cls = CLASSES.get(int.from_bytes(key[2:4], "big", signed=True))
        if len(key) < 4 or cls is None:
            raise ProtocolError(f"control record {record.offset} has an unknown type: {key.hex()}")
        version = int.from_bytes(value[:2], "big", signed=True)
        least, most = declaration(cls).versions
        if len(value) < 2 or not least <= version <= most:
            raise ProtocolError(
                f"{cls.__name__} at offset {record.offset} has the unknown version {version}"
            )
        yield RecordAndOffset(record.offset, decode(cls, version, value))
