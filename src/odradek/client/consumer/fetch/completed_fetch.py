"""CompletedFetch: the records that one Fetch response has for one partition.

    response ─► CompletedFetch ─► incoming (application's thread) ─► fill ─► records
                                                                  └─► fill_columns

The engine makes one per partition of a response and reads only the headers of its batches.
Checksums, decompression, records and objects follow on the application's thread, when this fetch is
the next one and for as many records as the application asks for.

`FetchedBatches` walks the batches:

    data[start:end]    batch │ control │ batch │ less than a batch
                         └── next ─► a cursor over its records, and what they share (`BatchInfo`)

It skips batches that end before the position or begin at its end, control batches, and with
read_committed the batches of aborted transactions: a producer's records are aborted from the offset
that the broker names up to the producer's next abort marker. It checks and decompresses a batch
only when it reaches it, and does not move past a corrupt one.

An error leaves the fetch where it is. Records before the error are returned first; the next calls
raise it again until the application seeks past it.

If the deserializers say so (`set_aside`), records that cannot be decoded go to `undecoded` and
`fill` skips them. The fetch is not finished until the caller has emptied `undecoded`.

A failed fetch has no batches but a `failure`, which `FetchCollector` raises when it reaches it.

Compiled; runs on the application's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from mypy_extensions import i64

from odradek.client.consumer.position.position import NO_EPOCH, Position
from odradek.client.consumer.record import BatchInfo, Record, TimestampType
from odradek.client.deserializers import Deserializers
from odradek.client.errors import DecodeError, InvalidRecord, KafkaError
from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import AbortedTransaction
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.control_records import is_abort_marker
from odradek.protocol.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatchHeader,
    cursor_of,
    is_intact,
)
from odradek.protocol.record_columns import RecordColumns
from odradek.protocol.records import InvalidRecords, RecordCursor

CORRUPTION_ERRORS: Final = (CorruptBatch, CorruptCompression, InvalidRecords, SectionTooLarge)
"""Raised while walking batches and reading records, for corrupt bytes."""


@final
class FetchedBatches:
    """The batches in `data[start:end]`. `next_offset` is the offset behind the last.

    `aborted` has the aborted transactions to skip; None reads everything.
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
        """Over the records of the current batch; None between batches."""
        self.batch: BatchInfo | None = None
        """The common fields of the current batch; kept while following batches have equal ones."""
        self.after: i64 = next_offset
        """The offset behind the current batch."""
        self._position = position
        self._data = data
        self._start = start
        self._at = start
        self._end = end
        self._check_crcs = check_crcs
        self._transactions = aborted
        self._aborted: list[AbortedTransaction] = []
        """The aborted transactions that begin further on; the next one is the last."""
        self._aborting: set[int] = set()
        """The producer ids whose transactions are aborted at this place."""
        self._begin_transactions()

    def _begin_transactions(self) -> None:
        self._aborting.clear()
        if self._transactions is not None:
            self._aborted = sorted(self._transactions, key=_first_offset, reverse=True)

    def next(self) -> RecordCursor | None:
        """Return a cursor over the next batch that has records for the application; None at the
        end. Raises `CORRUPTION_ERRORS`.
        """
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
        """True if the batch has records for applications. Call it for every batch, in order."""
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
        batch = self.batch
        epoch = header.partition_leader_epoch
        if batch is None or batch.leader_epoch != epoch or batch.timestamp_type is not kind:
            topic, partition = self._position.topic_partition
            self.batch = BatchInfo(topic, partition, epoch, kind)

    def stop(self) -> None:
        """Skip everything from here on."""
        self.cursor = None
        self._at = self._end

    def rewind(self) -> None:
        """Begin again; the position says which records to skip."""
        self.cursor = None
        self._at = self._start
        self._begin_transactions()

    def compact(self) -> None:
        """Drop the rest of the response: this fetch has to wait."""
        if self._end - self._start < len(self._data):
            self._data = self._data[self._start : self._end]
            self._at -= self._start
            self._end -= self._start
            self._start = 0

    def corrupt_batch_error(self, error: Exception) -> KafkaError:
        """Return the error that names the partition and the offset of the batch."""
        position = self._position
        partition = position.topic_partition
        next_offset = self.after
        if self.cursor is None:
            next_offset = RecordBatchHeader(self._data, self._at).next_offset
        return InvalidRecord(
            f"{partition}: a batch at offset {position.offset} is damaged: {error}. What to do: "
            f"to go on behind it, seek({partition!r}, {next_offset})",
            ErrorCode.CORRUPT_MESSAGE,
        )


def _first_offset(transaction: AbortedTransaction) -> int:
    return transaction.first_offset


Records = list[Record[Any, Any]]
Intercept = Callable[[Records], Records]


def is_selection(made: list[object], given: Records) -> bool:
    """True if the objects are some of these records of one partition, or replacements of some, in
    the same order."""
    at: i64 = 0
    count: i64 = len(given)
    for each in made:
        if not isinstance(each, Record):
            return False
        while at < count and given[at] is not each and not given[at].is_at_the_place_of(each):
            at += 1
        if at == count:
            return False
        at += 1
    return True


@final
class ColumnRun:
    """`count` consecutive rows of columns whose records share `batch`."""

    def __init__(self, batch: BatchInfo, count: int) -> None:
        self.batch = batch
        self.count = count


@final
class CompletedFetch:
    """The batches in `data[start:end]` of one partition. `next_offset` is the offset behind the
    last.

    `aborted` has the aborted transactions to skip; None reads everything.
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
        self.position = position
        self.generation: i64 = position.generation
        self.size = end - start
        self.next_offset = next_offset
        self.records: Records = []
        """Decoded records. `index` is the next one to return; those up to `count` may be returned.
        """
        self.index: i64 = 0
        self.count: i64 = 0
        self.intercepted: i64 = 0
        """How many of `records` the interceptors have seen, if there are any."""
        self.passed: i64 = 0
        """The offset behind the last record that they have seen; they may have left it out."""
        self.leader_epoch: i64 = NO_EPOCH
        """The leader epoch of all `records`."""
        self.undecoded: list[DecodeError] = []
        """Records that could not be decoded. They lie behind the first `count` of `records`."""
        self.failure: Callable[[], KafkaError | None] | None = None
        """Set instead of batches: called when the collector reaches this fetch; raises what it
        returns.
        """
        self._batches = FetchedBatches(position, data, start, end, next_offset, aborted, check_crcs)
        self._at_unread_record = False
        """True while the record under the cursor has not been added to `records`."""

    def fill(self, limit: int, deserializers: Deserializers) -> bool:
        """Decode up to `limit` more records of one leader epoch into `records` or `undecoded`;
        False at the end.

        Raises `DecodeError`, or `InvalidRecord` for a corrupt batch, if no record comes before it.
        """
        records: Records = []
        try:
            self._decode(records, limit, deserializers)
        except CORRUPTION_ERRORS as error:
            if not records and not self.undecoded:
                raise self._batches.corrupt_batch_error(error) from None
        except Exception:
            # Records come before it: they are returned first, and the next call raises it again.
            if not records and not self.undecoded:
                raise
        finally:
            # Also for other exceptions, such as KeyboardInterrupt in a deserializer.
            self.records = records
            self.index = self.intercepted = 0
            if not self.undecoded:
                self.count = len(records)
        return len(records) > 0 or len(self.undecoded) > 0

    def resume_after_undecoded(self) -> bool:
        """Go on behind the records in `undecoded`; True if there are decoded records."""
        self.count = len(self.records)
        return self.index < self.count

    def intercept(self, function: Intercept) -> None:
        """Replace the records that may be returned, and were not seen yet, by what the interceptors
        return for them."""
        before, after = self.records[: self.intercepted], self.records[self.count :]
        given = self.records[self.intercepted : self.count]
        made = function(given)
        self.records = [*before, *made, *after]
        self.count = self.intercepted = len(before) + len(made)
        self.passed = given[-1].offset + 1

    def _decode(self, records: Records, limit: i64, deserializers: Deserializers) -> None:
        batches = self._batches
        while len(records) + len(self.undecoded) < limit:
            cursor = batches.cursor
            if cursor is None:
                cursor = batches.next()
                if cursor is None:
                    return
            batch = batches.batch
            assert batch is not None
            if not records:
                self.leader_epoch = batch.leader_epoch
            elif self.leader_epoch != batch.leader_epoch:
                return
            self._decode_batch(cursor, batch, records, limit, deserializers)

    def _decode_batch(
        self,
        cursor: RecordCursor,
        batch: BatchInfo,
        records: Records,
        limit: i64,
        deserializers: Deserializers,
    ) -> None:
        """Decode the rest of the current batch, up to `limit`."""
        first, last = self.position.offset, self.position.end
        key, value = deserializers.key, deserializers.value
        topic = batch.topic
        while len(records) + len(self.undecoded) < limit:
            if not self._at_unread_record and not cursor.advance():
                self._batches.cursor = None
                return
            offset = cursor.offset
            if offset < first:
                continue
            if offset >= last:
                self._batches.stop()
                return
            self._at_unread_record = True
            headers: bytes | None = None
            if cursor.header_count > 0:
                headers = cursor.data[cursor.headers : cursor.end_of_record]
            field = "key"
            try:
                own_key = key.read(topic, cursor, cursor.key, cursor.key_size)
                field = "value"
                own_value = value.read(topic, cursor, cursor.value, cursor.value_size)
            except Exception as error:
                if not self.undecoded:
                    self.count = len(records)
                self._handle_undecodable(batch, cursor, headers, field, error, deserializers)
                self._at_unread_record = False
                continue
            records.append(
                Record(
                    batch,
                    offset,
                    cursor.timestamp,
                    own_key,
                    own_value,
                    headers,
                    cursor.header_count,
                )
            )
            self._at_unread_record = False

    def fill_columns(
        self, columns: RecordColumns, runs: list[ColumnRun], max_count: i64, max_data_bytes: i64
    ) -> bool:
        """Add records to the columns up to a number of rows or bytes and move the position; False
        at the end.

        Raises `InvalidRecord` for a corrupt batch, after the records before it were added.
        """
        if self.index < len(self.records) or self.undecoded:
            self._rewind()
        position, batches = self.position, self._batches
        first, last = position.offset, position.end
        while columns.count < max_count and columns.data_bytes <= max_data_bytes:
            before = columns.count
            try:
                cursor = batches.cursor
                if cursor is None:
                    cursor = batches.next()
                    if cursor is None:
                        return False
                if columns.append(cursor, first, last, max_count, max_data_bytes):
                    batches.cursor = None
            except CORRUPTION_ERRORS as error:
                if columns.count == before:
                    raise batches.corrupt_batch_error(error) from None
            added = columns.count - before
            if added > 0:
                assert cursor is not None
                self._add_run(runs, added)
                after = batches.after if batches.cursor is None else cursor.offset + 1
                position.offset = min(after, last)
            if batches.cursor is None and batches.after >= last:
                batches.stop()
        return True

    def _add_run(self, runs: list[ColumnRun], added: int) -> None:
        batch = self._batches.batch
        assert batch is not None
        position = self.position
        position.leader_epoch = batch.leader_epoch
        if runs and runs[-1].batch is batch:
            runs[-1].count += added
        else:
            runs.append(ColumnRun(batch, added))

    def compact(self) -> None:
        """Drop the parts of the response that this fetch does not need: it has to wait."""
        self._batches.compact()

    def _rewind(self) -> None:
        """Drop the decoded records and begin again: the application now wants columns."""
        self.records = []
        self.undecoded = []
        self.index = self.count = self.intercepted = 0
        self._at_unread_record = False
        self._batches.rewind()

    def _handle_undecodable(
        self,
        batch: BatchInfo,
        cursor: RecordCursor,
        headers: bytes | None,
        field: str,
        reason: Exception,
        deserializers: Deserializers,
    ) -> None:
        """Raise the `DecodeError` of a record, or set it aside, or pass it to `on_error`."""
        data = cursor.data
        key: bytes | None = None
        value: bytes | None = None
        if cursor.key_size >= 0:
            key = data[cursor.key : cursor.key + cursor.key_size]
        if cursor.value_size >= 0:
            value = data[cursor.value : cursor.value + cursor.value_size]
        raw: Record[bytes, bytes] = Record(
            batch, cursor.offset, cursor.timestamp, key, value, headers, cursor.header_count
        )
        partition = self.position.topic_partition
        error = DecodeError(
            f"{partition} at offset {cursor.offset}: the record cannot be decoded (key as "
            f"{deserializers.key.name}, value as {deserializers.value.name}): {reason!r}. What to "
            f"do: look at the error's `record`; to go on behind it, seek({partition!r}, "
            f"{cursor.offset + 1})"
        )
        error.record = raw
        error.field = field
        error.__cause__ = reason
        if deserializers.set_aside:
            self.undecoded.append(error)
        elif deserializers.on_error is None:
            raise error
        else:
            deserializers.on_error(error)
