"""The phases of a producer's transactions, and the classes of errors. Without brokers."""

from __future__ import annotations

import itertools

import pytest

from odradek.client.errors import BrokerError, IllegalState, KafkaError, ProducerFenced, error_for
from odradek.client.producer.transaction_phases import (
    NEXT,
    ErrorClass,
    Phase,
    ProducerTransaction,
    Step,
    TxnRequest,
    class_of,
)
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition

P0 = TopicPartition("t", 0)


def in_phase(phase: Phase) -> ProducerTransaction:
    made = ProducerTransaction("id", 60_000)
    made.phase = phase
    return made


@pytest.mark.parametrize(("phase", "step"), [*itertools.product(Phase, Step)])
def test_each_step_follows_the_table_or_says_what_has_to_come_first(phase, step):
    transaction = in_phase(phase)
    if (phase, step) in NEXT:
        transaction.step(step)
        assert transaction.phase is NEXT[phase, step]
    else:
        with pytest.raises(IllegalState, match="What to do: "):
            transaction.step(step)
        assert transaction.phase is phase


@pytest.mark.parametrize(
    ("asked", "code", "expected"),
    [
        (TxnRequest.COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorClass.RETRY),
        (TxnRequest.COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorClass.RETRY),
        (TxnRequest.COMMIT, ErrorCode.NOT_COORDINATOR, ErrorClass.FIND),
        (TxnRequest.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorClass.FIND),
        (TxnRequest.ADD_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorClass.RETRY),
        (TxnRequest.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorClass.ABORT),
        (
            TxnRequest.ADD_PARTITIONS,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorClass.ABORT,
        ),
        (TxnRequest.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorClass.ABORT),
        (TxnRequest.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, ErrorClass.ABORT),
        (TxnRequest.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, ErrorClass.ABORT),
        (TxnRequest.COMMIT_OFFSETS, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorClass.FATAL),
        (TxnRequest.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorClass.ABORT),
        (TxnRequest.PRODUCE, ErrorCode.INVALID_TXN_STATE, ErrorClass.ABORT),
        (TxnRequest.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE, ErrorClass.ABORT),
        (TxnRequest.PRODUCE, ErrorCode.PRODUCER_FENCED, ErrorClass.FATAL),
        (TxnRequest.COMMIT, ErrorCode.TRANSACTION_ABORTABLE, ErrorClass.ABORT),
        (TxnRequest.COMMIT, ErrorCode.INVALID_TXN_STATE, ErrorClass.FATAL),
        (TxnRequest.COMMIT, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorClass.FATAL),
        (TxnRequest.ABORT, ErrorCode.PRODUCER_FENCED, ErrorClass.FATAL),
        (
            TxnRequest.INIT_PRODUCER_ID,
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            ErrorClass.FATAL,
        ),
        (TxnRequest.INIT_PRODUCER_ID, ErrorCode.TRANSACTION_ABORTABLE, ErrorClass.ABORT),
        (
            TxnRequest.FIND_COORDINATOR,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorClass.FATAL,
        ),
    ],
)
def test_errors_have_the_classes_of_kip_1050(asked, code, expected):
    assert class_of(asked, code) is expected


@pytest.mark.parametrize("asked", list(TxnRequest))
def test_no_request_shows_a_retriable_error(asked):
    retriable = [code for code in ErrorCode if code.retriable]
    assert {class_of(asked, code) for code in retriable} == {ErrorClass.RETRY, ErrorClass.FIND}


def test_the_first_error_of_a_transaction_is_kept():
    transaction = in_phase(Phase.IN_TRANSACTION)
    first = error_for(ErrorCode.MESSAGE_TOO_LARGE, "sending")
    told = transaction.fail(TxnRequest.PRODUCE, first)
    assert transaction.fail(TxnRequest.PRODUCE, KafkaError("later")) is told
    assert told.requires_abort and not told.fatal and told.__cause__ is first
    assert transaction.phase is Phase.ABORTABLE_ERROR


def test_a_late_failure_changes_nothing_once_the_abort_has_begun():
    transaction = in_phase(Phase.ABORTING)
    transaction.fail(TxnRequest.PRODUCE, error_for(ErrorCode.MESSAGE_TOO_LARGE, "sending"))
    assert transaction.phase is Phase.ABORTING


def test_an_old_epoch_that_a_leader_reports_does_not_end_the_producer():
    transaction = in_phase(Phase.IN_TRANSACTION)
    error = error_for(ErrorCode.INVALID_PRODUCER_EPOCH, "sending")
    assert isinstance(error, ProducerFenced)
    told = transaction.fail(TxnRequest.PRODUCE, error)
    assert told.requires_abort and not told.fatal and not error.fatal


def test_the_error_of_a_fenced_producer_stays_fatal_when_its_records_fail_with_it():
    transaction = in_phase(Phase.IN_TRANSACTION)
    error = error_for(ErrorCode.INVALID_PRODUCER_EPOCH, "committing offsets")
    told = transaction.fail(TxnRequest.COMMIT_OFFSETS, error)
    assert transaction.fail_transaction(told) is told and told.fatal
    assert transaction.refusal("abort_transaction").fatal


@pytest.mark.parametrize(
    ("version", "open_ms", "kind", "why"),
    [
        (2, 60_000, ProducerFenced, "open for 60000 ms"),
        (2, 10, ProducerFenced, "another producer has taken the transactional id over"),
        (2, -1, BrokerError, "INVALID_TXN_STATE"),
        (1, 60_000, ProducerFenced, "open for 60000 ms"),
        (1, 10, BrokerError, "INVALID_TXN_STATE"),
    ],
)
def test_a_transaction_that_the_coordinator_has_ended_tells_who_ended_it(
    version, open_ms, kind, why
):
    """In version 2 the answer to its commit may be INVALID_TXN_STATE: the epoch is the one before,
    which is also that of a request that is sent again."""
    transaction = in_phase(Phase.IN_TRANSACTION)
    transaction.version = version
    error = transaction.fenced("committing", ErrorCode.INVALID_TXN_STATE, open_ms)
    assert type(error) is kind and why in str(error)
    assert error.code is ErrorCode.INVALID_TXN_STATE
    assert transaction.fail(TxnRequest.COMMIT, error).fatal


def test_the_error_of_a_fenced_producer_names_another_producer_or_the_timeout():
    transaction = in_phase(Phase.IN_TRANSACTION)
    other = transaction.fenced("committing", ErrorCode.PRODUCER_FENCED, 10)
    late = transaction.fenced("committing", ErrorCode.PRODUCER_FENCED, 60_000)
    assert other.fatal and "another producer has taken the transactional id over" in str(other)
    assert late.fatal and "open for 60000 ms" in str(late)


def test_version_1_waits_until_a_partition_is_added_and_version_2_does_not():
    one, two = in_phase(Phase.READY), in_phase(Phase.READY)
    one.begin(1, 0)
    two.begin(2, 0)
    assert not one.may_send(P0) and one.is_empty and list(one.to_add) == [P0]
    assert two.may_send(P0) and not two.is_empty
    one.added_to_transaction([P0])
    assert one.may_send(P0) and not one.is_empty


def test_nothing_is_sent_for_a_failed_transaction():
    transaction = in_phase(Phase.IN_TRANSACTION)
    transaction.fail(TxnRequest.PRODUCE, KafkaError("failed"))
    assert not transaction.may_send(P0)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "send its records again in another one"),
        (ErrorCode.INVALID_RECORD, "before its records are sent again, mend them"),
    ],
)
def test_a_failed_transaction_keeps_the_advice_of_a_cause_that_does_not_pass(code, advice):
    transaction = in_phase(Phase.IN_TRANSACTION)
    cause = KafkaError("a record failed. What to do: mend them.", code)
    text = str(transaction.fail_transaction(cause))
    assert text.endswith(advice) and text.count("What to do") == 1
