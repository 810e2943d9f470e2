"""ElectLeaders in clusters of several brokers, with the answers of Kafka 4.3."""

from __future__ import annotations

import pytest

from odradek.controller.image import NO_LEADER, MetadataImage, PartitionRegistration
from odradek.controller.leader_election import elect_everywhere, elect_leaders
from odradek.model.errors import ErrorCode
from odradek.protocol.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from unit.controller.cluster_making import CONFIG, a_topic, an_image, create, replay_all

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def image() -> MetadataImage:
    """Three brokers; partition 0 of `t` on 1, 2, 3, partition 1 on 2, 3."""
    image = an_image(1, 2, 3)
    create(image, a_topic("t", assignments={0: [1, 2, 3], 1: [2, 3, 1]}))
    return image


def fence(image: MetadataImage, broker_id: int, *, fenced: bool = True) -> None:
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].epoch,
        fenced=1 if fenced else -1,
    )
    replay_all(image, [record])


def change(image: MetadataImage, number: int, leader: int, isr: list[int]) -> None:
    topic = image.topics["t"].id
    record = PartitionChangeRecord(partition_id=number, topic_id=topic, leader=leader, isr=isr)
    replay_all(image, [record])


def partition(image: MetadataImage, number: int) -> PartitionRegistration:
    return image.topics["t"].partitions[number]


def elect(
    image: MetadataImage, kind: int, topics: dict[str, list[int]] | None
) -> ElectLeadersResponse:
    named = (
        None
        if topics is None
        else [TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()]
    )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named)
    if named is None:
        parts = elect_everywhere(image, request, lambda: CONFIG)
        while True:
            try:
                replay_all(image, next(parts))
            except StopIteration as end:
                response: ElectLeadersResponse = end.value
                return response
    decision = elect_leaders(image, request, CONFIG)
    replay_all(image, decision.records)
    return decision.response


def errors(response: ElectLeadersResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def test_the_preferred_replica_becomes_leader_if_it_is_in_sync(image: MetadataImage) -> None:
    change(image, 0, leader=2, isr=[1, 2, 3])
    before = partition(image, 0).leader_epoch
    assert errors(elect(image, PREFERRED, {"t": [0]})) == {("t", 0): 0}
    after = partition(image, 0)
    assert (after.leader, after.leader_epoch, after.isr) == (1, before + 1, (1, 2, 3))


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_a_partition_with_the_wanted_leader_needs_no_election(
    image: MetadataImage, kind: int
) -> None:
    response = elect(image, kind, {"t": [0, 0, 1]})
    assert set(errors(response).values()) == {ErrorCode.ELECTION_NOT_NEEDED}
    assert len(response.replica_election_results[0].partition_result) == 3


def test_a_preferred_replica_that_is_not_in_sync_does_not_become_leader(
    image: MetadataImage,
) -> None:
    change(image, 0, leader=2, isr=[2, 3])
    expected = {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert errors(elect(image, PREFERRED, {"t": [0]})) == expected
    assert partition(image, 0).leader == 2


def test_a_fenced_preferred_replica_does_not_become_leader(image: MetadataImage) -> None:
    change(image, 0, leader=2, isr=[1, 2, 3])
    fence(image, 1)
    expected = {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert errors(elect(image, PREFERRED, {"t": [0]})) == expected


def test_an_unclean_election_takes_a_live_replica_that_is_not_in_sync(
    image: MetadataImage,
) -> None:
    change(image, 0, leader=NO_LEADER, isr=[1])
    fence(image, 1)
    assert errors(elect(image, UNCLEAN, {"t": [0]})) == {("t", 0): 0}
    after = partition(image, 0)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)


def test_an_unclean_election_prefers_an_in_sync_replica(image: MetadataImage) -> None:
    change(image, 0, leader=NO_LEADER, isr=[3])
    assert errors(elect(image, UNCLEAN, {"t": [0]})) == {("t", 0): 0}
    after = partition(image, 0)
    assert (after.leader, after.isr, after.leader_recovery_state) == (3, (3,), 0)


def test_an_unclean_election_fails_without_any_live_replica(image: MetadataImage) -> None:
    change(image, 0, leader=NO_LEADER, isr=[1])
    for broker_id in (1, 2, 3):
        fence(image, broker_id)
    expected = {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert errors(elect(image, UNCLEAN, {"t": [0]})) == expected


def test_an_election_of_all_partitions_lists_only_those_that_needed_one(
    image: MetadataImage,
) -> None:
    change(image, 1, leader=3, isr=[1, 2, 3])
    response = elect(image, PREFERRED, None)
    assert errors(response) == {("t", 1): 0}
    assert [each.topic for each in response.replica_election_results] == ["t"]
    assert partition(image, 1).leader == 2


def test_unknown_topics_and_partitions_are_refused_alone(image: MetadataImage) -> None:
    change(image, 0, leader=2, isr=[1, 2, 3])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(elect(image, PREFERRED, {"none": [0], "t": [0, 7, -1]})) == {
        ("none", 0): unknown,
        ("t", 0): 0,
        ("t", 7): unknown,
        ("t", -1): unknown,
    }
    assert partition(image, 0).leader == 1


def test_an_unknown_type_of_election_is_an_invalid_request(image: MetadataImage) -> None:
    response = elect(image, 2, {"t": [0]})
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert errors(response) == {("t", 0): ErrorCode.INVALID_REQUEST}
