"""While a transaction is being ended, each request is answered as by a real Apache Kafka, by field.

The comparison of one broker, `test_differential`, asks again until an end is complete. Here both
clusters are held in the states between, so the answer of then is compared: see
`differential.scripts.prepared_transactions`. Requests wait some time for the end before they are
answered, here and (Produce 12 and TxnOffsetCommit 5) in Kafka; times are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.apache_kafka_cluster import SETTINGS, ApacheKafkaCluster
from interop.differential.comparing import Deviation, compare, unknown, unused
from interop.differential.peer import Peer, common_versions
from interop.differential.scripts.prepared_transactions import (
    LEADERLESS,
    TOPIC,
    WITHOUT_LEADER,
    prepared,
)
from odradek.testing.cluster import Cluster

pytestmark = pytest.mark.interop

NAME = "prepared-transactions"
WITHOUT_A_MARKER = (
    "A marker waits until its partition has a leader. Kafka 4.3 takes a partition without one for "
    "deleted (KAFKA-20734): the id is complete, and what it wrote there stays open for ever."
)
KNOWN = (
    Deviation(
        f"{NAME}: {WITHOUT_LEADER}",
        "state",
        WITHOUT_A_MARKER,
        ours="PrepareCommit",
        kafka="CompleteCommit",
    ),
    Deviation(
        f"{NAME}: {WITHOUT_LEADER}",
        "partitions",
        WITHOUT_A_MARKER,
        ours=[(TOPIC, [LEADERLESS])],
        kafka=[],
    ),
    Deviation(f"{NAME}: {WITHOUT_LEADER}, stable offset", "", WITHOUT_A_MARKER, ours=2, kafka=0),
)
SHOWN = 40


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    """Three nodes of this project, with the settings of those of Kafka."""
    with Cluster(3, settings=SETTINGS) as running:
        yield running


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_requests_are_answered_alike_while_a_transaction_is_being_ended(
    ours: Cluster, three_kafkas: ApacheKafkaCluster
) -> None:
    ports = {node: port_of(ours.address_of(node)) for node in ours.ids}
    versions = common_versions(three_kafkas.ports[1])
    mine = Peer("odradek", ports[1], versions)
    kafka = Peer("kafka", three_kafkas.ports[1], versions)
    try:
        prepared(mine, ports, ours)
        prepared(kafka, three_kafkas.ports, three_kafkas)
    finally:
        kafka.delete_all_topics()
        mine.end()
        kafka.end()
    differences = compare(NAME, mine.steps, kafka.steps)
    strange = unknown(differences, KNOWN)
    shown = "\n".join(str(each)[:500] for each in strange[:SHOWN])
    assert not strange, f"{len(strange)} unknown differences in {len(mine.steps)} steps:\n{shown}"
    assert unused(differences, KNOWN) == []
