"""FetchedBatches: the batches that a fetch brought of one partition, walked one after the other.

    data[start:end]    batch │ control │ batch │ less than a batch
                         └── next ─► cursor over its records, and the source they share

Passed over are batches that end before the position or begin at its end, control batches, and with
read_committed the batches of aborted transactions: a transaction of a producer is void from the
offset that the broker names for it up to the producer's next abort marker.

Each is checked and decompressed when its turn has come. At one that is damaged the walk stays.

A compiled leaf; the application's thread only.

What a fetch brought of one partition, on its way to the application.

    response ─► CompletedFetch ─► handed to the application's thread ─► fill ─► records ─► ...
                                                                        └─► fill_columns

The engine makes one per partition of a response and looks only at the headers of the first and
last batch. Everything else happens on the application's thread, when it is the fetch's turn and
for as many records as are wanted: checksums, decompression, the records themselves, and objects.

Passed over are records before the position and from its end on, and whole batches that are not for
applications: see `fetched_batches`.

An error leaves this where it stands. Records before it are handed out first, and asking again
raises it again, until the application seeks past it.

Where the deserializers say so, records that cannot be decoded are `undecoded`: kept, and passed
over by `fill`. The fetch is not done before somebody has seen to them and taken them out.

A failed fetch has no batches but a `failure`, which `FetchCollector` deals with in its turn.

A compiled leaf.
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

DAMAGES: Final = (CorruptBatch, CorruptCompression, InvalidRecords, SectionTooLarge)
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
        self.batch: BatchInfo | None = None
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
        batch = self.batch
        epoch = header.partition_leader_epoch
        if batch is None or batch.leader_epoch != epoch or batch.timestamp_type is not kind:
            topic, partition = self._position.topic_partition
            self.batch = BatchInfo(topic, partition, epoch, kind)

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


Records = list[Record[Any, Any]]


@final
class ColumnRun:
    """Rows of columns that come from one batch, or from several alike."""

    def __init__(self, batch: BatchInfo, count: int) -> None:
        self.batch = batch
        self.count = count


@final
class CompletedFetch:
    """The batches in `data[start:end]`, of which the last is followed by `next_offset`.

    `aborted` are the transactions to pass over, or None to read everything there is.
    """

    def __init__(
        self,
        position: Position,
        data: bytes,
        start: i64,
        end: i64,
        next_offset: i64,
        aborted: Sequence[AbortedTransaction] | None = None,
        check_crcs: bool = True,
    ) -> None:
        self.position = position
        self.generation: i64 = position.generation
        self.size = end - start
        self.next_offset = next_offset
        self.records: Records = []
        """Decoded, to be handed out up to `count`; `index` is the next of them."""
        self.index: i64 = 0
        self.count: i64 = 0
        self.leader_epoch: i64 = NO_EPOCH
        """Of all of `records`."""
        self.undecoded: list[DecodeError] = []
        """What was set aside among `records`: `count` is how many come before."""
        self.failure: Callable[[], KafkaError | None] | None = None
        """Instead of batches: called when its turn has come; what it returns is raised."""
        self._batches = FetchedBatches(position, data, start, end, next_offset, aborted, check_crcs)
        self._at_unread_record = False
        """The record the cursor stands on was not handed out."""

    def fill(self, limit: int, deserializers: Deserializers) -> bool:
        """Decode up to `limit` more into `records`, all of one leader's epoch, or set them aside;
        False at the end.

        Raises `DecodeError`, or `InvalidRecord` for a damaged batch: when nothing comes before it.
        """
        records: Records = []
        try:
            self._decode(records, limit, deserializers)
        except DAMAGES as damage:
            if not records and not self.undecoded:
                raise self._batches.damaged(damage) from None
        except Exception:
            if not records and not self.undecoded:
                raise
        finally:
            # Also when something quite different came up, say Ctrl-C in a deserializer.
            self.records = records
            self.index = 0
            if not self.undecoded:
                self.count = len(records)
        return len(records) > 0 or len(self.undecoded) > 0

    def resume_after_undecoded(self) -> bool:
        """What was set aside has been seen to: whether there are records behind it."""
        self.count = len(self.records)
        return self.index < self.count

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
        """The rest of the batch, as far as it is wanted."""
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
                self._undecodable(batch, cursor, headers, field, error, deserializers)
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
        """Add records to the columns until there are so many; False at the end. Moves the
        position.

        Raises `InvalidRecord` for a damaged batch, behind the records before it.
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
            except DAMAGES as damage:
                if columns.count == before:
                    raise batches.damaged(damage) from None
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
        """It has to wait: keep no more of the response alive than is needed."""
        self._batches.compact()

    def _rewind(self) -> None:
        """Records were decoded ahead that are wanted in another form: begin again."""
        self.records = []
        self.undecoded = []
        self.index = self.count = 0
        self._at_unread_record = False
        self._batches.rewind()

    def _undecodable(
        self,
        batch: BatchInfo,
        cursor: RecordCursor,
        headers: bytes | None,
        field: str,
        reason: Exception,
        deserializers: Deserializers,
    ) -> None:
        """Raises the `DecodeError` for a record, sets it aside, or gives it to who wanted that."""
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
