"""From the accumulator to the brokers and back: batches, requests, outcomes; closing."""

from __future__ import annotations

import pytest

from odradek.client.errors import ClientClosed, UnsupportedVersion
from odradek.client.metrics.producer_table import producer_metrics
from odradek.client.producer.send_path import SerializedRecord
from odradek.model.errors import ErrorCode
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import PartitionProduceResponse, ProduceRequest
from odradek.protocol.records import NO_HEADERS
from odradek.testing.scripted import SILENT, DelayedAnswer
from unit.client.producer.producing import Producing

PRODUCE = 0


def test_a_written_record_completes_its_future_with_its_offset():
    p = Producing()
    future = p.send(b"one", timestamp_ms=77)
    delivery = p.outcome(future)
    assert (delivery.topic, delivery.partition, delivery.offset) == ("t", 0, 0)
    assert delivery.timestamp_ms == 77
    assert p.values() == [b"one"]
    assert p.told == [(None, delivery)]


def test_records_linger_to_share_a_batch():
    p = Producing(linger_ms=50)
    p.send(b"warm up")
    p.flush()
    before = len(p.brokers.requests)
    begun = p.cluster.now_ms
    futures = [p.send(b"%d" % n) for n in range(10)]
    p.outcome(futures[-1])
    assert len(p.brokers.requests) == before + 1
    assert p.cluster.now_ms - begun >= 50
    assert [p.outcome(f).offset for f in futures] == list(range(1, 11))


def test_a_full_batch_does_not_linger():
    p = Producing(linger_ms=60_000, batch_bytes=1_000)
    future = p.send(b"x" * 600)
    p.send(b"y" * 600)
    p.outcome(future, limit_ms=1_000)


def test_the_append_time_of_the_broker_is_returned_if_the_topic_has_it():
    p = Producing()
    p.brokers.fail_next(
        "t",
        0,
        lambda index, data: PartitionProduceResponse(
            index=index, error_code=0, base_offset=5, log_append_time_ms=1234
        ),
    )
    delivery = p.outcome(p.send(b"one", timestamp_ms=1))
    assert (delivery.offset, delivery.timestamp_ms) == (5, 1234)


def test_without_acks_a_record_is_done_when_it_is_sent():
    p = Producing(acks=0, idempotence=False)
    delivery = p.outcome(p.send(b"one"))
    assert delivery.offset == -1
    p.cluster.until(lambda: p.values() == [b"one"])


def test_one_request_carries_the_batches_of_all_partitions_of_a_node():
    p = Producing(brokers=2, leaders={"t": [1, 2, 1]}, linger_ms=20)
    for partition in range(3):
        p.send(b"%d" % partition, partition=partition)
    p.flush()
    carried = [
        (node, [part.index for topic in request.topic_data for part in topic.partition_data])
        for node, request, _ in p.brokers.requests
    ]
    assert sorted(carried) == [(1, [0, 2]), (2, [1])]


def test_no_partition_starves_when_requests_are_small():
    p = Producing(leaders={"t": [1] * 4}, max_request_bytes=200, max_in_flight=1, linger_ms=20)
    for turn in range(3):
        for partition in range(4):
            p.send(b"%d" % turn * 100, partition=partition)
    p.flush()
    order = [
        part.index
        for _, request, _ in p.brokers.requests
        for topic in request.topic_data
        for part in topic.partition_data
    ]
    assert order[:4] == [0, 1, 2, 3]
    assert all(p.values("t", n) for n in range(4))


def test_topics_are_sent_by_id_to_a_broker_with_ids():
    p = Producing()
    p.outcome(p.send(b"one"))
    _, request, version = p.brokers.requests[-1]
    assert version == 13
    assert request.topic_data[0].topic_id == p.cluster.topics["t"].topic_id


def test_topics_are_sent_by_name_to_an_older_broker():
    p = Producing()
    p.cluster[1].versions[PRODUCE] = (3, 8)
    p.outcome(p.send(b"one"))
    _, request, version = p.brokers.requests[-1]
    assert version == 8
    assert request.topic_data[0].name == "t"


def test_zstd_is_not_sent_to_a_broker_that_cannot_read_it():
    p = Producing(codec=4)
    p.cluster[1].versions[PRODUCE] = (3, 6)
    assert isinstance(p.outcome(p.send(b"one")), UnsupportedVersion)


def test_partitions_for_makes_a_topic_known():
    p = Producing(leaders={"t": [1, 1]})
    before = p.core.router.send("t", -1, 1, None, b"x", NO_HEADERS, None)
    assert isinstance(before, SerializedRecord), "it would have to wait"
    assert p.side.wait(lambda: p.core.partitions_for("t")) == [0, 1]
    future = p.side.do(lambda: p.core.router.send("t", 1, 1, None, b"x", NO_HEADERS, None))
    assert p.outcome(future).partition == 1  # type: ignore[arg-type]


def test_the_producer_id_is_requested_again_while_brokers_are_not_ready():
    p = Producing()
    answers = iter([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT])

    def answer(request, version):
        code = next(answers, ErrorCode.NONE)
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=0)

    p.cluster.answers[InitProducerIdRequest] = answer
    p.outcome(p.send(b"one"))
    assert p.brokers.log("t").batches[0].producer_id == 7


def test_a_producer_without_an_id_fails_for_good():
    p = Producing()
    refusal = InitProducerIdResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1
    )
    p.cluster.answers[InitProducerIdRequest] = lambda request, version: DelayedAnswer(
        1_000, refusal
    )
    error = p.outcome(p.send(b"one"))
    assert error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(type(error)):
        p.send(b"two")


def test_closing_sends_the_queued_records():
    p = Producing(linger_ms=60_000)
    futures = [p.send(b"%d" % n) for n in range(3)]
    assert p.side.wait(lambda: p.core.close(None)) == 0
    assert [f.result(0).offset for f in futures] == [0, 1, 2]
    with pytest.raises(ClientClosed):
        p.send(b"late")


def test_closing_with_a_timeout_fails_the_rest():
    p = Producing()
    p.cluster[1].answers[ProduceRequest] = lambda request, version: SILENT
    future = p.send(b"one")
    begun = p.cluster.now_ms
    assert p.side.wait(lambda: p.core.close(3_000)) == 1
    assert p.cluster.now_ms - begun <= 3_100
    assert isinstance(future.exception(0), ClientClosed)
    assert len(p.told) == 1


@pytest.mark.parametrize("under_way", [False, True], ids=["waiting", "under way"])
def test_a_collected_producer_leaves_no_record_without_an_outcome(under_way, caplog):
    p = Producing(linger_ms=0 if under_way else 60_000)
    p.cluster[1].answers[ProduceRequest] = lambda request, version: SILENT
    future = p.send(b"one")
    p.cluster.run(1_000)
    assert bool(p.core.sender.in_flight) == under_way
    p.side.do(p.core.abandon)
    error = future.exception(0)
    assert isinstance(error, ClientClosed)
    assert "close it" in str(error)
    assert [told[0] for told in p.told] == [error]
    assert "1 records that were not delivered" in caplog.text


def test_a_flush_ends_lingering_and_returns_the_number_of_open_records():
    p = Producing(linger_ms=60_000)
    p.send(b"one")
    assert p.flush() == 0
    p.cluster[1].answers[ProduceRequest] = lambda request, version: SILENT
    p.send(b"two")
    p.send(b"three")
    assert p.flush(1_000) == 2


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_an_exception_of_a_callback_is_logged_and_others_run(caplog, kind):
    """SystemExit too, which would end the sending thread."""
    p = Producing(linger_ms=20)

    def broken(error, delivery):
        raise kind("a bug of the user's")

    p.send(b"one", callback=broken)
    p.send(b"two")
    p.flush()
    assert len(p.told) == 1
    assert "a bug of the user's" in caplog.text


def test_metrics_have_kafkas_names_and_count_the_records():
    p = Producing(linger_ms=20, codec=3)
    futures = [p.send(b"x" * 100) for _ in range(10)]
    p.outcome(futures[-1])
    found = producer_metrics(p.core)
    assert found["record-send-total"] == 10
    assert found["record-error-total"] == found["record-retry-total"] == 0
    assert found["records-per-request-avg"] > 1
    assert found["batch-size-max"] < 1000
    assert found["compression-rate-avg"] < 1
    assert found["record-queue-time-max"] >= 20
