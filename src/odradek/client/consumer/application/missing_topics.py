"""MissingTopics: reports a cluster or a topic that stays missing to the application.

A consumer waits for a cluster that it cannot reach and for a topic that does not exist, because
both may appear a moment later. But the name may be wrong, and a program that waits for ever does
not say so. So the application's poll raises an error for whatever is still missing after
`default.api.timeout.ms`, once in each such interval; the consumer goes on trying.

Only topics that the application wants are reported. When its subscription changes, errors of other
topics that it has not raised yet are taken back; a group's leader may need the metadata of these
topics a while longer.

Runs on the engine's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from odradek.client.consumer.position.subscription_state import SubscriptionState, SubscriptionType
from odradek.client.engine import Engine
from odradek.client.errors import Disconnected, KafkaError, UnknownTopicOrPartition, error_for
from odradek.client.metadata.cluster_image import ClusterImage
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import Alarm

CLUSTER = ""
"""Stands for the cluster among the names of missing topics."""
MAX_REPORTED = 100
"""How many of the last errors can be taken back."""


class MissingTopics:
    """Checks every metadata update, and the time."""

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        timeout_ms: int,
        report: Callable[[KafkaError], object],
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._timeout_ms = timeout_ms
        self._report = report
        self._since_ms: dict[str | TopicPartition, int] = {}
        self._reported_version: dict[str, int] = {}
        self._reported: deque[tuple[str, KafkaError]] = deque(maxlen=MAX_REPORTED)
        self._subscribed: frozenset[str] = frozenset()
        self._unwanted: frozenset[str] = frozenset()
        """Topics that the application no longer wants and whose metadata is still needed."""
        self._alarm = Alarm(engine.timer, self.check)

    def close(self) -> None:
        self._alarm.cancel()

    def subscription_changed(self) -> list[KafkaError]:
        """Take the new subscription; return the errors that are no longer to be raised."""
        subscriptions = self._subscriptions
        subscribed = subscriptions.subscription
        if subscriptions.type is SubscriptionType.USER_ASSIGNED:
            subscribed = subscriptions.metadata_topics
        self._unwanted = (self._unwanted | self._subscribed) - subscribed
        self._subscribed = subscribed
        void = [error for topic, error in self._reported if topic in self._unwanted]
        self._reported = deque(
            (reported for reported in self._reported if reported[1] not in void), MAX_REPORTED
        )
        return void

    @property
    def _topics(self) -> frozenset[str]:
        """The topics to report."""
        subscriptions = self._subscriptions
        topics = subscriptions.metadata_topics
        self._unwanted = (self._unwanted & topics) - subscriptions.subscription
        return topics - self._unwanted

    def check(self) -> None:
        """Find the missing topics, and report those that have been missing for the timeout."""
        now_ms = self._engine.now_ms
        image = self._engine.metadata.image
        missing = self._missing(image)
        since = {what: self._since_ms.get(what, now_ms) for what in missing}
        for what, error in missing.items():
            if now_ms - since[what] >= self._timeout_ms:
                since[what] = now_ms
                self._report_error(what, error())
        self._since_ms = since
        if since:
            self._alarm.set_for(min(since.values()) + self._timeout_ms)
        self._report_refusals(image)

    def _missing(self, image: ClusterImage) -> dict[str | TopicPartition, Callable[[], KafkaError]]:
        """Return the missing topics, each with a function that makes its error."""
        if not image.version:
            return {CLUSTER: self._no_cluster}
        subscriptions = self._subscriptions
        found: dict[str | TopicPartition, Callable[[], KafkaError]] = {}
        if subscriptions.type is SubscriptionType.AUTO_PATTERN:
            return found
        for topic in self._topics:
            info = image.topics.get(topic)
            if info is not None and info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                found[topic] = partial(self._unknown, topic)
        if subscriptions.type is SubscriptionType.USER_ASSIGNED:
            for partition in subscriptions.assigned_partitions:
                count = image.partition_count(partition.topic)
                if count and partition.partition >= count:
                    found[partition] = partial(self._unknown, partition)
        return found

    def _no_cluster(self) -> KafkaError:
        last_error = self._engine.metadata.last_error
        why = f": {last_error}" if last_error else f". What to do: {Disconnected.advice}"
        return Disconnected(f"no broker was reached within {self._timeout_ms} ms{why}")

    def _unknown(self, what: str | TopicPartition) -> KafkaError:
        return UnknownTopicOrPartition(
            f"{what} does not exist after {self._timeout_ms} ms. What to do: "
            f"{UnknownTopicOrPartition.advice}",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    def _report_refusals(self, image: ClusterImage) -> None:
        """Report topics with an error that retrying does not cure, once per metadata update."""
        for topic in self._topics:
            info = image.topics.get(topic)
            if info is None or not info.error or info.error.retriable:
                self._reported_version.pop(topic, None)
            elif self._reported_version.get(topic) != image.version:
                self._reported_version[topic] = image.version
                self._report_error(topic, error_for(info.error, f"reading topic {topic}"))

    def _report_error(self, what: str | TopicPartition, error: KafkaError) -> None:
        self._reported.append((what.topic if isinstance(what, TopicPartition) else what, error))
        self._report(error)
