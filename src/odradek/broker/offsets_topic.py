"""Topics that the broker creates itself, and `__consumer_offsets` as the coordinator needs it.

The broker creates `__consumer_offsets` for the first client that looks for a coordinator, with
partitions, replicas and settings from settings of its own, as in Kafka; and a topic that a Metadata
request names, with the defaults of CreateTopics (`auto.create.topics.enable`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.image import TopicImage
from odradek.controller.metadata_log import MetadataLog
from odradek.model.topics import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from odradek.protocol.api.create_topics import CreatableTopic

DEFAULT = -1


def creatable_topic(name: str, config: BrokerConfig, brokers: int) -> CreatableTopic:
    """The request to create a topic. `brokers`: the number of brokers in the cluster."""
    if name == CONSUMER_OFFSETS:
        return creatable_offsets_topic(config, brokers)
    # Imported here and below, so that a start does without the messages of CreateTopics.
    from odradek.protocol.api.create_topics import CreatableTopic

    return CreatableTopic(
        name=name,
        num_partitions=DEFAULT,
        replication_factor=DEFAULT,
        assignments=[],
        configs=[],
    )


def creatable_offsets_topic(config: BrokerConfig, brokers: int) -> CreatableTopic:
    """The request to create `__consumer_offsets`, with at most as many replicas as brokers."""
    from odradek.protocol.api.create_topics import CreatableTopic, CreatableTopicConfig

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
    """The committed metadata of `__consumer_offsets`, read for every request of a group."""

    def __init__(self, metadata: MetadataLog, config: BrokerConfig) -> None:
        self._metadata = metadata
        self._config = config
        self._topic: TopicImage | None = None
        """The topic at the last call, so that an unchanged one costs one comparison."""
        self._first_count: tuple[UUID, int] | None = None

    def partition_count(self) -> int:
        """The number of partitions when the topic was first seen; before that, of the setting.

        Partitions that are added later do not count until a restart: groups would move to other
        partitions, away from their offsets.
        """
        topic = self._metadata.committed.topic(CONSUMER_OFFSETS)
        if topic is None:
            return self._config.offsets_topic_num_partitions
        if self._first_count is None or (
            topic is not self._topic and topic.id != self._first_count[0]
        ):
            self._first_count = topic.id, len(topic.partitions)
        self._topic = topic
        return self._first_count[1]

    def id_of(self, name: str) -> UUID | None:
        """The id of the topic that has this name now; None if there is none."""
        topic = self._metadata.committed.topic(name)
        return None if topic is None else topic.id
