"""Checking the batches that a follower fetched from its leader, before it appends them.

The leader has validated their records and given them offsets and epochs, so a follower appends them
as they are, byte for byte. What the network, the leader's disk or a bug may have changed is found
here:

    framing   whole batches of format v2; a batch that is cut short ends them (a leader may cut the
              last one at the limit of a fetch)
    CRC-32C   of every batch
    offsets   from the log end on, ascending. Compaction leaves gaps
    epochs    ascending. A batch of a later epoch than that of the leader that was asked ends them:
              the broker leads again in a later epoch, in which nothing was compared yet
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.log.scan import MAX_RELATIVE_OFFSET
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import CorruptBatch, RecordBatchHeader, batches, is_intact

NONE: Final = ErrorCode.NONE


class LeaderBatches(NamedTuple):
    """The headers of the batches to append; or with an `error` none, and what is wrong."""

    headers: list[RecordBatchHeader]
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


def check_leader_batches(
    records: ByteRange, log_end_offset: int, latest_epoch: int, leader_epoch: int
) -> LeaderBatches:
    """Check the batches that the leader of `leader_epoch` sent for a log that ends at this offset.

    CORRUPT_MESSAGE: they are damaged. OFFSET_OUT_OF_RANGE: they begin before the log end.
    """
    expected, epoch = log_end_offset, latest_epoch
    headers: list[RecordBatchHeader] = []
    try:
        for header in batches(records.data, records.start, records.end):
            if header.partition_leader_epoch > leader_epoch:
                break
            if not headers and header.base_offset < log_end_offset:
                return LeaderBatches(
                    [],
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{header} begins before the log end, {log_end_offset}",
                )
            wrong = _fault(records.data, header, expected, epoch)
            if wrong:
                return LeaderBatches([], ErrorCode.CORRUPT_MESSAGE, f"{header} {wrong}")
            headers.append(header)
            expected = header.next_offset
            epoch = header.partition_leader_epoch
    except CorruptBatch as corrupt:
        return LeaderBatches([], ErrorCode.CORRUPT_MESSAGE, str(corrupt))
    return LeaderBatches(headers)


def _fault(data: bytes, header: RecordBatchHeader, expected: int, epoch: int) -> str:
    """What is wrong with a batch; empty if nothing is."""
    if not is_intact(data, header):
        return "has a wrong checksum"
    if not 0 <= header.last_offset_delta <= MAX_RELATIVE_OFFSET:
        return "has an impossible range of offsets"
    if header.base_offset < expected:
        return f"begins before offset {expected}"
    if header.partition_leader_epoch < epoch:
        return f"goes back from leader epoch {epoch}"
    return ""
