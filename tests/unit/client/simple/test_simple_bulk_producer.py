"""Writing many records: sequences, one batch under way per partition, answers lost and found."""

import pytest
from scripted_server import DROP, ScriptedServer

from odradek.client.producer.partitioner import partition_of
from odradek.client.simple.bulk_producer import BulkProducer
from odradek.client.simple.cluster import Cluster
from odradek.client.simple.metadata import KafkaError, RetriesExhausted
from odradek.model.errors import ErrorCode
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.record_batch import RecordBatchHeader, records_of


class Broker:
    """Keeps what is produced, as a broker that knows idempotent producers would."""

    def __init__(self, *trouble):
        self.trouble = list(trouble)
        self.stored = {}
        self.sequences = {}

    def __call__(self, request, version):
        trouble = self.trouble.pop(0) if self.trouble else ErrorCode.NONE
        lost = trouble == "answer lost"
        if trouble is DROP:
            return DROP
        if lost:
            trouble = ErrorCode.NONE
        topics = []
        for topic in request.topic_data:
            answers = []
            for data in topic.partition_data:
                code = trouble or self.append((topic.name, data.index), bytes(data.records))
                answers.append(
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=0)
                )
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        return DROP if lost else ProduceResponse(responses=topics)

    def append(self, partition, raw):
        header = RecordBatchHeader(raw, 0)
        if header.producer_id >= 0:
            expected = self.sequences.get(partition, 0)
            if header.base_sequence < expected:
                return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            assert header.base_sequence == expected
            self.sequences[partition] = expected + header.count
        self.stored.setdefault(partition, []).extend(records_of(raw, header))
        return ErrorCode.NONE

    def values(self, partition):
        return [record.value for record in self.stored.get(("t", partition), [])]


def produce(broker, records, *, partitions=1, **more):
    """Write (partition, key, value) rows; the number written."""
    numbered = InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=0)
    answers = {ProduceRequest: broker, InitProducerIdRequest: lambda request, version: numbered}
    with ScriptedServer(answers, {"t": partitions}) as server, Cluster(server.bootstrap) as cluster:
        producer = BulkProducer(cluster, **more)
        for partition, key, value in records:
            producer.append("t", partition, key, value, (), 0)
        return producer.flush()


def test_many_batches_arrive_in_order_and_once():
    broker = Broker()
    values = [b"%d" % n for n in range(1000)]
    assert produce(broker, [(0, None, v) for v in values], batch_bytes=500) == 1000
    assert broker.values(0) == values


@pytest.mark.parametrize("trouble", ["answer lost", DROP, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_trouble_neither_loses_nor_repeats_nor_reorders(trouble):
    broker = Broker(ErrorCode.NONE, trouble, ErrorCode.NONE, trouble)
    values = [b"%d" % n for n in range(200)]
    assert produce(broker, [(0, None, v) for v in values], batch_bytes=300) == 200
    assert broker.values(0) == values


def test_without_idempotence_an_answer_lost_is_a_batch_twice():
    broker = Broker("answer lost")
    produce(broker, [(0, None, b"v")], idempotence=False)
    assert broker.values(0) == [b"v", b"v"]


def test_keys_choose_partitions_and_given_partitions_stand():
    broker = Broker()
    keys = [b"key-%d" % n for n in range(50)]
    rows = [(None, key, key) for key in keys] + [(2, b"key-1", b"here")]
    produce(broker, rows, partitions=3)
    for partition in range(3):
        expected = [key for key in keys if partition_of(key, 3) == partition]
        assert [v for v in broker.values(partition) if v != b"here"] == expected
    assert b"here" in broker.values(2)


def test_rows_without_keys_go_round():
    broker = Broker()
    produce(broker, [(None, None, b"x" * 50)] * 300, partitions=3, batch_bytes=1000)
    assert all(len(broker.values(partition)) > 60 for partition in range(3))


def test_a_refusal_is_raised():
    with pytest.raises(KafkaError, match="t-0: MESSAGE_TOO_LARGE"):
        produce(Broker(ErrorCode.MESSAGE_TOO_LARGE), [(0, None, b"v")])
    with pytest.raises(KafkaError, match="t-5: UNKNOWN_TOPIC_OR_PARTITION"):
        produce(Broker(), [(5, None, b"v")])


def test_trouble_without_end_ends_with_the_delivery_timeout():
    endless = Broker(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    with pytest.raises(RetriesExhausted, match="gave up after 200 ms"):
        produce(endless, [(0, None, b"v")], delivery_timeout_ms=200)
