"""Our producer against librdkafka's mock cluster with errors.

It loses, repeats and reorders no record, and calls each callback once. The mock supports
ApiVersions up to 2. It does not check sequence numbers, as brokers do: it writes every request. So
tests of the order use one request in flight; `test_exactly_once` has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from clients.rdkafka_mock import (
    DISCONNECT,
    INIT_PRODUCER_ID,
    PRODUCE,
    MockCluster,
    library,
    mock_cluster,
)
from odradek import Producer
from odradek.client.errors import DeliveryTimeout, KafkaError, UnsupportedVersion
from odradek.model.errors import ErrorCode

LONG_S = 60.0
TOPIC = "t"
RETRIABLE = [code for code in ErrorCode if code.retriable]
FATAL = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_RECORD,
]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    lib = library()
    if lib is None:
        pytest.skip("confluent-kafka was not installed with its own librdkafka")
    with mock_cluster(lib, brokers=2) as running:
        running.create(TOPIC)
        running.lead(TOPIC, 0, 1)
        yield running


class RecordingProducer:
    """A producer, and the results of its callbacks by value."""

    def __init__(self, cluster: MockCluster, **settings: Any) -> None:
        given = {"linger_ms": 0, "retry_backoff_ms": 1, "reconnect_backoff_ms": 1, **settings}
        self.producer = Producer(brokers=cluster.bootstrap, **given)
        self.told: dict[bytes, list[KafkaError | None]] = {}

    def send(self, value: bytes):
        told = self.told[value] = []
        return self.producer.send(TOPIC, value, on_delivery=lambda error, _: told.append(error))

    def written(self) -> list[bytes]:
        """Return the values that were delivered; every callback came exactly once."""
        assert all(len(told) == 1 for told in self.told.values())
        return [value for value, (error,) in self.told.items() if error is None]


def values_in(cluster: MockCluster, count: int) -> list[bytes]:
    """Return the values in the topic, read by another client; `count` is the expected number."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reading"}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    _, end = consumer.get_watermark_offsets(
        confluent_kafka.TopicPartition(TOPIC, 0), timeout=LONG_S
    )
    assert end == count
    found: list[bytes] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=LONG_S)
        assert messages
        found += [message.value() for message in messages if message.error() is None]  # type: ignore[misc]
    consumer.close()
    return found


@pytest.mark.parametrize("idempotent", [True, False])
def test_every_retriable_error_is_retried(cluster, idempotent):
    s = RecordingProducer(cluster, enable_idempotence=idempotent)
    with s.producer:
        for code in RETRIABLE:
            cluster.fail_next(PRODUCE, code)
            s.send(code.name.encode()).result(LONG_S)
        assert s.producer.metrics()["record-retry-total"] == len(RETRIABLE)
    expected = [code.name.encode() for code in RETRIABLE]
    assert s.written() == expected
    assert values_in(cluster, len(expected)) == expected


def test_every_fatal_error_fails_its_record_only(cluster):
    s = RecordingProducer(cluster, enable_idempotence=False)
    with s.producer:
        for code in FATAL:
            cluster.fail_next(PRODUCE, code)
            error = s.send(code.name.encode()).exception(LONG_S)
            assert error is not None
            assert error.code == code
            s.send(b"after " + code.name.encode()).result(LONG_S)
    expected = [b"after " + code.name.encode() for code in FATAL]
    assert s.written() == expected
    assert values_in(cluster, len(expected)) == expected


def test_many_errors_lose_and_reorder_no_record(cluster):
    s = RecordingProducer(cluster, batch_size=200, max_in_flight_requests_per_connection=1)
    passing = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, DISCONNECT]
    expected = [b"%04d" % number for number in range(500)]
    with s.producer:
        s.send(expected[0]).result(LONG_S)
        cluster.fail_next(PRODUCE, *([0, 0, *passing] * 6))
        for value in expected[1:]:
            s.send(value)
        assert s.producer.flush(LONG_S) == 0
    assert s.written() == expected
    assert values_in(cluster, len(expected)) == expected


def test_broken_connections_lose_and_repeat_no_record(cluster):
    s = RecordingProducer(cluster)
    expected = [b"%d" % number for number in range(10)]
    with s.producer:
        for value in expected:
            cluster.fail_next(PRODUCE, DISCONNECT)
            s.send(value).result(LONG_S)
    assert s.written() == expected
    assert values_in(cluster, len(expected)) == expected


def test_records_are_delivered_when_a_broker_is_up_again(cluster):
    s = RecordingProducer(cluster, max_in_flight_requests_per_connection=1)
    expected = [b"%d" % number for number in range(20)]
    with s.producer:
        s.send(expected[0]).result(LONG_S)
        cluster.down(1)
        futures = [s.send(value) for value in expected[1:]]
        assert not futures[-1].done()
        cluster.up(1)
        assert futures[-1].result(LONG_S).offset == 19
    assert s.written() == expected
    assert values_in(cluster, len(expected)) == expected


def test_a_producer_follows_a_leader_that_moves(cluster):
    s = RecordingProducer(cluster)
    expected = [b"%d" % number for number in range(10)]
    with s.producer:
        for number, value in enumerate(expected):
            if number == 5:
                cluster.lead(TOPIC, 0, 2)
            s.send(value).result(LONG_S)
    assert s.written() == expected
    assert values_in(cluster, len(expected)) == expected


def test_a_delayed_producer_id_is_waited_for(cluster):
    cluster.fail_next(
        INIT_PRODUCER_ID,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
    s = RecordingProducer(cluster)
    with s.producer:
        s.send(b"one").result(LONG_S)
    assert values_in(cluster, 1) == [b"one"]


def test_a_refused_producer_id_fails_the_record(cluster):
    cluster.fail_next(INIT_PRODUCER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    s = RecordingProducer(cluster)
    with s.producer:
        with pytest.raises(KafkaError) as caught:
            s.send(b"one").result(LONG_S)
        assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert values_in(cluster, 0) == []


def test_a_record_fails_after_its_delivery_timeout(cluster):
    s = RecordingProducer(cluster, request_timeout_ms=200, delivery_timeout_ms=400)
    cluster.down(1)
    with s.producer:
        assert isinstance(s.send(b"one").exception(LONG_S), DeliveryTimeout)


def test_a_broker_without_a_supported_version_fails_the_record(cluster):
    cluster.versions(PRODUCE, 0, 2)
    s = RecordingProducer(cluster, enable_idempotence=False)
    with s.producer:
        assert isinstance(s.send(b"one").exception(LONG_S), UnsupportedVersion)
