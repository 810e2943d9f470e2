"""The rules of transactions, on observations made by hand."""

from __future__ import annotations

import pytest

from odradek.model.topics import TopicPartition
from odradek.testing.transactions import (
    Acknowledged,
    ClientTransaction,
    OffsetRead,
    ReadRecord,
    Takeover,
    TransactionHistory,
    TransactionOutcome,
    judge,
)

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
COMMITTED, ABORTED = TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED
OPEN, UNKNOWN = TransactionOutcome.OPEN, TransactionOutcome.UNKNOWN
COMMIT_NS = 10


class Observed:
    """A run with one transactional id; the reader is a final one."""

    def __init__(self) -> None:
        self.history = TransactionHistory(final_readers={"final"})

    def transaction(
        self, outcome: TransactionOutcome, *records: tuple[TopicPartition, bytes]
    ) -> ClientTransaction:
        made = self.history.begin("id", "a")
        made.records = list(records)
        made.outcome = outcome
        made.commit_sent_ns = COMMIT_NS if outcome in (COMMITTED, UNKNOWN) else None
        return made

    def read(self, partition: TopicPartition, offset: int, value: bytes, at_ns: int = 100) -> None:
        self.history.reads.append(ReadRecord(at_ns, "final", partition, offset, value))

    def violations(self) -> list[str]:
        return judge(self.history)


def test_a_run_that_keeps_all_rules_has_no_violation() -> None:
    run = Observed()
    run.transaction(COMMITTED, (P0, b"1"), (P1, b"2")).has_offsets = True
    run.transaction(ABORTED, (P0, b"3"))
    run.transaction(OPEN, (P0, b"4"))
    run.transaction(UNKNOWN, (P0, b"5"))
    run.history.offsets["id"] = 1
    run.read(P0, 0, b"1")
    run.read(P1, 0, b"2")
    assert run.violations() == []


@pytest.mark.parametrize("outcome", [COMMITTED, UNKNOWN])
def test_a_transaction_of_which_one_record_is_missing_is_torn(outcome: TransactionOutcome) -> None:
    run = Observed()
    run.transaction(outcome, (P0, b"1"), (P1, b"2"))
    run.read(P0, 0, b"1")
    assert "torn: 1 of 2" in run.violations()[0]


def test_an_acknowledged_transaction_that_is_not_there_is_lost() -> None:
    run = Observed()
    run.transaction(COMMITTED, (P0, b"1"))
    (found,) = run.violations()
    assert found == "id#1 of a (committed) is lost"


@pytest.mark.parametrize("outcome", [ABORTED, OPEN])
def test_records_of_an_aborted_or_open_transaction_are_not_there(
    outcome: TransactionOutcome,
) -> None:
    run = Observed()
    made = run.transaction(outcome, (P0, b"1"))
    made.commit_sent_ns = COMMIT_NS
    run.read(P0, 0, b"1")
    assert run.violations() == [f"{made} is there"]


def test_a_record_is_not_read_before_its_commit_is_sent() -> None:
    run = Observed()
    run.transaction(COMMITTED, (P0, b"1"))
    run.read(P0, 0, b"1", at_ns=COMMIT_NS - 1)
    assert "before its commit" in run.violations()[0]


def test_a_record_that_nobody_sent_is_found() -> None:
    run = Observed()
    run.read(P0, 7, b"?")
    assert run.violations() == ["final read t-0@7, which nobody sent"]


def test_a_record_at_two_offsets_is_there_twice() -> None:
    run = Observed()
    run.transaction(COMMITTED, (P0, b"1"))
    run.read(P0, 0, b"1")
    run.read(P0, 1, b"1")
    assert "has a record 2 times" in run.violations()[0]


def test_a_record_that_is_read_again_at_its_offset_is_there_once() -> None:
    run = Observed()
    run.transaction(COMMITTED, (P0, b"1"))
    run.read(P0, 0, b"1")
    run.read(P0, 0, b"1")
    assert run.violations() == []


def test_transactions_of_one_id_keep_their_order_in_a_partition() -> None:
    run = Observed()
    run.transaction(COMMITTED, (P0, b"1"))
    run.transaction(COMMITTED, (P0, b"2"))
    run.read(P0, 0, b"2")
    run.read(P0, 1, b"1")
    assert "is of transaction 1, after one of 2" in run.violations()[0]


@pytest.mark.parametrize(
    ("epoch", "sent_ns", "is_found"), [(5, 21, True), (5, 19, False), (7, 21, False)]
)
def test_nothing_is_acknowledged_to_a_producer_after_another_took_its_id(
    epoch: int, sent_ns: int, is_found: bool
) -> None:
    run = Observed()
    run.history.takeovers.append(Takeover(20, "id", "b", 1000, 6))
    run.history.acknowledged.append(Acknowledged(sent_ns, "id", "a", "EndTxn", 1000, epoch))
    assert bool(run.violations()) == is_found


@pytest.mark.parametrize("offset", [-1, 2])
def test_the_offset_of_the_group_is_that_of_the_last_transaction_that_is_there(
    offset: int,
) -> None:
    run = Observed()
    run.transaction(COMMITTED, (P0, b"1")).has_offsets = True
    run.transaction(UNKNOWN, (P0, b"2")).has_offsets = True
    run.read(P0, 0, b"1")
    run.history.offsets["id"] = offset
    assert f"is at {offset}, and the last transaction with offsets" in run.violations()[0]


def note_offset_read(run: Observed, at_ns: int, offset: int, *, of_several: bool = False) -> None:
    run.history.offset_reads.append(OffsetRead(at_ns, "id", offset, of_several))


def with_offsets() -> Observed:
    """A run whose transactions 1 and 3 commit offsets, and 2 is aborted."""
    run = Observed()
    for number, outcome in enumerate((COMMITTED, ABORTED, COMMITTED), 1):
        record = P0, str(number).encode()
        run.transaction(outcome, record).has_offsets = True
        if outcome is COMMITTED:
            run.read(P0, number, record[1])
    run.history.offsets["id"] = 3
    return run


def test_offsets_may_be_told_from_their_commit_on() -> None:
    run = with_offsets()
    for at_ns, offset in ((0, -1), (COMMIT_NS, 1), (COMMIT_NS, 3), (COMMIT_NS + 1, 3)):
        note_offset_read(run, at_ns, offset)
    assert run.violations() == []


@pytest.mark.parametrize(("at_ns", "offset"), [(COMMIT_NS - 1, 1), (COMMIT_NS, 2)])
def test_offsets_are_not_told_before_their_commit_is_sent(at_ns: int, offset: int) -> None:
    run = with_offsets()
    note_offset_read(run, at_ns, offset)
    assert "before the commit" in run.violations()[0]


def test_offsets_of_a_transaction_that_is_not_there_are_found() -> None:
    run = with_offsets()
    run.transaction(UNKNOWN, (P0, b"4"))
    note_offset_read(run, COMMIT_NS, 4)
    assert "is not there" in run.violations()[0]


@pytest.mark.parametrize("of_several", [True, False])
def test_offsets_go_back_only_where_a_broker_may_be_cut_off(of_several: bool) -> None:
    run = with_offsets()
    note_offset_read(run, COMMIT_NS, 3, of_several=of_several)
    note_offset_read(run, COMMIT_NS + 1, 1, of_several=of_several)
    found = ["went back from 3 to 1" in each for each in run.violations()]
    assert found == ([] if of_several else [True])
