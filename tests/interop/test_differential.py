"""The same requests to this broker and to a real Apache Kafka get the same answers, by field.

Each script runs against both, and the recorded outcomes are compared. Accepted differences are
listed in `differential.known_differences`, each with its reason. Any other difference fails the
test, and so does an entry of the list that no script needs any more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.apache_kafka import ApacheKafka
from interop.differential.comparing import Difference, compare, unknown, unused
from interop.differential.known_differences import KNOWN
from interop.differential.peer import Peer, common_versions
from interop.differential.scripts import SCRIPTS
from odradek.broker.apis import CLIENT_ROWS
from odradek.protocol.api_keys import MESSAGES
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

SHOWN = 30
ONLY_IN_4_4 = {(18, 5), (42, 3)}
CHANGES_VOTERS = {"AddRaftVoter", "RemoveRaftVoter"}
"""Requests that would end the only voter, or wait for one that does not exist: not compared."""
compared: dict[str, list[Difference]] = {}
answered: set[tuple[int, int]] = set()
"""Keys and versions of requests that both brokers answered and whose answers were compared.
"""


@pytest.fixture(scope="module")
def versions(ours: Broker, kafka: ApacheKafka) -> dict[int, range]:
    """Return the versions that both brokers serve, for every API that we serve."""
    return common_versions(kafka.port)


@pytest.fixture
def peers(
    ours: Broker, kafka: ApacheKafka, versions: dict[int, range]
) -> Iterator[tuple[Peer, Peer]]:
    both = Peer("odradek", ours.port, versions), Peer("kafka", kafka.port, versions)
    for peer in both:
        peer.delete_all_topics()
    yield both
    for peer in both:
        peer.end()


def test_only_versions_new_in_kafka_4_4_are_not_compared(versions: dict[int, range]) -> None:
    left_out = {
        (row.key, version)
        for row in CLIENT_ROWS
        if not row.is_own
        for version in range(row.min_version, row.max_version + 1)
        if version not in versions[row.key]
    }
    assert left_out == ONLY_IN_4_4


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_equal_those_of_kafka(name: str, peers: tuple[Peer, Peer]) -> None:
    ours, kafka = peers
    SCRIPTS[name](ours)
    SCRIPTS[name](kafka)
    differences = compare(name, ours.steps, kafka.steps)
    compared[name] = differences
    answered.update(ours.answered & kafka.answered)
    strange = unknown(differences, KNOWN)
    shown = "\n".join(str(each)[:500] for each in strange[:SHOWN])
    assert not strange, f"{len(strange)} unknown differences in {len(ours.steps)} steps:\n{shown}"


def test_every_request_was_compared_in_every_version(versions: dict[int, range]) -> None:
    if len(compared) < len(SCRIPTS):
        pytest.skip("needs all scripts in the same run")
    served = {(key, version) for key, both in versions.items() for version in both}
    missing = [
        (MESSAGES[key].name, version)
        for key, version in sorted(served - answered)
        if MESSAGES[key].name not in CHANGES_VOTERS
    ]
    assert not missing, f"nothing was compared of {missing}"


def test_every_known_difference_still_occurs() -> None:
    if len(compared) < len(SCRIPTS):
        pytest.skip("needs all scripts in the same run")
    stale = unused([each for differences in compared.values() for each in differences], KNOWN)
    assert not stale, "\n".join(f"{entry.step} | {entry.path} | {entry}" for entry in stale)
