"""What the driver of the exactly-once sink makes of errors of its own transactions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest

from odradek.client.errors import KafkaError, TransactionFailed, error_for
from odradek.model.errors import ErrorCode
from odradek.spark.exactly_once.driver import BatchDriver, DriverClients, is_shut_out
from odradek.spark.exactly_once.errors import ReplacedDriver
from odradek.spark.exactly_once.ledger import Decision, TaskTransaction
from odradek.spark.exactly_once.ledger_topic import LedgerTopic
from odradek.spark.exactly_once.steps import (
    CopyRecords,
    ShutOutOlderDrivers,
    SinkBatch,
    WriteDecision,
)
from odradek.spark.options import write_options

GIVEN = {"kafka.bootstrap.servers": "h:1", "topic": "t", "delivery": "exactly_once"}
SHUT_OUT = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
)
DECISION = Decision(0, (TaskTransaction(0, 0, 1, 0, 2, ()),), {})


class RefusedProducer:
    """A producer whose commits are refused."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def init_transactions(self) -> None:
        pass

    @contextmanager
    def transaction(self, timeout_s):
        yield
        raise self._error

    def send(self, topic, value, **given):
        pass

    def close(self, timeout_s):
        pass


class RefusedClients(DriverClients):
    """Clients of a driver whose commits are refused with an error code."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def admin(self) -> Any:
        return None

    def new_producer(self, transactional_id: str, transaction_timeout_ms: int) -> Any:
        return RefusedProducer(error_for(self._code, "committing"))


def run(code: ErrorCode, *effects: Any) -> Any:
    """Let a driver carry out effects; return the result of the last one."""
    result = None

    def steps():
        nonlocal result
        for effect in effects:
            result = yield effect

    options = write_options(GIVEN, streaming=True)
    driver = BatchDriver(options, LedgerTopic("ledger", "", 1, 1000), "p", RefusedClients(code))
    driver.run(SinkBatch("p", 0), steps())
    return result


@pytest.mark.parametrize("code", SHUT_OUT)
def test_a_decision_whose_transaction_the_coordinator_has_aborted_is_not_written(code):
    assert run(code, ShutOutOlderDrivers(), WriteDecision(DECISION)) is False


@pytest.mark.parametrize("code", SHUT_OUT)
def test_a_copy_whose_transaction_the_coordinator_has_aborted_tells_of_the_other_driver(code):
    copy = CopyRecords(DECISION.transactions[0], DECISION)
    with pytest.raises(ReplacedDriver, match="let one query at a time use a checkpoint"):
        run(code, ShutOutOlderDrivers(), copy)


def test_another_error_of_a_decision_is_raised():
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        run(code, ShutOutOlderDrivers(), WriteDecision(DECISION))


@pytest.mark.parametrize("code", SHUT_OUT)
def test_a_record_that_was_refused_after_the_abort_counts_like_the_commit(code):
    assert is_shut_out(TransactionFailed("a record was refused", code))
    assert not is_shut_out(TransactionFailed("too large", ErrorCode.MESSAGE_TOO_LARGE))
