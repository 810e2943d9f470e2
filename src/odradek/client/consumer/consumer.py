"""The consumer without a face: its parts wired together, and what a face asks of them.

      application's thread                │                 engine's thread
                                          │
    face ─── next_record ─► FetchCollector ◄── incoming ── Fetcher ─► Fetch
      │                                   │                   │  SubscriptionState
      │                                   │             OffsetFetcher ─► ListOffsets, ...
      └── everything else, as a call ─────┼─► ConsumerCore ─┴─► the group's side

`advance` is the heart: whenever something changed (assignment, positions, the image of the
cluster), it asks for whatever is missing now: committed offsets, positions, records. It asks for
nothing twice, so it may be called at any time; `changed` calls it once, after the current event.

What goes wrong and belongs to no partition waits in `errors` until the application polls. With
anything for the application but records, `collector.attention` is set, so that its next poll looks.

Committed offsets come from the group's side, which also changes the assignment, inside polls of the
application (`GroupRunner`); without a group, `NoGroup` stands there.

The engine's thread only, but for `collector` and `errors`.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.client.consumer.application.missing_topics import MissingTopics
from odradek.client.consumer.application.poll_tracker import PollTracker
from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor
from odradek.client.consumer.assignor.registry import assignors
from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.consumer.fetch.completed_fetch import CompletedFetch
from odradek.client.consumer.fetch.fetcher import Fetcher
from odradek.client.consumer.group.commits import CommittedOffsets
from odradek.client.consumer.group.runner import make_group
from odradek.client.consumer.position.deferred_errors import DeferredErrors
from odradek.client.consumer.position.offset_fetcher import (
    OffsetFetcher,
    OffsetQueries,
    no_offset_error,
)
from odradek.client.consumer.position.position import NO_END, Position
from odradek.client.consumer.position.subscription_state import (
    NO_LEADER,
    FetchPosition,
    LeaderAndEpoch,
    SubscriptionState,
)
from odradek.client.deserializers import Deserializers
from odradek.client.engine import Engine
from odradek.client.errors import KafkaError
from odradek.client.metadata.cluster_image import ClusterImage
from odradek.client.net.alarm import Alarm
from odradek.client.waiter import Waiter
from odradek.config.consumer import ConsumerConfig
from odradek.config.offset_reset import AutoOffsetResetStrategy
from odradek.model.topics import TopicPartition

MAX_ERRORS = 100
"""That wait for the application; further ones are dropped, for they will come again."""


class ConsumerCore:
    """One consumer's. `post` runs a function on the engine's thread soon, from whatever thread;
    `wake` makes the application look at what is there, if it waits.
    """

    def __init__(
        self,
        engine: Engine,
        config: ConsumerConfig,
        deserializers: Deserializers,
        post: Callable[[Callable[[], None]], object],
        wake: Callable[[], object],
        strategy: Sequence[PartitionAssignor] | None = None,
    ) -> None:
        self.engine = engine
        self.config = config
        self.subscriptions = SubscriptionState(config.offset_reset)
        self.subscriptions.on_change = self.changed
        self.queries = OffsetQueries(engine, self.subscriptions, config.read_committed)
        self.errors: deque[KafkaError] = deque()
        """What the application's polls raise, one each."""
        self._post = post
        self._wake = wake
        self._advancing = False
        self._fetching_committed = False
        self._committed_retry_ms = 0
        self._committed_failures = 0
        self._retry_alarm = Alarm(engine.timer, self.changed)
        incoming: deque[CompletedFetch] = deque()
        self.collector = FetchCollector(incoming, deserializers, self._released)
        deferred = DeferredErrors(engine, self.subscriptions, incoming, post, wake)
        self._fetcher = Fetcher(engine, self.subscriptions, config, deferred, incoming, wake)
        self._offset_fetcher = OffsetFetcher(
            engine, self.subscriptions, config, deferred, self.changed, self.fail
        )
        self._missing_topics = MissingTopics(
            engine, self.subscriptions, config.default_api_timeout_ms, self.fail
        )
        engine.metadata.listen(self._image_changed)
        if strategy is None:
            strategy = assignors(config.partition_assignment_strategy)
        self.group = make_group(
            engine, config, self.subscriptions, strategy, self.request_attention
        )
        """The group's side, or what stands there without one."""
        self._poll_tracker = PollTracker(
            engine.timer, self.collector, config.max_poll_interval_ms, self.group.application_polled
        )

    def start(self) -> None:
        """Begin, as the engine itself begins to connect."""
        self._missing_topics.check()
        if self.config.group_id is not None:
            self._poll_tracker.start()

    def close(self) -> None:
        """End at once: nothing is committed, and no group is left."""
        self._poll_tracker.close()
        self._retry_alarm.cancel()
        self._missing_topics.close()
        self._offset_fetcher.close()
        self._fetcher.close()
        self.engine.close()

    # What happens by itself.

    def changed(self) -> None:
        """Something changed that may be a reason to ask for something."""
        if not self._advancing and not self.engine.closed:
            self._advancing = True
            self.engine.env.call_soon(self.advance)

    def advance(self) -> None:
        """Ask for all that is missing."""
        self._advancing = False
        if self.engine.closed:
            return
        for state in self.subscriptions.states:
            if state.leader == NO_LEADER:
                state.update_leader(self._leader(state.topic_partition))
        self._fetch_committed()
        self._offset_fetcher.update_positions()
        self._fetcher.pump()
        self.queries.positions_changed()
        if self.is_exhausted:
            self._wake()  # A position was found behind the end: there is nothing to wait for.

    def _fetch_committed(self) -> None:
        """What is committed for those that have no position."""
        initializing = self.subscriptions.initializing
        if not initializing or self._fetching_committed:
            return
        if self._committed_retry_ms > self.engine.now_ms:
            self._retry_alarm.set_for(self._committed_retry_ms)
            return
        self._fetching_committed = True
        waiter = self.group.committed(initializing, self.config.default_api_timeout_ms)
        waiter.add_callback(self._committed_fetched)

    def _committed_fetched(self, waiter: Waiter[CommittedOffsets]) -> None:
        self._fetching_committed = False
        if self.engine.closed:
            return
        if isinstance(waiter.error, KafkaError):
            wait_ms = self.engine.backoff.backoff_ms(self._committed_failures)
            self._committed_failures += 1
            self._committed_retry_ms = self.engine.now_ms + wait_ms
            if not waiter.error.retriable:
                self.fail(waiter.error)
            self.changed()
            return
        self._committed_failures = 0
        committed: dict[TopicPartition, FetchPosition | None] = {}
        for partition, found in waiter.result().items():
            committed[partition] = None
            if found is not None:
                committed[partition] = FetchPosition(found.offset, found.leader_epoch)
                self.engine.metadata.saw_epoch(partition, found.leader_epoch)
        uncommitted = self.subscriptions.initialize(committed)
        if uncommitted:
            self.fail(no_offset_error(uncommitted))

    def _leader(self, partition: TopicPartition) -> LeaderAndEpoch:
        info = self.engine.metadata.image.partition(*partition)
        return NO_LEADER if info is None else LeaderAndEpoch(info.leader, info.leader_epoch)

    def _image_changed(self, _: ClusterImage) -> None:
        self.subscriptions.update_leaders(self._leader)
        self._missing_topics.check()
        self.changed()

    # For the application.

    def fail(self, error: KafkaError) -> None:
        """The application's next poll raises this."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        self.request_attention()

    def request_attention(self) -> None:
        """The application's next poll, or the one that waits, has to see to something."""
        self.collector.attention = True
        self._wake()

    def _released(self) -> None:
        """Of the application's thread: room was made for more fetches."""
        if self._fetcher.starved:
            self._fetcher.starved = False
            self._post(self._fetcher.pump)

    def snapshot(self) -> dict[str, float]:
        """The metrics, with how many records there are behind what was handed out: of a partition
        by the name `topic-0.records-lag`, once it is known.
        """
        found = self._fetcher.metrics.snapshot(self.engine.now_ms)
        states = self.subscriptions.states
        lags = {str(s.topic_partition): s.lag(self.config.read_committed) for s in states}
        known = {name: lag for name, lag in lags.items() if lag is not None}
        found["assigned-partitions"] = len(states)
        found["buffered-bytes"] = sum(state.buffered_bytes for state in states)
        found["requests-in-flight"] = self.engine.client.in_flight.total
        found["records-lag-max"] = max(known.values(), default=0)
        for name, lag in known.items():
            found[f"{name}.records-lag"] = lag
        return {**found, **self.group.metrics()}

    # What is wanted.

    def subscribe(self, topics: Iterable[str]) -> None:
        """Topics by name; the group assigns their partitions."""
        self.subscriptions.subscribe(topics)
        self._subscribed()

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """All topics whose name the pattern matches as a whole."""
        self.subscriptions.subscribe_pattern(pattern)
        self._subscribed()

    def _subscribed(self) -> None:
        self.group.subscription_changed()
        self._topics_changed()

    def _topics_changed(self) -> None:
        """What was wrong with what it wanted before is of no interest any more."""
        for error in self._missing_topics.subscription_changed():
            with contextlib.suppress(ValueError):  # It was raised.
                self.errors.remove(error)
        self._missing_topics.check()

    def unsubscribe(self) -> Waiter[None]:
        """Nothing any more; done when the group knows."""
        waiter = self.group.unsubscribe()
        waiter.add_callback(lambda _: self._topics_changed())
        return waiter

    def assign(
        self,
        partitions: Iterable[TopicPartition],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Exactly these partitions, without a group's say: some from given offsets on, some only
        up to given ones (excluded).
        """
        self.subscriptions.assign_from_user(partitions)
        for partition in self.subscriptions.assigned_partitions:
            self.subscriptions.set_end(partition, ends.get(partition))
            if partition in starts:
                self.subscriptions.seek(partition, FetchPosition(starts[partition]))
        self.engine.metadata.set_topics(self.subscriptions.metadata_topics)
        self._topics_changed()

    @property
    def is_exhausted(self) -> bool:
        """Whether everything assigned has an end, and was handed out up to it."""
        states = list(self.subscriptions.states)
        return bool(states) and all(
            state.position.end != NO_END and state.position.offset >= state.position.end
            for state in states
        )

    # Moving.

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on there. Nothing is asked: an offset that does not exist is out of range later."""
        self.subscriptions.seek(partition, FetchPosition(offset))

    def seek_by(self, partitions: Iterable[TopicPartition], reset: AutoOffsetResetStrategy) -> None:
        """Go on at the beginning, the end, or so long ago; looked up when it is needed."""
        for partition in partitions:
            self.subscriptions.request_reset(partition, reset)

    def move_back(self, places: Iterable[tuple[Position, int, int]]) -> None:
        """To where the application was before it got what does not count
        (`FetchCollector.undo`).
        """
        for position, offset, epoch in places:
            state = self.subscriptions.get(position.topic_partition)
            if state is not None and state.position is position and offset >= 0:
                state.seek_unvalidated(FetchPosition(offset, epoch))
        self.changed()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these, and fetch nothing."""
        for partition in partitions:
            self.subscriptions.pause(partition)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""
        for partition in partitions:
            self.subscriptions.resume(partition)
