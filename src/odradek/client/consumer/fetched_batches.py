"""FetchedBatches: the batches that a fetch brought of one partition, walked one after the other.

    data[start:end]    batch │ control │ batch │ less than a batch
                         └── next ─► cursor over its records, and the source they share

Passed over are batches that end before the position or begin at its end, control batches, and with
read_committed the batches of aborted transactions: a transaction of a producer is void from the
offset that the broker names for it up to the producer's next abort marker.

Each is checked and decompressed when its turn has come. At one that is damaged the walk stays.

A compiled leaf; the application's thread only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from odradek.client.consumer.position import Position
from odradek.client.consumer.record import RecordSource, TimestampType
from odradek.client.errors import InvalidRecord, KafkaError
from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import AbortedTransaction
from odradek.protocol.compression import CorruptCompression, TooLarge
from odradek.protocol.control_records import is_abort_marker
from odradek.protocol.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatchHeader,
    cursor_of,
    is_intact,
)
from odradek.protocol.records import InvalidRecords, RecordCursor

DAMAGES: Final = (CorruptBatch, CorruptCompression, InvalidRecords, TooLarge)
"""What walking, and reading records, may raise because of the batch's bytes."""


@final
class FetchedBatches:
    """Those in `data[start:end]`, of which the last is followed by `next_offset`.

    `aborted` are the transactions to pass over, or None to read everything there is.
    """

    def __init__(
        self,
        position: Position,
        data: bytes,
        start: i64,
        end: i64,
        next_offset: i64,
        aborted: Sequence[AbortedTransaction] | None,
        check_crcs: bool,
    ) -> None:
        self.cursor: RecordCursor | None = None
        """Over the records of the batch whose turn it is; None between batches."""
        self.source: RecordSource | None = None
        """What the records of that batch share, and of those before it, if it is the same."""
        self.after: i64 = next_offset
        """The offset behind that batch."""
        self._position = position
        self._data = data
        self._start = start
        self._at = start
        self._end = end
        self._check_crcs = check_crcs
        self._transactions = aborted
        self._aborted: list[AbortedTransaction] = []
        """Those that begin further on, the next one last."""
        self._aborting: set[int] = set()
        """The producers whose transactions are void here."""
        self._begin_transactions()

    def _begin_transactions(self) -> None:
        self._aborting.clear()
        if self._transactions is not None:
            self._aborted = sorted(self._transactions, key=_first_offset, reverse=True)

    def next(self) -> RecordCursor | None:
        """The next batch that has something for the application, if any; raises `DAMAGES`."""
        data = self._data
        first, last = self._position.offset, self._position.end
        while self._end - self._at >= HEADER_BYTES:
            header = RecordBatchHeader(data, self._at)
            if header.end > self._end or header.base_offset >= last:
                break
            if self._check_crcs and not is_intact(data, header):
                raise CorruptBatch(self._at, "the checksum is wrong")
            if self._is_wanted(header) and header.next_offset > first:
                cursor = cursor_of(data, header)
                self._take_source(header)
                self._at = header.end
                self.after = header.next_offset
                self.cursor = cursor
                return cursor
            self._at = header.end
        self._at = self._end
        return None

    def _is_wanted(self, header: RecordBatchHeader) -> bool:
        """Whether the batch has records for applications. To be asked of all batches in order."""
        if self._transactions is None:
            return not header.is_control
        aborted = self._aborted
        while aborted and aborted[-1].first_offset <= header.last_offset:
            self._aborting.add(aborted.pop().producer_id)
        if header.is_control:
            if is_abort_marker(self._data, header):
                self._aborting.discard(header.producer_id)
            return False
        return not header.is_transactional or header.producer_id not in self._aborting

    def _take_source(self, header: RecordBatchHeader) -> None:
        kind = (
            TimestampType.LOG_APPEND_TIME
            if header.is_log_append_time
            else TimestampType.CREATE_TIME
        )
        source = self.source
        epoch = header.partition_leader_epoch
        if source is None or source.leader_epoch != epoch or source.timestamp_type is not kind:
            topic, partition = self._position.topic_partition
            self.source = RecordSource(topic, partition, epoch, kind)

    def stop(self) -> None:
        """Nothing from here on is wanted."""
        self.cursor = None
        self._at = self._end

    def rewind(self) -> None:
        """Begin again: positions say what was handed out."""
        self.cursor = None
        self._at = self._start
        self._begin_transactions()

    def compact(self) -> None:
        """Keep no more of the response alive than these batches: they have to wait."""
        if self._end - self._start < len(self._data):
            self._data = self._data[self._start : self._end]
            self._at -= self._start
            self._end -= self._start
            self._start = 0

    def damaged(self, damage: Exception) -> KafkaError:
        """The error for the batch that cannot be read."""
        position = self._position
        partition = position.topic_partition
        behind = self.after
        if self.cursor is None:
            behind = RecordBatchHeader(self._data, self._at).next_offset
        return InvalidRecord(
            f"{partition}: a batch at offset {position.offset} is damaged: {damage}. What to do: "
            f"to go on behind it, seek({partition!r}, {behind})",
            ErrorCode.CORRUPT_MESSAGE,
        )


def _first_offset(transaction: AbortedTransaction) -> int:
    return transaction.first_offset
