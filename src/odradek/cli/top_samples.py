"""Samples for `odradek top`: what one look at a cluster asks for, with any Kafka's own requests.

Topics come from Metadata, ListOffsets and DescribeLogDirs, groups from ListGroups, DescribeGroups
and OffsetFetch. Odradek's brokers are also asked what waits in them. What a cluster refuses to tell
is left out (`None`); a topic that goes away meanwhile makes the sample begin again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from odradek import Admin
from odradek.cli.top_figures import GroupSample, Sample, TopicSample
from odradek.client.admin.results import (
    GroupDescription,
    MetricHistogram,
    Topic,
    WaitingReport,
)
from odradek.client.errors import (
    AuthorizationError,
    GroupNotFound,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from odradek.model.topics import TopicPartition

ATTEMPTS = 3
"""How often a sample is begun again because a topic was deleted while it was taken."""
GROUPS_AT_ONCE = 8
LOOP_LAG = "odradek_loop_lag_seconds"
OPERATIONS = 400
"""Requests that wait, of each broker: the screen has room for fewer."""
CLASSIC = ("classic", "")
"""Types of groups that DescribeGroups knows; brokers before Kafka 3.8 tell no types."""
REFUSED = (AuthorizationError, UnsupportedVersion)


def take_sample(cluster: Admin) -> Sample:
    """Ask for everything that the views show. Raises `KafkaError`."""
    for attempt in range(ATTEMPTS):
        try:
            return try_sample(cluster)
        except UnknownTopicOrPartition:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def try_sample(cluster: Admin) -> Sample:
    topics = cluster.topics()
    partitions = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader >= 0
    ]
    taken_s = time.monotonic()
    ends = cluster.end_offsets(partitions)
    sizes = log_sizes(cluster)
    return Sample(
        taken_s=taken_s,
        brokers=len(cluster.cluster().nodes),
        topics={each.name: topic_sample(each, ends, sizes) for each in topics},
        groups=group_samples(cluster, ends),
        waiting=waiting_of_brokers(cluster),
        loop_lag=loop_lag_of_brokers(cluster),
    )


def topic_sample(
    topic: Topic, ends: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, int] | None
) -> TopicSample:
    partitions = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    return TopicSample(
        partitions=len(partitions),
        end=sum(ends.get(each, 0) for each in partitions),
        size=None if sizes is None else sum(sizes.get(each, 0) for each in partitions),
        identity=str(topic.topic_id),
    )


def log_sizes(cluster: Admin) -> dict[TopicPartition, int] | None:
    """Return the size of the largest replica of each partition; None if the brokers refuse."""
    sizes: dict[TopicPartition, int] = {}
    try:
        directories = cluster.log_dirs()
    except REFUSED:
        return None
    for of_broker in directories.values():
        for directory in of_broker:
            for partition, size in directory.replicas.items():
                sizes[partition] = max(size, sizes.get(partition, 0))
    return sizes


def group_samples(cluster: Admin, ends: Mapping[TopicPartition, int]) -> dict[str, GroupSample]:
    """Return the groups that the cluster lists, with lags by `ends`."""
    listed = cluster.groups()
    described: dict[str, GroupDescription] = {}
    try:
        described = cluster.describe_groups(
            [each.group_id for each in listed if each.type in CLASSIC]
        )
    except (GroupNotFound, *REFUSED):
        described = {}  # Without members this time: one of them is gone, or they are secret.

    def sample(group_id: str, state: str) -> GroupSample:
        known = described.get(group_id)
        try:
            offsets = cluster.group_offsets(group_id)
        except REFUSED:
            offsets = {}
        pairs = [(each.offset, ends[at]) for at, each in offsets.items() if at in ends]
        return GroupSample(
            state=state if known is None else known.state,
            members=None if known is None else len(known.members),
            lag=sum(max(0, end - offset) for offset, end in pairs) if pairs else None,
            committed=sum(offset for offset, _ in pairs) if pairs else None,
        )

    with ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
        samples = pool.map(lambda each: sample(each.group_id, each.state), listed)
        return dict(zip((each.group_id for each in listed), samples, strict=True))


def waiting_of_brokers(cluster: Admin) -> dict[int, WaitingReport] | None:
    """Return what waits in each broker; None if they are not Odradek's, or refuse."""
    try:
        return cluster.describe_waiting(operations=OPERATIONS)
    except REFUSED:
        return None


def loop_lag_of_brokers(cluster: Admin) -> dict[int, MetricHistogram]:
    """Return how late the loop of each broker ran its timers; nothing of brokers that do not
    tell."""
    try:
        told = cluster.describe_metrics(names=LOOP_LAG)
    except REFUSED:
        return {}
    return {
        broker: sample.value
        for broker, metrics in told.items()
        for metric in metrics
        for sample in metric.samples
        if isinstance(sample.value, MetricHistogram)
    }
