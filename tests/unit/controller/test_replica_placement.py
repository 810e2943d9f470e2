"""Replicas of new partitions: spread over brokers and racks, as by Kafka's StripedReplicaPlacer."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from odradek.controller.image import BrokerRegistration, MetadataImage
from odradek.controller.replica_placement import place_replicas
from odradek.controller.topics import create_partitions
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from unit.controller.cluster_making import a_topic, an_image, create, replay_all

SEEDS = pytest.mark.parametrize("seed", range(20))


def change(image: MetadataImage, *broker_ids: int, **fields: object) -> None:
    """Change the registrations of brokers."""
    for broker_id in broker_ids:
        image.brokers[broker_id] = replace(image.brokers[broker_id], **fields)  # type: ignore[arg-type]


def brokers(
    racks: dict[int, str], *, fenced: tuple[int, ...] = ()
) -> dict[int, BrokerRegistration]:
    image = an_image(*racks, racks=racks)
    change(image, *fenced, fenced=True)
    return image.brokers


@SEEDS
def test_replicas_are_distinct_and_spread_over_racks_with_even_leaders(seed: int) -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    placed = place_replicas(brokers(racks).values(), 60, 3, random.Random(seed))
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in placed)
    for position in range(3):
        counts = [sum(replicas[position] == broker for replicas in placed) for broker in racks]
        assert counts == [10] * 6


@SEEDS
def test_brokers_without_racks_lead_evenly_and_follow_evenly(seed: int) -> None:
    ids = range(1, 6)
    image = an_image(*ids)
    placed = place_replicas(image.brokers.values(), 100, 3, random.Random(seed))
    assert [sum(replicas[0] == each for replicas in placed) for each in ids] == [20] * 5
    assert [sum(each in replicas for replicas in placed) for each in ids] == [60] * 5


def test_racks_are_shuffled_when_each_broker_has_led_once() -> None:
    image = an_image(1, 2, 3, 4)
    placed = place_replicas(image.brokers.values(), 40, 2, random.Random(1))
    assert {frozenset(replicas) for replicas in placed[:4]} != {
        frozenset(replicas) for replicas in placed
    }


@SEEDS
def test_a_fenced_broker_does_not_lead_and_comes_where_its_rack_has_no_other(seed: int) -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    placed = place_replicas(brokers(racks, fenced=(2, 3)).values(), 10, 2, random.Random(seed))
    assert placed == [(1, 3)] * 10, "another rack, rather than the other broker of this one"
    placed = place_replicas(brokers(racks, fenced=(2,)).values(), 10, 2, random.Random(seed))
    assert {frozenset(replicas) for replicas in placed} == {frozenset((1, 3))}
    placed = place_replicas(brokers(racks, fenced=(2,)).values(), 10, 3, random.Random(seed))
    assert all(replicas[0] != 2 and len(set(replicas)) == 3 for replicas in placed)


@SEEDS
@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5])
def test_every_factor_is_placed_whatever_is_fenced(seed: int, factor: int) -> None:
    chance = random.Random(seed)
    racks = {broker_id: chance.choice("abc") for broker_id in range(1, 6)}
    fenced = tuple(chance.sample(range(1, 6), chance.randrange(5)))
    placed = place_replicas(brokers(racks, fenced=fenced).values(), 50, factor, chance)
    assert all(len(set(replicas)) == factor for replicas in placed)
    assert all(replicas[0] not in fenced for replicas in placed)


@pytest.mark.parametrize(
    "fields",
    [
        {"in_controlled_shutdown": True},
        {"cordoned_log_dirs": an_image(1).brokers[1].log_dirs},
    ],
)
def test_brokers_that_stop_or_are_cordoned_get_no_replicas(fields: dict[str, object]) -> None:
    image = an_image(1, 2, 3)
    change(image, 1, **fields)
    results = create(image, a_topic("two", 20, 2), a_topic("three", 1, 3))
    assert results["two"].error_code == 0
    assert results["three"].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert all(1 not in each.replicas for each in image.topics["two"].partitions.values())


def test_a_broker_that_has_stopped_cleanly_gets_replicas_and_leads_none() -> None:
    image = an_image(1, 2, 3)
    change(image, 1, fenced=True, in_controlled_shutdown=True)
    assert create(image, a_topic("three", 20, 3))["three"].error_code == 0
    placed = image.topics["three"].partitions.values()
    assert all(sorted(each.replicas) == [1, 2, 3] for each in placed)
    assert all(each.leader != 1 and sorted(each.isr) == [2, 3] for each in placed)


def test_a_replica_whose_broker_is_not_active_is_not_in_sync_at_first() -> None:
    image = an_image(1, 2, 3)
    change(image, 1, fenced=True)
    change(image, 2, in_controlled_shutdown=True)
    results = create(
        image,
        a_topic("t", assignments={0: [1, 2, 3]}),
        a_topic("u", assignments={0: [1, 2]}),
    )
    assert results["t"].error_code == 0
    partition = image.topics["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 3), (3,), 3)
    assert results["u"].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_more_partitions_have_as_many_replicas_as_those_before() -> None:
    image = an_image(1, 2, 3, 4)
    create(image, a_topic("t", 2, 3))
    topic = CreatePartitionsTopic(name="t", count=6, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False)
    replay_all(image, create_partitions(image, request, random.Random(2)).records)
    added = [image.topics["t"].partitions[number] for number in range(2, 6)]
    assert {len(partition.replicas) for partition in added} == {3}
    assert sorted(partition.leader for partition in added) == [1, 2, 3, 4]
