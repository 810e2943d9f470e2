"""The client of the cluster's benchmarks: what counts as led, and as in sync."""

import importlib
import sys
from pathlib import Path

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.api.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BENCH = Path(__file__).parents[3] / "bench"
TOPICS = ["a", "b"]


@pytest.fixture
def cluster_client(monkeypatch):
    """The module, without what it imports left behind."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield importlib.import_module("cluster_client")
    for name in {"cluster_client", "raw_client"} - before:
        sys.modules.pop(name, None)


def answer(isr=(1, 2, 3), **errors):
    """What a node says of `TOPICS`: a topic with an error has no partitions."""
    topics = []
    for name in TOPICS:
        error = errors.get(name, ErrorCode.NONE)
        partition = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[*isr]
        )
        partitions = [] if error else [partition]
        topics.append(MetadataResponseTopic(name=name, error_code=error, partitions=partitions))
    return MetadataResponse(brokers=[], topics=topics)


UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def client_of(cluster_client, monkeypatch):
    """A client that gets the given answers, one a request; and the records that it has sent."""

    def make(*answers):
        waiting = list(answers)
        sent: list[str] = []

        def took(port, partitions):
            sent.extend(each.topic for each in partitions)
            return set(partitions)

        client = cluster_client.ClusterClient({1: 9092})
        monkeypatch.setattr(client, "metadata", lambda *asked: waiting.pop(0))
        monkeypatch.setattr(cluster_client, "took_a_record", took)
        monkeypatch.setattr(cluster_client.time, "sleep", lambda seconds: None)
        return client, waiting, sent

    return make


@pytest.mark.parametrize("unknown", [{"a": UNKNOWN, "b": UNKNOWN}, {"b": UNKNOWN}])
def test_topics_that_a_node_does_not_know_yet_are_not_led(client_of, unknown):
    client, waiting, sent = client_of(answer(**unknown), answer())
    client.await_led(TOPICS)
    assert sorted(sent) == TOPICS
    assert not waiting


def test_topics_that_a_node_does_not_know_yet_are_not_in_sync(client_of):
    client, waiting, _ = client_of(answer(b=UNKNOWN), answer(isr=(1,)), answer())
    client.await_in_sync(TOPICS, 3)
    assert not waiting
