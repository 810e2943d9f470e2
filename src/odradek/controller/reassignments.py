"""Decisions of AlterPartitionReassignments, and ListPartitionReassignments (KIP-455).

A reassignment first makes the new replicas members of the partition, beside those that it removes.
It is complete once the new ones are in sync (`partition_change`). A reassignment to the replicas
that a partition has, in the same order, changes nothing. Cancelling one removes the replicas that
it added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import (
    MAX_RECORDS_PER_DECISION,
    TOO_MANY_RECORDS,
    ApiError,
    ControllerResult,
)
from odradek.controller.image import MetadataImage, PartitionRegistration, TopicImage
from odradek.controller.partition_change import Election, ElectionRules, PartitionChange
from odradek.controller.replica_placement import check_assignment
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, broker: BrokerConfig
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Return records for the partitions that change, and a result for each partition.

    `broker`: this broker's configuration in the committed image.
    """
    if not request.topics:
        return ControllerResult(
            [], AlterPartitionReassignmentsResponse(error_code=0, error_message="", responses=[])
        )
    reassignment = _Reassignment(image, broker, request.allow_replication_factor_change)
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[reassignment.outcome(topic.name, each) for each in topic.partitions],
        )
        for topic in request.topics
    ]
    return ControllerResult(
        reassignment.records,
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=0,
            responses=responses,
        ),
    )


def is_too_long(request: AlterPartitionReassignmentsRequest) -> bool:
    """True if the request names more partitions than one may change."""
    return sum(len(each.partitions) for each in request.topics) > MAX_RECORDS_PER_DECISION


def too_long() -> AlterPartitionReassignmentsResponse:
    """Return the response to a request that names too many partitions."""
    return refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)


def refused(error: ErrorCode, message: str | None = None) -> AlterPartitionReassignmentsResponse:
    """Return the response that refuses the whole request."""
    return AlterPartitionReassignmentsResponse(
        error_code=error, error_message=message or error.text, responses=[]
    )


class _Reassignment:
    """The partitions of one request."""

    def __init__(self, image: MetadataImage, broker: BrokerConfig, any_factor: bool) -> None:
        self.image = image
        self.rules = ElectionRules(image, broker)
        self.any_factor = any_factor
        self.records: list[object] = []

    def outcome(self, name: str, target: ReassignablePartition) -> ReassignablePartitionResponse:
        try:
            self._alter(name, target)
        except ApiError as refused:
            return ReassignablePartitionResponse(
                partition_index=target.partition_index,
                error_code=refused.error,
                error_message=refused.message,
            )
        return ReassignablePartitionResponse(
            partition_index=target.partition_index, error_code=ErrorCode.NONE
        )

    def _alter(self, name: str, target: ReassignablePartition) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = self.image.topic(name)
        if topic is None:
            raise ApiError(unknown, f"Unable to find a topic named {name}.")
        partition = topic.partitions.get(target.partition_index)
        if partition is None:
            raise ApiError(unknown, f"Unable to find partition {name}:{target.partition_index}.")
        if target.replicas is None:
            change = self._cancelled(topic, target.partition_index, partition)
        else:
            change = self._moved(partition, target.replicas)
        record = change.record(self.rules, topic, target.partition_index)
        if record is not None:
            self.records.append(record)

    def _moved(self, partition: PartitionRegistration, replicas: Sequence[int]) -> PartitionChange:
        check_assignment(self.image, replicas, None)
        if not self.any_factor:
            factor = len({*partition.replicas, *partition.adding_replicas})
            factor -= len(partition.removing_replicas)
            if factor != len(replicas):
                raise ApiError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"The replication factor is changed from {factor} to {len(replicas)}",
                )
        removing = tuple(sorted({*partition.replicas}.difference(replicas)))
        # A replica that a reassignment under way adds is added still, if it stays: if the old list
        # were kept, a replica could be added and removed at once, and neither would ever end.
        present = {*partition.replicas}.difference(partition.adding_replicas)
        adding = tuple(sorted({*replicas}.difference(present)))
        return replace(
            PartitionChange.of(partition),
            replicas=(*replicas, *removing),
            removing_replicas=removing,
            adding_replicas=adding,
        )

    def _cancelled(
        self, topic: TopicImage, number: int, partition: PartitionRegistration
    ) -> PartitionChange:
        if not in_progress(partition):
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
        adding = partition.adding_replicas
        replicas = tuple(replica for replica in partition.replicas if replica not in adding)
        isr = tuple(replica for replica in partition.isr if replica not in adding)
        election = self.rules.election(topic)
        if not replicas:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Invalid replica assignment: addingReplicas contains all replicas.",
            )
        if not isr:
            if election is not Election.UNCLEAN:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Unable to revert partition assignment for {topic.name}:{number} because it "
                    "would require an unclean leader election.",
                )
            isr = replicas[:1]
        return PartitionChange(partition, replicas, isr, (), (), election)


def in_progress(partition: PartitionRegistration) -> bool:
    """True if replicas of the partition are being added or removed."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the partitions among those of the request, or of all topics, that are reassigned."""
    asked: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        asked = ((name, topic.partitions) for name, topic in image.topics.items())
    else:
        asked = ((topic.name, topic.partition_indexes) for topic in request.topics)
    found = []
    for name, numbers in asked:
        topic = image.topic(name)
        ongoing = [] if topic is None else _ongoing(topic, numbers)
        if ongoing:
            found.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_code=0, topics=found)


def _ongoing(topic: TopicImage, numbers: Iterable[int]) -> list[OngoingPartitionReassignment]:
    named = ((number, topic.partitions.get(number)) for number in numbers)
    return [
        OngoingPartitionReassignment(
            partition_index=number,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        for number, partition in named
        if partition is not None and in_progress(partition)
    ]
