"""The ledger: decisions as records, and what a reader of its log takes for decided."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from odradek.client.producer.futures import DeliveredRange
from odradek.protocol.control_records import ControlRecordType
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.record_batch_builder import RecordBatchBuilder, empty_batch
from odradek.spark.exactly_once import ledger
from odradek.spark.exactly_once.errors import LedgerDamaged
from odradek.spark.exactly_once.ledger import Decision, LedgerEntry, TaskTransaction, newest


def transaction(task, *ranges, producer_id=7):
    return TaskTransaction(task, 1, producer_id + task, 3, 2, ranges)


WRITTEN = DeliveredRange("orders", 0, 3, 10, 14)
DECISION = Decision(5, (transaction(0, WRITTEN), transaction(1)), {"orders": "an id"})


class Log:
    """The log of a ledger's partition."""

    def __init__(self):
        self.data = b""
        self.end = 0

    def write(self, decision, prefix="p", producer_id=1, only=None):
        self.append(producer_id, decision.records(prefix, only))

    def mark(self, producer_id=1, kind=ControlRecordType.COMMIT):
        key = b"\0\0" + int(kind).to_bytes(2, "big")
        self.append(producer_id, [(key, bytes(6))], control=True)

    def append(self, producer_id, records, *, control=False):
        builder = RecordBatchBuilder(
            base_offset=self.end, producer_id=producer_id, transactional=True, control=control
        )
        for key, value in records:
            builder.append(key, value)
        self.data += builder.build()
        self.end += int(builder.count)


def read(log, prefix="p"):
    entry = LedgerEntry(prefix)
    entry.replay(log.data)
    return entry.decision


def test_a_decision_is_read_as_it_was_written():
    log = Log()
    log.write(DECISION)
    log.mark()
    assert read(log) == DECISION
    assert read(log, "another") is None


def test_a_decision_counts_with_the_marker_that_commits_it():
    log = Log()
    log.write(DECISION)
    assert read(log) is None
    log.mark(producer_id=2)
    assert read(log) is None
    log.mark(kind=ControlRecordType.ABORT)
    log.mark()
    assert read(log) is None


def test_a_marker_that_compaction_has_emptied_ends_nothing():
    log = Log()
    log.mark()
    log.data = empty_batch(RecordBatchHeader(log.data, 0))
    log.write(DECISION)
    log.mark()
    assert read(log) == DECISION


def test_a_decision_names_its_streaming_query_and_an_older_entry_none():
    log = Log()
    named = replace(DECISION, query="an id of a query")
    log.write(named)
    log.mark()
    assert read(log) == named
    ((key, value),) = DECISION.records("p")
    older = {name: each for name, each in json.loads(value).items() if name != "query"}
    log.append(1, [(key, json.dumps(older).encode())])
    log.mark()
    assert read(log) == DECISION


def test_another_querys_open_transaction_hides_nothing():
    log = Log()
    log.write(DECISION, "another", producer_id=2)
    log.write(DECISION)
    log.mark()
    assert read(log) == DECISION


def test_reading_goes_on_where_it_ended():
    log, entry = Log(), LedgerEntry("p")
    log.write(DECISION)
    entry.replay(log.data)
    log.mark()
    entry.replay(log.data)
    assert entry.position == log.end == 2
    assert entry.decision == DECISION


def test_a_decision_of_many_ranges_has_several_records(monkeypatch):
    monkeypatch.setattr(ledger, "RANGES_IN_PART", 2)
    many = Decision(5, tuple(transaction(n, WRITTEN) for n in range(5)), {"orders": "an id"})
    log = Log()
    log.write(many)
    log.mark()
    assert log.end == 4
    assert read(log) == many
    # The next one has fewer: what is left of the one before is passed over.
    log.write(DECISION)
    log.mark()
    assert read(log) == DECISION


def test_a_mark_rewrites_the_record_of_its_transaction_only(monkeypatch):
    monkeypatch.setattr(ledger, "RANGES_IN_PART", 1)
    many = Decision(5, tuple(transaction(n, WRITTEN) for n in range(3)), {"orders": "an id"})
    marked = many.with_copied(many.transactions[1])
    log = Log()
    log.write(many)
    log.mark()
    log.write(marked, only=many.transactions[1])
    log.mark()
    assert log.end == 6
    assert read(log) == marked
    assert [each.copied for each in marked.transactions] == [False, True, False]


def test_a_missing_part_stops_the_reader(monkeypatch):
    monkeypatch.setattr(ledger, "RANGES_IN_PART", 1)
    many = Decision(5, tuple(transaction(n, WRITTEN) for n in range(2)), {"orders": "an id"})
    log = Log()
    log.append(1, list(many.records("p"))[:1])
    log.mark()
    with pytest.raises(
        LedgerDamaged, match=r"lacks part 1 of micro-batch 5.*ledgerStartsAt set to 6"
    ):
        read(log)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [(b"{", "cannot be read"), (b"[]", "cannot be read"), (b'{"version": 9}', "has version 9")],
)
def test_a_record_of_another_kind_stops_the_reader(value, complaint):
    log = Log()
    log.append(1, [(b"p", value)])
    with pytest.raises(LedgerDamaged, match=complaint):
        read(log)


def test_a_decision_of_this_process_counts_until_a_later_one_is_read():
    later = Decision(6, (), {})
    assert newest(None, None) is None
    assert newest(None, DECISION) is DECISION
    assert newest(later, DECISION) is later
    assert newest(DECISION, later) is later


def test_records_are_readable_json():
    ((key, value),) = DECISION.records("p")
    assert key == b"p"
    assert json.loads(value)["transactions"] == [
        [0, 1, 7, 3, 2, 0, [["orders", 0, 3, 10, 14]]],
        [1, 1, 8, 3, 2, 0, []],
    ]
