"""ConsumerCore: a consumer without its blocking or asyncio API, wired from its parts.

      application's thread                │                 engine's thread
                                          │
    API ──── next_record ─► FetchCollector ◄── incoming ── Fetcher ─► Fetch
      │                                   │                   │  SubscriptionState
      │                                   │             OffsetFetcher ─► ListOffsets, ...
      └── everything else, as a call ─────┼─► ConsumerCore ─┴─► GroupRunner or NoGroup

After every change (assignment, positions, metadata), `advance` sends the requests that are missing:
for committed offsets, positions, records. It sends nothing twice, so it may be called at any time;
`changed` schedules it once, after the current event.

Errors that belong to no partition wait in `errors` until the application polls.
`collector.attention` is set when there is anything for the application besides records, so that its
next poll looks.

The group (`GroupRunner`, or `NoGroup` without one) delivers committed offsets, and changes the
assignment inside the application's polls.

Runs on the engine's thread; only `collector` and `errors` are shared.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.client.consumer.application.missing_topics import MissingTopics
from odradek.client.consumer.application.poll_loop import PollTracker
from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor
from odradek.client.consumer.assignor.registry import assignors
from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.consumer.fetch.completed_fetch import CompletedFetch
from odradek.client.consumer.fetch.fetcher import Fetcher
from odradek.client.consumer.group.commits import CommittedOffsets, Offsets
from odradek.client.consumer.group.runner import make_group
from odradek.client.consumer.interception import ConsumerInterceptors
from odradek.client.consumer.metrics import CallMetrics, FetchMetrics
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
from odradek.client.waiter import Waiter
from odradek.config.consumer import ConsumerConfig
from odradek.config.offset_reset import AutoOffsetResetStrategy
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import Alarm

METERED_TOPICS_MAX = 1000
"""Beyond this number, topics that are no longer assigned lose their metrics."""
MAX_ERRORS = 100
"""How many errors wait for the application; further ones are dropped, because they occur again."""


class ConsumerCore:
    """The parts of one consumer.

    `post` schedules a function on the engine's thread and may be called from any thread. `wake`
    wakes the application if it waits in a poll.
    """

    def __init__(
        self,
        engine: Engine,
        config: ConsumerConfig,
        deserializers: Deserializers,
        post: Callable[[Callable[[], None]], object],
        wake: Callable[[], object],
        strategy: Sequence[PartitionAssignor] | None = None,
        interceptors: ConsumerInterceptors | None = None,
    ) -> None:
        self.engine = engine
        self.interceptors = interceptors
        self.config = config
        self.subscriptions = SubscriptionState(config.offset_reset)
        self.subscriptions.on_change = self.changed
        self.queries = OffsetQueries(engine, self.subscriptions, config.read_committed)
        self.errors: deque[KafkaError] = deque()
        """Errors for the application: each poll raises one."""
        self._post = post
        self._wake = wake
        self._advancing = False
        self._fetching_committed = False
        self._committed_retry_ms = 0
        self._committed_failures = 0
        self._retry_alarm = Alarm(engine.timer, self.changed)
        incoming: deque[CompletedFetch] = deque()
        self.collector = FetchCollector(incoming, deserializers, self._released, engine.env.clock)
        deferred = DeferredErrors(engine, self.subscriptions, incoming, post, wake)
        self.calls = CallMetrics()
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
        """The consumer's group; a `NoGroup` if it has none."""
        if interceptors is not None:
            if interceptors.consumes:
                self.collector.intercept = interceptors.on_consume
            if interceptors.commits:
                self.group.observe_commits(self._committed)
        self._poll_tracker = PollTracker(
            engine.timer, self.collector, config.max_poll_interval_ms, self.group.application_polled
        )

    def start(self) -> None:
        """Start, when the engine starts to connect."""
        self._missing_topics.check()
        if self.config.group_id is not None:
            self._poll_tracker.start()

    def close(self) -> None:
        """Stop at once, without committing or leaving the group."""
        self._poll_tracker.close()
        self._retry_alarm.cancel()
        self._missing_topics.close()
        self._offset_fetcher.close()
        self._fetcher.close()
        self.engine.close()

    # Events.

    def changed(self) -> None:
        """Schedule `advance`: something changed."""
        if not self._advancing and not self.engine.closed:
            self._advancing = True
            self.engine.env.call_soon(self.advance)

    def advance(self) -> None:
        """Send every request that is missing."""
        self._advancing = False
        if self.engine.closed:
            return
        if len(self.fetch_metrics.topics) > METERED_TOPICS_MAX:
            assigned = self.subscriptions.assigned_partitions
            self.fetch_metrics.forget_topics(frozenset(each.topic for each in assigned))
        for state in self.subscriptions.states:
            if state.leader == NO_LEADER:
                state.update_leader(self._leader(state.topic_partition))
        self._fetch_committed()
        self._offset_fetcher.update_positions()
        self._fetcher.pump()
        self.queries.positions_changed()
        if self.is_exhausted:
            self._wake()  # A position was found behind its end: nothing more comes.

    def _fetch_committed(self) -> None:
        """Fetch the committed offsets of partitions without a position."""
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
                self.engine.metadata.update_last_seen_epoch(partition, found.leader_epoch)
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

    def _committed(self, offsets: Offsets) -> None:
        """Have the application's thread tell the interceptors of a commit."""
        assert self.interceptors is not None
        self.interceptors.committed(offsets)
        self.request_attention()

    # For the application.

    def fail(self, error: KafkaError) -> None:
        """Make the application's next poll raise an error."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        self.request_attention()

    def request_attention(self) -> None:
        """Make the current or the next poll check for more than records."""
        self.collector.attention = True
        self._wake()

    def _released(self) -> None:
        """Bytes were freed on the application's thread: fetch more if a fetch lacked room."""
        if self._fetcher.starved:
            self._fetcher.starved = False
            self._post(self._fetcher.pump)

    @property
    def fetch_metrics(self) -> FetchMetrics:
        """What was fetched."""
        return self._fetcher.metrics

    # Subscription and assignment.

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics by name; the group assigns their partitions."""
        self.subscriptions.subscribe(topics)
        self._subscribed()

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to all topics whose whole name matches the pattern."""
        self.subscriptions.subscribe_pattern(pattern)
        self._subscribed()

    def _subscribed(self) -> None:
        self.group.subscription_changed()
        self._topics_changed()

    def _topics_changed(self) -> None:
        """Drop pending errors of topics that the application no longer wants."""
        for error in self._missing_topics.subscription_changed():
            with contextlib.suppress(ValueError):  # It was raised already.
                self.errors.remove(error)
        self._missing_topics.check()

    def unsubscribe(self) -> Waiter[None]:
        """Drop the subscription; the waiter is done when the group has been left."""
        waiter = self.group.unsubscribe()
        waiter.add_callback(lambda _: self._topics_changed())
        return waiter

    def assign(
        self,
        partitions: Iterable[TopicPartition],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Assign exactly these partitions, without a group. `starts` has the offsets to begin at,
        `ends` the offsets to stop at (exclusive).
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
        """True if every assigned partition has an end and was read up to it."""
        states = list(self.subscriptions.states)
        return bool(states) and all(
            state.position.end != NO_END and state.position.offset >= state.position.end
            for state in states
        )

    # Positions.

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset. No request is sent: an offset that does not exist is out of range
        later.
        """
        self.subscriptions.seek(partition, FetchPosition(offset))

    def seek_by(self, partitions: Iterable[TopicPartition], reset: AutoOffsetResetStrategy) -> None:
        """Go on at the start, at the end or at a time; the offset is looked up when it is
        needed.
        """
        for partition in partitions:
            self.subscriptions.request_reset(partition, reset)

    def owns(self, position: Position) -> bool:
        """True if the partition is assigned to this consumer, and this is its position."""
        state = self.subscriptions.get(position.topic_partition)
        return state is not None and state.position is position

    def move_back(self, positions: Iterable[tuple[Position, int, int]]) -> None:
        """Move positions back to before records that do not count as returned
        (`FetchCollector.undo`).
        """
        for position, offset, epoch in positions:
            state = self.subscriptions.get(position.topic_partition)
            if state is not None and state.position is position and offset >= 0:
                state.seek_unvalidated(FetchPosition(offset, epoch))
        self.changed()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return and fetch nothing of these partitions."""
        for partition in partitions:
            self.subscriptions.pause(partition)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return and fetch records of these partitions again."""
        for partition in partitions:
            self.subscriptions.resume(partition)
