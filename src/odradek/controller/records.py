"""Encoding of metadata records as batches of the metadata log and of snapshots.

The records of one decision are one batch, so that a torn write loses all of them or none. Every
version of a record is read.
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


def version_of(record: object) -> int:
    """Return the version in which a record is written: the lowest that has all that it says.

    Directories are in all of them. So a cluster without eligible leader replicas (KIP-966) and
    cordoned directories (KIP-1066) writes what it did before there were any.
    """
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        with_elr = record.eligible_leader_replicas is not None or record.last_known_elr is not None
        return 2 if with_elr else 1
    if isinstance(record, RegisterBrokerRecord):
        return 3 if record.cordoned_log_dirs is None else 4
    if isinstance(record, BrokerRegistrationChangeRecord):
        return 2 if record.cordoned_log_dirs is None else 3
    return 0


def batch_of(
    records: Iterable[object], timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """Encode records as one batch; a log stamps its own base offset and leader epoch on it."""
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch)
    for record in records:
        value = encode_record(record, version_of(record))
        builder.append(None, value, timestamp=timestamp_ms)
    return builder.build()


def records_in(data: bytes, header: RecordBatchHeader) -> Iterator[object]:
    """Decode the records of a batch; a control batch has none.

    Raises `ProtocolError` and the errors of `record_batch.records_of`.
    """
    if header.is_control:
        return
    for record in records_of(data, header):
        yield decode_record(record.value or b"")
