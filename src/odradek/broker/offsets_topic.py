"""Topics that are made because somebody asked for them, and what they are like.

A topic of the broker's own (`__consumer_offsets`) has its partitions, replicas and settings from
settings of its own, as in Kafka; all others are like a CreateTopics that says nothing.

`__consumer_offsets` as the committed metadata has it: what its coordinator has to know of it.
"""

from __future__ import annotations

from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.image import TopicImage
from odradek.controller.metadata_log import MetadataLog
from odradek.model.topics import CONSUMER_OFFSETS
from odradek.protocol.api.create_topics import CreatableTopic, CreatableTopicConfig

DEFAULT = -1


def creatable_topic(name: str, config: BrokerConfig, brokers: int) -> CreatableTopic:
    """What to ask for in order to have the topic made. `brokers`: how many there are."""
    if name == CONSUMER_OFFSETS:
        return consumer_offsets(config, brokers)
    return CreatableTopic(
        name=name,
        num_partitions=DEFAULT,
        replication_factor=DEFAULT,
        assignments=[],
        configs=[],
    )


def consumer_offsets(config: BrokerConfig, brokers: int) -> CreatableTopic:
    """The topic of the groups. Fewer brokers than replicas are wanted must not keep it away."""
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    return CreatableTopic(
        name=CONSUMER_OFFSETS,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=min(config.offsets_topic_replication_factor, brokers),
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )


class OffsetsTopic:
    """Asked for every group that somebody looks for."""

    def __init__(self, metadata: MetadataLog, config: BrokerConfig) -> None:
        self._metadata = metadata
        self._config = config
        self._topic: TopicImage | None = None
        """As it was when it was last asked for: then only one look is needed."""
        self._seen: tuple[UUID, int] | None = None

    def partition_count(self) -> int:
        """As many as there were when the topic was first seen; before it is made, as many as it
        will have. If some are added, groups must not be looked for elsewhere before all brokers
        have restarted.
        """
        topic = self._metadata.committed.topic(CONSUMER_OFFSETS)
        if topic is None:
            return self._config.offsets_topic_num_partitions
        if self._seen is None or (topic is not self._topic and topic.id != self._seen[0]):
            self._seen = topic.id, len(topic.partitions)
        self._topic = topic
        return self._seen[1]

    def id_of(self, name: str) -> UUID | None:
        """The id of the topic that has this name now: offsets of others are not worth keeping."""
        topic = self._metadata.committed.topic(name)
        return None if topic is None else topic.id
