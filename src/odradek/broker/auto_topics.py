"""Topics that are made because somebody asked for them, and what they are like.

A topic of the broker's own (`__consumer_offsets`) has its partitions, replicas and settings from
settings of its own, as in Kafka; all others are like a CreateTopics that says nothing.
"""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
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
