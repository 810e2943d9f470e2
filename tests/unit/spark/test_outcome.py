"""What a read_committed fetch shows of a transaction's outcome."""

from __future__ import annotations

import pytest

from odradek.client.producer.futures import DeliveredRange
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.spark.exactly_once.ledger import TaskTransaction
from odradek.spark.exactly_once.outcome import Fetched, UndecidedFetch, joined_outcome, outcome_in
from odradek.spark.exactly_once.steps import LoggedOutcome

WRITTEN = DeliveredRange("orders", 0, 4, 10, 13)
TRANSACTION = TaskTransaction(0, 0, 7, 3, 2, (WRITTEN,))


def batch(offset, producer_id=7, epoch=3, records=2):
    builder = RecordBatchBuilder(
        base_offset=offset, producer_id=producer_id, producer_epoch=epoch, transactional=True
    )
    for _ in range(records):
        builder.append(None, b"v")
    return builder.build()


def look(*, stable=20, start=0, aborted=(), data=None):
    found = batch(10) + batch(12) if data is None else data
    return outcome_in(TRANSACTION, WRITTEN, Fetched(20, stable, start, aborted, found))


@pytest.mark.parametrize(
    ("fetched", "expected"),
    [
        ({}, LoggedOutcome.COMMITTED),
        ({"aborted": ((7, 10),)}, LoggedOutcome.ABORTED),
        # Of another producer; of one that the id had later.
        ({"aborted": ((8, 10), (7, 17))}, LoggedOutcome.COMMITTED),
        # A last stable offset at its first record, or one of another before it.
        ({"stable": 10, "data": b""}, UndecidedFetch.STILL_OPEN),
        ({"stable": 4, "data": b""}, UndecidedFetch.STILL_OPEN),
        # Only the last of its records are left.
        ({"start": 12, "data": batch(12)}, LoggedOutcome.COMMITTED),
        ({"start": 14, "data": b""}, LoggedOutcome.GONE),
        # Another producer's, or another epoch's, in its place: the topic was made again.
        ({"data": batch(10, producer_id=8, records=4)}, LoggedOutcome.GONE),
        ({"data": batch(10, epoch=4, records=4)}, LoggedOutcome.GONE),
        ({"data": batch(17)}, LoggedOutcome.GONE),
        # Compacted in front of its last record.
        ({"data": batch(10, producer_id=8)}, UndecidedFetch.FURTHER_ON),
    ],
)
def test_the_outcome_of_a_range(fetched, expected):
    assert look(**fetched) is expected


def test_the_ranges_that_are_left_tell_the_outcome():
    gone, committed, aborted = LoggedOutcome.GONE, LoggedOutcome.COMMITTED, LoggedOutcome.ABORTED
    assert joined_outcome([gone, committed]) is committed
    assert joined_outcome([aborted, gone]) is aborted
    assert joined_outcome([gone, gone]) is gone
