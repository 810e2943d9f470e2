"""Throttled replication: which replicas, at which rate, and how both sides keep to it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from odradek.protocol.hot_fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.replication.follower_fetch import DelayedFollowerFetch, FollowerFetches
from odradek.replication.quota import FollowerQuota, LeaderQuota, ReplicationQuota
from unit.replication.memory_replicas import TOPIC_ID
from unit.replication.replicated import Replicated, registration

TOPIC, OTHER = UUID(int=7), UUID(int=8)


class Clock:
    def __init__(self) -> None:
        self.now = 5_000

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [((), []), (("*",), [0, 1, 2]), (("0:1", "2:1", "1:3"), [0, 2]), (("0:2",), [])],
)
def test_the_replicas_of_this_broker_are_throttled(replicas: tuple[str, ...], throttled: list[int]):
    quota = ReplicationQuota(1, Clock())
    quota.set_replicas(TOPIC, ["*"])
    quota.set_replicas(TOPIC, replicas)
    assert [number for number in range(3) if quota.is_throttled((TOPIC, number))] == throttled
    assert not quota.is_throttled((OTHER, 0))


def test_the_rate_is_that_of_the_last_eleven_seconds():
    clock = Clock()
    quota = ReplicationQuota(1, clock)
    quota.rate = 1000
    quota.add(3000)
    assert quota.is_exceeded
    clock.now += 2_999
    assert quota.is_exceeded
    clock.now += 1
    assert not quota.is_exceeded
    for _ in range(20):
        quota.add(1000)
        assert quota.measured_rate() <= 1500
        clock.now += 1000
    clock.now += 11_000
    assert quota.measured_rate() == 0


def test_without_a_rate_nothing_is_exceeded():
    quota = ReplicationQuota(1, Clock())
    quota.add(1 << 60)
    assert not quota.is_exceeded


def test_a_deleted_topic_is_forgotten():
    quota = ReplicationQuota(1, Clock())
    quota.set_replicas(TOPIC, ["*"])
    quota.forget(TOPIC)
    assert not quota.is_throttled((TOPIC, 0))


def test_a_follower_counts_throttled_partitions_only():
    quota = FollowerQuota(1, Clock())
    quota.rate = 100
    quota.set_replicas(TOPIC, ["0:1"])
    quota.record((TOPIC, 1), 5000)
    assert not quota.is_exceeded_for((TOPIC, 0))
    quota.record((TOPIC, 0), 5000)
    assert quota.is_exceeded_for((TOPIC, 0))
    assert not quota.is_exceeded_for((TOPIC, 1))


def leading(isr: tuple[int, ...]) -> tuple[Replicated, Callable[[], int]]:
    """A leader over its quota; the function fetches as broker 2 and returns bytes, -1 if parked."""
    led = Replicated()
    partition = led.replica(registration(isr=isr))
    quota = LeaderQuota(1, Clock())
    quota.rate = 100
    quota.set_replicas(TOPIC_ID, ["0:1"])
    quota.add(10_000)
    fetches = FollowerFetches(led.replicas, quota)
    led.append(partition)
    session = [0, 0]

    def fetch() -> int:
        listed = FetchPartition(
            partition=0, fetch_offset=0, partition_max_bytes=1 << 20, durable_end=0
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[listed])],
        )
        found = fetches.fetch(2, 100, request, 1 << 20, lambda _: None)
        session[1] += 1
        if isinstance(found, DelayedFollowerFetch):
            return -1
        session[0] = found.session_id
        size = sum(result.size for _, result in found.results)
        for _, result in found.results:
            if result.read is not None:
                result.read.release()
        return size

    return led, fetch


def test_a_leader_sends_nothing_to_a_throttled_replica_that_catches_up():
    _, fetch = leading(isr=(1, 3))
    assert fetch() == 0
    assert fetch() == -1


def test_a_replica_in_sync_is_not_throttled():
    _, fetch = leading(isr=(1, 2))
    assert fetch() > 0
