"""Samples for `odradek top`: what one look at a cluster asks for, with any Kafka's own requests.

Topics come from Metadata, ListOffsets and DescribeLogDirs, groups from ListGroups, DescribeGroups
and OffsetFetch. Odradek's brokers are also asked what waits in them. What a cluster refuses to tell
is left out (`None`); a topic that goes away meanwhile makes the sample begin again.

Each broker is asked on a thread of its own for what only it knows (`BrokerSample`). One that has
not answered within `PATIENCE_S` is `silent`: the sample is of the others. It is asked again when
that thread has ended, at the latest after `default.api.timeout.ms`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from odradek import Admin
from odradek.cli.top_figures import GroupSample, Sample, TopicSample
from odradek.client.admin.results import (
    Group,
    GroupDescription,
    MetricHistogram,
    Topic,
    WaitingReport,
)
from odradek.client.errors import (
    AuthorizationError,
    GroupNotFound,
    KafkaError,
    KafkaTimeout,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from odradek.model.topics import TopicPartition

ATTEMPTS = 3
"""How often a sample is begun again because a topic was deleted while it was taken."""
PATIENCE_S = 4.0
GROUPS_AT_ONCE = 8
LOOP_LAG = "odradek_loop_lag_seconds"
OPERATIONS = 400
"""Requests that wait, of each broker: the screen has room for fewer."""
CLASSIC = ("classic", "")
"""Types of groups that DescribeGroups knows; brokers before Kafka 3.8 tell no types."""
REFUSED = (AuthorizationError, UnsupportedVersion)

Ends = Mapping[TopicPartition, int]
Sizes = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """The figures of one broker; None for those that it refuses to tell."""

    ends: Ends
    """The ends of the partitions that it leads."""
    sizes: Sizes | None
    """The sizes of its replicas."""
    groups: list[Group]
    """The groups that it coordinates."""
    waiting: WaitingReport | None
    loop_lag: MetricHistogram | None


class Asking:
    """A broker that is being asked, on a thread that ends with the process."""

    def __init__(self, ask: Callable[[], BrokerSample]) -> None:
        self.found: BrokerSample | None = None
        self.error: Exception | None = None
        self._ask = ask
        self._thread = threading.Thread(target=self._run, name="odradek-top-broker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.found = self._ask()
        except Exception as error:  # Raised by who takes the sample, if it is none of silence.
            self.error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def answer(self, until_s: float) -> BrokerSample | None:
        """Return what the broker has answered by then; None if it is silent. Raises other
        errors than those of a broker that cannot be reached."""
        self._thread.join(max(0.0, until_s - time.monotonic()))
        error = self.error
        is_silence = isinstance(error, KafkaError) and error.retriable
        if error is not None and not (is_silence or isinstance(error, KafkaTimeout)):
            raise error
        return self.found


class Sampling:
    """Takes samples of a cluster, one after the other."""

    def __init__(self, cluster: Admin, patience_s: float = PATIENCE_S) -> None:
        self._cluster = cluster
        self._patience_s = patience_s
        self._asked: dict[int, Asking] = {}

    def take(self) -> Sample:
        """Ask for everything that the views show. Raises `KafkaError`."""
        for attempt in range(ATTEMPTS):
            try:
                return self._try()
            except UnknownTopicOrPartition:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _try(self) -> Sample:
        cluster = self._cluster
        topics = cluster.topics()
        nodes = [node.id for node in cluster.cluster().nodes]
        taken_s = time.monotonic()
        told = self._ask_brokers(nodes, led_by_broker(topics))
        ends = {partition: end for each in told.values() for partition, end in each.ends.items()}
        sizes = largest_sizes(each.sizes for each in told.values())
        groups = {group.group_id: group for each in told.values() for group in each.groups}
        present = {
            TopicPartition(topic.name, each.partition)
            for topic in topics
            for each in topic.partitions
        }
        waiting = {node: each.waiting for node, each in told.items() if each.waiting is not None}
        lags = {node: each.loop_lag for node, each in told.items() if each.loop_lag is not None}
        return Sample(
            taken_s=taken_s,
            brokers=len(nodes),
            topics={each.name: topic_sample(each, ends, sizes) for each in topics},
            groups=group_samples(cluster, sorted(groups.items()), present, ends),
            waiting=waiting or None,
            loop_lag=lags,
            silent=tuple(node for node in nodes if node not in told),
        )

    def _ask_brokers(
        self, nodes: Iterable[int], led: Mapping[int, list[TopicPartition]]
    ) -> dict[int, BrokerSample]:
        """Ask all brokers at once; return the answers of those that are not silent."""
        until_s = time.monotonic() + self._patience_s
        begun = []
        for node in nodes:
            before = self._asked.get(node)
            if before is None or before.ended:
                partitions = led.get(node, [])
                self._asked[node] = Asking(partial(ask_broker, self._cluster, node, partitions))
                begun.append(node)
        answers = {node: self._asked[node].answer(until_s) for node in begun}
        return {node: answer for node, answer in answers.items() if answer is not None}


def led_by_broker(topics: Iterable[Topic]) -> dict[int, list[TopicPartition]]:
    """Return the partitions by the broker that leads them, -1 for none."""
    led: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for each in topic.partitions:
            led.setdefault(each.leader, []).append(TopicPartition(topic.name, each.partition))
    return led


def ask_broker(cluster: Admin, broker: int, led: list[TopicPartition]) -> BrokerSample:
    """Ask a broker for what it knows. Raises `KafkaError`."""
    return BrokerSample(
        sizes=log_sizes(cluster, broker),
        ends=cluster.end_offsets(led) if led else {},
        groups=cluster.groups(broker),
        waiting=waiting_of(cluster, broker),
        loop_lag=loop_lag_of(cluster, broker),
    )


def topic_sample(topic: Topic, ends: Ends, sizes: Sizes | None) -> TopicSample:
    partitions = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    return TopicSample(
        partitions=len(partitions),
        end=sum(ends.get(each, 0) for each in partitions),
        size=None if sizes is None else sum(sizes.get(each, 0) for each in partitions),
        identity=str(topic.topic_id),
        unknown=tuple(each.partition for each in partitions if each not in ends),
    )


def log_sizes(cluster: Admin, broker: int) -> dict[TopicPartition, int] | None:
    """Return the size of each replica of a broker; None if it refuses."""
    try:
        (directories,) = cluster.log_dirs(broker).values()
    except REFUSED:
        return None
    return {
        partition: size
        for directory in directories
        for partition, size in directory.replicas.items()
    }


def largest_sizes(of_brokers: Iterable[Sizes | None]) -> Sizes | None:
    """Return the size of the largest replica of each partition; None if a broker refused."""
    sizes: dict[TopicPartition, int] = {}
    for of_broker in of_brokers:
        if of_broker is None:
            return None
        for partition, size in of_broker.items():
            sizes[partition] = max(size, sizes.get(partition, 0))
    return sizes


def group_samples(
    cluster: Admin,
    listed: list[tuple[str, Group]],
    present: set[TopicPartition],
    ends: Ends,
) -> dict[str, GroupSample]:
    """Return these groups, with lags by `ends`, over partitions that are `present`."""
    described: dict[str, GroupDescription] = {}
    try:
        described = cluster.describe_groups(
            [group_id for group_id, group in listed if group.type in CLASSIC]
        )
    except (GroupNotFound, KafkaTimeout, *REFUSED):
        described = {}  # Without members this time: one is gone or silent, or they are secret.

    def sample(group_id: str, state: str) -> GroupSample:
        known = described.get(group_id)
        try:
            offsets = cluster.group_offsets(group_id)
        except (KafkaTimeout, *REFUSED):
            offsets = {}
        of_present = {at: each.offset for at, each in offsets.items() if at in present}
        lags = [max(0, ends[at] - offset) for at, offset in of_present.items() if at in ends]
        return GroupSample(
            state=state if known is None else known.state,
            members=None if known is None else len(known.members),
            lag=sum(lags) if lags and len(lags) == len(of_present) else None,
            committed=sum(of_present.values()) if of_present else None,
        )

    with ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
        samples = pool.map(lambda each: sample(each[0], each[1].state), listed)
        return dict(zip((group_id for group_id, _ in listed), samples, strict=True))


def waiting_of(cluster: Admin, broker: int) -> WaitingReport | None:
    """Return what waits in a broker; None if it is not Odradek's, or refuses."""
    try:
        return cluster.describe_waiting(broker, operations=OPERATIONS)[broker]
    except REFUSED:
        return None


def loop_lag_of(cluster: Admin, broker: int) -> MetricHistogram | None:
    """Return how late the loop of a broker ran its timers; None if it does not tell."""
    try:
        told = cluster.describe_metrics(broker, names=LOOP_LAG)[broker]
    except REFUSED:
        return None
    values = [sample.value for metric in told for sample in metric.samples]
    return next((each for each in values if isinstance(each, MetricHistogram)), None)
