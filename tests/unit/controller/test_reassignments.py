"""AlterPartitionReassignments in clusters of several brokers, with the answers of Kafka 4.3."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.controller.image import MetadataImage, PartitionRegistration
from odradek.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.metadata_records import PartitionChangeRecord
from unit.controller.cluster_making import CONFIG, a_topic, an_image, create, replay_all

WRONG = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.fixture
def image() -> MetadataImage:
    """Four brokers; partition 0 of `t` on 1 and 2."""
    image = an_image(1, 2, 3, 4)
    create(image, a_topic("t", assignments={0: [1, 2]}))
    return image


def partition(image: MetadataImage) -> PartitionRegistration:
    return image.topics["t"].partitions[0]


def alter(
    image: MetadataImage,
    replicas: list[int] | None,
    *,
    topic: str = "t",
    number: int = 0,
    any_factor: bool = True,
) -> tuple[int, list[object]]:
    """Return the error code and the records, which are replayed."""
    target = ReassignablePartition(partition_index=number, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=any_factor,
        topics=[ReassignableTopic(name=topic, partitions=[target])],
    )
    decision = alter_partition_reassignments(image, request, CONFIG)
    replay_all(image, decision.records)
    return decision.response.responses[0].partitions[0].error_code, decision.records


def in_sync(image: MetadataImage, *isr: int) -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=image.topics["t"].id, isr=list(isr))
    replay_all(image, [change])


def ongoing(image: MetadataImage) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    response = list_partition_reassignments(image, ListPartitionReassignmentsRequest())
    return [
        (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in response.topics
        for p in topic.partitions
    ]


def test_a_reassignment_to_where_the_partition_is_changes_nothing(image: MetadataImage) -> None:
    assert alter(image, [1, 2]) == (0, [])
    assert ongoing(image) == []


def test_new_replicas_are_added_before_old_ones_are_removed(image: MetadataImage) -> None:
    assert alter(image, [3, 2])[0] == 0
    after = partition(image)
    assert (after.replicas, after.isr, after.leader) == ((3, 2, 1), (1, 2), 1)
    assert after.directories == (UUID(int=2003), UUID(int=2002), UUID(int=2001))
    assert ongoing(image) == [("t", 0, [3, 2, 1], [3], [1])]


def test_a_reassignment_back_before_the_end_leaves_no_replica_that_comes_and_goes(
    image: MetadataImage,
) -> None:
    """No replica is added and removed at once: such a reassignment would never end."""
    in_sync(image, 1)
    assert alter(image, [2, 3])[0] == 0
    assert ongoing(image) == [("t", 0, [2, 3, 1], [3], [1])]
    assert alter(image, [1, 2, 3])[0] == 0
    assert ongoing(image) == [("t", 0, [1, 2, 3], [3], [])]
    assert alter(image, [1, 2])[0] == 0
    assert ongoing(image) == [("t", 0, [1, 2, 3], [], [3])]


def test_another_order_of_the_same_replicas_is_taken_at_once(image: MetadataImage) -> None:
    assert alter(image, [2, 1])[0] == 0
    after = partition(image)
    assert (after.replicas, after.leader, after.leader_epoch) == ((2, 1), 1, 0)
    assert ongoing(image) == []


def test_a_removal_is_complete_at_once_and_elects_another_leader(image: MetadataImage) -> None:
    assert alter(image, [2])[0] == 0
    after = partition(image)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((2,), (2,), 2, 1)
    assert after.directories == (UUID(int=2002),)
    assert ongoing(image) == []


def test_a_removal_waits_while_a_remaining_replica_is_not_in_sync(image: MetadataImage) -> None:
    in_sync(image, 1)
    assert alter(image, [2])[0] == 0
    assert ongoing(image) == [("t", 0, [2, 1], [], [1])]


def test_cancelling_removes_the_added_replicas(image: MetadataImage) -> None:
    alter(image, [3, 4])
    assert alter(image, None)[0] == 0
    after = partition(image)
    assert (after.replicas, after.isr, after.leader) == ((1, 2), (1, 2), 1)
    assert ongoing(image) == []


def test_cancelling_is_refused_where_records_would_be_lost(image: MetadataImage) -> None:
    alter(image, [3, 4])
    in_sync(image, 3)
    assert alter(image, None)[0] == WRONG
    assert ongoing(image)


def test_cancelling_without_a_reassignment_says_so(image: MetadataImage) -> None:
    assert alter(image, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, [])


@pytest.mark.parametrize("replicas", [[], [77], [1, 77], [1, 1], [-1]])
def test_wrong_assignments_are_refused(image: MetadataImage, replicas: list[int]) -> None:
    assert alter(image, replicas) == (WRONG, [])


def test_another_replication_factor_is_refused_if_the_request_says_so(
    image: MetadataImage,
) -> None:
    refused: tuple[int, list[object]] = (ErrorCode.INVALID_REPLICATION_FACTOR, [])
    assert alter(image, [1, 2, 3], any_factor=False) == refused
    assert alter(image, [3, 4], any_factor=False)[0] == 0
    assert alter(image, [4], any_factor=False) == refused
    assert alter(image, [4, 1], any_factor=False)[0] == 0


@pytest.mark.parametrize("target", [("none", 0), ("t", 1), ("t", -1)])
def test_unknown_partitions_are_refused(image: MetadataImage, target: tuple[str, int]) -> None:
    topic, number = target
    unknown: tuple[int, list[object]] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert alter(image, [1, 2], topic=topic, number=number) == unknown
    assert alter(image, None, topic=topic, number=number) == unknown


def test_only_the_requested_partitions_are_listed(image: MetadataImage) -> None:
    alter(image, [3, 2])
    topics = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
        for name, numbers in (("none", [0]), ("t", [1]), ("t", [0]))
    ]
    request = ListPartitionReassignmentsRequest(topics=topics)
    response = list_partition_reassignments(image, request)
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("t", 1)]
