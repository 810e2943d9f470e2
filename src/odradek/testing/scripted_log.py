"""One partition as a script has it: batches, epochs, open and aborted transactions, faults.

log = logs["orders", 0]                                # see `scripted_fetch`
log.append([(None, b"one", [], 5)], epoch=0)
log.truncate(1)
log.errors.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)    # for the next fetch that reaches it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import AbortedTransaction
from odradek.protocol.record_batch import RecordBatchHeader, records_of, stamp
from odradek.protocol.record_batch_builder import build
from odradek.protocol.records import Header

Row = tuple[bytes | None, bytes | None, Sequence[Header], int]
"""Key, value, headers, timestamp."""
LATEST, EARLIEST = -1, -2


@dataclass(slots=True)
class Batch:
    """One batch of a log, as it is stored."""

    data: bytes
    base_offset: int
    next_offset: int
    epoch: int
    max_timestamp: int


@dataclass(slots=True)
class ScriptedLog:
    """One partition."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    stable: int | None = None
    """The last stable offset; None: the end."""
    aborted: list[AbortedTransaction] = field(default_factory=list)
    errors: list[ErrorCode] = field(default_factory=list)
    """What the next fetches of this partition are answered, one each."""
    hints: bool = True
    """Whether a broker that is not the leader says who is (KIP-951)."""

    def append(self, rows: Sequence[Row], epoch: int = 0, codec: int = 0) -> int:
        """One batch of records; its first offset."""
        return self.append_batch(build(list(rows), codec), epoch)

    def append_batch(self, data: bytes, epoch: int = 0) -> int:
        """A batch as a producer sends it; its first offset."""
        data = stamp(data, 0, self.end, epoch) + data[16:]
        header = RecordBatchHeader(data, 0)
        first = self.end
        self.end = header.next_offset
        self.batches.append(Batch(data, first, self.end, epoch, header.max_timestamp))
        return first

    def truncate(self, end: int) -> None:
        """Cut off at the beginning of a batch."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        self.end = end

    def trim(self, start: int) -> None:
        """The log starts there now."""
        self.batches = [batch for batch in self.batches if batch.next_offset > start]
        self.start = start

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` there is, and where it ends."""
        later = [batch.base_offset for batch in self.batches if batch.epoch > epoch]
        known = [batch.epoch for batch in self.batches if batch.epoch <= epoch]
        if not known:
            return -1, -1
        return max(known), min(later, default=self.end)

    def find(self, timestamp: int) -> tuple[int, int, int]:
        """What ListOffsets looks for: offset, timestamp, epoch."""
        last = self.batches[-1].epoch if self.batches else -1
        if timestamp == LATEST:
            return self.end, -1, last
        if timestamp == EARLIEST:
            return self.start, -1, self.batches[0].epoch if self.batches else -1
        for batch in self.batches:
            for record in records_of(batch.data, RecordBatchHeader(batch.data, 0)):
                if record.offset >= self.start and record.timestamp >= timestamp:
                    return record.offset, record.timestamp, batch.epoch
        return -1, -1, -1

    def read(self, offset: int, end: int, max_bytes: int) -> bytes:
        """Whole batches from the one with that offset on, up to an offset; at least one, unless no
        byte is wanted.
        """
        parts: list[bytes] = []
        room = max_bytes
        for batch in self.batches:
            if batch.next_offset <= offset or batch.base_offset >= end:
                continue
            if room <= 0 or (parts and len(batch.data) > room):
                break
            parts.append(batch.data)
            room -= len(batch.data)
        return b"".join(parts)
