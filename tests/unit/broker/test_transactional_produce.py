"""Produce and TxnOffsetCommit of transactions, as raw requests: TV1 and TV2, mixed and fenced."""

from __future__ import annotations

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.api.produce import (
    ProduceResponse,
)
from unit.broker.memory_broker import SentRequest
from unit.broker.transactional_broker import TransactionalBroker
from unit.broker.transactional_requests import (
    ABORTABLE_PRODUCE,
    TV1_END,
    TV1_PRODUCE,
    TV2_PRODUCE,
    batch,
    commit_offset,
    committed,
    errors_of,
    open_from,
    partitions_of,
    produce,
    produce_request,
)


class TestVersion2:
    def test_first_batch_adds_its_partition_to_the_transaction(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        assert produce(broker, {0: batch(producer, 0), 2: batch(producer, 0)}) == {
            0: "NONE",
            2: "NONE",
        }
        assert partitions_of(broker) == [("t", [0, 2])]
        assert produce(broker, {0: batch(producer, 1)}) == {0: "NONE"}
        assert (open_from(broker, 0), open_from(broker, 1), open_from(broker, 2)) == ([0], [], [0])
        error, producer_id, epoch = broker.end(producer)
        assert (error, producer_id, epoch) == (ErrorCode.NONE, producer[0], producer[1] + 1)
        broker.run_until_idle()
        assert open_from(broker, 0) == []

    def test_next_transaction_has_the_bumped_epoch_and_sequences_from_zero(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        for number in range(5):
            assert produce(broker, {0: batch(producer, 0)}) == {0: "NONE"}
            error, *following = broker.end(producer, committed=number % 2 == 0)
            assert error is ErrorCode.NONE
            producer = (following[0], following[1])

    def test_batch_with_the_epoch_before_is_fenced(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        produce(broker, {0: batch(producer, 0)})
        broker.end(producer)
        broker.run_until_idle()
        assert produce(broker, {0: batch(producer, 1)}) == {0: "INVALID_PRODUCER_EPOCH"}
        assert produce(broker, {1: batch(producer, 0)}) == {1: "INVALID_PRODUCER_EPOCH"}
        assert (open_from(broker, 0), open_from(broker, 1)) == ([], [])

    def test_epoch_ahead_of_the_coordinators_opens_nothing(self) -> None:
        broker = TransactionalBroker()
        producer_id, epoch = broker.started()
        assert produce(broker, {0: batch((producer_id, epoch + 1), 0)}) != {0: "NONE"}
        assert open_from(broker) == []

    def test_offsets_add_their_group_and_are_committed_by_the_end(self) -> None:
        broker = TransactionalBroker()
        broker.find_group_coordinator()
        producer = broker.started()
        assert commit_offset(broker, producer) == "NONE"
        assert [topic for topic, _ in partitions_of(broker)] == ["__consumer_offsets"]
        assert committed(broker) == "UNSTABLE_OFFSET_COMMIT"
        broker.end(producer)
        broker.run_until_idle()
        assert committed(broker) == 7

    def test_offsets_of_an_aborted_transaction_are_dropped(self) -> None:
        broker = TransactionalBroker()
        broker.find_group_coordinator()
        producer = broker.started()
        commit_offset(broker, producer)
        broker.end(producer, committed=False)
        broker.run_until_idle()
        assert committed(broker) == -1

    def test_requests_that_overlap_are_appended_in_their_order(self) -> None:
        """The second one does not pass the first one, which waits for its coordinator."""
        broker = TransactionalBroker()
        producer = broker.started()
        sent = [
            SentRequest(produce_request({0: batch(producer, number)}), TV2_PRODUCE)
            for number in range(3)
        ]
        for each in sent:
            broker.dispatcher.received(each)
        broker.run_until_idle()
        answers = [each.answer(ProduceResponse) for each in sent]
        assert [errors_of(each) for each in answers] == [{0: "NONE"}] * 3
        offsets = [each.responses[0].partition_responses[0].base_offset for each in answers]
        assert offsets == [0, 1, 2]

    def test_request_to_open_partitions_does_not_pass_one_that_waits(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        produce(broker, {0: batch(producer, 0)})
        adds_a_partition = {0: batch(producer, 1), 1: batch(producer, 0)}
        sent = [
            SentRequest(produce_request(each), TV2_PRODUCE)
            for each in (adds_a_partition, {0: batch(producer, 2)})
        ]
        for each in sent:
            broker.dispatcher.received(each)
        broker.run_until_idle()
        assert [errors_of(each.answer(ProduceResponse)) for each in sent] == [
            {0: "NONE", 1: "NONE"},
            {0: "NONE"},
        ]

    def test_invented_producer_ids_leave_no_guards(self) -> None:
        broker = TransactionalBroker()
        broker.started()
        guards = broker.node.replicas.by_name["t", 0].log.producers.guards
        for number in range(1_000, 1_010):
            answer = produce(broker, {0: batch((number, 0), 0)})
            assert answer == {0: "INVALID_PRODUCER_ID_MAPPING"}
        assert len(guards) == 0

    def test_partition_that_comes_while_the_coordinator_is_asked_is_tried_again(self) -> None:
        """It has no guard: its log would answer INVALID_TXN_STATE, which is fatal to clients."""
        broker = TransactionalBroker()
        producer = broker.started()
        partitions = broker.node.replicas.by_name
        late = partitions.pop(("t", 1))
        request = produce_request({0: batch(producer, 0), 1: batch(producer, 0)})
        sent = broker.send(request, TV2_PRODUCE)
        partitions["t", 1] = late
        broker.run_until_idle()
        answer = errors_of(sent.answer(ProduceResponse))
        assert answer == {0: "NONE", 1: "NOT_LEADER_OR_FOLLOWER"}
        assert produce(broker, {1: batch(producer, 0)}) == {1: "NONE"}


class TestVersion1:
    @pytest.mark.parametrize(
        ("version", "error"),
        [(TV1_PRODUCE, "INVALID_TXN_STATE"), (ABORTABLE_PRODUCE, "TRANSACTION_ABORTABLE")],
    )
    def test_partition_that_was_not_added_is_refused(self, version: int, error: str) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        broker.add(producer, 1)
        batches = {0: batch(producer, 0), 1: batch(producer, 0)}
        assert produce(broker, batches, version) == {0: error, 1: "NONE"}
        assert open_from(broker, 0) == []

    def test_added_partition_takes_the_transaction_until_its_end(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        broker.add(producer)
        assert produce(broker, {0: batch(producer, 0)}, TV1_PRODUCE) == {0: "NONE"}
        assert broker.end(producer, version=TV1_END)[0] is ErrorCode.NONE
        broker.run_until_idle()
        late = produce(broker, {0: batch(producer, 1)}, TV1_PRODUCE)
        assert late == {0: "INVALID_TXN_STATE"}, "of no transaction"
        assert open_from(broker) == []

    def test_offsets_need_their_group_in_the_transaction(self) -> None:
        broker = TransactionalBroker()
        broker.find_group_coordinator()
        producer = broker.started()
        assert commit_offset(broker, producer, 3) == "INVALID_TXN_STATE"
        assert commit_offset(broker, producer, 4) == "TRANSACTION_ABORTABLE"
        broker.add_group(producer)
        assert commit_offset(broker, producer, 3) == "NONE"
        assert committed(broker) == "UNSTABLE_OFFSET_COMMIT"


class TestBadInput:
    def test_transactional_batch_without_a_transactional_id_refuses_the_request(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        plain = batch(transactional=False)
        found = produce(broker, {0: batch(producer, 0), 1: plain}, transactional_id=None)
        assert found == dict.fromkeys((0, 1), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")

    def test_batches_of_two_producers_refuse_the_request(self) -> None:
        broker = TransactionalBroker()
        producer_id, epoch = broker.started()
        other = batch((producer_id + 1, epoch), 0)
        found = produce(broker, {0: batch((producer_id, epoch), 0), 1: other})
        assert found == dict.fromkeys((0, 1), "INVALID_PRODUCER_ID_MAPPING")
        found = produce(broker, {0: batch((producer_id, 0), 0), 1: batch((producer_id, 1), 0)})
        assert found == dict.fromkeys((0, 1), "INVALID_PRODUCER_ID_MAPPING")
        assert partitions_of(broker) == []

    def test_plain_batch_beside_a_transactional_one_is_appended_as_it_is(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        plain = batch(transactional=False)
        assert produce(broker, {0: batch(producer, 0), 1: plain}) == {0: "NONE", 1: "NONE"}
        assert partitions_of(broker) == [("t", [0])]

    def test_plain_batch_of_a_producer_with_an_open_transaction_is_refused(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        produce(broker, {0: batch(producer, 0)})
        plain = batch(producer, 1, transactional=False)
        assert produce(broker, {0: plain}, transactional_id=None) == {0: "INVALID_TXN_STATE"}

    def test_unknown_producer_id_opens_nothing(self) -> None:
        broker = TransactionalBroker()
        producer_id, epoch = broker.started()
        stranger = (producer_id + 7, epoch)
        assert produce(broker, {0: batch(stranger, 0)}) == {0: "INVALID_PRODUCER_ID_MAPPING"}
        broker.find_group_coordinator()
        assert commit_offset(broker, stranger) == "INVALID_PRODUCER_ID_MAPPING"
        assert open_from(broker) == []

    def test_unknown_transactional_id_is_refused(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        found = produce(broker, {0: batch(producer, 0)}, transactional_id="nobody")
        assert found == {0: "INVALID_PRODUCER_ID_MAPPING"}

    def test_offsets_of_a_missing_partition_or_group_are_refused_alone(self) -> None:
        broker = TransactionalBroker()
        broker.find_group_coordinator()
        producer = broker.started()
        assert commit_offset(broker, producer, topic="none") == "UNKNOWN_TOPIC_OR_PARTITION"
        assert commit_offset(broker, producer, group="") == "INVALID_GROUP_ID"
        assert partitions_of(broker) == []

    def test_acks_0_with_an_error_closes_the_connection(self) -> None:
        broker = TransactionalBroker()
        producer = broker.started()
        sent = SentRequest(produce_request({0: batch(producer, 0)}, acks=0), TV1_PRODUCE)
        broker.dispatcher.received(sent)
        broker.run_until_idle()
        assert sent.closed is not None
        assert "INVALID_TXN_STATE" in sent.closed

    def test_internal_topic_takes_no_batches_of_clients(self) -> None:
        broker = TransactionalBroker()
        broker.find_group_coordinator()
        producer = broker.started()
        request = produce_request({0: batch(producer, 0)})
        request.topic_data[0].name = "__consumer_offsets"
        answer = broker.call(request, TV2_PRODUCE, ProduceResponse)
        assert errors_of(answer) == {0: "INVALID_TOPIC_EXCEPTION"}
        assert partitions_of(broker) == []
