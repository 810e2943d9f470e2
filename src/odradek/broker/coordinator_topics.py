"""Topics that the broker creates itself, and those of its coordinators.

The broker creates `__consumer_offsets` and `__transaction_state` for the first client that looks
for a coordinator, with partitions, replicas and settings from settings of its own, as in Kafka; and
a topic that a Metadata request names, with the defaults of CreateTopics
(`auto.create.topics.enable`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.image import TopicImage
from odradek.controller.metadata_log import MetadataLog
from odradek.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from odradek.protocol.api.create_topics import CreatableTopic

DEFAULT = -1


def creatable_topic(name: str, config: BrokerConfig, brokers: int) -> CreatableTopic:
    """The request to create a topic. `brokers`: the number of brokers in the cluster."""
    # Imported here, so that a start does without the messages of CreateTopics.
    from odradek.protocol.api.create_topics import CreatableTopic, CreatableTopicConfig

    partitions = replicas = DEFAULT
    settings: dict[str, str] = {}
    if name == CONSUMER_OFFSETS:
        partitions = config.offsets_topic_num_partitions
        replicas = min(config.offsets_topic_replication_factor, brokers)
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    elif name == TRANSACTION_STATE:
        partitions = config.transaction_state_log_num_partitions
        replicas = min(config.transaction_state_log_replication_factor, brokers)
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas)),
            "unclean.leader.election.enable": "false",
        }
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=setting, value=value) for setting, value in settings.items()
        ],
    )


class CoordinatorTopic:
    """The committed metadata of a coordinator's topic, read for every request of one of its ids.

    `partitions`: the setting of their number.
    """

    def __init__(self, metadata: MetadataLog, name: str, partitions: int) -> None:
        self._metadata = metadata
        self._name = name
        self._partitions = partitions
        self._topic: TopicImage | None = None
        """The topic at the last call, so that an unchanged one costs one comparison."""
        self._first_count: tuple[UUID, int] | None = None

    def partition_count(self) -> int:
        """The number of partitions when the topic was first seen; before that, of the setting.

        Partitions that are added later do not count until a restart: ids would move to other
        partitions, away from their state.
        """
        topic = self._metadata.committed.topic(self._name)
        if topic is None:
            return self._partitions
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
