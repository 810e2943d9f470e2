"""Metadata: the known cluster image, the time of the next request, and the waiters for it.

    request_update ─► due, after the back-off ─► a request (MetadataUpdater) ─┬─ updated: new image
    max.age is over ─►                                                        └─ failed: back-off

- `image` is replaced as a whole. Its version grows by one with every answer. Code that needs the
  state of the cluster *now* calls `request_update` and waits for a version newer than it returns.
- The topics to ask for are `TopicsOfInterest`: those a producer used lately, those a consumer is
  subscribed to, or all there are (for patterns).
- A leader epoch never goes back (KIP-320; `LastSeenEpochs`).
- The new leaders that brokers name in other answers are taken at once (KIP-951), if they are newer.
- The wait before the next request grows: after failures, and also when the answer was the same as
  before (KIP-580), because then the cluster needs time. `request_at_once` does without the second.
- Nodes of another cluster than the first are a fatal error: `WrongCluster`.

Metadata sends nothing. Owner thread only, but any thread may read `image`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from uuid import UUID

from odradek.client.errors import KafkaError, WrongCluster
from odradek.client.metadata.cluster_image import (
    EMPTY,
    NO_EPOCH,
    NO_LEADER,
    ClusterImage,
    PartitionInfo,
    TopicInfo,
    nodes_of,
    same_leaders,
    topic_info_of,
)
from odradek.client.waiter import Waiter, completed, failed
from odradek.model.env import Clock
from odradek.model.errors import ErrorCode
from odradek.model.node import Node
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.network_client.backoff import ExponentialBackoff
from odradek.protocol.api.metadata import MetadataResponse

FOREVER_MS = 1 << 62
SAME_ANSWERS = 3
"""So many answers that change nothing are a reason to ask another broker."""


class TopicsOfInterest:
    """The topics that a client needs: names, each until a time of the monotonic clock.

    A producer's topics are those it used lately: each use keeps a topic for another five minutes. A
    consumer's are those it is subscribed to, or all there are (for patterns). New topics are
    requested alone, so that a client of many topics does not request all of them again.
    """

    def __init__(self, clock: Clock, idle_ms: int) -> None:
        self.all_topics = False
        """All topics of the cluster, whatever the names."""
        self._clock = clock
        self._idle_ms = idle_ms
        self._until_ms: dict[str, int] = {}
        self._new: dict[str, None] = {}

    def __contains__(self, topic: str) -> bool:
        return self.all_topics or topic in self._until_ms

    def use(self, topic: str) -> bool:
        """Remember a topic for a while; return True if it is new.

        May be called from any thread for a topic that is not new.
        """
        new = topic not in self._until_ms
        if new:
            self._new[topic] = None
        if self._until_ms.get(topic) != FOREVER_MS:
            self._until_ms[topic] = self._clock.monotonic_ms() + self._idle_ms
        return new

    def set(self, topics: Iterable[str]) -> bool:
        """Replace all topics, until the next call; return True if some are new."""
        # Sorted, because the order of a set differs between runs.
        wanted = dict.fromkeys(sorted(topics), FOREVER_MS)
        new = {topic: None for topic in wanted if topic not in self._until_ms}
        self._until_ms = wanted
        if self.all_topics:  # A request for all topics names none.
            self._new = {}
            return False
        self._new = {topic: None for topic in self._new if topic in wanted} | new
        return bool(new)

    def names(self) -> list[str]:
        """Forget idle topics and return the others."""
        now_ms = self._clock.monotonic_ms()
        for topic in [t for t, until in self._until_ms.items() if until <= now_ms]:
            del self._until_ms[topic]
            self._new.pop(topic, None)
        return list(self._until_ms)

    def new_names(self) -> list[str]:
        """Return the topics that no response has mentioned yet."""
        return list(self._new)

    def answered(self, topics: Iterable[str]) -> None:
        """Note the topics of a response, also those with an error."""
        for topic in topics:
            self._new.pop(topic, None)


class LastSeenEpochs:
    """The newest leader epoch of each partition, which never goes back (KIP-320).

    A response with an older epoch comes from a broker that is behind. It does not count for that
    partition: the known leader stays, or, if there is none, the partition has no leader until a
    newer response.

        epochs 5 ──response says 4──► 5 ──response says 7──► 7 ──topic recreated, says 0──► 0

    A recreated topic has another id, and its epochs start over. A topic that has an error for a
    while is still the same.
    """

    def __init__(self) -> None:
        self._epochs: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, UUID] = {}

    def get(self, partition: TopicPartition) -> int:
        """Return the epoch of a partition; `NO_EPOCH` if none was seen."""
        return self._epochs.get(partition, NO_EPOCH)

    def update_if_newer(self, partition: TopicPartition, epoch: int) -> bool:
        """Store an epoch; return True if it is newer than the one before."""
        if epoch <= self.get(partition):
            return False
        self._epochs[partition] = epoch
        return True

    def keep_newest(self, topic: TopicInfo, before: TopicInfo | None) -> TopicInfo:
        """Restore the partitions of a response whose epoch would go back; return the topic."""
        another = self._is_recreated(topic)
        for number, info in list(topic.partitions.items()):
            partition = TopicPartition(topic.name, number)
            known = NO_EPOCH if another else self.get(partition)
            if info.leader_epoch == NO_EPOCH or info.leader_epoch >= known:
                self._epochs[partition] = info.leader_epoch
                continue
            old = None if before is None else before.partitions.get(number)
            topic.partitions[number] = old or PartitionInfo(
                number, NO_LEADER, known, error=ErrorCode.LEADER_NOT_AVAILABLE
            )
        return topic

    def _is_recreated(self, topic: TopicInfo) -> bool:
        """True if another topic had this name before."""
        if topic.topic_id == ZERO_UUID:
            return False
        known = self._topic_ids.get(topic.name, topic.topic_id)
        self._topic_ids[topic.name] = topic.topic_id
        return known != topic.topic_id

    def keep(self, topics: Container[str]) -> None:
        """Forget all topics but these."""
        self._epochs = {p: epoch for p, epoch in self._epochs.items() if p.topic in topics}
        self._topic_ids = {name: i for name, i in self._topic_ids.items() if name in topics}


RELIABLE_EPOCHS_VERSION = 9
"""Brokers may return outdated leader epochs in earlier versions (KAFKA-9212)."""

UpdateListener = Callable[[ClusterImage], None]


class CurrentLeader:
    """A new leader of a partition, named in a response to Produce or Fetch."""

    __slots__ = ("leader_epoch", "leader_id", "partition", "topic")

    def __init__(self, topic: str, partition: int, leader_id: int, leader_epoch: int) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class Metadata:
    """The current image, and when to update it. Times in ms of the monotonic clock."""

    def __init__(
        self,
        clock: Clock,
        backoff: ExponentialBackoff,
        max_age_ms: int,
        topic_idle_ms: int,
    ) -> None:
        self.image = EMPTY
        self.topics_of_interest = TopicsOfInterest(clock, topic_idle_ms)
        self.last_error: KafkaError | None = None
        """Why the last update failed; None if it did not."""
        self.fatal: KafkaError | None = None
        """The error after which there are no updates any more."""
        self.on_request: Callable[[], None] = lambda: None
        """Called when an update may have become due earlier than before."""
        self.on_nodes: Callable[[Mapping[int, Node]], None] = lambda nodes: None
        """Called with all nodes when a response other than Metadata named a new node or address."""
        self._clock = clock
        self._backoff = backoff
        self._max_age_ms = max_age_ms
        self._epochs = LastSeenEpochs()
        self._listeners: list[UpdateListener] = []
        self._waiters: list[tuple[int, Waiter[ClusterImage]]] = []
        self._need_full = self._need_new = False
        # Calls of `request_update`. A response serves only those before its request.
        self._requests = 0
        self._attempts = 0
        self._same_answers = 0
        self._refreshed_ms: int | None = None
        self._succeeded_ms: int | None = None
        self._wait_ms = 0

    # Requests for updates.

    def add_topic(self, topic: str) -> None:
        """Note that a topic is used; if it is new, request it."""
        if self.topics_of_interest.use(topic):
            self._request_new_topics()

    def set_topics(self, topics: Iterable[str], all_topics: bool = False) -> None:
        """Set the topics of interest: exactly these, or all."""
        if all_topics and not self.topics_of_interest.all_topics:
            self.topics_of_interest.all_topics = True
            self.request_update()
        self.topics_of_interest.all_topics = all_topics
        if self.topics_of_interest.set(topics) and not all_topics:
            self._request_new_topics()

    def _request_new_topics(self) -> None:
        self._need_new = True
        self._same_answers = 0
        self._wait_ms = 0 if not self._attempts else self._wait_ms
        self.on_request()

    def request_update(self) -> int:
        """Request a full update as soon as the back-off allows; return the present version."""
        self._need_full = True
        self._requests += 1
        self.on_request()
        return self.image.version

    def request_at_once(self) -> int:
        """Request a full update for somebody who asks for the present state: that the answers
        before changed nothing is no reason to wait. After a failure it waits. Return the present
        version.
        """
        self._same_answers = 0
        self._wait_ms = 0 if not self._attempts else self._wait_ms
        return self.request_update()

    def newer_than(self, version: int) -> Waiter[ClusterImage]:
        """Return a waiter for an image newer than `version`; it fails only after a fatal error."""
        if self.fatal is not None:
            return failed(self.fatal)
        if self.image.version > version:
            return completed(self.image)
        waiter: Waiter[ClusterImage] = Waiter()
        self._waiters = [entry for entry in self._waiters if not entry[1].done]
        self._waiters.append((version, waiter))
        return waiter

    def listen(self, listener: UpdateListener) -> None:
        """Call `listener` with every new image from now on."""
        self._listeners.append(listener)

    # When to update, and which topics.

    @property
    def update_requested(self) -> bool:
        """True if an update was requested."""
        return self._need_full or self._need_new

    @property
    def needs_other_news(self) -> bool:
        """True if an update is wanted though the last answers changed nothing: the broker that gave
        them may know no more than this client, or less.
        """
        return self._need_full and self._same_answers >= SAME_ANSWERS

    def age_ms(self, now_ms: int) -> int:
        """Return how long ago the last image arrived; 0 before the first. Any thread."""
        succeeded_ms = self._succeeded_ms
        return 0 if succeeded_ms is None else max(0, now_ms - succeeded_ms)

    def time_to_next_update_ms(self) -> int:
        """Return the ms until an update is due; 0 if it is due now."""
        now_ms = self._clock.monotonic_ms()
        due_ms = 0
        if not self.update_requested and self._succeeded_ms is not None:
            due_ms = max(0, self._succeeded_ms + self._max_age_ms - now_ms)
        if self._refreshed_ms is not None:
            due_ms = max(due_ms, self._refreshed_ms + self._wait_ms - now_ms)
        return due_ms

    def topics_to_request(self) -> tuple[list[str] | None, int]:
        """Return the topics to request (None: all), and the token to give to `updated`."""
        partial = self._need_new and not self._need_full
        if (
            partial
            and self.topics_of_interest.new_names()
            and not self.topics_of_interest.all_topics
        ):
            return self.topics_of_interest.new_names(), -1
        names = self.topics_of_interest.names()
        return (None if self.topics_of_interest.all_topics else names), self._requests

    # Outcomes.

    def failed(self, error: KafkaError) -> None:
        """Note that an update failed; the next one waits longer."""
        self.last_error = error
        self._refreshed_ms = self._clock.monotonic_ms()
        self._wait_ms = self._backoff.backoff_ms(self._attempts)
        self._attempts += 1
        if error.fatal:
            self.give_up(error)

    def give_up(self, error: KafkaError) -> None:
        """Stop permanently after a fatal error, and fail all waiters."""
        self.fatal = error
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            waiter.fail(error)

    def updated(self, response: MetadataResponse, version: int, token: int) -> None:
        """Take over a response, of that version of the API; `token` is from `topics_to_request`."""
        known = self.image.cluster_id
        if known and response.cluster_id and response.cluster_id != known:
            text = (
                f"the brokers belong to cluster {response.cluster_id}, not to {known} as before."
                f" What to do: {WrongCluster.advice}, and start this client again."
            )
            self.failed(WrongCluster(text))
            return
        now_ms = self._clock.monotonic_ms()
        before = self.image
        self._install(response, version, partial=token < 0)
        self.last_error = None
        self._attempts = 0
        self._refreshed_ms = now_ms
        if token == self._requests:
            self._need_full = False
        if token >= 0:
            self._succeeded_ms = now_ms
        self._need_new = bool(self.topics_of_interest.new_names())
        self._same_answers = self._same_answers + 1 if same_leaders(before, self.image) else 0
        self._wait_ms = (
            self._backoff.backoff_ms(self._same_answers - 1) if self._same_answers else 0
        )
        if any(topic.will_change for topic in self.image.topics.values()):
            self._need_full = True
        self._notify()

    def _install(self, response: MetadataResponse, version: int, *, partial: bool) -> None:
        epochs = version >= RELIABLE_EPOCHS_VERSION
        topics: dict[str, TopicInfo] = {}
        if partial:
            topics = {n: t for n, t in self.image.topics.items() if n in self.topics_of_interest}
        for answer in response.topics:
            if answer.name is not None and answer.name in self.topics_of_interest:
                before = self.image.topics.get(answer.name)
                topics[answer.name] = self._epochs.keep_newest(
                    topic_info_of(answer, epochs), before
                )
        if not partial:
            self._epochs.keep(topics)
        self.topics_of_interest.answered(t.name for t in response.topics if t.name is not None)
        self.image = ClusterImage(
            self.image.version + 1,
            response.cluster_id or self.image.cluster_id,
            response.controller_id,
            nodes_of(response),
            topics,
        )

    def _notify(self) -> None:
        image = self.image
        waiting, self._waiters = self._waiters, []
        for version, waiter in waiting:
            if image.version > version:
                waiter.complete(image)
            elif not waiter.done:
                self._waiters.append((version, waiter))
        for listener in self._listeners:
            listener(image)
        self.on_request()

    # News from other responses.

    def update_last_seen_epoch(self, partition: TopicPartition, epoch: int) -> bool:
        """Store a leader epoch from records or responses; if it is newer, request an update and
        return True.

        A leader of an older epoch is forgotten. It may be isolated, and then knows neither that it
        was replaced nor what was written since: it would call a committed offset truncated.
        """
        if not self._epochs.update_if_newer(partition, epoch):
            return False
        info = self.image.partition(*partition)
        if info is not None and NO_EPOCH < info.leader_epoch < epoch:
            unknown = info._replace(
                leader=NO_LEADER, leader_epoch=epoch, error=ErrorCode.LEADER_NOT_AVAILABLE
            )
            topics = dict(self.image.topics)
            topics[partition.topic] = topics[partition.topic].with_partition(unknown)
            self.image = self.image.with_changes(self.image.nodes, topics)
        self.request_update()
        return True

    def update_leaders(
        self, changes: Iterable[CurrentLeader], nodes: Iterable[Node]
    ) -> list[TopicPartition]:
        """Take over leaders named in a response to Produce or Fetch (KIP-951); return the
        partitions whose leader changed."""
        known_nodes = {**self.image.nodes, **{node.id: node for node in nodes}}
        topics = dict(self.image.topics)
        changed: list[TopicPartition] = []
        for change in changes:
            partition = TopicPartition(change.topic, change.partition)
            info = self.image.partition(change.topic, change.partition)
            if info is None or change.leader_id not in known_nodes:
                continue
            if change.leader_epoch <= info.leader_epoch:
                continue
            if change.leader_epoch < self._epochs.get(partition):
                continue
            self._epochs.update_if_newer(partition, change.leader_epoch)
            moved: PartitionInfo = info._replace(
                leader=change.leader_id, leader_epoch=change.leader_epoch, error=ErrorCode.NONE
            )
            topics[change.topic] = topics[change.topic].with_partition(moved)
            changed.append(partition)
        if changed:
            if known_nodes != self.image.nodes:
                self.on_nodes(known_nodes)
            self.image = self.image.with_changes(known_nodes, topics)
            self._notify()
        return changed

    def rebootstrap(self) -> None:
        """Forget all nodes, and request an update."""
        self.image = self.image.with_changes({}, self.image.topics)
        self.request_update()
