"""Idempotent producers: what a partition remembers of each, and by which rules it takes a batch.

For every producer id: its epoch, and sequences and offsets of its last five batches. A batch of
`(producer id, epoch, first sequence .. last sequence)` is, in this order,

    a duplicate          same epoch and the same sequences as one of the last five: answered with
                         the offsets it got then, not appended
    fenced               epoch below the remembered one: INVALID_PRODUCER_EPOCH
    out of order         same epoch, and the first sequence does not follow the last one
                         (2^31 - 1 is followed by 0); or a new epoch that does not begin with 0:
                         OUT_OF_ORDER_SEQUENCE_NUMBER
    next                 else; also any sequence of a producer that is not remembered

State changes only in `append`, called for what is in the log: in service and in recovery alike.
Recovery begins at a snapshot (see `producer_snapshot`), which holds the last batch of each; the
ones before it are `restore_earlier_batches`ed from the log.

A producer is forgotten when it has been silent for `producer.id.expiration.ms`. Silence is counted
on the monotonic clock from pass to pass, so neither old record timestamps nor a clock that somebody
sets make a producer forgotten, and with it a duplicate accepted.

Not here yet, but kept in the entries and the snapshot format: open transactions.
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
    """One remembered batch."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class SnapshotEntry:
    """One producer as a snapshot has it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_TRANSACTION


class ProducerStateEntry:
    """What is remembered of one producer; `batches` from old to new, of the current epoch."""

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
        """The remembered batch with the same epoch and sequences."""
        if header.producer_epoch == self.producer_epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        return None

    def check(self, header: RecordBatchHeader) -> ErrorCode:
        """NONE if the batch is the next of this producer."""
        if header.producer_epoch < self.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > self.producer_epoch:
            in_order = header.base_sequence == 0 or self.producer_epoch < 0
        else:
            in_order = header.base_sequence == (self.last_sequence + 1) & MAX_SEQUENCE
        return NONE if in_order else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def add(self, header: RecordBatchHeader, base_offset: int) -> None:
        """The batch is in the log at `base_offset`."""
        if header.producer_epoch != self.producer_epoch:
            self.producer_epoch = header.producer_epoch
            self.batches.clear()
        elif len(self.batches) == BATCHES_KEPT:
            del self.batches[0]
        self.batches.append(_batch(header, base_offset))
        self.last_timestamp = header.max_timestamp
        self.active = True


class ActiveProducer(NamedTuple):
    """A row of DescribeProducers; -1 where there is nothing to tell."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@mypyc_attr(allow_interpreted_subclasses=True)
class ProducerState:
    """The producers of one log.

    `end_offset`: everything before it has been taken in. `snapshot_offset`: where the last snapshot
    was taken, -1 if there is none.
    """

    __slots__ = ("_producers", "end_offset", "snapshot_offset")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerStateEntry] = {}
        self.end_offset = 0
        self.snapshot_offset = -1

    def __len__(self) -> int:
        return len(self._producers)

    def entry(self, producer_id: int) -> ProducerStateEntry | None:
        """What is remembered of a producer; None: nothing."""
        return self._producers.get(producer_id)

    def append(self, header: RecordBatchHeader, base_offset: int) -> None:
        """Take in a batch that is in the log. Batches without a producer id only move the end."""
        producer_id = header.producer_id
        if producer_id >= 0 and not header.is_control:
            entry = self._producers.get(producer_id)
            if entry is None:
                entry = ProducerStateEntry(producer_id, header.producer_epoch)
                self._producers[producer_id] = entry
            entry.add(header, base_offset)
        self.end_offset = base_offset + header.last_offset_delta + 1

    def restore_earlier_batches(self, headers: Iterable[RecordBatchHeader]) -> None:
        """Remember again what came before each producer's last batch, from the log's own headers.

        A snapshot has the last batch only, and a client may have five under way when the broker
        stops: each must be known for a duplicate when it comes again.
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
        """One pass: forget who has been silent too long; how many. Any interval will do."""
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
        """Become what a snapshot at `end_offset` says."""
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
        """Every producer with its last batch."""
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
        """The last offset of each producer's last batch, which compaction must leave."""
        return {
            entry.producer_id: entry.last_offset
            for entry in self._producers.values()
            if entry.batches
        }

    def active_producers(self) -> list[ActiveProducer]:
        """The rows of DescribeProducers."""
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
