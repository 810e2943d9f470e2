"""Transactions that no coordinator knows are aborted by their partition's leader, and logged."""

from __future__ import annotations

import pytest

from odradek.broker import hanging_transactions
from odradek.broker.hanging_transactions import LOOK_MS, MARGIN_MS
from odradek.model.errors import ErrorCode
from transcripts.group_stage import LimitedDisk
from unit.broker.transactional_broker import HANGING, BrokerWithOpenTransaction

LIMIT_MS = 900_000 + MARGIN_MS
"""By the default of transaction.max.timeout.ms."""


def pass_minutes(broker: BrokerWithOpenTransaction, milliseconds: int) -> None:
    for _ in range(milliseconds // LOOK_MS):
        broker.pass_time(LOOK_MS)


def test_a_transaction_that_no_coordinator_knows_is_aborted_after_the_longest_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = BrokerWithOpenTransaction()
    pass_minutes(broker, LIMIT_MS)
    assert broker.is_open
    pass_minutes(broker, 4 * LOOK_MS)
    assert not broker.is_open
    assert "producer 7 that was open in t-0 from offset 0 on is aborted" in caplog.text
    assert broker.node.broker.hanging_transactions.aborted == 1
    entry = broker.node.replicas.by_name["t", 0].log.producers.entry(HANGING[0])
    assert entry is not None
    assert entry.coordinator_epoch == 0, "as WriteTxnMarkers of Kafka's tool has it"


def test_an_abort_that_the_disk_refuses_is_not_counted_and_tried_again() -> None:
    disk = LimitedDisk()
    broker = BrokerWithOpenTransaction(disk)
    pass_minutes(broker, LIMIT_MS)
    disk.full = True
    pass_minutes(broker, 4 * LOOK_MS)
    assert broker.is_open
    assert broker.node.broker.hanging_transactions.aborted == 0
    disk.full = False
    pass_minutes(broker, 4 * LOOK_MS)
    assert not broker.is_open
    assert broker.node.broker.hanging_transactions.aborted == 1


def test_a_transaction_that_was_written_to_meanwhile_is_looked_at_again() -> None:
    broker = BrokerWithOpenTransaction()
    pass_minutes(broker, LIMIT_MS + 2 * LOOK_MS)
    assert broker.is_open
    broker.append_transactional(HANGING, 1)
    pass_minutes(broker, LOOK_MS)
    assert broker.is_open
    pass_minutes(broker, 2 * LOOK_MS)
    assert not broker.is_open


def test_a_transaction_that_its_coordinator_knows_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging_transactions, "MARGIN_MS", 2 * LOOK_MS - 900_000)
    broker = BrokerWithOpenTransaction()
    producer = broker.started(timeout_ms=900_000)
    assert broker.add(producer) is ErrorCode.NONE
    broker.append_transactional(producer)
    pass_minutes(broker, 10 * LOOK_MS)
    assert not broker.is_open
    assert broker.has_open(producer)
    assert broker.state == "Ongoing"
