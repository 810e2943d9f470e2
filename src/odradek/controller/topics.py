"""Decisions on topics: CreateTopics, automatic creation, CreatePartitions, DeleteTopics.

A topic to be created is checked in Kafka's order, so that a request with several errors gets the
same answer: twice in the request; name; exists; collides; settings; assignments; replication factor
and partition count; too many partitions in one request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.config.topic import TopicConfig
from odradek.controller.configs import MOST_CHANGES
from odradek.controller.decision import (
    MAX_RECORDS_PER_DECISION,
    ApiError,
    ControllerResult,
    check_topic_name,
)
from odradek.controller.image import (
    ConfigResource,
    MetadataImage,
    PartitionRegistration,
    ResourceType,
    TopicImage,
    config_record,
)
from odradek.controller.replica_placement import check_replicas, new_partition, place_replicas
from odradek.model.env import Random
from odradek.model.errors import ErrorCode
from odradek.model.topics import METADATA_TOPIC, ZERO_UUID, new_uuid
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from odradek.protocol.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.metadata_records import RemoveTopicRecord, TopicRecord

MAX_PARTITIONS_PER_REQUEST = 10_000
MAX_TOPICS_PER_REQUEST = MAX_RECORDS_PER_DECISION // 2
"""A topic takes at least a record of its own and one of a partition."""
DEFAULT = -1


def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, broker: BrokerConfig, random: Random
) -> ControllerResult[CreateTopicsResponse]:
    """Return records for the topics that can be created, and a result for each topic.

    With `validate_only` there are no records, and the results are the same. Defaults for
    partitions, replicas and settings come from `broker`.
    """
    counts = Counter(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if counts[topic.name] == 1]
    results = [
        _refusal(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    if asks_for_too_much(topics, broker):
        return ControllerResult([], all_refused(topics, results))
    creation = _Creation(image, broker, random)
    answers = [creation.create(topic) for topic in topics]
    if len(creation.records) > MAX_RECORDS_PER_DECISION:
        return ControllerResult([], all_refused(topics, results))
    records = [] if request.validate_only else creation.records
    return ControllerResult(records, CreateTopicsResponse(topics=answers + results))


def asks_for_too_much(topics: Sequence[CreatableTopic], broker: BrokerConfig) -> bool:
    """True if one request must not create all these topics; then it creates none, as in Kafka."""
    if len(topics) > MAX_TOPICS_PER_REQUEST:
        return True
    return _requested_partitions(topics, broker) > MAX_PARTITIONS_PER_REQUEST


def _requested_partitions(topics: Sequence[CreatableTopic], broker: BrokerConfig) -> int:
    return sum(
        len(topic.assignments)
        or (
            broker.num_partitions
            if topic.num_partitions == DEFAULT
            else max(topic.num_partitions, 0)
        )
        for topic in topics
    )


def _refusal(name: str, refused: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refused.error, error_message=refused.message)


def all_refused(
    topics: Sequence[CreatableTopic], others: Sequence[CreatableTopicResult] = ()
) -> CreateTopicsResponse:
    """Return the response to topics that are too many together; `others` have results already."""
    text = "Excessively large number of partitions per request."
    refused = ApiError(ErrorCode.POLICY_VIOLATION, text)
    return CreateTopicsResponse(
        topics=[*(_refusal(topic.name, refused) for topic in topics), *others]
    )


class _Creation:
    """The topics of one request: each is checked against those before it, too."""

    def __init__(self, image: MetadataImage, broker: BrokerConfig, random: Random) -> None:
        self.image = image
        self.broker = broker
        self.random = random
        self.records: list[object] = []
        self._names: dict[str, str] = {}
        self._settings: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def create(self, topic: CreatableTopic) -> CreatableTopicResult:
        try:
            self._check_name(topic.name)
            values = _values(topic)
            configs = self._configs(values)
            partitions = self._assigned(topic) if topic.assignments else self._placed(topic)
        except ApiError as refused:
            return _refusal(topic.name, refused)
        topic_id = self._new_id()
        self._add_records(topic.name, topic_id, values, partitions)
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=configs,
        )

    def _check_name(self, name: str) -> None:
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
            )
        if name in self.image.topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self.image.colliding_topic(name) or self._names.get(name.replace(".", "_"))
        if other is not None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def _configs(self, values: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Describe all settings of a topic with these values; equal values share the list."""
        key = frozenset(values.items())
        if key not in self._settings:
            try:
                self._settings[key] = _described(TopicConfig(self.broker, values), values)
            except ConfigError as error:
                raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
        return self._settings[key]

    def _assigned(self, topic: CreatableTopic) -> list[PartitionRegistration]:
        if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
            what = (
                "replication factor"
                if topic.replication_factor != DEFAULT
                else "number of partitions"
            )
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
        by_number: dict[int, CreatableReplicaAssignment] = {}
        factor: int | None = None
        for assignment in topic.assignments:
            if assignment.partition_index in by_number:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    "Found multiple manual partition assignments for partition "
                    f"{assignment.partition_index}",
                )
            by_number[assignment.partition_index] = assignment
            factor = check_replicas(self.image, assignment.broker_ids, factor)
        if set(by_number) != set(range(len(by_number))):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        return [
            new_partition(self.image, tuple(by_number[number].broker_ids))
            for number in range(len(by_number))
        ]

    def _placed(self, topic: CreatableTopic) -> list[PartitionRegistration]:
        if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        broker = self.broker
        count = broker.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
        factor = (
            broker.default_replication_factor
            if topic.replication_factor == DEFAULT
            else topic.replication_factor
        )
        check_replication_factor(self.image, factor)
        return [
            new_partition(self.image, replicas)
            for replicas in place_replicas(self.image.brokers.values(), count, factor, self.random)
        ]

    def _new_id(self) -> UUID:
        while True:
            topic_id = new_uuid(self.random)
            if topic_id not in self.image.topics_by_id:
                return topic_id

    def _add_records(
        self,
        name: str,
        topic_id: UUID,
        values: Mapping[str, str],
        partitions: Sequence[PartitionRegistration],
    ) -> None:
        self._names[name.replace(".", "_")] = name
        resource = ConfigResource(ResourceType.TOPIC, name)
        self.records.append(TopicRecord(name=name, topic_id=topic_id))
        self.records += [config_record(resource, *item) for item in sorted(values.items())]
        self.records += [
            partition.record(topic_id, number) for number, partition in enumerate(partitions)
        ]


def check_replication_factor(image: MetadataImage, factor: int) -> None:
    """Raise `ApiError` unless there are enough brokers for this replication factor."""
    usable = [broker for broker in image.brokers.values() if broker.usable]
    if all(broker.fenced for broker in usable):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): All brokers are currently "
            "fenced, or have all their log directories cordoned.",
        )
    if factor > len(usable):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): the target replication factor "
            f"cannot be reached because only {len(usable)} broker(s) are registered.",
        )


def _values(topic: CreatableTopic) -> dict[str, str]:
    if len(topic.configs) > MOST_CHANGES:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"More than {MOST_CHANGES} settings of topic {topic.name}"
        )
    values: dict[str, str] = {}
    for item in topic.configs:
        if item.value is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {item.name}"
            )
        values[item.name] = item.value
    return values


def _described(config: TopicConfig, values: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=row.name,
            value=values.get(row.name, row.value),
            read_only=row.read_only,
            config_source=row.source,
            is_sensitive=row.sensitive,
        )
        for row in sorted(config.describe(), key=lambda row: row.name)
    ]


def create_partitions(
    image: MetadataImage, request: CreatePartitionsRequest, random: Random
) -> ControllerResult[CreatePartitionsResponse]:
    """Return records for the new partitions, and a result for each topic."""
    counts = Counter(topic.name for topic in request.topics)
    records: list[object] = []
    results = [
        _result(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        try:
            added = _add(image, topic, random, MAX_RECORDS_PER_DECISION - len(records))
        except ApiError as refused:
            results.append(_result(topic.name, refused))
        else:
            records += added
            results.append(_result(topic.name, None))
    return ControllerResult(
        [] if request.validate_only else records, CreatePartitionsResponse(results=results)
    )


def _result(name: str, refused: ApiError | None) -> CreatePartitionsTopicResult:
    if refused is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(
        name=name, error_code=refused.error, error_message=refused.message
    )


def _add(
    image: MetadataImage, requested: CreatePartitionsTopic, random: Random, room: int
) -> list[object]:
    topic = image.topic(requested.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    present = len(topic.partitions)
    if requested.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if requested.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {requested.name} currently has {present} partition(s); "
            f"{requested.count} would not be an increase.",
        )
    extra = requested.count - present
    if extra > room:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"A request may add {MAX_RECORDS_PER_DECISION} partitions at most.",
        )
    return [
        new_partition(image, replicas).record(topic.id, present + number)
        for number, replicas in enumerate(_replicas(image, topic, requested, extra, random))
    ]


def _replicas(
    image: MetadataImage,
    topic: TopicImage,
    requested: CreatePartitionsTopic,
    extra: int,
    random: Random,
) -> list[tuple[int, ...]]:
    factor = len(topic.partitions[0].replicas)
    if requested.assignments is None:
        check_replication_factor(image, factor)
        return place_replicas(image.brokers.values(), extra, factor, random)
    if len(requested.assignments) != extra:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {extra} additional partition(s), but {len(requested.assignments)} "
            "assignment(s) were specified.",
        )
    for assignment in requested.assignments:
        check_replicas(image, assignment.broker_ids, factor)
    return [tuple(assignment.broker_ids) for assignment in requested.assignments]


TOPIC_DELETION_DISABLED_SINCE = 3
TOPICS_SINCE = 6


def delete_topics(
    image: MetadataImage, request: DeleteTopicsRequest, version: int, *, enabled: bool
) -> ControllerResult[DeleteTopicsResponse]:
    """Return records for the topics that can be deleted, and a result for each topic.

    `version`: of the request. `enabled`: `delete.topic.enable`. A topic that is there twice, maybe
    once by name and once by id, is not deleted.
    """
    requested = (
        list(request.topics)
        if version >= TOPICS_SINCE
        else [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    )
    if not enabled:
        return ControllerResult([], _disabled(requested, version))
    records: list[object] = []
    responses: list[DeletableTopicResult] = []
    for states, topic in _grouped(image, requested):
        if isinstance(topic, ApiError):
            twice = len(states) > 1 and topic.error is not ErrorCode.INVALID_REQUEST
            responses.append(_answer(states[0], _duplicate(states[0]) if twice else topic))
        elif len(states) > 1:
            responses.append(_duplicate_result(topic, states))
        else:
            records.append(RemoveTopicRecord(topic_id=topic.id))
            responses.append(
                DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE)
            )
    return ControllerResult(records, DeleteTopicsResponse(responses=responses))


def _grouped(
    image: MetadataImage, requested: Iterable[DeleteTopicState]
) -> list[tuple[list[DeleteTopicState], TopicImage | ApiError]]:
    """Group the items of the request by the topic that they name."""
    groups: dict[object, tuple[list[DeleteTopicState], TopicImage | ApiError]] = {}
    for state in requested:
        found = _find(image, state)
        key = found.id if isinstance(found, TopicImage) else (state.name, state.topic_id)
        groups.setdefault(key, ([], found))[0].append(state)
    return list(groups.values())


def _find(image: MetadataImage, state: DeleteTopicState) -> TopicImage | ApiError:
    invalid = ErrorCode.INVALID_REQUEST
    if state.name is None and state.topic_id == ZERO_UUID:
        return ApiError(invalid, "Neither topic name nor id were specified.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        return ApiError(invalid, "You may not specify both topic name and topic id.")
    if state.name is None:
        return image.topic_by_id(state.topic_id) or _unknown(ErrorCode.UNKNOWN_TOPIC_ID)
    return image.topic(state.name) or _unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _unknown(error: ErrorCode) -> ApiError:
    return ApiError(error, error.text)


def _answer(state: DeleteTopicState, refused: ApiError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name,
        topic_id=state.topic_id,
        error_code=refused.error,
        error_message=refused.message,
    )


def _duplicate(state: DeleteTopicState) -> ApiError:
    named = "id" if state.name is None else "name"
    return ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {named}.")


def _duplicate_result(
    topic: TopicImage, states: Iterable[DeleteTopicState]
) -> DeletableTopicResult:
    """Return the result for a topic that is there twice, with only the fields of the request."""
    names = {state.name for state in states}
    if None not in names:
        message, name, topic_id = "Duplicate topic name.", topic.name, ZERO_UUID
    elif names == {None}:
        return DeletableTopicResult(
            name=None,
            topic_id=topic.id,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Duplicate topic id.",
        )
    else:
        message = "The provided topic name maps to an ID that was already supplied."
        name, topic_id = topic.name, topic.id
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=message
    )


def _disabled(requested: Iterable[DeleteTopicState], version: int) -> DeleteTopicsResponse:
    if version < TOPIC_DELETION_DISABLED_SINCE:
        error = ErrorCode.INVALID_REQUEST
    else:
        error = ErrorCode.TOPIC_DELETION_DISABLED
    refused = ApiError(error, "Topic deletion is disabled: delete.topic.enable is false.")
    return DeleteTopicsResponse(responses=[_answer(state, refused) for state in requested])
