"""Decisions of ElectLeaders: for each partition the leader that an election gives (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import (
    MAX_RECORDS_PER_DECISION,
    TOO_MANY_RECORDS,
    ApiError,
    Decision,
)
from odradek.controller.image import NO_LEADER, MetadataImage, PartitionRegistration, TopicImage
from odradek.controller.partition_change import Election, ElectionRules, PartitionChange
from odradek.model.errors import ErrorCode
from odradek.protocol.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

TYPES = (Election.PREFERRED, Election.UNCLEAN)


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, broker: BrokerConfig
) -> Decision[ElectLeadersResponse]:
    """Return records for the leaders that change, and a result for each partition.

    Of all partitions (null), those that need no election are left out. `broker`: this broker's
    configuration in the committed image.
    """
    if request.topic_partitions == []:
        return Decision([], ElectLeadersResponse(replica_election_results=[]))
    if request.election_type not in TYPES:
        problem = f"Unknown election type {request.election_type}"
        return Decision([], refused(request, ErrorCode.INVALID_REQUEST, problem))
    election = Election(request.election_type)
    rules = ElectionRules(image, broker)
    records: list[object] = []
    results = []
    if request.topic_partitions is None:
        for name, topic in image.topics.items():
            outcomes = _elect_all(rules, topic, election, records)
            results.append(ReplicaElectionResult(topic=name, partition_result=outcomes))
    else:
        for asked in request.topic_partitions:
            topic_outcomes = [
                _outcome(rules, asked.topic, number, election, records)
                for number in asked.partitions
            ]
            results.append(
                ReplicaElectionResult(topic=asked.topic, partition_result=topic_outcomes)
            )
    if len(records) > MAX_RECORDS_PER_DECISION:
        return Decision([], refused(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS))
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def _elect_all(
    rules: ElectionRules, topic: TopicImage, election: Election, records: list[object]
) -> list[PartitionResult]:
    return [
        _outcome(rules, topic.name, number, election, records)
        for number, partition in topic.partitions.items()
        if not _has_leader(partition, election)
    ]


def _has_leader(partition: PartitionRegistration, election: Election) -> bool:
    """True if the partition has a leader of the kind that the election would give it."""
    if election is Election.PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def _outcome(
    rules: ElectionRules, topic: str, number: int, election: Election, records: list[object]
) -> PartitionResult:
    try:
        records.append(_elect(rules, topic, number, election))
    except ApiError as error:
        return PartitionResult(
            partition_id=number, error_code=error.error, error_message=error.message
        )
    return PartitionResult(partition_id=number, error_code=ErrorCode.NONE, error_message=None)


def _elect(rules: ElectionRules, name: str, number: int, election: Election) -> object:
    """Return the record of a new leader. Raises `ApiError`."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = rules.image.topic(name)
    if topic is None:
        raise ApiError(unknown, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        raise ApiError(unknown, f"No such partition as {name}-{number}")
    if _has_leader(partition, election):
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.text)
    record = PartitionChange.of(partition, election).record(rules, topic, number)
    if record is None:
        failed = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if election is Election.PREFERRED
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        raise ApiError(failed, failed.text)
    return record


def refused(
    request: ElectLeadersRequest, error: ErrorCode, message: str | None = None
) -> ElectLeadersResponse:
    """Return the response that gives every partition of the request the same error."""
    asked: Iterable[tuple[str, list[int]]] = (
        (each.topic, each.partitions) for each in request.topic_partitions or ()
    )
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    PartitionResult(
                        partition_id=number, error_code=error, error_message=message or error.text
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in asked
        ],
    )
