"""Produce and TxnOffsetCommit of transactions, as raw requests: TV1 and TV2, mixed and fenced."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from unit.broker.memory_broker import SentRequest
from unit.broker.transactional_broker import TransactionalBroker

Producer = tuple[int, int]
TV1_PRODUCE, ABORTABLE_PRODUCE, TV2_PRODUCE = 10, 11, 12
TV1_END = 4


def batch(
    producer: Producer = (-1, -1), sequence: int = -1, transactional: bool = True, value: str = "v"
) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
    )
    builder.append(None, value.encode(), timestamp=0)
    return builder.build()


def produce_request(
    batches: dict[int, bytes], transactional_id: str | None = "id", acks: int = -1
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=each) for index, each in batches.items()]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )


def errors_of(answer: ProduceResponse) -> dict[int, str]:
    return {
        each.index: ErrorCode(each.error_code).name
        for topic in answer.responses
        for each in topic.partition_responses
    }


def produce(
    broker: TransactionalBroker,
    batches: dict[int, bytes],
    version: int = TV2_PRODUCE,
    transactional_id: str | None = "id",
) -> dict[int, str]:
    request = produce_request(batches, transactional_id)
    return errors_of(broker.call(request, version, ProduceResponse))


def open_from(broker: TransactionalBroker, partition: int = 0) -> list[int]:
    """The first offsets of the open transactions of a partition."""
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[partition])])
    answer = broker.call(asked, 0, DescribeProducersResponse)
    found = answer.topics[0].partitions[0].active_producers
    return [each.current_txn_start_offset for each in found if each.current_txn_start_offset >= 0]


def partitions_of(broker: TransactionalBroker) -> list[tuple[str, list[int]]]:
    """The partitions that the coordinator has in the transaction."""
    return [(each.topic, sorted(each.partitions)) for each in broker.described().topics]


def commit_offset(
    broker: TransactionalBroker, producer: Producer, version: int = 5, topic: str = "t", **more: Any
) -> str:
    request = TxnOffsetCommitRequest(
        transactional_id=broker.id,
        group_id=more.pop("group", "g"),
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=7, committed_metadata=""
                    )
                ],
            )
        ],
        **more,
    )
    answer = broker.call(request, version, TxnOffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code).name


def committed(broker: TransactionalBroker) -> int | str:
    asked = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    found = broker.call(request, 8, OffsetFetchResponse).groups[0].topics[0].partitions[0]
    return ErrorCode(found.error_code).name if found.error_code else found.committed_offset


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
