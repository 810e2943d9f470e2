"""Transactions that no coordinator knows are aborted by their partition's leader, and logged."""

from __future__ import annotations

import pytest

from odradek.broker import hanging_transactions
from odradek.broker.hanging_transactions import (
    LOOK_MS,
    MARGIN_MS,
    KnownTransactions,
    OverdueTransaction,
)
from odradek.coordinator.transaction.listing import describe_error
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsResponse,
    TopicData,
)
from odradek.protocol.api.list_transactions import ListedTransaction, ListTransactionsResponse
from transcripts.group_stage import LimitedDisk
from unit.broker.transactional_broker import HANGING, BrokerWithOpenTransaction, TransactionalBroker

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


def test_it_is_aborted_although_its_producer_goes_on_with_transactions_in_other_partitions() -> (
    None
):
    broker = TransactionalBroker(transaction_partition_verification_enable="false")
    producer = broker.started(timeout_ms=900_000)
    broker.append_transactional(producer)  # late: no coordinator has t-0 in a transaction
    for _ in range(LIMIT_MS // LOOK_MS + 4):
        assert broker.add(producer, 1) is ErrorCode.NONE
        broker.pass_time(LOOK_MS)
        assert broker.end(producer, version=3)[0] is ErrorCode.NONE
    assert not broker.has_open(producer)
    assert broker.node.broker.hanging_transactions.aborted == 1


def known(listed: str, described: str = "", *partitions: int) -> KnownTransactions:
    """What one broker says about producer 7: one transaction, in partitions of `t`."""
    found = KnownTransactions()
    found.take_listed(
        ListTransactionsResponse(
            error_code=ErrorCode.NONE,
            unknown_state_filters=[],
            transaction_states=[
                ListedTransaction(transactional_id="id", producer_id=7, transaction_state=listed)
            ],
        )
    )
    if described:
        topics = [TopicData(topic="t", partitions=list(partitions))]
        state = DescribedTransaction(
            error_code=ErrorCode.NONE,
            transactional_id="id",
            producer_id=7,
            transaction_state=described,
            topics=topics,
        )
        assert found.take_described(DescribeTransactionsResponse(transaction_states=[state]))
    return found


def test_a_transaction_that_ends_or_is_open_in_the_partition_is_left_to_its_coordinator() -> None:
    hanging = OverdueTransaction(TopicPartition("t", 0), 7, 3, 0, 5)
    assert known("PrepareAbort").will_end(hanging)
    assert known("Ongoing", "Ongoing", 0, 1).will_end(hanging)
    assert known("Ongoing", "PrepareCommit", 1).will_end(hanging), "its marker may be on its way"
    assert known("Ongoing", "CompleteCommit").will_end(hanging)
    assert not known("Ongoing", "Ongoing", 1).will_end(hanging)
    assert not known("Ongoing", "Ongoing", 0).will_end(hanging._replace(producer_id=8))
    assert not KnownTransactions().will_end(hanging)


def test_a_look_decides_nothing_where_an_open_transaction_cannot_be_described() -> None:
    refused = describe_error("id", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = DescribeTransactionsResponse(transaction_states=[refused])
    assert not known("Ongoing").take_described(answer)
