"""Appending several batches with one write, each with its own answer."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.log.log import STAMP_BYTES, Log
from odradek.log.results import AppendInfo
from odradek.model.env import Buffer
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import stamp
from odradek.protocol.validate import ValidBatch


def append_all(
    log: Log, batches: Sequence[ValidBatch], leader_epoch: int, now_ms: int
) -> list[AppendInfo]:
    """Append batches in order; those that may go together are one write.

    A group ends before a batch that starts a new segment, that is not to be appended (a duplicate,
    out of order), or whose producer already has one in the group, so that each is judged by what
    is in the log. `OSError`: the group that met it, and all after it, were not appended.
    """
    answers: list[AppendInfo] = []
    group: list[ValidBatch] = []
    producers: set[int] = set()
    size = records = 0
    for batch in batches:
        header = batch.header
        last_offset = log.log_end_offset + records + header.last_offset_delta
        alone = (
            header.producer_id in producers
            or log.roll_due(
                log.segments.active,
                size + batch.size,
                last_offset,
                header.max_timestamp,
                now_ms,
            )
            or (header.producer_id >= 0 and log.check_producer(header) is not None)
        )
        if alone:
            answers += _append_group(log, group, leader_epoch, now_ms)
            answers.append(log.append(batch, leader_epoch, now_ms))
            group, producers, size, records = [], set(), 0, 0
            continue
        group.append(batch)
        size += batch.size
        records += header.last_offset_delta + 1
        if header.producer_id >= 0:
            producers.add(header.producer_id)
    return answers + _append_group(log, group, leader_epoch, now_ms)


def _append_group(
    log: Log, group: list[ValidBatch], leader_epoch: int, now_ms: int
) -> list[AppendInfo]:
    """Write batches that are all wanted and all fit into the active segment."""
    if len(group) < 2:
        return [log.append(batch, leader_epoch, now_ms) for batch in group]
    log.fence.check()
    parts: list[Buffer] = []
    base_offset, size = log.log_end_offset, 0
    for batch in group:
        parts.append(stamp(batch.data, batch.start, base_offset, leader_epoch))
        parts.append(memoryview(batch.data)[batch.start + STAMP_BYTES : batch.end])
        base_offset += batch.header.last_offset_delta + 1
        size += batch.size
    active = log.segments.active
    position = active.size
    log.write(active, parts, size, now_ms)
    answers = []
    for batch in group:
        header, base_offset = batch.header, log.log_end_offset
        log.note(active, header, base_offset, position, leader_epoch)
        position += batch.size
        answers.append(
            AppendInfo(
                ErrorCode.NONE,
                base_offset,
                log.log_end_offset - 1,
                header.max_timestamp if header.is_log_append_time else -1,
                log.log_start_offset,
                False,
            )
        )
    return answers
