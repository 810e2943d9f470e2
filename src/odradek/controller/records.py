"""Metadata records as batches of the metadata log.

The records of one decision are one batch, so that a torn write takes all of them or none. Which
version of a record is written follows from the cluster's `metadata.version`; every version is read.
A broker of a version to come may have written records unknown here: those raise `ProtocolError`,
and the broker does not start, rather than forgetting them.
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
"""Versions with directories, without eligible leader replicas; of all other records 0."""


def batch_of(
    records: Iterable[object], timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """One batch; a log stamps its own base offset and leader epoch on it."""
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch)
    for record in records:
        version = WRITTEN_VERSIONS.get(type(record), 0)
        builder.append(None, encode_record(record, version), timestamp=timestamp_ms)
    return builder.build()


def records_in(data: bytes, header: RecordBatchHeader) -> Iterator[object]:
    """The records of a batch; none of a control batch, which are the log's own.

    Raises `ProtocolError`, and what `record_batch.records_of` raises.
    """
    if header.is_control:
        return
    for record in records_of(data, header):
        yield decode_record(record.value or b"")
