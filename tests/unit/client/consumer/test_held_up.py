"""A consumer that waits for an open transaction says whose it is, once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from odradek.protocol.api.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from odradek.testing.scripted import CLOSE, ScriptedCluster
from unit.client.consumer.application import ORDERS, SECOND, Application, one_topic, rows

OPEN_FROM = 2


def producer(start: int, producer_id: int = 7) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=3,
        coordinator_epoch=0,
        current_txn_start_offset=start,
    )


def held_up(producers: list[ProducerState], isolation: str = "read_committed") -> Any:
    cluster, logs = one_topic()
    log = logs[ORDERS]
    for value in (b"a", b"b", b"open", b"later"):
        log.append(rows(value))
    log.stable = OPEN_FROM
    cluster.answers[DescribeProducersRequest] = lambda request, version: DescribeProducersResponse(
        topics=[
            TopicResponse(
                name="orders",
                partitions=[
                    PartitionResponse(partition_index=0, error_code=0, active_producers=producers)
                ],
            )
        ]
    )
    cluster.answers[ListTransactionsRequest] = lambda request, version: ListTransactionsResponse(
        error_code=0,
        unknown_state_filters=[],
        transaction_states=[
            ListedTransaction(
                transactional_id=f"billing-{request.producer_id_filters[0]}",
                producer_id=request.producer_id_filters[0],
                transaction_state="Ongoing",
            )
        ],
    )
    application = Application(cluster, isolation_level=isolation)
    application.assign([ORDERS])
    return cluster, log, application


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "has waited" in each.getMessage()]


def test_after_ten_seconds_the_oldest_open_transaction_is_named_once(caplog):
    cluster, _, application = held_up([producer(3, 8), producer(-1, 9), producer(OPEN_FROM)])
    with caplog.at_level(logging.WARNING):
        cluster.run(9 * SECOND)
        assert not warnings(caplog)
        cluster.run(30 * SECOND)
    [warning] = warnings(caplog)
    assert "orders-0 has waited at offset 2" in warning
    assert "transactional id billing-7 (producer id 7, epoch 3)" in warning
    assert "What to do: " in warning
    assert len(cluster[1].of(DescribeProducersRequest)) == 1
    application.read(OPEN_FROM)


def test_the_next_transaction_is_named_again(caplog):
    cluster, log, _ = held_up([producer(OPEN_FROM)])
    with caplog.at_level(logging.WARNING):
        cluster.run(15 * SECOND)
        log.stable = 3
        cluster.run(15 * SECOND)
    assert [
        f"at offset {offset} " in text
        for offset, text in zip((2, 3), warnings(caplog), strict=True)
    ]


@pytest.mark.parametrize("moved", [True, False])
def test_a_transaction_that_ends_in_time_is_not_mentioned(caplog, moved):
    cluster, log, _ = held_up([producer(OPEN_FROM)])
    with caplog.at_level(logging.WARNING):
        cluster.run(8 * SECOND)
        log.stable = 3 if moved else None
        cluster.run(8 * SECOND)
    assert not warnings(caplog)


def test_a_reader_of_uncommitted_records_asks_nothing(caplog):
    cluster, _, application = held_up([producer(OPEN_FROM)], "read_uncommitted")
    application.read(4)
    cluster.run(30 * SECOND)
    assert not cluster[1].of(DescribeProducersRequest) and not warnings(caplog)


def test_brokers_that_do_not_tell_leave_the_name_out(caplog):
    cluster, _, _ = held_up([producer(OPEN_FROM)])
    cluster.answers[DescribeProducersRequest] = lambda request, version: CLOSE
    with caplog.at_level(logging.WARNING):
        cluster.run(15 * SECOND)
    [warning] = warnings(caplog)
    assert "of whom, the brokers did not say" in warning


def test_a_transaction_that_no_coordinator_knows_has_only_its_producer_id(caplog):
    cluster, _, _ = held_up([producer(OPEN_FROM)])
    only_producers(cluster)
    with caplog.at_level(logging.WARNING):
        cluster.run(15 * SECOND)
    assert "producer id 7, epoch 3, of no known coordinator" in warnings(caplog)[0]


def test_a_leader_that_has_moved_is_not_taken_for_one_without_open_transactions(caplog):
    cluster, _, _ = held_up([producer(OPEN_FROM)])
    moved = PartitionResponse(
        partition_index=0,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        active_producers=[],
    )
    cluster.answers[DescribeProducersRequest] = lambda request, version: DescribeProducersResponse(
        topics=[TopicResponse(name="orders", partitions=[moved])]
    )
    with caplog.at_level(logging.WARNING):
        cluster.run(15 * SECOND)
    [warning] = warnings(caplog)
    assert "of whom, the brokers did not say" in warning
    assert "NOT_LEADER_OR_FOLLOWER" in warning


@pytest.mark.parametrize("is_loading", [True, False])
def test_a_coordinator_that_does_not_tell_is_not_taken_for_none(caplog, is_loading):
    cluster, _, _ = held_up([producer(OPEN_FROM)])
    loading = ListTransactionsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        unknown_state_filters=[],
        transaction_states=[],
    )
    cluster.answers[ListTransactionsRequest] = lambda request, version: (
        loading if is_loading else CLOSE
    )
    with caplog.at_level(logging.WARNING):
        cluster.run(15 * SECOND)
    [warning] = warnings(caplog)
    assert "epoch 3 (of which transactional id, the brokers did not say" in warning


def only_producers(cluster: ScriptedCluster) -> None:
    cluster.answers[ListTransactionsRequest] = lambda request, version: ListTransactionsResponse(
        error_code=0, unknown_state_filters=[], transaction_states=[]
    )
