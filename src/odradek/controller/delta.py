"""The metadata delta: the topics, partitions, settings and brokers that a commit changed.

Subscribers of the metadata log get it with the new image. Changes are in the order in which they
happened, so that subscribers act deterministically. A topic created and deleted within one commit
is left out, but for its id in `passing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from odradek.controller.image import ConfigResource, MetadataImage, ResourceType, TopicImage
from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

BROKER_ID_RECORDS = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    BrokerRegistrationChangeRecord,
)


class MetadataDelta:
    """The keys of everything that changed; dictionaries with None values are ordered sets.

    `deleted` has the topics before their deletion. `partitions` are new or changed partitions of
    topics that existed before; all partitions of `created` topics are new. `configs` are resources
    whose settings changed, including created topics with settings.
    """

    def __init__(self) -> None:
        self.created: dict[UUID, None] = {}
        self.deleted: dict[UUID, TopicImage] = {}
        self.passing: dict[UUID, None] = {}
        self.partitions: dict[tuple[UUID, int], None] = {}
        self.configs: dict[ConfigResource, None] = {}
        self.brokers: dict[int, None] = {}
        self.features: dict[str, None] = {}
        self.producer_ids = False

    @classmethod
    def everything(cls, image: MetadataImage) -> MetadataDelta:
        """Return the delta from an empty image to `image`, for a broker that starts."""
        delta = cls()
        delta.created = {topic.id: None for _, topic in sorted(image.topics.items())}
        delta.configs = dict.fromkeys(sorted(image.configs))
        delta.brokers = dict.fromkeys(sorted(image.brokers))
        delta.features = dict.fromkeys(sorted(image.features))
        delta.producer_ids = image.next_producer_id > 0
        return delta

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> MetadataDelta:
        """Return the delta from one image to another, for a node that gets a snapshot."""
        delta = cls()
        old = {topic.id: topic for topic in before.topics.values()}
        for _, topic in sorted(after.topics.items()):
            known = old.pop(topic.id, None)
            if known is None:
                delta.created[topic.id] = None
                continue
            for number, partition in topic.partitions.items():
                if known.partitions.get(number) != partition:
                    delta.partitions[topic.id, number] = None
        delta.deleted = old
        delta.configs = dict.fromkeys(_changed(before.configs, after.configs))
        delta.brokers = dict.fromkeys(_changed(before.brokers, after.brokers))
        delta.features = dict.fromkeys(_changed(before.features, after.features))
        delta.producer_ids = before.next_producer_id != after.next_producer_id
        return delta

    def add(self, image: MetadataImage, record: object) -> None:
        """Add the change of a record that will be replayed on `image` next."""
        if isinstance(record, TopicRecord):
            self.created[record.topic_id] = None
        elif isinstance(record, PartitionRecord | PartitionChangeRecord):
            if record.topic_id not in self.created:
                self.partitions[record.topic_id, record.partition_id] = None
        elif isinstance(record, RemoveTopicRecord):
            self._add_removal(image, record.topic_id)
        elif isinstance(record, ClearElrRecord):
            self._add_cleared(image, record.topic_name)
        elif isinstance(record, ConfigRecord):
            kind = ResourceType(record.resource_type)
            self.configs[ConfigResource(kind, record.resource_name)] = None
        elif isinstance(record, BROKER_ID_RECORDS):
            self.brokers[record.broker_id] = None
        elif isinstance(record, FenceBrokerRecord | UnfenceBrokerRecord):
            self.brokers[record.id] = None
        elif isinstance(record, FeatureLevelRecord):
            self.features[record.name] = None
        elif isinstance(record, ProducerIdsRecord):
            self.producer_ids = True

    def _add_cleared(self, image: MetadataImage, name: str) -> None:
        """Add the partitions that lose their eligible leader replicas, of one or all topics."""
        for topic in [image.topics[name]] if name else image.topics.values():
            if topic.id not in self.created:
                for number, partition in topic.partitions.items():
                    if partition.elr or partition.last_known_elr:
                        self.partitions[topic.id, number] = None

    def _add_removal(self, image: MetadataImage, topic_id: UUID) -> None:
        topic = image.topic_by_id(topic_id)
        assert topic is not None, f"{topic_id} is removed but was never there"
        self.configs.pop(ConfigResource(ResourceType.TOPIC, topic.name), None)
        self.partitions = {key: None for key in self.partitions if key[0] != topic_id}
        if topic_id in self.created:
            del self.created[topic_id]
            self.passing[topic_id] = None
        else:
            self.deleted[topic_id] = topic


K = TypeVar("K", ConfigResource, int, str)


def _changed(before: Mapping[K, object], after: Mapping[K, object]) -> list[K]:
    """Return the keys whose values differ, in order."""
    keys = sorted(before.keys() | after.keys())
    return [key for key in keys if before.get(key) != after.get(key)]
