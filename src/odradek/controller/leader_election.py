"""Decisions of ElectLeaders: for each partition the leader that an election gives (KIP-460)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import (
    MAX_RECORDS_PER_DECISION,
    TOO_MANY_RECORDS,
    ApiError,
    ControllerResult,
    Parts,
)
from odradek.controller.image import NO_LEADER, MetadataImage, PartitionRegistration, TopicImage
from odradek.controller.partition_change import Election, ElectionRules, PartitionChange
from odradek.controller.partition_pass import pass_over
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
) -> ControllerResult[ElectLeadersResponse]:
    """Return records for the leaders that change, and a result for each partition of the request.

    The request names partitions; `elect_everywhere` handles one that names none. `broker` is this
    broker's configuration in the committed image.
    """
    asked = request.topic_partitions
    assert asked is not None, "the request names partitions"
    if not asked:
        return ControllerResult([], ElectLeadersResponse(replica_election_results=[]))
    if request.election_type not in TYPES:
        return ControllerResult([], _unknown_type(request))
    election, rules = Election(request.election_type), ElectionRules(image, broker)
    records: list[object] = []
    results = [
        ReplicaElectionResult(
            topic=each.topic,
            partition_result=[
                _outcome(rules, each.topic, number, election, records) for number in each.partitions
            ],
        )
        for each in asked
    ]
    return ControllerResult(records, ElectLeadersResponse(replica_election_results=results))


def elect_everywhere(
    image: MetadataImage, request: ElectLeadersRequest, config: Callable[[], BrokerConfig]
) -> Parts[ElectLeadersResponse]:
    """Yield records for the leaders that change among all partitions (a request with null), and
    return a result for each partition that needed an election.
    """
    if request.election_type not in TYPES:
        return _unknown_type(request)
    election = Election(request.election_type)
    found: dict[str, list[PartitionResult]] = {}

    def decide(
        rules: ElectionRules, topic: TopicImage, number: int, partition: PartitionRegistration
    ) -> object | None:
        if _has_leader(partition, election):
            return None
        records: list[object] = []
        outcome = _outcome(rules, topic.name, number, election, records)
        found.setdefault(topic.name, []).append(outcome)
        return records[0] if records else None

    yield from pass_over(image, config, decide)
    results = [
        ReplicaElectionResult(topic=name, partition_result=found.get(name, []))
        for name in image.topics
    ]
    return ElectLeadersResponse(replica_election_results=results)


def _unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    problem = f"Unknown election type {request.election_type}"
    return refused(request, ErrorCode.INVALID_REQUEST, problem)


def is_too_long(request: ElectLeadersRequest) -> bool:
    """True if the request names more partitions than one decision may change."""
    asked = request.topic_partitions or ()
    return sum(len(each.partitions) for each in asked) > MAX_RECORDS_PER_DECISION


def too_long(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Return the response to a request that names too many partitions."""
    return refused(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)


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
