"""Transactions of a log: what opens and ends them, and which batches and markers are refused."""

from __future__ import annotations

import pytest

from odradek.log.log import AppendInfo, Log
from odradek.log.open_transactions import NO_OFFSET
from odradek.log.producer_state import ActiveProducer, TransactionMarker
from odradek.log.verification import VerificationGuard
from odradek.model.errors import ErrorCode
from odradek.protocol.control_records import ControlRecordType, read_control_record
from unit.log.log_making import batch, fill, headers, new_log, read
from unit.log.transactions import PRODUCER, Transactional, transactional

NONE = ErrorCode.NONE
COMMIT, ABORT = True, False


def first_offset_of(log: Log, producer_id: int = PRODUCER) -> int:
    entry = log.producers.entry(producer_id)
    assert entry is not None
    return entry.current_txn_first_offset


def marker(
    log: Log,
    epoch: int,
    *,
    coordinator_epoch: int = 0,
    version: int = 0,
    producer_id: int = PRODUCER,
) -> AppendInfo:
    marker = TransactionMarker(producer_id, epoch, coordinator_epoch, ABORT, version)
    return log.append_marker(marker, 0, 0)


def a_guard(log: Log, epoch: int = 0, sequence: int = 0, *, bumps: bool = False):
    guard = log.producers.start_verification(PRODUCER, epoch, sequence, bumps)
    assert isinstance(guard, VerificationGuard)
    return guard


class TestOpening:
    def test_the_first_transactional_batch_opens_a_transaction(self) -> None:
        log = new_log()
        fill(log, 1)
        producer = Transactional(log)
        producer.send(2)
        producer.send()
        assert first_offset_of(log) == 2
        assert log.producers.transactions.first_unstable == 2

    def test_an_idempotent_batch_opens_none(self) -> None:
        log = new_log()
        log.append(batch(producer=(PRODUCER, 0, 0)), 0, 0)
        assert first_offset_of(log) == -1
        assert log.producers.transactions.first_unstable == NO_OFFSET

    def test_an_idempotent_batch_within_a_transaction_is_refused(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send()
        mixed = log.append(batch(producer=(PRODUCER, 0, 1)), 0, 0)
        assert (mixed.error, log.log_end_offset) == (ErrorCode.INVALID_TXN_STATE, 1)
        gap = log.append(batch(producer=(PRODUCER, 0, 5)), 0, 0)
        assert gap.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "sequences are looked at first"
        producer.end(COMMIT)
        assert log.append(batch(producer=(PRODUCER, 0, 1)), 0, 0).error == NONE

    def test_a_duplicate_is_answered_though_its_transaction_is_over(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send(3)
        producer.end(COMMIT)
        again = log.append(transactional(count=3), 0, 0)
        assert (again.error, again.duplicate, again.base_offset) == (NONE, True, 0)

    def test_batches_of_a_coordinator_have_no_sequences_and_are_no_duplicates(self) -> None:
        log = new_log()
        for expected in range(3):
            assert log.append(transactional(sequence=-1), 0, 0).base_offset == expected
        assert first_offset_of(log) == 0
        fenced = log.append(transactional(epoch=-1, sequence=-1), 0, 0)
        assert fenced.error == ErrorCode.INVALID_PRODUCER_EPOCH, "their epoch is looked at"


class TestMarkers:
    def test_a_marker_is_a_control_batch_with_the_epoch_of_its_coordinator(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send()
        info = producer.end(COMMIT, coordinator_epoch=7, now_ms=5000)
        assert (info.error, info.base_offset, info.required_offset) == (NONE, 1, 2)
        data = read(log, 1)
        (header,) = headers(data)
        assert header.is_control and header.is_transactional
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
            PRODUCER,
            0,
            -1,
        )
        record = read_control_record(data, header)
        assert (record.type, record.detail) == (ControlRecordType.COMMIT, 7)
        assert header.max_timestamp == 5000

    def test_a_marker_ends_the_transaction(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send()
        producer.end(ABORT, coordinator_epoch=3, now_ms=5000)
        assert log.producers.active_producers() == [ActiveProducer(PRODUCER, 0, 0, 5000, 3, -1)]
        log.producers.transactions.replicated_to(log.log_end_offset)
        assert log.producers.transactions.first_unstable == NO_OFFSET

    def test_a_marker_without_a_transaction_leaves_its_epochs(self) -> None:
        log = new_log()
        assert marker(log, 5, coordinator_epoch=3).error == NONE
        assert log.producers.active_producers() == [ActiveProducer(PRODUCER, 5, -1, 0, 3, -1)]
        assert log.log_end_offset == 1
        assert log.producers.transactions.first_unstable == NO_OFFSET

    def test_a_marker_of_a_newer_epoch_fences_the_older_one(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send()
        assert marker(log, 4).error == NONE
        assert producer.send().error == ErrorCode.INVALID_PRODUCER_EPOCH
        assert log.append(transactional(epoch=4, sequence=1), 0, 0).error == (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        assert log.append(transactional(epoch=4), 0, 0).error == NONE

    def test_a_marker_of_an_older_epoch_is_fenced(self) -> None:
        log = new_log()
        Transactional(log, epoch=3).send()
        for version in (0, 1, 2):
            refused = marker(log, 2, version=version)
            assert (refused.error, refused.required_offset) == (
                ErrorCode.INVALID_PRODUCER_EPOCH,
                -1,
            )
        assert (first_offset_of(log), log.log_end_offset) == (0, 1)

    def test_a_marker_of_an_older_coordinator_is_fenced(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send()
        producer.end(COMMIT, coordinator_epoch=5)
        producer.send()
        refused = producer.end(COMMIT, coordinator_epoch=4)
        assert refused.error == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert first_offset_of(log) == 2
        assert producer.end(COMMIT, coordinator_epoch=5).error == NONE

    def test_before_version_2_a_marker_may_have_the_epoch_of_its_batches(self) -> None:
        log = new_log()
        Transactional(log, epoch=3).send()
        assert marker(log, 3, version=1).error == NONE
        assert marker(log, 3, version=1).error == NONE, "and may come twice"

    def test_in_version_2_a_marker_must_begin_a_new_epoch(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send()
        late = marker(log, 0, version=2)
        assert late.error == ErrorCode.INVALID_PRODUCER_EPOCH, "of the transaction before"
        assert producer.end(COMMIT, version=2).error == NONE
        entry = log.producers.entry(PRODUCER)
        assert entry is not None
        assert (entry.producer_epoch, entry.batches) == (1, [])
        assert producer.send().error == NONE, "the sequences begin again"

    def test_in_version_2_the_same_marker_again_is_success(self) -> None:
        log = new_log()
        producer = Transactional(log)
        producer.send()
        producer.end(COMMIT, version=2)
        assert marker(log, 1, version=2).error == NONE
        producer.send()
        assert marker(log, 1, version=2).error == ErrorCode.INVALID_PRODUCER_EPOCH, (
            "it would end the next transaction"
        )


class TestVerification:
    @pytest.fixture
    def log(self) -> Log:
        log = new_log()
        log.verifies_transactions = True
        return log

    def test_the_first_batch_needs_the_guard_and_the_next_ones_do_not(self, log: Log) -> None:
        producer = Transactional(log)
        assert producer.send().error == ErrorCode.INVALID_TXN_STATE
        assert producer.send(guard=a_guard(log)).error == NONE
        assert producer.send().error == NONE
        assert log.producers.start_verification(PRODUCER, 0, 2, False) is None, "it is open"

    def test_batches_that_wait_together_have_one_guard(self, log: Log) -> None:
        guard = a_guard(log)
        assert a_guard(log, 0, 1) is guard
        producer = Transactional(log)
        producer.send(guard=guard)
        assert producer.send(guard=guard).error == NONE, "the second one finds it open"

    def test_a_marker_in_between_voids_the_guard(self, log: Log) -> None:
        guard = a_guard(log)
        marker(log, 0)
        producer = Transactional(log)
        assert producer.send(guard=guard).error == ErrorCode.INVALID_TXN_STATE
        fresh = a_guard(log)
        assert fresh is not guard
        assert producer.send(guard=guard).error == ErrorCode.INVALID_TXN_STATE
        assert producer.send(guard=fresh).error == NONE

    def test_the_epoch_is_looked_at_first(self, log: Log) -> None:
        marker(log, 5)
        assert log.producers.start_verification(PRODUCER, 4, 0, False) == (
            ErrorCode.INVALID_PRODUCER_EPOCH
        )
        refused = log.append(transactional(epoch=4), 0, 0)
        assert refused.error == ErrorCode.INVALID_PRODUCER_EPOCH, "not INVALID_TXN_STATE"

    def test_an_open_transaction_of_another_epoch_is_no_verification(self, log: Log) -> None:
        Transactional(log).send(guard=a_guard(log))
        newer = transactional(epoch=1)
        assert log.append(newer, 0, 0).error == ErrorCode.INVALID_TXN_STATE
        assert log.append(newer, 0, 0, a_guard(log, 1)).error == NONE

    def test_a_higher_sequence_does_not_overtake_one_that_waits(self, log: Log) -> None:
        a_guard(log, 0, 1)
        guard = a_guard(log, 0, 0)
        overtaking = log.append(transactional(sequence=1), 0, 0, guard)
        assert overtaking.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert log.append(transactional(), 0, 0, guard).error == NONE

    def test_an_unknown_producer_of_version_2_begins_with_sequence_zero(self, log: Log) -> None:
        guard = a_guard(log, 0, 5, bumps=True)
        refused = log.append(transactional(sequence=5), 0, 0, guard)
        assert refused.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_before_version_2_it_may_begin_with_any(self, log: Log) -> None:
        guard = a_guard(log, 0, 5)
        assert log.append(transactional(sequence=5), 0, 0, guard).error == NONE

    def test_a_newer_epoch_takes_over_the_guard_with_its_own_sequence(self, log: Log) -> None:
        guard = a_guard(log, 0, 3)
        a_guard(log, 1, 7)
        assert (guard.producer_epoch, guard.lowest_sequence) == (1, 7)

    def test_markers_and_batches_without_transactions_need_none(self, log: Log) -> None:
        assert marker(log, 0).error == NONE
        assert log.append(batch(producer=(PRODUCER, 0, 0)), 0, 0).error == NONE

    def test_a_guard_whose_batch_never_came_expires(self, log: Log) -> None:
        guard = a_guard(log)
        log.producers.expire(1000, 100)
        log.producers.expire(1099, 100)
        assert len(log.producers.guards) == 1
        log.producers.expire(1100, 100)
        assert len(log.producers.guards) == 0
        assert Transactional(log).send(guard=guard).error == ErrorCode.INVALID_TXN_STATE


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    log = new_log()
    producer = Transactional(log)
    producer.send()
    for now_ms in (0, 1000):
        log.producers.expire(now_ms, 100)
    assert first_offset_of(log) == 0
    producer.end(COMMIT)
    for now_ms in (2000, 3000):
        log.producers.expire(now_ms, 100)
    assert log.producers.entry(PRODUCER) is None


def test_a_late_transaction_is_open_for_longer_than_the_limit() -> None:
    log = new_log()
    first, second = Transactional(log, 1), Transactional(log, 2)
    first.send(timestamp=5)  # a record from 1970
    late = log.producers.late_transactions
    assert late(1000, 100) == []
    second.send()
    assert late(1100, 100) == []
    assert [entry.producer_id for entry in late(1101, 100)] == [1]
    first.end(COMMIT)
    first.send()
    assert [entry.producer_id for entry in late(1201, 100)] == [2], "the first began again"
