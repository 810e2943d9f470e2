"""The partitions and offsets that the options mean on the cluster now, and data loss.

    subscription ──► partitions            subscribe · subscribePattern · assign
    OffsetLimit  ──► offset per partition  earliest · latest · given · by timestamp

Resolved offsets are those of one moment. `DataLoss` is raised (or, with `failOnDataLoss=false`, the
loss is logged and reading goes on) when offsets that should be read no longer exist. `loss_reports`
explains why partitions of a checkpoint cannot be read:

    not asked for   the checkpoint has them, the options do not: another query's, or changed options
    topics gone     deleted, or on another cluster
    partitions gone the topic has fewer than it had
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Set
from typing import NamedTuple

from odradek import Admin
from odradek.client.admin.results import Topic
from odradek.client.errors import UnknownTopicOrPartition
from odradek.client.list_offsets import LATEST as END
from odradek.model.topics import ZERO_UUID, TopicPartition, uuid_text
from odradek.spark.java_regex import compile_java
from odradek.spark.offsets import EARLIEST, LATEST, Offsets
from odradek.spark.options import OffsetLimit, ReadOptions, Subscription, missing_partitions

log = logging.getLogger(__name__)

NO_OFFSET = -1
"""The offset in an answer for a timestamp that no record reaches."""


DELETED = (
    "Either it was deleted (retention, DeleteRecords) before it was read, or the topic was deleted "
    "and created again"
)
WAY_OUT = "set failOnDataLoss to false to read what is there, or begin with a new checkpoint"


class DataLoss(RuntimeError):
    """Offsets that the query should read no longer exist: deleted by retention, or the topic was
    created again."""


class SubscribedPartitions(NamedTuple):
    """The partitions to read, sorted; the ids of their topics as text; the missing topics."""

    partitions: list[TopicPartition]
    topic_ids: dict[str, str]
    missing: list[str]


class Topics:
    """The options of one read, resolved against a cluster."""

    def __init__(self, admin: Admin, options: ReadOptions) -> None:
        self.admin = admin
        self.options = options

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions to read now, sorted. Raises `KafkaError` for a missing topic."""
        found = self.resolve_subscription()
        self.require(found.missing)
        return found.partitions

    def require(self, names: Collection[str]) -> None:
        """Raise `KafkaError` if one of these topics is missing."""
        if names:
            self.admin.describe_topics(names)

    def resolve_subscription(self) -> SubscribedPartitions:
        """Return the partitions that the subscription matches now."""
        subscription = self.options.subscription
        names: Collection[str] = ()
        if subscription.pattern is not None:
            pattern = compile_java(subscription.pattern)
            found = [topic for topic in self.admin.topics() if pattern.search(topic.name)]
        else:
            names = {p.topic for p in subscription.assignment} or subscription.topics
            found = self.existing(names)
        missing = sorted(set(names) - {topic.name for topic in found})
        existing = sorted(TopicPartition(t.name, p.partition) for t in found for p in t.partitions)
        assigned = [p for p in subscription.assignment if p.topic not in missing]
        absent = sorted(set(assigned) - set(existing))
        if absent:
            raise ValueError(f"assign names partitions that do not exist: {text_of(absent)}")
        # Brokers before Kafka 2.8 give no ids.
        ids = {t.name: uuid_text(t.topic_id) for t in found if t.topic_id != ZERO_UUID}
        return SubscribedPartitions(assigned if subscription.assignment else existing, ids, missing)

    def existing(self, names: Collection[str]) -> list[Topic]:
        """Return those of these topics that exist."""
        try:
            return list(self.admin.describe_topics(names).values())
        except UnknownTopicOrPartition:
            return [topic for topic in self.admin.topics(internal=True) if topic.name in names]

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self.admin.beginning_offsets(partitions)

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the high watermarks, or the last stable offsets if `read_committed`."""
        asked = dict.fromkeys(partitions, END)
        found = self.admin.list_offsets(asked, read_committed=self.options.read_committed)
        return {partition: answer.offset for partition, answer in found.items()}

    def start(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offsets of the starting options."""
        late = self.options.timestamp_strategy
        return self.resolve(self.options.starting, partitions, none_so_young=late)

    def end(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offsets of the ending options (excluded), for a batch read."""
        return self.resolve(self.options.ending, partitions, none_so_young="latest")

    def resolve(
        self, limit: OffsetLimit, partitions: Collection[TopicPartition], *, none_so_young: str
    ) -> Offsets:
        """Resolve a limit for each partition. Raises `ValueError` if it does not fit."""
        wrong = missing_partitions(limit, partitions)
        if wrong is not None:
            raise ValueError(wrong)
        if limit.timestamp is not None:
            return self.by_timestamp(
                dict.fromkeys(partitions, limit.timestamp), limit.option, none_so_young
            )
        if limit.timestamps is not None:
            return self.by_timestamp(limit.timestamps, limit.option, none_so_young)
        asked: Mapping[TopicPartition, int] = limit.offsets or dict.fromkeys(
            partitions, LATEST if limit.all_at is None else limit.all_at
        )
        first = self.earliest([p for p, offset in asked.items() if offset == EARLIEST])
        last = self.latest([p for p, offset in asked.items() if offset == LATEST])
        return {p: first.get(p, last.get(p, offset)) for p, offset in asked.items()}

    def by_timestamp(
        self, timestamps: Mapping[TopicPartition, int], option: str, none_so_young: str
    ) -> Offsets:
        """Return the first offset at least as young as each timestamp; the end of the log if there
        is none."""
        found = self.admin.list_offsets(timestamps)
        lacking = sorted(p for p, answer in found.items() if answer.offset == NO_OFFSET)
        if lacking and none_so_young == "error":
            raise ValueError(
                f"{option}: no record is as young as that in {text_of(lacking)}; set "
                "startingOffsetsByTimestampStrategy to latest to start at the end there"
            )
        last = self.latest(lacking)
        return {p: last.get(p, answer.offset) for p, answer in found.items()}

    def report_data_loss(self, what: str, why: str = DELETED, way_out: str = WAY_OUT) -> None:
        """Raise `DataLoss`, or log it if the options allow to go on."""
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{what}. Some data may have been lost. {why}. What to do: {way_out}")
        log.warning("%s; going on, as failOnDataLoss is false", what)


class LossReport(NamedTuple):
    """A data loss: what is missing, why, and what to do."""

    what: str
    why: str
    way_out: str


def loss_reports(
    begin: Offsets, read: Set[TopicPartition], wanted: Subscription
) -> Iterator[LossReport]:
    """Explain the partitions of `begin` that cannot be read; `read` are the partitions that match
    the options and exist."""
    missing = sorted(set(begin) - read)
    strange = [p for p in missing if not wanted.wants(p)]
    topics = {p.topic for p in read}
    without = [p for p in missing if p not in strange and p.topic not in topics]
    fewer = [p for p in missing if p not in strange and p.topic in topics]
    if strange:
        yield LossReport(
            f"the checkpoint has {text_of(strange)}, which this query does not read "
            f"({wanted.describe()})",
            "Either it is the checkpoint of another query, or what to read was changed",
            "give each query a checkpointLocation of its own, or read these again; set "
            "failOnDataLoss to false to go on without them",
        )
    if without:
        names = ", ".join(sorted({p.topic for p in without}))
        places = ", ".join(f"{p} to offset {begin[p]}" for p in without[:5])
        yield LossReport(
            f"topics are gone: {names} (read: {places})",
            "Either they were deleted, or kafka.bootstrap.servers names another cluster now",
            "set failOnDataLoss to false to go on without them (topics that are created again are "
            "read from their beginning), or begin with a new checkpoint",
        )
    if fewer:
        yield LossReport(
            f"partitions are gone: {text_of(fewer)}",
            "The topic was deleted and created again with fewer partitions",
            "set failOnDataLoss to false to read what is there, or begin with a new checkpoint",
        )


def text_of(partitions: Collection[TopicPartition]) -> str:
    """Return the first few partitions, for an error message."""
    shown = ", ".join(str(p) for p in sorted(partitions)[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
