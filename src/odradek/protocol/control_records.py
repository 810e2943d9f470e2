"""Control records: written into a log by brokers, one to a batch with the control bit.

    key     version i16, type i16
    value   by type; ABORT and COMMIT: version i16, coordinatorEpoch i32
                     those of the metadata log: see `quorum_records`

They have offsets of their own and are never returned to applications.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.records import InvalidRecords

ABORT_KEY = b"\x00\x00"


class ControlRecordType(IntEnum):
    """The type in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """A control record.

    `detail` is the coordinator epoch of an ABORT or COMMIT marker, the leader's id of a leader
    change, else -1.
    """

    offset: int
    type: ControlRecordType
    detail: int


def read_control_record(data: bytes, header: RecordBatchHeader) -> ControlRecord:
    """Return the record of a control batch. Raises `InvalidRecords`, also for unknown types."""
    record = next(records_of(data, header), None)
    if record is None or record.key is None or len(record.key) < 4:
        raise InvalidRecords("a control record has a key of version and type", 0)
    number = int.from_bytes(record.key[2:4], "big", signed=True)
    if number not in ControlRecordType.__members__.values():
        raise InvalidRecords(f"unknown control record type {number}", 0)
    kind = ControlRecordType(number)
    detail = -1
    if kind <= ControlRecordType.LEADER_CHANGE:
        if record.value is None or len(record.value) < 6:
            raise InvalidRecords(f"the value of a {kind.name} record is too short", 0)
        detail = int.from_bytes(record.value[2:6], "big", signed=True)
    return ControlRecord(record.offset, kind, detail)


def is_abort_marker(data: bytes, header: RecordBatchHeader) -> bool:
    """True if a control batch is an ABORT marker. False for unknown control records."""
    marker = next(records_of(data, header), None)
    return marker is not None and marker.key is not None and marker.key[2:4] == ABORT_KEY


def marker_key(kind: ControlRecordType) -> bytes:
    """Return the key of a control record."""
    return b"\x00\x00" + int(kind).to_bytes(2, "big")


def marker_value(coordinator_epoch: int) -> bytes:
    """Return the value of an ABORT or COMMIT record."""
    return b"\x00\x00" + coordinator_epoch.to_bytes(4, "big", signed=True)


def end_transaction_batch(
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    committed: bool,
    timestamp_ms: int,
) -> bytes:
    """Return the control batch of a COMMIT or ABORT marker."""
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    builder.append(marker_key(kind), marker_value(coordinator_epoch), timestamp=timestamp_ms)
    return builder.build()
