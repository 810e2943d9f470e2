"""Batches with keys, passes of compaction and their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from odradek.log.compaction.batch_retention import OffsetMap
from odradek.log.compaction.cleaner import Cleaner, log_to_clean
from odradek.log.log import Log
from odradek.model.byte_ranges import ByteRange
from odradek.protocol.record_batch import records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.records import Record
from odradek.protocol.validate import BatchRules, ValidBatch, validate
from unit.log.log_making import SMALL, headers, read

COMPACTED = replace(SMALL, compact=True, delete=False, retention_ms=-1, segment_bytes=600)
Keyed = tuple[bytes | None, bytes | None]


def keyed(
    records: Iterable[Keyed],
    timestamp: int = 1000,
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: int = 0,
    transactional: bool = False,
) -> ValidBatch:
    """A batch of (key, value) with timestamps from `timestamp` on."""
    producer_id, epoch, sequence = producer
    data = build(
        [(key, value, [], timestamp + n) for n, (key, value) in enumerate(records)],
        codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    valid = validate(
        ByteRange(data, 0, len(data)), BatchRules(max_message_bytes=1 << 30), timestamp
    )
    assert isinstance(valid, ValidBatch), valid
    return valid


def write(log: Log, *batches: Sequence[Keyed], timestamp: int = 1000) -> None:
    """Append batches of (key, value)."""
    for records in batches:
        log.append(keyed(records, timestamp), 0, now_ms=0)


def roll_and_commit(log: Log) -> None:
    """Begin a new segment; make everything before it durable and committed."""
    log.roll(0)
    log.flush(checkpoint=True)
    log.high_watermark = log.log_end_offset


def a_pass(
    log: Log,
    first_dirty: int | None = None,
    now_ms: int = 5000,
    *,
    memory_bytes: int = 1 << 20,
    chunk_bytes: int = 1 << 16,
) -> Cleaner:
    """Return a pass that has not begun."""
    plan = log_to_clean(log, first_dirty, now_ms)
    return Cleaner(
        log.disk, plan, OffsetMap(memory_bytes, 1.0), now_ms=now_ms, chunk_bytes=chunk_bytes
    )


def run(cleaner: Cleaner, log: Log) -> Cleaner:
    """Take all steps; the owner's get the log."""
    for step in cleaner.steps():
        if not isinstance(step, int):
            step(log)
    log.cleaning = False
    return cleaner


def clean(log: Log, first_dirty: int | None = None, now_ms: int = 5000) -> int:
    """Run one pass and return the new first dirty offset."""
    return run(a_pass(log, first_dirty, now_ms), log).end_offset


def records(log: Log, offset: int | None = None) -> list[Record]:
    """Return all records from `offset` on."""
    start = log.log_start_offset if offset is None else offset
    data = read(log, start)
    return [record for header in headers(data) for record in records_of(data, header)]


def table(log: Log) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key."""
    state: dict[bytes | None, bytes | None] = {}
    for record in records(log):
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def shown(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of all records."""
    return [(record.offset, record.key, record.value) for record in records(log)]
