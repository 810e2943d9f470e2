"""The choice of partitions for records without a key while brokers are slow or take nothing:
through the whole sender, in simulated time.
"""

from __future__ import annotations

from typing import Any

import pytest

from odradek.protocol.api.produce import ProduceRequest
from odradek.testing.scripted import SILENT, DelayedAnswer
from unit.client.producer.producing import Producing

COUNT = 300
SLOW_MS = 200


def slow_second(**settings: Any) -> Producing:
    """Two partitions; the broker of the second one answers after 200 ms, and takes two
    requests at a time."""
    p = Producing(
        brokers=2,
        leaders={"t": [1, 2]},
        batch_bytes=1_000,
        max_in_flight=2,
        idempotence=False,
        **settings,
    )
    for partition in (0, 1):
        p.send(b"warm up", partition=partition)
    p.flush()
    right = p.cluster[2].answers[ProduceRequest]
    p.cluster[2].answers[ProduceRequest] = lambda request, version: DelayedAnswer(
        SLOW_MS, right(request, version)
    )
    return p


def send_steadily(p: Producing) -> list[int]:
    """Send a record every two milliseconds; return how many each partition got."""
    futures = []
    for _ in range(COUNT):
        futures.append(p.send(b"x" * 300))
        p.cluster.run(2)
    assert p.flush() == 0
    places = [p.outcome(future).partition for future in futures]
    return [places.count(0), places.count(1)]


def test_a_partition_whose_queue_grows_is_chosen_less_often() -> None:
    fast, slow = send_steadily(slow_second())
    assert slow < fast / 2


def test_without_adaptive_partitioning_each_partition_gets_its_share() -> None:
    fast, slow = send_steadily(slow_second(adaptive=False))
    assert slow > fast / 2


@pytest.mark.parametrize(("timeout_ms", "left_alone"), [(100, True), (0, False)])
def test_a_partition_whose_leader_takes_nothing_is_not_chosen(
    timeout_ms: int, left_alone: bool
) -> None:
    """From `partitioner.availability.timeout.ms` on, if set, until it takes a batch."""
    p = slow_second(availability_timeout_ms=timeout_ms)
    p.cluster[2].answers[ProduceRequest] = lambda request, version: SILENT
    for _ in range(COUNT):
        p.send(b"x" * 300)
        p.cluster.run(2)
    held_up = p.core.accumulator.incomplete_records
    for _ in range(COUNT):
        p.send(b"x" * 300)
        p.cluster.run(2)
    p.cluster.run(100)
    assert (p.core.accumulator.incomplete_records == held_up) is left_alone

    held_up = p.core.accumulator.incomplete_records
    p.cluster[2].answers[ProduceRequest] = p.brokers.produce_at(2)
    p.cluster.run(120_000)  # The requests that are not answered time out, and are tried again.
    assert held_up > 0
    assert p.core.accumulator.incomplete_records == 0
    before = len(p.values(partition=1))
    fast, slow = send_steadily(p)
    assert len(p.values(partition=1)) == before + slow
    assert slow > fast / 4
