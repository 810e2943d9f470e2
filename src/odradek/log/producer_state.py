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

State changes only in `append`, which is called for batches that are in the log, in service and in
recovery alike. Recovery begins at a snapshot (see `producer_snapshot`), which has the last batch of
each producer; `restore_earlier_batches` reads the ones before it from the log.

A producer expires when it has sent nothing for `producer.id.expiration.ms`. That time is counted on
the monotonic clock from pass to pass, so neither old record timestamps nor a changed wall clock
expire a producer too early, which would accept a duplicate.

Open transactions are not implemented; the entries and the snapshot format have room for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import RecordBatchHeader

BATCHES_KEPT: Final = 5
MAX_SEQUENCE: Final = (1 << 31) - 1
NO_COORDINATOR_EPOCH: Final = -1
NO_TRANSACTION: Final = -1
NONE: Final = ErrorCode.NONE


class BatchMetadata(NamedTuple):
    """Sequences and offsets of one of a producer's last batches."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


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
                if batch.first_sequence == first and batch.last_sequence == last:
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
        return NONE if in_order else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

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

    __slots__ = ("_producers", "end_offset", "snapshot_offset")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerStateEntry] = {}
        self.end_offset = 0
        self.snapshot_offset = -1

    def __len__(self) -> int:
        return len(self._producers)

    def entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return the state of a producer, or None."""
        return self._producers.get(producer_id)

    def append(self, header: RecordBatchHeader, base_offset: int) -> None:
        """Add a batch that is in the log. Without a producer id it only moves `end_offset`."""
        producer_id = header.producer_id
        if producer_id >= 0 and not header.is_control:
            entry = self._producers.get(producer_id)
            if entry is None:
                entry = ProducerStateEntry(producer_id, header.producer_epoch)
                self._producers[producer_id] = entry
            entry.add(header, base_offset)
        self.end_offset = base_offset + header.last_offset_delta + 1

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
        for row in entries:
            entry = ProducerStateEntry(row.producer_id, row.producer_epoch)
            entry.coordinator_epoch = row.coordinator_epoch
            entry.current_txn_first_offset = row.current_txn_first_offset
            entry.last_timestamp = row.timestamp
            if row.last_offset >= 0:
                entry.batches.append(_last_batch(row))
            self._producers[row.producer_id] = entry
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

    def last_offsets(self) -> dict[int, int]:
        """Return the last offset of each producer's last batch, which compaction must keep."""
        return {
            entry.producer_id: entry.last_offset
            for entry in self._producers.values()
            if entry.batches
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
