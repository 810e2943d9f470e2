"""Reads segment files, indexes and snapshots into plain values, for `odradek dump-log` and tests.

It trusts nothing and reads up to the first byte that is no batch. Kafka's `DumpLogSegments` prints
the same for the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.log import producer_snapshot
from odradek.log.index import OFFSET_ENTRY, TIME_ENTRY
from odradek.log.producer_state import SnapshotEntry, marker_of
from odradek.log.scan import walk
from odradek.log.transaction_index import ENTRY as TRANSACTION_ENTRY
from odradek.log.transaction_index import AbortedTransaction
from odradek.model.env import Disk
from odradek.protocol import record_batch
from odradek.protocol.compression import CompressionType
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.records import Record


class BatchLine(NamedTuple):
    """One batch; its text is the line that `DumpLogSegments` prints."""

    base_offset: int
    last_offset: int
    records: int
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    position: int
    timestamp_type: str
    max_timestamp: int
    size: int
    compress_codec: str
    crc: int
    is_valid: bool

    def __str__(self) -> str:
        horizon = self.delete_horizon_ms
        horizon_text = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
        return (
            f"baseOffset: {self.base_offset} lastOffset: {self.last_offset} count: {self.records} "
            f"baseSequence: {self.base_sequence} lastSequence: {self.last_sequence} "
            f"producerId: {self.producer_id} producerEpoch: {self.producer_epoch} "
            f"partitionLeaderEpoch: {self.partition_leader_epoch} "
            f"isTransactional: {_text(self.is_transactional)} "
            f"isControl: {_text(self.is_control)} deleteHorizonMs: {horizon_text} "
            f"position: {self.position} {self.timestamp_type}: {self.max_timestamp} "
            f"size: {self.size} magic: 2 "
            f"compresscodec: {self.compress_codec} crc: {self.crc} "
            f"isvalid: {_text(self.is_valid)}"
        )


def _text(value: bool) -> str:
    return "true" if value else "false"


def batches(disk: Disk, path: str) -> Iterator[BatchLine]:
    """Yield the batches of a `.log` file. Raises `BadBatch` where the next batch is not whole."""
    file = disk.open(path)
    try:
        for position, header in walk(file, 0, file.size(), 0):
            data = file.read(position, header.size)
            yield _line(position, header, record_batch.is_intact(data, RecordBatchHeader(data, 0)))
    finally:
        file.close()


def _line(position: int, header: RecordBatchHeader, is_valid: bool) -> BatchLine:
    codec = int(header.compression_type)
    known = codec in CompressionType.__members__.values()
    return BatchLine(
        header.base_offset,
        header.last_offset,
        header.count,
        header.base_sequence,
        header.last_sequence,
        header.producer_id,
        header.producer_epoch,
        header.partition_leader_epoch,
        header.is_transactional,
        header.is_control,
        header.base_timestamp if header.has_delete_horizon else None,
        position,
        "LogAppendTime" if header.is_log_append_time else "CreateTime",
        header.max_timestamp,
        header.size,
        CompressionType(codec).name.lower() if known else f"unknown ({codec})",
        header.crc,
        is_valid,
    )


class Marker(NamedTuple):
    """The record that ends a transaction."""

    offset: int
    timestamp: int
    control_type: str
    coordinator_epoch: int


def records(disk: Disk, path: str) -> Iterator[Record | Marker]:
    """Yield the records of a `.log` file, decompressed."""
    file = disk.open(path)
    try:
        for position, header in walk(file, 0, file.size(), 0):
            data = file.read(position, header.size)
            batch = RecordBatchHeader(data, 0)
            marker = marker_of(data, batch) if batch.is_control else None
            if marker is None:
                yield from record_batch.records_of(data, batch)
            else:
                kind = "COMMIT" if marker.committed else "ABORT"
                yield Marker(batch.base_offset, batch.max_timestamp, kind, marker.coordinator_epoch)
    finally:
        file.close()


def offset_index(disk: Disk, path: str) -> list[tuple[int, int]]:
    """Return the (offset, position) entries of an `.index` file."""
    base_offset = int(path.rpartition("/")[2][:20])
    data = disk.read_file(path)
    whole = data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]
    return [
        (base_offset + relative, position) for relative, position in OFFSET_ENTRY.iter_unpack(whole)
    ]


def time_index(disk: Disk, path: str) -> list[tuple[int, int]]:
    """Return the (timestamp, offset) entries of a `.timeindex` file."""
    base_offset = int(path.rpartition("/")[2][:20])
    data = disk.read_file(path)
    whole = data[: len(data) // TIME_ENTRY.size * TIME_ENTRY.size]
    return [
        (timestamp, base_offset + relative) for timestamp, relative in TIME_ENTRY.iter_unpack(whole)
    ]


def transaction_index(disk: Disk, path: str) -> list[tuple[int, AbortedTransaction]]:
    """Return the (version, entry) pairs of a `.txnindex` file."""
    data = disk.read_file(path)
    whole = data[: len(data) // TRANSACTION_ENTRY.size * TRANSACTION_ENTRY.size]
    return [
        (version, AbortedTransaction(*row))
        for version, *row in TRANSACTION_ENTRY.iter_unpack(whole)
    ]


def snapshot(disk: Disk, path: str) -> list[SnapshotEntry]:
    """Return the producers in a `.snapshot` file. Raises `BadProducerSnapshot`."""
    return producer_snapshot.decode(disk.read_file(path))
