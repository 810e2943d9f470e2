"""Encoding of metadata records as batches of the metadata log and of snapshots.

The records of one decision are one batch, so that a torn write loses all of them or none. The
version of a written record follows from the cluster's `metadata.version`; every version is read.
Unknown records, which a newer broker may have written, raise `ProtocolError`: the broker does not
start, so that they are not lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    decode_record,
    encode_record,
)
from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.record_batch_builder import RecordBatchBuilder

METADATA_VERSION_FEATURE = "metadata.version"
METADATA_VERSION = 30
"""4.3-IV0."""

WRITTEN_VERSIONS: dict[type[object], int] = {
    RegisterBrokerRecord: 3,
    BrokerRegistrationChangeRecord: 2,
    PartitionRecord: 1,
    PartitionChangeRecord: 1,
}
"""Versions with directories and without eligible leader replicas; 0 for all other records."""


def batch_of(
    records: Iterable[object], timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """Encode records as one batch; a log stamps its own base offset and leader epoch on it."""
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch)
    for record in records:
        version = WRITTEN_VERSIONS.get(type(record), 0)
        builder.append(None, encode_record(record, version), timestamp=timestamp_ms)
    return builder.build()


def records_in(data: bytes, header: RecordBatchHeader) -> Iterator[object]:
    """Decode the records of a batch; a control batch has none.

    Raises `ProtocolError` and the errors of `record_batch.records_of`.
    """
    if header.is_control:
        return
    for record in records_of(data, header):
        yield decode_record(record.value or b"")
