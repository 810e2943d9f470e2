"""What a sample of `odradek top` has if a broker of several does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli.top_figures import Sample
from odradek.cli.top_samples import Sampling
from odradek.client.admin.results import Group
from odradek.client.errors import ApiTimeout, AuthorizationError, UnsupportedVersion
from odradek.model.topics import TopicPartition

PATIENCE_S = 0.2


class ClusterOfThree:
    """An admin client of brokers 1 to 3, where each leads the partition of `t` before its id, and
    a group that has read 4 of 10 records of each partition.
    """

    def __init__(self, leaders: tuple[int, ...] = (1, 2, 3)) -> None:
        self.leaders = leaders
        self.frozen: dict[int, threading.Event] = {}
        self.failing: dict[int, Exception] = {}
        self.asked: list[int] = []

    def topics(self) -> list[Any]:
        partitions = [
            SimpleNamespace(partition=number, leader=leader)
            for number, leader in enumerate(self.leaders)
        ]
        return [SimpleNamespace(name="t", topic_id="id", partitions=partitions)]

    def cluster(self) -> Any:
        return SimpleNamespace(nodes=[SimpleNamespace(id=number) for number in (1, 2, 3)])

    def log_dirs(self, broker: int) -> dict[int, list[Any]]:
        self.asked.append(broker)
        if broker in self.frozen:
            assert self.frozen[broker].wait(60)
        if broker in self.failing:
            raise self.failing[broker]
        return {broker: [SimpleNamespace(replicas={TopicPartition("t", broker - 1): 100})]}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def groups(self, broker: int) -> list[Group]:
        return [Group("g", "Empty", "classic", "consumer")] if broker == 1 else []

    def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        return {each: SimpleNamespace(state="Empty", members=()) for each in groups}

    def group_offsets(self, group: str) -> dict[TopicPartition, Any]:
        return {TopicPartition("t", number): SimpleNamespace(offset=4) for number in range(3)}

    def describe_waiting(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedVersion("another broker")

    describe_metrics = describe_waiting


def sampling(cluster: ClusterOfThree) -> Sampling:
    admin: Any = cluster
    return Sampling(admin, PATIENCE_S)


def shown(found: Sample) -> tuple[Any, ...]:
    topic, group = found.topics["t"], found.groups["g"]
    return found.silent, topic.end, topic.size, topic.unknown, group.lag, group.committed


def test_a_sample_is_put_together_from_all_brokers() -> None:
    assert shown(sampling(ClusterOfThree()).take()) == ((), 30, 300, (), 18, 12)


def test_a_frozen_broker_is_named_and_the_others_are_shown() -> None:
    cluster = ClusterOfThree()
    samples = sampling(cluster)
    cluster.frozen[2] = threading.Event()
    expected = (2,), 20, 200, (1,), None, 12
    assert shown(samples.take()) == expected
    cluster.asked.clear()
    assert shown(samples.take()) == expected
    assert sorted(cluster.asked) == [1, 3], "it owes an answer"
    cluster.frozen.pop(2).set()
    while samples.take().silent:
        pass
    assert shown(samples.take()) == ((), 30, 300, (), 18, 12)


@pytest.mark.parametrize("error", [ApiTimeout("late"), AuthorizationError("no")])
def test_an_error_of_a_broker_that_cannot_be_reached_is_silence(error: Exception) -> None:
    cluster = ClusterOfThree()
    cluster.failing[3] = error
    found = sampling(cluster).take()
    refused = isinstance(error, AuthorizationError)
    assert found.silent == (() if refused else (3,))
    assert found.topics["t"].size == (None if refused else 200)


def test_a_bug_is_raised() -> None:
    cluster = ClusterOfThree()
    cluster.failing[3] = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        sampling(cluster).take()


def test_a_partition_without_a_leader_has_no_end_and_its_group_no_lag() -> None:
    assert shown(sampling(ClusterOfThree((1, -1, 3))).take()) == ((), 20, 300, (1,), None, 12)
