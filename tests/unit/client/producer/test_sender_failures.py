"""Errors, silence and lost connections: retried, sent to another leader, or failed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from odradek.client.errors import (
    BrokerError,
    DeliveryTimeout,
    InvalidRecord,
    KafkaError,
    RecordTooLarge,
    TopicAuthorizationError,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
)
from odradek.testing.scripted import CLOSE, SILENT, DelayedAnswer
from unit.client.producer.producing import Producing, forget

RETRIABLE = [
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
]


@pytest.mark.parametrize("idempotence", [True, False])
@pytest.mark.parametrize("code", RETRIABLE)
def test_a_retriable_error_is_retried(code, idempotence):
    p = Producing(idempotence=idempotence)
    p.brokers.fail_next("t", 0, code, code)
    delivery = p.outcome(p.send(b"one"))
    assert delivery.offset == 0
    assert p.values() == [b"one"]
    assert len(p.told) == 1
    assert p.core.metrics.all_topics.record_retry.total == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
        (ErrorCode.INVALID_RECORD, InvalidRecord),
        (ErrorCode.MESSAGE_TOO_LARGE, RecordTooLarge),
        (ErrorCode.INVALID_REQUIRED_ACKS, BrokerError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, BrokerError),
    ],
)
def test_a_final_error_fails_the_record_at_once_and_later_ones_go_on(code, kind):
    p = Producing()
    p.brokers.fail_next("t", 0, code)
    error = p.outcome(p.send(b"one"))
    assert isinstance(error, kind)
    assert error.code == code
    assert p.outcome(p.send(b"two")).offset == 0
    assert p.values() == [b"two"]
    assert [told[0] for told in p.told] == [error, None]
    assert p.core.metrics.all_topics.record_error.total == 1


def test_the_back_off_between_retries_grows():
    p = Producing()
    p.send(b"warm up")
    p.flush()
    p.brokers.fail_next("t", 0, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 5)
    p.outcome(p.send(b"one"))
    asked = [a.at_ms for a in p.cluster[1].asked if type(a.request) is ProduceRequest][1:]
    pauses = [after - before for before, after in pairwise(asked)]
    assert len(pauses) == 5
    assert pauses[0] >= 80
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 1_300


def test_a_record_that_is_never_acknowledged_expires():
    p = Producing(delivery_timeout_ms=5_000)
    p.brokers.fail_next("t", 0, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    begun = p.cluster.now_ms
    error = p.outcome(p.send(b"one"))
    assert isinstance(error, DeliveryTimeout)
    assert "NOT_ENOUGH_REPLICAS" in str(error)
    assert 5_000 <= p.cluster.now_ms - begun <= 5_100
    assert len(p.told) == 1


def test_a_record_expires_in_flight_and_the_late_response_is_ignored():
    p = Producing(delivery_timeout_ms=5_000)
    p.send(b"warm up")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]
    p.cluster[1].answers[ProduceRequest] = lambda r, v: DelayedAnswer(9_000, right(r, v))
    error = p.outcome(p.send(b"one"))
    assert isinstance(error, DeliveryTimeout)
    assert "the answer did not come" in str(error)
    pool = p.core.accumulator.pool
    assert pool.charged_bytes > 0, "a request still carries it"
    p.cluster.run(10_000)
    assert pool.charged_bytes == 0
    assert len(p.told) == 2
    p.cluster[1].answers[ProduceRequest] = right
    assert p.outcome(p.send(b"two")).offset == 2, "the sequence goes on: it had been written"
    assert p.values() == [b"warm up", b"one", b"two"]


def test_a_record_fails_after_the_last_of_its_retries():
    p = Producing(retries=2)
    p.brokers.fail_next("t", 0, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
    error = p.outcome(p.send(b"one"))
    assert error.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert p.outcome(p.send(b"two")).offset == 0


def test_a_lost_connection_loses_no_record():
    p = Producing()
    p.brokers.fail_next("t", 0, ErrorCode.NOT_ENOUGH_REPLICAS)
    right = p.cluster[1].answers[ProduceRequest]
    answers = iter([CLOSE, CLOSE])

    def lossy(request, version):
        kept = right(request, version)
        return next(answers, kept)

    p.cluster[1].answers[ProduceRequest] = lossy
    futures = [p.send(b"%d" % n) for n in range(3)]
    assert [p.outcome(f).offset for f in futures] == [0, 1, 2]
    assert p.values() == [b"0", b"1", b"2"]


def test_a_silent_broker_is_retried_after_the_request_timeout():
    p = Producing(engine={"request_timeout_ms": 2_000})
    p.send(b"warm up")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]
    answers = iter([SILENT])
    p.cluster[1].answers[ProduceRequest] = lambda r, v: next(answers, None) or right(r, v)
    begun = p.cluster.now_ms
    assert p.outcome(p.send(b"one")).offset == 1
    assert 2_000 <= p.cluster.now_ms - begun <= 4_000


def test_a_moved_leader_gets_the_batch():
    p = Producing(brokers=2, leaders={"t": [1]})
    p.send(b"one")
    p.flush()
    p.cluster.move("t", 0, 2)
    assert p.outcome(p.send(b"two")).offset == 1
    assert [node for node, _, _ in p.brokers.requests] == [1, 1, 2]


def test_a_leader_named_in_the_response_gets_the_batch_without_a_back_off():
    p = Producing(brokers=2, leaders={"t": [1]}, engine={"retry_backoff_ms": 50_000})
    p.send(b"one")
    p.flush()
    p.cluster.move("t", 0, 2)
    p.brokers.fail_next(
        "t",
        0,
        lambda index, data: PartitionProduceResponse(
            index=index,
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            base_offset=-1,
            current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1),
        ),
    )
    begun = p.cluster.now_ms
    p.outcome(p.send(b"two"))
    assert p.brokers.requests[-1][0] == 2
    assert p.cluster.now_ms - begun < 5_000


def test_a_partition_without_a_leader_gets_nothing_until_it_has_one():
    p = Producing(leaders={"t": [-1]})
    future = p.send(b"one")
    p.cluster.run(3_000)
    assert not future.done()
    p.cluster.move("t", 0, 1)
    assert p.outcome(future).offset == 0


def test_a_forgotten_topic_keeps_its_queues_until_its_batches_are_done():
    p = Producing(brokers=2)
    p.send(b"one")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]
    answers = iter([ErrorCode.NOT_ENOUGH_REPLICAS])

    def slow(request, version):
        code = next(answers, None)
        if code is not None:
            p.brokers.fail_next("t", 0, code)
        return DelayedAnswer(3_000, right(request, version))

    p.cluster[1].answers[ProduceRequest] = slow
    future = p.send(b"two")
    p.cluster.run(100)
    assert p.core.sender.in_flight
    forget(p, "t")
    assert p.core.sender.in_flight, "its answer is not there yet"
    assert p.outcome(future).offset == 1
    assert p.values() == [b"one", b"two"]
    forget(p, "t")
    assert "t" not in p.core.accumulator.topics, "now nobody uses it"


def test_invalid_records_have_other_errors_than_the_rest_of_the_batch():
    p = Producing(linger_ms=20)

    def refuse(index, data):
        return PartitionProduceResponse(
            index=index,
            error_code=ErrorCode.INVALID_RECORD,
            base_offset=-1,
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
            ],
        )

    p.brokers.fail_next("t", 0, refuse)
    futures = [p.send(b"%d" % n) for n in range(3)]
    errors = [p.outcome(f) for f in futures]
    assert all(isinstance(error, InvalidRecord) for error in errors)
    assert "no key" in str(errors[1])
    assert "others of the same batch" in str(errors[0])
    assert [told[0] for told in p.told] == errors


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("idempotence", [True, False])
def test_a_batch_that_is_too_large_is_split(codec, idempotence):
    p = Producing(
        linger_ms=20,
        batch_bytes=100_000,
        idempotence=idempotence,
        codec=codec,
        max_in_flight=5 if idempotence else 1,
    )
    p.brokers.max_batch_bytes = 400 if codec == 0 else 150
    values = [b"%03d" % n * 30 for n in range(40)]
    futures = [p.send(value, headers=[("h", b"v")]) for value in values]
    assert [p.outcome(f).offset for f in futures] == list(range(40))
    assert p.values() == values
    assert [told[1].offset for told in p.told] == list(range(40))
    assert p.core.metrics.batch_split.count > 1
    assert p.core.accumulator.pool.charged_bytes == 0


def test_a_single_record_that_is_too_large_fails():
    p = Producing(linger_ms=20)
    p.brokers.max_batch_bytes = 300
    futures = [p.send(v) for v in (b"a" * 10, b"b" * 400, b"c" * 10)]
    outcomes = [p.outcome(f) for f in futures]
    assert isinstance(outcomes[1], RecordTooLarge)
    assert p.values() == [b"a" * 10, b"c" * 10]
    assert isinstance(p.told[1][0], KafkaError)


def test_with_one_request_in_flight_order_is_kept_without_idempotence():
    p = Producing(max_in_flight=1, idempotence=False, batch_bytes=100)
    p.brokers.fail_next("t", 0, ErrorCode.NOT_ENOUGH_REPLICAS, None, ErrorCode.REQUEST_TIMED_OUT)
    values = [b"%d" % n * 50 for n in range(6)]
    futures = [p.send(value) for value in values]
    for future in futures:
        p.outcome(future)
    assert p.values() == values
