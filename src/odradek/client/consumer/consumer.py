"""The consumer without a face: its parts wired together, and what a face asks of them.

      application's thread                │                 engine's thread
                                          │
    face ─── next_record ─► FetchCollector ◄── incoming ── Fetcher ─► Fetch
      │                                   │                   │  SubscriptionState
      │                                   │             OffsetFetcher ─► ListOffsets, ...
      └── everything else, as a call ─────┼─► ConsumerEngine ─┴─► the group's side

`advance` is the heart: whenever something changed (assignment, positions, the image of the
cluster), it asks for whatever is missing now: committed offsets, positions, records. It asks for
nothing twice, so it may be called at any time; `changed` calls it once, after the current event.

What goes wrong and belongs to no partition waits in `errors` until the application polls. With
anything for the application but records, `collector.attention` is set, so that its next poll looks.

The engine's thread only, but for `collector` and `errors`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from odradek.client.cluster_image import ClusterImage
from odradek.client.consumer.completed_fetch import CompletedFetch
from odradek.client.consumer.fetch_collector import FetchCollector
from odradek.client.consumer.fetch_config import FetchConfig
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.held_decisions import HeldDecisions
from odradek.client.consumer.missing import Missing
from odradek.client.consumer.offset_fetcher import OffsetFetcher
from odradek.client.consumer.offset_queries import OffsetQueries, no_offset
from odradek.client.consumer.partition_state import NO_LEADER, FetchPosition, Leader
from odradek.client.consumer.position import NO_END, Position
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.deserializers import Deserializers
from odradek.client.engine import Engine
from odradek.client.errors import KafkaError
from odradek.config.offset_reset import OffsetReset
from odradek.model.ids import TopicPartition

MAX_ERRORS = 100
"""That wait for the application; further ones are dropped, for they will come again."""


class ConsumerEngine:
    """One consumer's. `post` runs a function on the engine's thread soon, from whatever thread;
    `wake` makes the application look at what is there, if it waits.
    """

    def __init__(
        self,
        engine: Engine,
        config: FetchConfig,
        default_reset: OffsetReset,
        deserializers: Deserializers,
        post: Callable[[Callable[[], None]], object],
        wake: Callable[[], object],
    ) -> None:
        self.engine = engine
        self.config = config
        self.subscriptions = SubscriptionState(default_reset)
        self.subscriptions.on_change = self.changed
        self.queries = OffsetQueries(engine, self.subscriptions, config.isolation_level)
        self.errors: deque[KafkaError] = deque()
        """What the application's polls raise, one each."""
        self._post = post
        self._wake = wake
        self._advancing = False
        self._topics: frozenset[str] = frozenset()
        incoming: deque[CompletedFetch] = deque()
        self.collector = FetchCollector(incoming, deserializers, self._released)
        held = HeldDecisions(engine, self.subscriptions, incoming, post)
        self._fetcher = Fetcher(engine, self.subscriptions, config, held, incoming, wake)
        self._offset_fetcher = OffsetFetcher(
            engine, self.subscriptions, config, held, self.changed, self.fail
        )
        self._missing = Missing(
            engine, self.subscriptions, config.default_api_timeout_ms, self.fail
        )
        engine.metadata.listen(self._image_changed)

    def start(self) -> None:
        """Begin to connect."""
        self.engine.start()
        self._missing.look()

    def close(self) -> None:
        """End at once: nothing is committed, and no group is left."""
        self._missing.close()
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
        subscriptions = self.subscriptions
        topics = subscriptions.metadata_topics
        if topics != self._topics:
            self._topics = topics
            self.engine.metadata.set_topics(topics)
            self._missing.look()
        for state in subscriptions.states:
            if state.leader == NO_LEADER:
                state.meet_leader(self._leader(state.topic_partition))
        initializing = subscriptions.initializing
        if initializing:
            self._initialize(dict.fromkeys(initializing))
        self._offset_fetcher.update_positions()
        self._fetcher.pump()
        self.queries.positions_changed()

    def _initialize(self, committed: Mapping[TopicPartition, FetchPosition | None]) -> None:
        uncommitted = self.subscriptions.initialize(committed)
        if uncommitted:
            self.fail(no_offset(uncommitted))

    def _leader(self, partition: TopicPartition) -> Leader:
        info = self.engine.metadata.image.partition(*partition)
        return NO_LEADER if info is None else Leader(info.leader, info.leader_epoch)

    def _image_changed(self, _: ClusterImage) -> None:
        self.subscriptions.meet_leaders(self._leader)
        self._missing.look()
        self.changed()

    # For the application.

    def fail(self, error: KafkaError) -> None:
        """The application's next poll raises this."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        self.collector.attention = True
        self._wake()

    def _released(self) -> None:
        """Of the application's thread: room was made for more fetches."""
        if self._fetcher.starved:
            self._fetcher.starved = False
            self._post(self._fetcher.pump)

    # What is wanted.

    def subscribe(self, topics: Iterable[str]) -> None:
        """Topics by name; the group assigns their partitions."""
        self.subscriptions.subscribe(topics)
        self.changed()

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """All topics whose name the pattern matches as a whole."""
        self.subscriptions.subscribe_pattern(pattern)
        self.changed()

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

    def unsubscribe(self) -> None:
        """Read nothing any more."""
        self.subscriptions.unsubscribe()

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

    def seek_by(self, partitions: Iterable[TopicPartition], reset: OffsetReset) -> None:
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
