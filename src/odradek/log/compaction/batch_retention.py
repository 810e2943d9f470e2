"""The last offset of every key in a stretch of log: what compaction compares records with.

Exact where Kafka's is probabilistic: a key of up to 32 bytes stands for itself, a longer one is
stood for by its BLAKE2b digest of 256 bits, marked so that it is no key's own text. The memory is
bounded by the number of entries: `full` says when to stop adding. One batch more than that may
still go in, since a pass must get on by at least one batch.

`latest_offset` is how far the map knows the log; about records behind it the map says nothing.

Which records of a batch compaction keeps: Kafka's rules, and what they write.

A **record** stays if

    it is behind what the map of keys knows, or
    it is the last of its key up to there, and has a value or is a tombstone that may not go yet

A tombstone stays until the delete horizon of its batch, which is `delete.retention.ms` after the
pass that first met it; until then every reader that began before it has time to see the deletion.
A record without a key (of a time when the topic was not compacted) goes.

A **batch** all of whose records go, goes; but it stays as a bare header if it

    is the last one of a producer that is remembered: its sequence is what the next one must follow
    ends a new segment: every closed segment ends just before the next one begins, which is how a
    segment that lost its end is told from one that was compacted

**Control batches** stay, and records of **transactional batches** take no key's place: which
transactions were committed is known only to a transaction coordinator, and until there is one,
nothing may go on the word of a record that was perhaps never to be seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from odradek.protocol import record_batch
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.record_batch_builder import empty_batch, rebuild_batch
from odradek.protocol.records import RecordCursor

ENTRY_BYTES = 200
"""What an entry takes at most in memory: the key's copy, its offset, its place in a dict that has
just grown."""
LONGEST_OWN_KEY = 32
DIGEST_MARK = b"\0"


class OffsetMap:
    """Key -> offset, for one pass over one log."""

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
        """`key` was written at `offset`, which is after all that were put before."""
        self._offsets[_entry(key)] = offset

    def get(self, key: bytes) -> int:
        """The last offset of `key`; -1: it is not in the map."""
        return self._offsets.get(_entry(key), -1)


def _entry(key: bytes) -> bytes:
    if len(key) <= LONGEST_OWN_KEY:
        return key
    return DIGEST_MARK + blake2b(key, digest_size=LONGEST_OWN_KEY).digest()


LATEST_HORIZON_MS: Final = (1 << 61) - 1
"""Of the timestamps that a batch can have; a horizon beyond is none."""


def cursor_over(data: bytes, header: RecordBatchHeader) -> RecordCursor:
    """The records of a batch, with the timestamps they themselves have.

    Raises `InvalidRecords`, `CorruptCompression`, `SectionTooLarge`.
    """
    section, start, end = record_batch.records_section(data, header)
    return RecordCursor(
        section, start, end, header.count, header.base_offset, header.base_timestamp
    )


def add_keys(data: bytes, header: RecordBatchHeader, start_offset: int, into: OffsetMap) -> int:
    """Put the keys of a batch's records from `start_offset` on into the map; how many there were.

    Raises what `cursor_over` does.
    """
    if header.is_control or header.is_transactional or header.count == 0:
        return 0
    cursor = cursor_over(data, header)
    section = cursor.data
    while cursor.advance():
        if cursor.key_size >= 0 and cursor.offset >= start_offset:
            into.put(section[cursor.key : cursor.key + cursor.key_size], cursor.offset)
    return header.count


class BatchRetention:
    """The rules of one pass; counts what it saw."""

    def __init__(
        self,
        offset_map: OffsetMap,
        last_offsets: Mapping[int, int],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`last_offsets`: of each producer's last batch, by producer id. Times are wall time."""
        self._offset_map = offset_map
        self._last_offsets = last_offsets
        self._now_ms = now_ms
        horizon_ms = now_ms + delete_retention_ms
        self._horizon_ms = horizon_ms if horizon_ms <= LATEST_HORIZON_MS else -1
        self.records_read = 0
        self.records_kept = 0
        self.batches_changed = 0

    def retained(self, data: bytes, header: RecordBatchHeader, *, ends_segment: bool) -> bytes:
        """What is to be written of the batch; empty: nothing. Raises what `cursor_over` does."""
        self.records_read += header.count
        if header.is_control:
            self.records_kept += header.count
            return _unchanged(data, header)
        kept, tombstones, max_timestamp, section = self._split_records(data, header)
        self.records_kept += len(kept)
        if not kept:
            wanted = ends_segment or self._is_last_of_producer(header)
            if wanted and header.count == 0:
                return _unchanged(data, header)
            self.batches_changed += 1
            return empty_batch(header) if wanted else b""
        horizon_ms = header.base_timestamp if header.has_delete_horizon else -1
        sets_horizon = tombstones and horizon_ms < 0 and self._horizon_ms >= 0
        if len(kept) == header.count and not sets_horizon:
            return _unchanged(data, header)
        if sets_horizon:
            horizon_ms = self._horizon_ms
        self.batches_changed += 1
        return rebuild_batch(header, section, kept, max_timestamp, horizon_ms)

    def _split_records(
        self, data: bytes, header: RecordBatchHeader
    ) -> tuple[list[tuple[int, int]], bool, int, bytes]:
        """Where the records are that stay, whether there is a tombstone among them, the largest of
        their timestamps, and the section they are in.
        """
        kept: list[tuple[int, int]] = []
        tombstones, max_timestamp = False, record_batch.NO_TIMESTAMP
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
        return (
            header.has_producer_id
            and self._last_offsets.get(header.producer_id) == header.last_offset
        )


def _unchanged(data: bytes, header: RecordBatchHeader) -> bytes:
    return data[header.position : header.end]
