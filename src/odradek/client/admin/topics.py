"""Topics: list, describe, create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from odradek.client.admin.calls import Calls, error_of_code, raise_for_code
from odradek.client.admin.results import NewTopic, Partition, Topic
from odradek.client.arguments import checked_topic, checked_topics, several
from odradek.client.errors import KafkaError
from odradek.config.setting import setting_text
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.metadata import MetadataResponseTopic


class TopicCalls(Calls):
    """The calls about topics."""

    async def topics(self, *, internal: bool = False) -> list[Topic]:
        """Return all topics, sorted by name; with `internal` those of the cluster itself too."""
        answer = await self.retry(lambda: self.describe_metadata(None))
        found = [topic_of(topic) for topic in answer.topics if topic.name and not topic.error_code]
        return sorted((t for t in found if internal or not t.internal), key=lambda t: t.name)

    async def topic(self, name: str) -> Topic:
        """Return one topic. Raises `UnknownTopicOrPartition`."""
        return (await self.describe_topics([name]))[name]

    async def describe_topics(self, names: str | Collection[str] | None = None) -> dict[str, Topic]:
        """Return several topics by name; None: all except those of the cluster itself. Raises for
        the first that does not exist."""
        if names is None:
            return {topic.name: topic for topic in await self.topics()}
        wanted = checked_topics(names)
        found = await self.retry(lambda: self.existing_topics(wanted))
        return {name: topic_of(topic) for name, topic in found.items()}

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        config: Mapping[str, object] | None = None,
        exist_ok: bool = False,
        validate_only: bool = False,
    ) -> bool:
        """Create a topic; -1: the default of the broker.

        Returns True once all brokers list it, or False if the topic exists and `exist_ok`. Raises
        `TopicAlreadyExists`, `InvalidTopic`, `InvalidPartitions`, `InvalidReplicationFactor`,
        `InvalidConfig` …
        """
        values = {key: setting_text(value) for key, value in (config or {}).items()}
        topic = NewTopic(name, partitions, replication, values)
        error = (await self.create_topics_many([topic], validate_only=validate_only))[name]
        if error is not None and exist_ok and error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        if error is not None:
            raise error
        return True

    async def create_topics_many(
        self, topics: NewTopic | str | Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Create several topics, those given by name only with the broker's defaults. Returns None
        or the error for each, once all brokers list the created ones."""
        wanted = new_topics(topics)
        request = CreateTopicsRequest(
            topics=[creatable(topic) for topic in wanted],
            timeout_ms=self.api_timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> CreateTopicsResponse:
            answer = await self.ask_controller(request, CreateTopicsResponse)
            for topic in answer.topics:
                if topic.error_code == ErrorCode.NOT_CONTROLLER:
                    raise_for_code(topic.error_code, f"creating topic {topic.name}")
            return answer

        answer = await self.retry(attempt)
        if not validate_only:
            await self.listed_by_brokers({t.name: 1 for t in answer.topics if not t.error_code})
        return {
            topic.name: error_of_code(
                topic.error_code, f"creating topic {topic.name}", topic.error_message
            )
            for topic in answer.topics
        }

    async def delete_topic(self, name: str, *, missing_ok: bool = False) -> bool:
        """Delete a topic with all its records. Returns True; if there is no such topic, raises
        `UnknownTopicOrPartition`, or returns False with `missing_ok`."""
        error = (await self.delete_topics_many([name]))[name]
        if error is None:
            return True
        if missing_ok and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        raise error

    async def delete_topics_many(self, names: str | Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete several topics. Returns None or the error for each."""
        wanted = checked_topics(names)

        def build(version: int) -> DeleteTopicsRequest:
            if version < 6:
                return DeleteTopicsRequest(topic_names=wanted, timeout_ms=self.api_timeout_ms)
            states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in wanted]
            return DeleteTopicsRequest(topics=states, timeout_ms=self.api_timeout_ms)

        async def attempt() -> DeleteTopicsResponse:
            request = RequestBuilder(DeleteTopicsRequest, build)
            answer = await self.ask_controller(request, DeleteTopicsResponse)
            for topic in answer.responses:
                if topic.error_code == ErrorCode.NOT_CONTROLLER:
                    raise_for_code(topic.error_code, f"deleting topic {topic.name}")
            return answer

        answer = await self.retry(attempt)
        return {
            topic.name or "": error_of_code(
                topic.error_code, f"deleting topic {topic.name}", topic.error_message
            )
            for topic in answer.responses
        }

    async def create_partitions(
        self, name: str, total: int, *, validate_only: bool = False
    ) -> None:
        """Add partitions, so that the topic has `total`. Returns once all brokers list them. Raises
        `InvalidPartitions` and others."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=checked_topic(name), count=total, assignments=None)],
            timeout_ms=self.api_timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> None:
            answer = await self.ask_controller(request, CreatePartitionsResponse)
            for each in answer.results:
                raise_for_code(
                    each.error_code, f"adding partitions to topic {name}", each.error_message
                )

        await self.retry(attempt)
        if not validate_only:
            await self.listed_by_brokers({name: total})


def new_topics(given: NewTopic | str | Iterable[NewTopic | str]) -> list[NewTopic]:
    """Return one or several topics, each given as a `NewTopic` or by name, as a list. Raises
    `TypeError` and `InvalidTopic`."""
    topics = [given] if isinstance(given, NewTopic) else several("topic", given)
    found = [
        each if isinstance(each, NewTopic) else NewTopic(checked_topic(each)) for each in topics
    ]
    for topic in found:
        checked_topic(topic.name)
    return found


def creatable(topic: NewTopic) -> CreatableTopic:
    """Return a topic to create as the request has it."""
    is_assigned = bool(topic.assignments)
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if is_assigned else topic.partitions,
        replication_factor=-1 if is_assigned else topic.replication,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in topic.config.items()],
    )


def topic_of(answer: MetadataResponseTopic) -> Topic:
    """Return a topic of a Metadata response."""
    partitions = sorted(
        (
            Partition(
                each.partition_index,
                each.leader_id,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                tuple(each.offline_replicas),
                each.leader_epoch,
            )
            for each in answer.partitions
        ),
        key=lambda partition: partition.partition,
    )
    return Topic(answer.name or "", answer.topic_id, answer.is_internal, tuple(partitions))
