"""The outcome of a transaction, by what a read_committed fetch from its first offset shows.

    log start offset behind its last offset            gone
    last stable offset not past its first offset       open: it, or one before it; ask again later
    its producer is among the aborted, in its range    aborted
    a batch of its producer id and epoch in its range  committed
    no such batch up to its last offset                gone: compacted, or the topic is another one

A broker names the aborted transactions that overlap with what a fetch returns, by producer id and
first offset. One that the producer id had before is over before the range begins; one that it had
later begins behind it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.producer.futures import DeliveredRange
from odradek.protocol.record_batch import RecordBatchHeader, batches
from odradek.spark.exactly_once.ledger import TaskTransaction
from odradek.spark.exactly_once.steps import LoggedOutcome


@dataclass(frozen=True, slots=True)
class Fetched:
    """One partition of a fetch. `aborted`: producer ids and first offsets, if read committed."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    data: bytes


class UndecidedFetch(enum.Enum):
    """An answer of a fetch that does not tell the outcome yet."""

    STILL_OPEN = "still open"
    FURTHER_ON = "further on"
    """Nothing of the transaction was returned: fetch the rest of its range."""


def outcome_in(
    transaction: TaskTransaction, written: DeliveredRange, fetched: Fetched
) -> LoggedOutcome | UndecidedFetch:
    """Return the outcome that a fetch of one of the transaction's ranges shows."""
    if fetched.log_start_offset > written.last_offset:
        return LoggedOutcome.GONE
    if fetched.last_stable_offset <= max(written.first_offset, fetched.log_start_offset):
        return UndecidedFetch.STILL_OPEN
    for producer_id, first_offset in fetched.aborted:
        inside = written.first_offset <= first_offset <= written.last_offset
        if producer_id == transaction.producer_id and inside:
            return LoggedOutcome.ABORTED
    end = fetched.log_start_offset
    for header in batches(fetched.data):
        if header.base_offset > written.last_offset:
            return LoggedOutcome.GONE
        if is_of(transaction, header):
            return LoggedOutcome.COMMITTED
        end = header.next_offset
    if end > written.last_offset or not fetched.data:
        return LoggedOutcome.GONE
    return UndecidedFetch.FURTHER_ON


def is_of(transaction: TaskTransaction, header: RecordBatchHeader) -> bool:
    """True for a batch that the transaction's producer wrote in its epoch."""
    wrote = (header.producer_id, header.producer_epoch)
    return wrote == (transaction.producer_id, transaction.producer_epoch) and not header.is_control


def joined_outcome(found: Sequence[LoggedOutcome]) -> LoggedOutcome:
    """Return the outcome of a transaction by those of its ranges: all that are left agree."""
    for outcome in (LoggedOutcome.COMMITTED, LoggedOutcome.ABORTED):
        if outcome in found:
            return outcome
    return LoggedOutcome.GONE
