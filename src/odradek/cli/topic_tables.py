"""Topics as tables: their partitions, their settings."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.cli.output import Listing
from odradek.client.admin.results import ConfigEntry, Topic
from odradek.model.topics import TopicPartition, uuid_text


def topic_table(
    topic: Topic, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Listing:
    """One row a partition. Offsets are missing where nobody leads it."""
    columns = ("topic", "partition", "leader", "epoch", "replicas", "in_sync", "start", "end")
    listing = Listing(columns, title=f"{topic.name}  (id {uuid_text(topic.topic_id)})")
    for each in topic.partitions:
        at = TopicPartition(topic.name, each.partition)
        listing.add(
            topic.name,
            each.partition,
            None if each.leader < 0 else each.leader,
            each.leader_epoch,
            list(each.replicas),
            list(each.isr),
            starts.get(at),
            ends.get(at),
        )
    return listing


def summary_table(
    topic: Topic, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Listing:
    """The topic in one row."""
    columns = ("topic", "id", "internal", "partitions", "replication", "records")
    listing = Listing(columns)
    listing.add(
        topic.name,
        uuid_text(topic.topic_id),
        topic.internal,
        len(topic.partitions),
        topic.replication,
        sum(ends.values()) - sum(starts.values()),
    )
    return listing


def config_table(topic: str, found: Mapping[str, ConfigEntry], everything: bool) -> Listing:
    """The settings that differ from their defaults, or all."""
    columns = ("topic", "setting", "value", "source")
    listing = Listing(columns, empty=f"{topic}: every setting has its default.")
    for entry in found.values():
        if everything or not entry.is_default:
            source = entry.source.name.lower().replace("_", " ")
            listing.add(topic, entry.name, entry.value, source)
    return listing
