"""Metadata: what is known of the cluster, when to ask again, and the waiters for an answer.

    request_update ─► due, after the back-off ─► a request (MetadataUpdater) ─┬─ updated: new image
    max.age is over ─►                                                        └─ failed: back-off

- `image` is replaced as a whole. Its version grows by one with every answer. Code that needs the
  state of the cluster *now* calls `request_update` and waits for a version newer than it returns.
- The topics to ask for are `TopicsOfInterest`: those a producer used lately, those a consumer is
  subscribed to, or all there are (for patterns).
- A leader epoch never goes back (KIP-320; `LastSeenEpochs`).
- The new leaders that brokers name in other answers are taken at once (KIP-951), if they are newer.
- The wait before the next request grows: after failures, and also when the answer was the same as
  before (KIP-580), because then the cluster needs time.
- Nodes of another cluster than the first are a fatal error: `WrongCluster`.

Metadata sends nothing. Owner thread only, but any thread may read `image`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from uuid import UUID

from odradek.client.errors import KafkaError, WrongCluster
from odradek.client.metadata.cluster_image import (
    EMPTY,
    NO_EPOCH,
    NO_LEADER,
    ClusterImage,
    Node,
    PartitionInfo,
    TopicInfo,
    nodes_of,
    same_leaders,
    topic_info_of,
)
from odradek.client.net.backoff import ExponentialBackoff
from odradek.client.waiter import Waiter, completed, failed
from odradek.model.env import Clock
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.metadata import MetadataResponse

FOREVER_MS = 1 << 62


class TopicsOfInterest:
    """Names, each until a time of the monotonic clock."""

    def __init__(self, clock: Clock, idle_ms: int) -> None:
        self.all_topics = False
        """All that the cluster has, whatever the names."""
        self._clock = clock
        self._idle_ms = idle_ms
        self._until_ms: dict[str, int] = {}
        self._new: dict[str, None] = {}

    def __contains__(self, topic: str) -> bool:
        return self.all_topics or topic in self._until_ms

    def use(self, topic: str) -> bool:
        """It is used: remember it for a while. Whether it was not known before.

        From any thread, if it was known before.
        """
        new = topic not in self._until_ms
        if new:
            self._new[topic] = None
        if self._until_ms.get(topic) != FOREVER_MS:
            self._until_ms[topic] = self._clock.monotonic_ms() + self._idle_ms
        return new

    def set(self, topics: Iterable[str]) -> bool:
        """Exactly these, until the next call; whether some were not known before."""
        wanted = dict.fromkeys(sorted(topics), FOREVER_MS)  # A set has another order every time.
        new = {topic: None for topic in wanted if topic not in self._until_ms}
        self._until_ms = wanted
        if self.all_topics:  # Who asks for all asks for none by name, and waits for none.
            self._new = {}
            return False
        self._new = {topic: None for topic in self._new if topic in wanted} | new
        return bool(new)

    def names(self) -> list[str]:
        """All names, without those that nobody used for long; they are forgotten."""
        now_ms = self._clock.monotonic_ms()
        for topic in [t for t, until in self._until_ms.items() if until <= now_ms]:
            del self._until_ms[topic]
            self._new.pop(topic, None)
        return list(self._until_ms)

    def new_names(self) -> list[str]:
        """Those that nothing was answered about yet."""
        return list(self._new)

    def answered(self, topics: Iterable[str]) -> None:
        """These were answered about, be it with an error."""
        for topic in topics:
            self._new.pop(topic, None)


class LastSeenEpochs:
    """By partition; bounded by `keep`."""

    def __init__(self) -> None:
        self._epochs: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, UUID] = {}

    def get(self, partition: TopicPartition) -> int:
        """`NO_EPOCH` if nobody told one."""
        return self._epochs.get(partition, NO_EPOCH)

    def update_if_newer(self, partition: TopicPartition, epoch: int) -> bool:
        """Whether that is news."""
        if epoch <= self.get(partition):
            return False
        self._epochs[partition] = epoch
        return True

    def keep_newest(self, topic: TopicInfo, before: TopicInfo | None) -> TopicInfo:
        """The topic as it was answered, but for partitions whose epoch would go back."""
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
        """Whether this is not the topic that was known by its name before."""
        if topic.topic_id == ZERO_UUID:
            return False
        known = self._topic_ids.get(topic.name, topic.topic_id)
        self._topic_ids[topic.name] = topic.topic_id
        return known != topic.topic_id

    def keep(self, topics: Container[str]) -> None:
        """Forget all other topics."""
        self._epochs = {p: epoch for p, epoch in self._epochs.items() if p.topic in topics}
        self._topic_ids = {name: i for name, i in self._topic_ids.items() if name in topics}


RELIABLE_EPOCHS_VERSION = 9
"""Brokers before it may tell leader epochs that are old (KAFKA-9212)."""

UpdateListener = Callable[[ClusterImage], None]


class LeaderChange:
    """What a broker said of a partition's leader in an answer to something else."""

    __slots__ = ("leader_epoch", "leader_id", "partition", "topic")

    def __init__(self, topic: str, partition: int, leader_id: int, leader_epoch: int) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class Metadata:
    """The image and the policy. Times in milliseconds of the monotonic clock."""

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
        """Why the last attempt to learn something failed; None if it did not."""
        self.fatal: KafkaError | None = None
        """What makes any further attempt useless."""
        self.on_request: Callable[[], None] = lambda: None
        """Called when an update may have become due earlier than before."""
        self._clock = clock
        self._backoff = backoff
        self._max_age_ms = max_age_ms
        self._epochs = LastSeenEpochs()
        self._listeners: list[UpdateListener] = []
        self._waiters: list[tuple[int, Waiter[ClusterImage]]] = []
        self._need_full = self._need_new = False
        self._requests = 0  # One uttered while a request is under way is not answered by it.
        self._attempts = 0
        self._same_answers = 0
        self._refreshed_ms: int | None = None
        self._succeeded_ms: int | None = None
        self._wait_ms = 0

    # Wishes.

    def add_topic(self, topic: str) -> None:
        """The topic is being used (see `topics_of_interest`); if it is new, it is asked for."""
        if self.topics_of_interest.use(topic):
            self._request_new_topics()

    def set_topics(self, topics: Iterable[str], all_topics: bool = False) -> None:
        """Exactly these are of interest, or all."""
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
        """Ask for everything again, as soon as the back-off allows; the version there is now."""
        self._need_full = True
        self._requests += 1
        self.on_request()
        return self.image.version

    def newer_than(self, version: int) -> Waiter[ClusterImage]:
        """Done when there is a newer image than that; fails only when there never will be."""
        if self.fatal is not None:
            return failed(self.fatal)
        if self.image.version > version:
            return completed(self.image)
        waiter: Waiter[ClusterImage] = Waiter()
        self._waiters = [entry for entry in self._waiters if not entry[1].done]
        self._waiters.append((version, waiter))
        return waiter

    def listen(self, listener: UpdateListener) -> None:
        """Call it with every new image from now on."""
        self._listeners.append(listener)

    # When to ask, and for what.

    @property
    def update_requested(self) -> bool:
        """Whether somebody wants to know more."""
        return self._need_full or self._need_new

    def time_to_next_update_ms(self) -> int:
        """How long until a request is due; 0 if it is now."""
        now_ms = self._clock.monotonic_ms()
        due_ms = 0
        if not self.update_requested and self._succeeded_ms is not None:
            due_ms = max(0, self._succeeded_ms + self._max_age_ms - now_ms)
        if self._refreshed_ms is not None:
            due_ms = max(due_ms, self._refreshed_ms + self._wait_ms - now_ms)
        return due_ms

    def topics_to_request(self) -> tuple[list[str] | None, int]:
        """What to ask for: names, None for all; and what to tell `updated` with the answer."""
        partial = self._need_new and not self._need_full
        if (
            partial
            and self.topics_of_interest.new_names()
            and not self.topics_of_interest.all_topics
        ):
            return self.topics_of_interest.new_names(), -1
        names = self.topics_of_interest.names()
        return (None if self.topics_of_interest.all_topics else names), self._requests

    # What came of it.

    def failed(self, error: KafkaError) -> None:
        """An attempt failed; the next one waits longer."""
        self.last_error = error
        self._refreshed_ms = self._clock.monotonic_ms()
        self._wait_ms = self._backoff.backoff_ms(self._attempts)
        self._attempts += 1
        if error.fatal:
            self.give_up(error)

    def give_up(self, error: KafkaError) -> None:
        """There will never be another image; whoever waits for one fails."""
        self.fatal = error
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            waiter.fail(error)

    def updated(self, response: MetadataResponse, version: int, token: int) -> None:
        """The answer, of that version of the API; `token` is from `topics_to_request`."""
        known = self.image.cluster_id
        if known and response.cluster_id and response.cluster_id != known:
            text = (
                f"the brokers that answer belong to cluster {response.cluster_id}, not to {known} "
                f"as before. What to do: {WrongCluster.advice}, and start this client again."
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

    # What is learnt elsewhere.

    def update_last_seen_epoch(self, partition: TopicPartition, epoch: int) -> bool:
        """A leader epoch that was met in records or answers; if it is newer, an update is
        requested. Whether it was.
        """
        if not self._epochs.update_if_newer(partition, epoch):
            return False
        self.request_update()
        return True

    def update_leaders(
        self, changes: Iterable[LeaderChange], nodes: Iterable[Node]
    ) -> list[TopicPartition]:
        """Leaders named in an answer to Produce or Fetch (KIP-951); the partitions for which that
        was news.
        """
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
            self.image = self.image.with_changes(known_nodes, topics)
            self._notify()
        return changed

    def rebootstrap(self) -> None:
        """Nothing is known any more about where nodes are; begin again."""
        self.image = self.image.with_changes({}, self.image.topics)
        self.request_update()
