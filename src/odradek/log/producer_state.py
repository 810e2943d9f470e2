"""State of the idempotent producers of a partition, and the rules by which a batch is accepted.

Per producer id it has the epoch, and the sequences and offsets of the last five batches. A batch of
`(producer id, epoch, first sequence .. last sequence)` is, in this order,

    a duplicate          same epoch and the same sequences as one of the last five: answered with
                         the offsets of that batch, not appended
    fenced               epoch below the remembered one: INVALID_PRODUCER_EPOCH
    out of order         same epoch, and the first sequence does not follow the last one
                         (2^31 - 1 is followed by 0); or a new epoch that does not begin with 0:
                         OUT_OF_ORDER_SEQUENCE_NUMBER
    next                 otherwise; also any sequence of an unknown producer

Batches without a sequence are a coordinator's, of a producer whose offsets it takes; they are
checked for their epoch only.

A producer's first transactional batch opens a transaction, a COMMIT or ABORT marker ends it, and
`open_transactions` knows which of them hold the last stable offset. In between, a batch that is not
transactional is INVALID_TXN_STATE; so is a transaction's first batch without the guard of its
verification (see `verification`). A marker is refused if

    producer epoch       below the remembered one: INVALID_PRODUCER_EPOCH. With transaction version
                         2, whose markers begin a new epoch, also the remembered one, unless no
                         transaction is open: then it is the same marker again (KAFKA-19999)
    coordinator epoch    below that of an earlier marker: TRANSACTION_COORDINATOR_FENCED

A marker of an unknown producer, or one without an open transaction, only leaves its epochs.

State changes only in `append` and `append_marker`, which are called for batches that are in the
log, in service and in recovery alike. Recovery begins at a snapshot (see `producer_snapshot`),
which has the last batch of each producer; `restore_earlier_batches` reads the ones before it from
the log.

A producer expires when it has sent nothing for `producer.id.expiration.ms`. That time is counted on
the monotonic clock from pass to pass, so neither old record timestamps nor a changed wall clock
expire a producer too early, which would accept a duplicate. A producer with an open transaction
does not expire.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from mypy_extensions import mypyc_attr

from odradek.log.open_transactions import CompletedTransaction, OpenTransactions
from odradek.log.verification import VerificationGuard, VerificationGuards
from odradek.model.errors import ErrorCode
from odradek.protocol.control_records import ControlRecordType, read_control_record
from odradek.protocol.record_batch import (
    NO_PRODUCER_EPOCH,
    TRANSACTIONAL_BIT,
    RecordBatchHeader,
)
from odradek.protocol.records import InvalidRecords

BATCHES_KEPT: Final = 5
MAX_SEQUENCE: Final = (1 << 31) - 1
NO_COORDINATOR_EPOCH: Final = -1
NO_TRANSACTION: Final = -1
NONE: Final = ErrorCode.NONE
FIRST_VERSION_WITH_EPOCHS: Final = 2
"""From this transaction version on, each transaction has an epoch of its own (KIP-890)."""


class TransactionMarker(NamedTuple):
    """The end of a transaction in one partition, as its coordinator asks for it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class EndTransactionMarker(NamedTuple):
    """The record of a COMMIT or ABORT marker."""

    committed: bool
    coordinator_epoch: int


def marker_of(data: bytes, header: RecordBatchHeader) -> EndTransactionMarker | None:
    """Return the marker of a control batch; None if compaction has removed its record, or if it is
    another control record.
    """
    if header.count == 0:
        return None
    try:
        record = read_control_record(data, header)
    except InvalidRecords:
        return None
    if record.type > ControlRecordType.COMMIT:
        return None
    return EndTransactionMarker(record.type is ControlRecordType.COMMIT, record.detail)


@final
class BatchMetadata:
    """Sequences and offsets of one of a producer's last batches."""

    __slots__ = ("first_offset", "first_sequence", "last_offset", "last_sequence", "timestamp")

    def __init__(
        self,
        first_sequence: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
    ) -> None:
        self.first_sequence = first_sequence
        self.last_sequence = last_sequence
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.timestamp = timestamp


@dataclass(slots=True)
class SnapshotEntry:
    """One producer in a snapshot."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_TRANSACTION


class ProducerStateEntry:
    """The state of one producer; `batches` are of the current epoch, oldest first."""

    __slots__ = (
        "active",
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "silent_since_ms",
        "transaction_since_ms",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.current_txn_first_offset = NO_TRANSACTION
        self.last_timestamp = -1
        self.batches: list[BatchMetadata] = []
        self.active = True  # since the last pass
        self.silent_since_ms = 0  # monotonic
        self.transaction_since_ms = -1  # monotonic; not before `late_transactions` has seen it

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def find_duplicate(self, header: RecordBatchHeader) -> BatchMetadata | None:
        """Return the earlier batch with the same epoch and sequences, or None."""
        if header.producer_epoch == self.producer_epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.first_sequence == first and batch.last_sequence == last and first >= 0:
                    return batch
        return None

    def check(self, header: RecordBatchHeader) -> ErrorCode:
        """Return NONE if the batch is the next one of this producer, else the error."""
        if header.producer_epoch < self.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > self.producer_epoch:
            in_order = header.base_sequence == 0 or self.producer_epoch < 0
        else:
            in_order = header.base_sequence == (self.last_sequence + 1) & MAX_SEQUENCE
        if not in_order and header.base_sequence >= 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.current_txn_first_offset >= 0 and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return NONE

    def check_marker(self, marker: TransactionMarker) -> ErrorCode:
        """Return NONE if the marker may end this producer's transaction, by its epochs."""
        if marker.producer_epoch < self.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (
            marker.producer_epoch == self.producer_epoch
            and marker.transaction_version >= FIRST_VERSION_WITH_EPOCHS
            and self.current_txn_first_offset >= 0
        ):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return NONE

    def add(self, header: RecordBatchHeader, base_offset: int) -> None:
        """Add a batch that is in the log at `base_offset`."""
        if header.producer_epoch != self.producer_epoch:
            self.producer_epoch = header.producer_epoch
            self.batches.clear()
        elif len(self.batches) == BATCHES_KEPT:
            del self.batches[0]
        self.batches.append(_batch(header, base_offset))
        self.last_timestamp = header.max_timestamp
        self.active = True

    def add_marker(self, header: RecordBatchHeader, coordinator_epoch: int) -> None:
        """Add a marker that is in the log."""
        if header.producer_epoch != self.producer_epoch:
            self.producer_epoch = header.producer_epoch
            self.batches.clear()
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = NO_TRANSACTION
        self.last_timestamp = header.max_timestamp
        self.active = True


class LastRecord(NamedTuple):
    """A producer's epoch, and the last offset of its last data batch; -1 if it has only markers."""

    offset: int
    producer_epoch: int


class ActiveProducer(NamedTuple):
    """A row of DescribeProducers; -1 for an unknown value."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@mypyc_attr(allow_interpreted_subclasses=True)
class ProducerState:
    """The producers of one log (Kafka's ProducerStateManager).

    `end_offset`: the state includes everything before it. `snapshot_offset`: the offset of the last
    snapshot, or -1.
    """

    __slots__ = ("_producers", "end_offset", "guards", "snapshot_offset", "transactions")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerStateEntry] = {}
        self.transactions = OpenTransactions()
        self.guards = VerificationGuards()
        self.end_offset = 0
        self.snapshot_offset = -1

    def __len__(self) -> int:
        return len(self._producers)

    def entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return the state of a producer, or None."""
        return self._producers.get(producer_id)

    @property
    def has_markers(self) -> bool:
        """True if a marker has ended a transaction of one of the producers."""
        return any(entry.coordinator_epoch >= 0 for entry in self._producers.values())

    def append(self, header: RecordBatchHeader, base_offset: int) -> None:
        """Add a batch that is in the log. Without a producer id, and of a control batch, it only
        moves `end_offset`; see `append_marker`.
        """
        producer_id = header.producer_id
        if producer_id >= 0 and not header.is_control:
            entry = self._producers.get(producer_id)
            if entry is None:
                entry = ProducerStateEntry(producer_id, header.producer_epoch)
                self._producers[producer_id] = entry
            entry.add(header, base_offset)
            if header.attributes & TRANSACTIONAL_BIT:
                self.guards.remove(producer_id)
                if entry.current_txn_first_offset < 0:
                    entry.current_txn_first_offset = base_offset
                    entry.transaction_since_ms = -1
                    self.transactions.begin(producer_id, base_offset)
        self.end_offset = base_offset + header.last_offset_delta + 1

    def append_marker(
        self, header: RecordBatchHeader, base_offset: int, marker: EndTransactionMarker
    ) -> CompletedTransaction | None:
        """Add a marker that is in the log; return the transaction that it has ended, if any."""
        producer_id = header.producer_id
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = ProducerStateEntry(producer_id, header.producer_epoch)
            self._producers[producer_id] = entry
        first_offset = entry.current_txn_first_offset
        self.guards.remove(producer_id)
        entry.add_marker(header, marker.coordinator_epoch)
        self.end_offset = base_offset + header.last_offset_delta + 1
        if first_offset < 0:
            return None
        stable = self.transactions.end(first_offset, base_offset)
        return CompletedTransaction(
            producer_id, first_offset, base_offset, not marker.committed, stable
        )

    def check_transactional(
        self, header: RecordBatchHeader, guard: VerificationGuard | None, verifies: bool
    ) -> ErrorCode:
        """Return NONE if this transactional batch may be appended, else the error.

        `guard`: that of the verification which was made for the batch. `verifies`: a transaction's
        first batch needs one.
        """
        producer_id = header.producer_id
        entry = self._producers.get(producer_id)
        epoch = NO_PRODUCER_EPOCH if entry is None else entry.producer_epoch
        if header.producer_epoch < epoch:  # before the guard: the producer can recover from this
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (
            verifies
            and not self.has_open_transaction(producer_id, header.producer_epoch)
            and not self.guards.stands(producer_id, guard)
        ):
            return ErrorCode.INVALID_TXN_STATE
        known = self.guards.get(producer_id)
        if known is not None and header.base_sequence >= 0:
            has_batches = entry is not None and bool(entry.batches)
            if not known.allows(header, has_batches):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return NONE if entry is None else entry.check(header)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True if the producer has an open transaction of this epoch."""
        entry = self._producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset >= 0
            and entry.producer_epoch == producer_epoch
        )

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard | ErrorCode | None:
        """Begin to verify a transaction before its first batch is appended, and return the guard.

        None: it is open already. INVALID_PRODUCER_EPOCH: the producer has a newer epoch.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.has_open_transaction(producer_id, producer_epoch):
            return None
        return self.guards.start(producer_id, producer_epoch, sequence, supports_epoch_bump)

    def late_transactions(self, monotonic_ms: int, limit_ms: int) -> list[ProducerStateEntry]:
        """Return the producers whose transaction has been open for longer than `limit_ms`.

        It counts from the first call that has seen it, on the monotonic clock: the timestamps of
        records are the producer's, and what was open before a restart gets all of its time again.
        """
        late = []
        for producer_id in self.transactions.producer_ids:
            entry = self._producers[producer_id]
            if entry.transaction_since_ms < 0:
                entry.transaction_since_ms = monotonic_ms
            elif monotonic_ms - entry.transaction_since_ms > limit_ms:
                late.append(entry)
        return late

    def restore_earlier_batches(self, headers: Iterable[RecordBatchHeader]) -> None:
        """Add the batches before each producer's last one, from the headers of the log.

        A snapshot has only the last batch, but a client may have five in flight when the broker
        stops, and each must be recognised as a duplicate when it is sent again.
        """
        earlier: dict[int, list[BatchMetadata]] = {}
        for header in headers:
            entry = self._producers.get(header.producer_id)
            known = entry.batches[0] if entry is not None and entry.batches else None
            if entry is None or known is None or header.is_control:
                continue
            if header.producer_epoch != entry.producer_epoch:
                continue
            if header.last_offset < known.first_offset:
                earlier.setdefault(entry.producer_id, []).append(_batch(header, header.base_offset))
        for producer_id, batches in earlier.items():
            entry = self._producers[producer_id]
            entry.batches = [*batches, *entry.batches][-BATCHES_KEPT:]

    def expire(self, monotonic_ms: int, expiration_ms: int) -> int:
        """Expire the producers that have been silent too long and return how many.

        May be called at any interval.
        """
        self.guards.expire(monotonic_ms, expiration_ms)
        silent = []
        for entry in self._producers.values():
            if entry.active:
                entry.active = False
                entry.silent_since_ms = monotonic_ms
            elif (
                monotonic_ms - entry.silent_since_ms >= expiration_ms
                and entry.current_txn_first_offset == NO_TRANSACTION
            ):
                silent.append(entry.producer_id)
        for producer_id in silent:
            del self._producers[producer_id]
        return len(silent)

    def reset(self, entries: Iterable[SnapshotEntry] = (), end_offset: int = 0) -> None:
        """Replace the state by that of a snapshot at `end_offset`."""
        self._producers = {}
        self.transactions.clear()
        opened: list[tuple[int, int]] = []
        for row in entries:
            entry = ProducerStateEntry(row.producer_id, row.producer_epoch)
            entry.coordinator_epoch = row.coordinator_epoch
            entry.current_txn_first_offset = row.current_txn_first_offset
            entry.last_timestamp = row.timestamp
            if row.last_offset >= 0:
                entry.batches.append(_last_batch(row))
            if row.current_txn_first_offset >= 0:
                opened.append((row.current_txn_first_offset, row.producer_id))
            self._producers[row.producer_id] = entry
        for first_offset, producer_id in sorted(opened):
            self.transactions.begin(producer_id, first_offset)
        self.end_offset = end_offset

    def snapshot(self) -> list[SnapshotEntry]:
        """Return every producer with its last batch."""
        rows = []
        for entry in self._producers.values():
            last = entry.batches[-1] if entry.batches else None
            rows.append(
                SnapshotEntry(
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.last_sequence,
                    entry.last_offset,
                    last.last_offset - last.first_offset if last is not None else 0,
                    entry.last_timestamp,
                    entry.coordinator_epoch,
                    entry.current_txn_first_offset,
                )
            )
        return rows

    def last_records(self) -> dict[int, LastRecord]:
        """Return what compaction must keep of each producer."""
        return {
            entry.producer_id: LastRecord(entry.last_offset, entry.producer_epoch)
            for entry in self._producers.values()
        }

    def active_producers(self) -> list[ActiveProducer]:
        """Return the rows of DescribeProducers."""
        return [
            ActiveProducer(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
            for entry in self._producers.values()
        ]


def _batch(header: RecordBatchHeader, base_offset: int) -> BatchMetadata:
    return BatchMetadata(
        header.base_sequence,
        header.last_sequence,
        base_offset,
        base_offset + header.last_offset_delta,
        header.max_timestamp,
    )


def _last_batch(row: SnapshotEntry) -> BatchMetadata:
    first = (row.last_sequence - row.offset_delta) & MAX_SEQUENCE if row.last_sequence >= 0 else -1
    return BatchMetadata(
        first, row.last_sequence, row.last_offset - row.offset_delta, row.last_offset, row.timestamp
    )
