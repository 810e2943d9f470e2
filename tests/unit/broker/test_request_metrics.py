"""What is counted of requests: times, sizes, errors, and requests that are not served."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.request_metrics import (
    NAMED_UNSERVED,
    OTHER,
    ApiMetrics,
    RequestMetrics,
    error_paths,
)
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.stopwatch import Stopwatch
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.api.metadata import MetadataResponse
from odradek.protocol.hot_fetch import FetchPartition, FetchTopic
from unit.broker.memory_broker import MemoryBroker, SentRequest

PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS = 0, 1, 2, 18


def metrics_of(broker: MemoryBroker, key: int) -> ApiMetrics:
    return broker.node.broker.request_metrics.by_key[key]


def test_answered_request_counts_its_sizes_and_no_wait():
    broker = MemoryBroker()
    broker.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    metrics = metrics_of(broker, API_VERSIONS)
    assert metrics.handling.count == metrics.total.count == metrics.response_bytes.count == 1
    assert metrics.delayed.count == 0
    assert metrics.request_bytes.sum == 4 + 14, "its length, its header with client id `test`"


def test_produce_that_waits_for_the_disk_counts_its_wait_apart():
    broker = MemoryBroker()
    broker.create("t")
    request = broker.produce("t", acks=-1)
    metrics = metrics_of(broker, PRODUCE)
    assert (metrics.handling.count, metrics.total.count, metrics.delayed.count) == (1, 0, 0)
    broker.clock.passed_ms += 7
    broker.node.broker.request_metrics.stopwatch.read()
    broker.run_until_idle()
    assert request.parts is not None
    assert (metrics.handling.sum, metrics.delayed.sum, metrics.total.sum) == (
        0,
        7_000_000,
        7_000_000,
    )


def test_fetch_counts_the_error_of_each_partition():
    broker = MemoryBroker()
    topic = FetchTopic(
        topic="no",
        partitions=[
            FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=9) for n in range(2)
        ],
    )
    broker.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 12)
    assert metrics_of(broker, FETCH).errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2}


def test_produce_counts_the_error_of_its_partition():
    broker = MemoryBroker()
    broker.create("t")
    broker.produce("t", acks=7)
    assert metrics_of(broker, PRODUCE).errors == {ErrorCode.INVALID_REQUIRED_ACKS: 1}


def test_errors_are_found_wherever_a_response_has_them():
    broker = MemoryBroker()
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(3)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="no", partitions=partitions)]
    )
    broker.call(request, 5, ListOffsetsResponse)
    assert metrics_of(broker, LIST_OFFSETS).errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 3}


def test_paths_reach_errors_in_arrays_of_arrays():
    paths = error_paths(MetadataResponse)
    assert paths is not None
    ((topics, is_array, inside),) = paths.nested
    assert (topics, is_array, inside.own) == ("topics", True, True)
    assert [name for name, _, _ in inside.nested] == ["partitions"]


def test_request_that_is_not_served_counts_by_key_and_version():
    broker = MemoryBroker()
    exchange: Any = SentRequest(ApiVersionsRequest(), 0)
    exchange.frame = FETCH.to_bytes(2, "big") + exchange.frame[2:]
    with pytest.raises(ProtocolError):
        broker.dispatcher.received(exchange)
    broker.send(ApiVersionsRequest(), 0)
    assert broker.node.broker.request_metrics.unserved == {(FETCH, 0): 1}


def test_kinds_of_unserved_requests_are_bounded():
    metrics = RequestMetrics(Stopwatch(lambda: 0), ())
    for version in range(2 * NAMED_UNSERVED):
        metrics.count_unserved(0, version)
    assert len(metrics.unserved) == NAMED_UNSERVED + 1
    assert metrics.unserved[OTHER] == NAMED_UNSERVED
