"""The records of a batch that compaction retains, by Kafka's rules, and the offset map they use.

A **record** is retained if

    its offset is above `OffsetMap.latest_offset`, the last offset that the map covers, or
    it is the last of its key up to there, and has a value or is a tombstone still in its horizon

A tombstone is retained until the delete horizon of its batch, `delete.retention.ms` after the first
pass that read it, so that readers which began before it can see the deletion. A record without a
key, from a time when the topic was not compacted, is removed.

A **batch** without retained records is removed, but its header is retained if it is

    the last batch of a known producer, whose next sequence must follow it
    the end of a new segment: every closed segment must end just before the next one begins, which
    distinguishes a compacted segment from one that has lost its end

Records of **aborted transactions** are removed, and replace no others. A **marker** is retained
until the delete horizon of its batch, which is set by the first pass that reads no batch of its
transaction any more (`transaction_outcomes`); its key is no key of a record (KAFKA-14055). The last
marker of a producer without data batches stays, for its epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.log.compaction.transaction_outcomes import TransactionOutcomes
from odradek.log.producer_state import LastRecord
from odradek.protocol import record_batch
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.record_batch_builder import empty_batch, rebuild_batch
from odradek.protocol.records import NO_TIMESTAMP, RecordCursor

ENTRY_BYTES = 200
"""The most memory an entry takes: the key's copy, its offset, its place in a dict that has just
grown."""
LONGEST_OWN_KEY = 32
DIGEST_MARK = b"\0"


class OffsetMap:
    """The last offset of each key in the dirty part of a log, for one pass.

    Unlike Kafka's it is exact up to 32 bytes of key: such a key is stored itself, a longer one as
    its 256-bit BLAKE2b digest with a mark that no short key has. The number of entries limits the
    memory: add no more batches once it is `full`. One batch may exceed the capacity, since a pass
    must advance by at least one batch.

    `latest_offset`: the map covers the log up to here.
    """

    __slots__ = ("_offsets", "capacity", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self.capacity = max(1, int(memory_bytes * load_factor) // ENTRY_BYTES)
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """Set the last offset of `key`; offsets must ascend."""
        self._offsets[_entry(key)] = offset

    def get(self, key: bytes) -> int:
        """Return the last offset of `key`, or -1."""
        return self._offsets.get(_entry(key), -1)


def _entry(key: bytes) -> bytes:
    if len(key) <= LONGEST_OWN_KEY:
        return key
    from hashlib import blake2b  # Only here: OpenSSL takes milliseconds of a start.

    return DIGEST_MARK + blake2b(key, digest_size=LONGEST_OWN_KEY).digest()


LATEST_HORIZON_MS: Final = (1 << 61) - 1
"""The largest timestamp of a batch; a horizon beyond it is not set."""


def cursor_over(data: bytes, header: RecordBatchHeader) -> RecordCursor:
    """Return a cursor over the records of a batch, with the timestamps of the records.

    Raises `InvalidRecords`, `CorruptCompression`, `SectionTooLarge`.
    """
    section, start, end = record_batch.records_section(data, header)
    return RecordCursor(
        section, start, end, header.count, header.base_offset, header.base_timestamp
    )


def add_keys(
    data: bytes,
    header: RecordBatchHeader,
    start_offset: int,
    into: OffsetMap,
    outcomes: TransactionOutcomes,
) -> int:
    """Add the keys of a batch's records from `start_offset` on to the map.

    Returns how many records the batch has. Raises what `cursor_over` does.
    """
    if header.is_control:
        outcomes.needs_marker(data, header)
        return 0
    if outcomes.is_aborted(header) or header.count == 0:
        return 0
    cursor = cursor_over(data, header)
    section = cursor.data
    while cursor.advance():
        if cursor.key_size >= 0 and cursor.offset >= start_offset:
            into.put(section[cursor.key : cursor.key + cursor.key_size], cursor.offset)
    return header.count


class BatchRetention:
    """The rules of one pass, and counts of the records it read and retained."""

    def __init__(
        self,
        offset_map: OffsetMap,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        delete_retention_ms: int,
        outcomes: TransactionOutcomes,
    ) -> None:
        """`last_records`: by producer id. Times are wall time."""
        self._offset_map = offset_map
        self._last_records = last_records
        self._outcomes = outcomes
        self._now_ms = now_ms
        horizon_ms = now_ms + delete_retention_ms
        self._horizon_ms = horizon_ms if horizon_ms <= LATEST_HORIZON_MS else -1
        self.records_read = 0
        self.records_kept = 0
        self.batches_changed = 0

    def retained(self, data: bytes, header: RecordBatchHeader, *, ends_segment: bool) -> bytes:
        """Return the bytes to write for a batch, or nothing. Raises what `cursor_over` does."""
        self.records_read += header.count
        if header.is_control:
            return self._retained_marker(data, header, ends_segment)
        if self._outcomes.is_aborted(header):
            return self._without_records(data, header, ends_segment)
        kept, tombstones, max_timestamp, section = self._split_records(data, header)
        self.records_kept += len(kept)
        if not kept:
            return self._without_records(data, header, ends_segment)
        horizon_ms = header.base_timestamp if header.has_delete_horizon else -1
        sets_horizon = tombstones and horizon_ms < 0 and self._horizon_ms >= 0
        if len(kept) == header.count and not sets_horizon:
            return _batch_bytes(data, header)
        if sets_horizon:
            horizon_ms = self._horizon_ms
        self.batches_changed += 1
        return rebuild_batch(header, section, kept, max_timestamp, horizon_ms)

    def _without_records(self, data: bytes, header: RecordBatchHeader, ends_segment: bool) -> bytes:
        """Return the header of a batch that has no records any more, or nothing."""
        keeps_header = ends_segment or self._is_last_of_producer(header)
        if keeps_header and header.count == 0:
            return _batch_bytes(data, header)
        self.batches_changed += 1
        return empty_batch(header) if keeps_header else b""

    def _retained_marker(self, data: bytes, header: RecordBatchHeader, ends_segment: bool) -> bytes:
        """Return the bytes to write for a control batch, or nothing."""
        needed = self._outcomes.needs_marker(data, header)
        if not needed and header.count == 0:
            return self._without_records(data, header, ends_segment)
        passed = header.has_delete_horizon and header.base_timestamp <= self._now_ms
        if not needed and passed and not self._is_last_of_producer(header):
            return self._without_records(data, header, ends_segment)
        self.records_kept += header.count
        if needed or header.has_delete_horizon or self._horizon_ms < 0:
            return _batch_bytes(data, header)
        self.batches_changed += 1
        section, start, end = record_batch.records_section(data, header)
        return rebuild_batch(
            header, section, [(start, end)], header.max_timestamp, self._horizon_ms
        )

    def _split_records(
        self, data: bytes, header: RecordBatchHeader
    ) -> tuple[list[tuple[int, int]], bool, int, bytes]:
        """Return the positions of the retained records, True if a tombstone is among them, their
        largest timestamp, and the section they are in.
        """
        kept: list[tuple[int, int]] = []
        tombstones, max_timestamp = False, NO_TIMESTAMP
        cursor = cursor_over(data, header)
        keeps_tombstones = not header.has_delete_horizon or self._now_ms < header.base_timestamp
        start = cursor.end_of_record
        while cursor.advance():
            if self._is_retained(cursor, keeps_tombstones):
                kept.append((start, cursor.end_of_record))
                tombstones = tombstones or cursor.value_size < 0
                max_timestamp = max(max_timestamp, cursor.timestamp)
            start = cursor.end_of_record
        return kept, tombstones, max_timestamp, cursor.data

    def _is_retained(self, cursor: RecordCursor, keeps_tombstones: bool) -> bool:
        if cursor.offset > self._offset_map.latest_offset:
            return True
        if cursor.key_size < 0:
            return False
        key = cursor.data[cursor.key : cursor.key + cursor.key_size]
        return cursor.offset >= self._offset_map.get(key) and (
            cursor.value_size >= 0 or keeps_tombstones
        )

    def _is_last_of_producer(self, header: RecordBatchHeader) -> bool:
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.offset >= 0:
            return last.offset == header.last_offset
        return header.is_control and last.producer_epoch == header.producer_epoch


def _batch_bytes(data: bytes, header: RecordBatchHeader) -> bytes:
    return data[header.position : header.end]
