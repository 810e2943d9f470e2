"""Transactions of one client and one broker in memory, over the wire's requests."""

from __future__ import annotations

import pytest

from odradek.broker.metrics.odradek_metrics import TRANSACTIONS
from odradek.broker.metrics.scrape import Scrape
from odradek.controller.quorum_controller import NotController
from odradek.model.errors import ErrorCode
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from unit.broker.memory_broker import MemoryBroker
from unit.broker.transactional_broker import TransactionalBroker

NONE = ErrorCode.NONE


def test_a_transaction_is_committed_and_the_next_one_has_the_next_epoch() -> None:
    broker = TransactionalBroker()
    producer = broker.started()
    assert producer[1] == 0
    assert broker.state == "Empty"
    assert broker.add(producer, 0, 2) is NONE
    found = broker.described()
    assert found.transaction_state == "Ongoing"
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", [0, 2])]
    assert broker.end(producer) == (NONE, producer[0], 1)
    assert broker.state == "CompleteCommit"
    assert broker.add((producer[0], 1)) is NONE
    assert broker.end((producer[0], 1), committed=False) == (NONE, producer[0], 2)
    assert broker.state == "CompleteAbort"


def test_before_transaction_version_2_the_epoch_stays() -> None:
    broker = TransactionalBroker()
    producer = broker.started()
    for _ in range(2):
        assert broker.add(producer) is NONE
        assert broker.end(producer, version=4) == (NONE, -1, -1)
    assert broker.described().producer_epoch == producer[1]


def test_the_offsets_of_a_group_are_a_part_of_the_transaction() -> None:
    broker = TransactionalBroker()
    broker.find_group_coordinator()
    producer = broker.started()
    assert broker.add_group(producer) is NONE
    assert [topic.topic for topic in broker.described().topics] == ["__consumer_offsets"]
    assert broker.end(producer)[0] is NONE
    assert broker.state == "CompleteCommit"


def test_offsets_are_added_when_the_number_of_their_partitions_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = TransactionalBroker()
    producer = broker.started()
    with monkeypatch.context() as patch:  # As where another node creates them.
        patch.setattr(broker.node.broker, "auto_create_topics", lambda names: None)
        assert broker.add_group(producer) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.state == "Empty"
    assert broker.add_group(producer) is NONE
    assert broker.node.broker.image.topic("__consumer_offsets") is not None
    assert [topic.topic for topic in broker.described().topics] == ["__consumer_offsets"]


def test_a_new_producer_shuts_out_the_one_before_and_aborts_its_transaction() -> None:
    broker = TransactionalBroker()
    first = broker.started()
    assert broker.add(first) is NONE
    second = broker.started()
    assert second == (first[0], first[1] + 2)
    assert broker.add(first, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.add(first, version=2) is ErrorCode.PRODUCER_FENCED
    assert broker.add_group(first, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.add_group(first, version=2) is ErrorCode.PRODUCER_FENCED
    assert broker.end(first, version=1)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end(first, version=2)[0] is ErrorCode.PRODUCER_FENCED
    assert broker.end(first)[0] is ErrorCode.PRODUCER_FENCED
    assert broker.init(first, version=3)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.init(first, version=4)[0] is ErrorCode.PRODUCER_FENCED
    assert broker.state == "Empty"


def test_an_id_that_is_not_used_for_transactional_id_expiration_ms_is_forgotten() -> None:
    broker = TransactionalBroker(
        transactional_id_expiration_ms="10000",
        transaction_remove_expired_transaction_cleanup_interval_ms="1000",
    )
    assert broker.add(broker.started()) is NONE
    broker.id = "unused"
    broker.started()
    broker.pass_time(9_000)
    assert broker.state == "Empty"
    broker.id = "later"
    broker.started()
    broker.pass_time(2_500)
    assert broker.state == "Empty"
    broker.id = "unused"
    assert broker.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    broker.id = "id"
    assert broker.state == "Ongoing", "an open transaction keeps its id"


def test_a_transaction_that_is_open_for_too_long_is_aborted_at_its_timeout() -> None:
    broker = TransactionalBroker()
    producer = broker.started(timeout_ms=1_000)
    assert broker.add(producer) is NONE
    broker.pass_time(999)
    assert broker.state == "Ongoing"
    broker.pass_time(2)
    assert broker.state == "CompleteAbort"
    assert broker.end(producer)[0] is ErrorCode.INVALID_TXN_STATE
    assert broker.end(producer, version=4)[0] is ErrorCode.PRODUCER_FENCED
    assert broker.end(producer, committed=False) == (NONE, producer[0], producer[1] + 1)
    scrape = Scrape(broker.node)
    read = {metric.name: list(metric.read(scrape)) for metric in TRANSACTIONS}
    assert read["odradek_transaction_timeouts_total"] == [((), 1)]
    assert (("aborted",), 1) in read["odradek_transactions_ended_total"]
    assert (("CompleteAbort",), 1) in read["odradek_transactional_ids"]
    assert read["odradek_transactions_ending"] == [((), 0)]


def test_a_restart_gives_equal_answers_and_begins_timeouts_anew() -> None:
    broker = TransactionalBroker()
    producer = broker.started(timeout_ms=1_000)
    again = broker.init(producer, timeout_ms=1_000)
    assert broker.init(producer, timeout_ms=1_000) == again
    assert broker.add(again[1:]) is NONE
    broker.pass_time(600)
    before = broker.described()
    broker = broker.restarted()
    assert broker.described() == before
    assert broker.add(again[1:]) is NONE
    broker.pass_time(600)
    assert broker.state == "Ongoing"
    broker.pass_time(600)
    assert broker.state == "CompleteAbort"


def test_a_repeated_request_of_a_producer_gets_the_same_epoch_after_a_restart() -> None:
    """Kafka fences it (KAFKA-20357)."""
    broker = TransactionalBroker()
    producer = broker.started()
    answer = broker.init(producer)
    assert broker.restarted().init(producer) == answer


def test_a_known_id_waits_for_no_new_producer_ids() -> None:
    broker = TransactionalBroker()
    producer_id, epoch = broker.started()
    broker = broker.restarted()

    def request_block() -> None:
        raise NotController

    broker.node.broker.producer_id_manager.request_block = request_block  # type: ignore[method-assign]
    assert broker.init() == (NONE, producer_id, epoch + 1)
    broker.id = "unknown"
    assert broker.init()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    broker = TransactionalBroker()
    error, *_ = broker.init(timeout_ms=timeout_ms)
    assert error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert broker.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_an_empty_transactional_id_is_refused() -> None:
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1)
    answer = MemoryBroker().call(request, 4, InitProducerIdResponse)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)
    broker = TransactionalBroker()
    broker.id = ""
    assert broker.add((1, 1)) is ErrorCode.INVALID_REQUEST
    assert broker.end((1, 1))[0] is ErrorCode.INVALID_REQUEST


def test_producer_ids_that_are_not_of_the_id_are_refused() -> None:
    broker = TransactionalBroker()
    producer_id, epoch = broker.started()
    wrong = (producer_id + 1, epoch)
    assert broker.add(wrong) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.end(wrong)[0] is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.init(wrong)[0] is ErrorCode.PRODUCER_FENCED
    assert broker.init((producer_id, -1))[0] is ErrorCode.INVALID_REQUEST
    broker.id = "another"
    assert broker.add((producer_id, epoch)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_partition_that_does_not_exist_adds_none() -> None:
    broker = TransactionalBroker()
    request = broker.add_request(broker.started(), 0, 3)
    answer = broker.call(request, 3, AddPartitionsToTxnResponse)
    (topic,) = answer.results_by_topic_v3_and_below
    assert [each.partition_error_code for each in topic.results_by_partition] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert broker.state == "Empty"


def test_a_client_may_not_send_the_requests_of_brokers() -> None:
    broker = TransactionalBroker()
    producer_id, epoch = broker.started()
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=broker.id,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    answer = broker.call(request, 5, AddPartitionsToTxnResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.state == "Empty"


def test_a_new_cluster_has_transaction_version_2() -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = MemoryBroker().call(request, 4, ApiVersionsResponse)
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized["transaction.version"] == 2
    supported = {
        each.name: (each.min_version, each.max_version) for each in answer.supported_features
    }
    assert supported["transaction.version"] == (0, 2)
