"""Our assignors against the results of Kafka's own classes (see `assignor_cases`)."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pytest

from golden.assignor_cases import Case, partitions_in, partitions_per_topic, subscriptions
from odradek.client.consumer.assignor.registry import BUILT_IN, assignor
from odradek.protocol.consumer_protocol import encode_assignment, encode_subscription

RESULTS = Path(__file__).with_name("assignors.json.gz")


@pytest.fixture(scope="module")
def golden() -> list[Case]:
    return [json.loads(line) for line in gzip.decompress(RESULTS.read_bytes()).splitlines()]


@pytest.mark.parametrize("name", BUILT_IN)
def test_assignments_equal_those_of_kafkas_assignor(golden: list[Case], name: str) -> None:
    asked = [case for case in golden if case["a"] == name]
    assert len(asked) > 250
    for number, case in enumerate(asked):
        topics = [topic for topic, _ in case["t"]]
        wanted = subscriptions(case)
        shares = assignor(name).assign(partitions_per_topic(case), wanted)
        expected = [partitions_in(runs, topics) for runs in case["r"]]
        found = [list(shares[member].partitions) for member in wanted]
        assert found == expected, f"case {number} of {name}: {case}"


@pytest.mark.parametrize("name", BUILT_IN)
def test_encoded_subscriptions_and_assignments_equal_kafkas(golden: list[Case], name: str) -> None:
    for case in golden:
        if case["a"] != name:
            continue
        topics = [topic for topic, _ in case["t"]]
        wanted = subscriptions(case)
        shares = assignor(name).assign(partitions_per_topic(case), wanted)
        wire = [
            encode_subscription(each, version) for each in wanted.values() for version in range(4)
        ]
        wire += [encode_assignment(shares[member]) for member in wanted]
        assert zlib.crc32(b"".join(wire)) == case["w"], topics
