"""Our consumer against librdkafka's mock cluster with errors: each record once, in order.

The mock supports ApiVersions up to 2, and neither fetch sessions nor topic ids. The group is used
here only for offsets; `test_group_mock_cluster` joins it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from clients.rdkafka_mock import DISCONNECT, MockCluster, library, mock_cluster
from odradek import Consumer
from odradek.client.errors import (
    InvalidRecord,
    KafkaError,
    TopicAuthorizationError,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode

LONG_S = 60.0
TOPIC = "t"
FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, OFFSET_FETCH = 1, 2, 3, 10, 9
COUNT = 50
HURRY = {"topic.metadata.refresh.fast.interval.ms": 20}
"""The settings of the producer that fills the topic; by default it may learn of a leader a second
later.
"""
PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]
PASSING_FETCHES = [
    *PASSING,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    DISCONNECT,
]
OF_SESSIONS = [
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
]
OLD, NEW = 6, 11
"""The version of Fetch from which on the mock sets the error of the whole response."""
TOLD = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationError,
    ErrorCode.CORRUPT_MESSAGE: InvalidRecord,
    ErrorCode.INVALID_REQUEST: KafkaError,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: UnsupportedVersion,
}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    lib = library()
    if lib is None:
        pytest.skip("confluent-kafka was not installed with its own librdkafka")
    with mock_cluster(lib, brokers=2) as running:
        running.create(TOPIC)
        running.lead(TOPIC, 0, 1)
        producer = confluent_kafka.Producer(HURRY | {"bootstrap.servers": running.bootstrap})
        for number in range(COUNT):
            producer.produce(TOPIC, b"%d" % number)
            if number % 5 == 4:
                assert producer.flush(LONG_S) == 0
        yield running


def reading(cluster: MockCluster, **settings: Any) -> Consumer[bytes, bytes]:
    """Return a consumer that reads one batch at a time with short timeouts."""
    given: dict[str, Any] = {
        "retry_backoff_ms": 1,
        "reconnect_backoff_ms": 1,
        "max_partition_fetch_bytes": 100,
        "auto_offset_reset": "earliest",
    }
    return Consumer(brokers=cluster.bootstrap, **{**given, **settings})


def all_of(consumer: Consumer[bytes, bytes], first: int = 0) -> list[bytes]:
    """Return the records from an offset on."""
    records = [next(consumer) for _ in range(first, COUNT)]
    assert [record.offset for record in records] == list(range(first, COUNT))
    return [bytes(record.value or b"") for record in records]


EXPECTED = [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize(
    ("code", "highest"),
    [(code, OLD) for code in PASSING_FETCHES]
    + [(code, NEW) for code in (*PASSING_FETCHES, *OF_SESSIONS)],
)
def test_fetches_with_a_retriable_error_are_retried(
    cluster: MockCluster, code: int, highest: int
) -> None:
    cluster.versions(FETCH, 4, highest)
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        cluster.fail_next(FETCH, code, code)
        first = next(consumer)
        cluster.fail_next(FETCH, code, 0, code)
        assert [first.value, *all_of(consumer, 1)] == EXPECTED


@pytest.mark.parametrize(("code", "kind"), TOLD.items())
def test_fetches_with_another_error_raise_and_are_retried_by_the_next_poll(
    cluster: MockCluster, code: int, kind: type[Exception]
) -> None:
    cluster.versions(FETCH, 4, OLD)
    cluster.fail_next(FETCH, code)
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        with pytest.raises(kind):
            next(consumer)
        assert all_of(consumer) == EXPECTED


@pytest.mark.parametrize("code", TOLD)
def test_fetches_with_a_top_level_error_are_retried(cluster: MockCluster, code: int) -> None:
    cluster.fail_next(FETCH, code, code)
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        assert all_of(consumer) == EXPECTED


def test_an_offset_out_of_range_error_resets_the_position(cluster: MockCluster) -> None:
    cluster.versions(FETCH, 4, OLD)
    cluster.fail_next(FETCH, ErrorCode.OFFSET_OUT_OF_RANGE)
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        assert all_of(consumer) == EXPECTED


def test_a_position_beyond_the_log_end_is_reset(cluster: MockCluster) -> None:
    with reading(cluster) as consumer:
        consumer.assign({(TOPIC, 0): 10_000})
        assert all_of(consumer) == EXPECTED


@pytest.mark.parametrize("code", [*PASSING, DISCONNECT])
def test_failed_list_offsets_requests_are_retried(cluster: MockCluster, code: int) -> None:
    cluster.fail_next(LIST_OFFSETS, code, code)
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        assert all_of(consumer) == EXPECTED


def test_failed_metadata_requests_are_retried(cluster: MockCluster) -> None:
    cluster.fail_next(METADATA, DISCONNECT, ErrorCode.LEADER_NOT_AVAILABLE, DISCONNECT)
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        assert all_of(consumer) == EXPECTED


def test_failed_coordinator_requests_are_retried(cluster: MockCluster) -> None:
    moved = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, DISCONNECT)
    cluster.fail_next(FIND_COORDINATOR, *moved)
    cluster.fail_next(OFFSET_FETCH, *moved)
    with reading(cluster, group="g") as consumer:
        consumer.assign([(TOPIC, 0)])
        assert all_of(consumer) == EXPECTED


def test_a_consumer_follows_a_leader_that_moves(cluster: MockCluster) -> None:
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        found = []
        for number in range(COUNT):
            if number % 10 == 9:
                cluster.lead(TOPIC, 0, 1 + number // 10 % 2)
            found.append(next(consumer).value)
        assert found == EXPECTED


def test_a_consumer_reads_from_the_new_leader_when_the_old_one_is_down(
    cluster: MockCluster,
) -> None:
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        first = next(consumer)
        cluster.down(1)
        assert first.offset == 0
        cluster.lead(TOPIC, 0, 2)
        assert all_of(consumer, 1) == EXPECTED[1:]


@pytest.mark.parametrize("highest", [4, 7, 11])
def test_a_consumer_reads_from_brokers_of_older_versions(
    cluster: MockCluster, highest: int
) -> None:
    cluster.versions(FETCH, 4, highest)
    with reading(cluster) as consumer:
        consumer.assign([(TOPIC, 0)])
        assert all_of(consumer) == EXPECTED
