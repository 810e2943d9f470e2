"""SubscriptionState: the subscription, the assigned partitions and each partition's state.

    subscribe(topics) ─► AUTO_TOPICS ─┐  the group assigns
    subscribe(pattern) ─► AUTO_PATTERN┴─► assign_from_subscribed ─┐
    assign(partitions) ─► USER_ASSIGNED ─► assign_from_user ──────┴─► PartitionState per partition
    unsubscribe ─► NONE

The subscription types exclude each other: the application unsubscribes before it uses another one.
A partition that stays assigned keeps its state. One that is lost and assigned again starts over,
and what was fetched for it is void.

All parts of the consumer share this state: the coordinator changes the assignment and delivers
committed offsets, the fetcher and the offset fetcher advance positions, commits read the consumed
offsets.

The fetch state of one partition, which runs ahead of the application:

                  a committed offset, or seek                 the leader changed
    INITIALIZING ────────────────────────────► FETCHING ◄──────────────────────► AWAIT_VALIDATION
         │                                      ▲    │                               │
         │ nothing committed        offset found│    │ out of range                  │ truncated
         └───────────────────────► AWAIT_RESET ─┴────┴───────────────────────────────┘

- INITIALIZING: no position is known yet.
- FETCHING: the next fetch begins at `fetch.offset`.
- AWAIT_RESET: the offset fetcher looks the position up, as `reset` says.
- AWAIT_VALIDATION: the leader is asked (KIP-320) whether its log still agrees with the records read
  up to `fetch.offset`, the last of which has epoch `fetch.offset_epoch`.

The application follows behind through `position`. Records that it has not received yet stay valid
whatever happens here, until `position.move`. When fetching cannot go on (the offset is out of
range, the log was truncated), the decision is `deferred` until the application reaches that offset.

Runs on the engine's thread; the application's thread shares only each partition's `position`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from odradek.client.consumer.position.position import NO_END, NO_EPOCH, NO_OFFSET, Position
from odradek.client.errors import IllegalState
from odradek.config.offset_reset import NONE, AutoOffsetResetStrategy
from odradek.model.topics import TopicPartition


class FetchState(Enum):
    """The fetch state of a partition: see the diagram above."""

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"


INITIALIZING: Final = FetchState.INITIALIZING
FETCHING: Final = FetchState.FETCHING


class FetchPosition(NamedTuple):
    """The next offset to fetch, with the epoch that reveals a truncation."""

    offset: int
    offset_epoch: int = NO_EPOCH
    """Epoch of the record before `offset`; -1 unknown."""


class LeaderAndEpoch(NamedTuple):
    """A partition's leader and its epoch; -1 unknown."""

    node_id: int = -1
    epoch: int = NO_EPOCH


NO_LEADER = LeaderAndEpoch()


class PartitionState:
    """The state of one assigned partition."""

    __slots__ = (
        "deferred",
        "failures",
        "fetch",
        "fetched_bytes",
        "high_watermark",
        "last_stable_offset",
        "leader",
        "log_start_offset",
        "next_retry_ms",
        "position",
        "reset",
        "state",
        "topic_partition",
        "uncommitted",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.position = Position(topic_partition)
        self.state = FetchState.INITIALIZING
        self.fetch = FetchPosition(NO_OFFSET)
        """Where the next fetch begins."""
        self.leader = NO_LEADER
        """The leader for which `fetch` is valid, or is being validated."""
        self.reset: AutoOffsetResetStrategy | None = None
        """How the new position is looked up, in AWAIT_RESET."""
        self.next_retry_ms = 0
        """Send no request about this partition before this time."""
        self.failures = 0
        """Consecutive failed requests about this partition."""
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.deferred = False
        """True while a decision on how to go on waits for the application (`DeferredErrors`)."""
        self.uncommitted = False
        """True if the group has no committed offset and the reset strategy is `none`."""
        self.fetched_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes fetched and neither returned nor dropped yet."""
        return self.fetched_bytes - self.position.released_bytes

    @property
    def is_fetchable(self) -> bool:
        """True if the state of this partition permits a fetch."""
        position = self.position
        return (
            self.state is FETCHING
            and not self.deferred
            and not position.withheld
            and self.fetch.offset < position.end
        )

    # Positions.

    def seek(self, to: FetchPosition) -> None:
        """Go on at `to` without validation; an offset that does not exist is out of range later."""
        self.position.move(to.offset, to.offset_epoch)
        self._start_over(FetchState.FETCHING, to, None)

    def seek_unvalidated(self, to: FetchPosition) -> None:
        """Go on at `to` after the leader has validated it; at once if its epoch is unknown."""
        self.seek(to)
        self.leader = NO_LEADER

    def request_reset(self, reset: AutoOffsetResetStrategy) -> None:
        """Look up a new position."""
        self.position.move(NO_OFFSET, NO_EPOCH)
        self._start_over(FetchState.AWAIT_RESET, FetchPosition(NO_OFFSET), reset)

    def _start_over(
        self, state: FetchState, at: FetchPosition, reset: AutoOffsetResetStrategy | None
    ) -> None:
        self.state = state
        self.fetch = at
        self.reset = reset
        self.next_retry_ms = 0
        self.failures = 0
        self.deferred = False
        self.uncommitted = False

    def fetched(self, next_offset: int, epoch: int, size: int) -> None:
        """Advance the fetch position behind the records that were fetched."""
        self.fetch = FetchPosition(next_offset, epoch)
        self.fetched_bytes += size
        self.failures = 0

    # Validation.

    def update_leader(self, leader: LeaderAndEpoch) -> None:
        """Set the leader; a position with a known epoch is validated against a new leader."""
        if self.state is FetchState.AWAIT_RESET or self.state is FetchState.INITIALIZING:
            self.leader = leader
        elif leader.node_id >= 0 and leader != self.leader:
            self.leader = leader
            if self.fetch.offset_epoch != NO_EPOCH and leader.epoch != NO_EPOCH:
                self.state = FetchState.AWAIT_VALIDATION
                self.next_retry_ms = 0
            else:
                self.state = FetchState.FETCHING

    def validated(self) -> None:
        """The leader's log agrees with the position: go on fetching."""
        if self.state is FetchState.AWAIT_VALIDATION:
            self.state = FetchState.FETCHING


class SubscriptionType(Enum):
    """The kind of subscription, which decides how partitions are assigned."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    USER_ASSIGNED = "partitions"


class SubscriptionState:
    """The subscription and assignment of one consumer.

    `default_reset` finds positions where none is known.
    """

    def __init__(self, default_reset: AutoOffsetResetStrategy) -> None:
        self.default_reset = default_reset
        self.type = SubscriptionType.NONE
        self.subscription: frozenset[str] = frozenset()
        """The topics subscribed to, by name or by the pattern."""
        self.pattern: re.Pattern[str] | None = None
        self.assignment_id = 0
        """Incremented with every change of the assignment."""
        self.on_change: Callable[[], object] = lambda: None
        """Called when a position may be missing, or more may be fetched."""
        self._group_subscription: frozenset[str] = frozenset()
        # The application's thread reads it too: move_to_end is one atomic step.
        self._assigned: OrderedDict[TopicPartition, PartitionState] = OrderedDict()

    # Subscription.

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Subscribe to topics by name; True if the subscription changed."""
        self._set_type(SubscriptionType.AUTO_TOPICS)
        return self._subscribe(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to the topics whose whole name matches the pattern; `subscribe_from_pattern`
        sets them.
        """
        self._set_type(SubscriptionType.AUTO_PATTERN)
        self.pattern = pattern

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """Set the topics that match the pattern; True if the subscription changed."""
        assert self.type is SubscriptionType.AUTO_PATTERN
        return self._subscribe(topics)

    def _subscribe(self, topics: Iterable[str]) -> bool:
        wanted = frozenset(topics)
        if wanted == self.subscription:
            return False
        self.subscription = wanted
        self._group_subscription = self._group_subscription | wanted
        return True

    def matches(self, topic: str) -> bool:
        """True if the topic matches the pattern subscribed to."""
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None

    def group_subscribe(self, topics: Iterable[str]) -> bool:
        """Set the topics of all members, which a leader has to know; True if some are new."""
        wanted = frozenset(topics) | self.subscription
        changed = not wanted <= self._group_subscription
        self._group_subscription = wanted
        return changed

    def reset_group_subscription(self) -> None:
        """Forget the topics of other members: this member no longer leads the group."""
        self._group_subscription = self.subscription

    @property
    def metadata_topics(self) -> frozenset[str]:
        """The topics whose metadata the consumer needs."""
        if self.type is SubscriptionType.USER_ASSIGNED:
            return frozenset(partition.topic for partition in self._assigned)
        return self._group_subscription | self.subscription

    @property
    def is_auto_assigned(self) -> bool:
        """True if a group assigns the partitions."""
        return self.type in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)

    def unsubscribe(self) -> None:
        """Drop the subscription and the assignment."""
        self.type = SubscriptionType.NONE
        self.subscription = self._group_subscription = frozenset()
        self.pattern = None
        self._assign({})

    def _set_type(self, wanted: SubscriptionType) -> None:
        if self.type not in (SubscriptionType.NONE, wanted):
            raise IllegalState(
                f"this consumer was given {self.type.value} to read and cannot be given "
                f"{wanted.value} as well. What to do: unsubscribe() first"
            )
        self.type = wanted

    # Assignment.

    def assign_from_user(self, partitions: Iterable[TopicPartition]) -> bool:
        """Assign exactly these partitions; True if the assignment changed."""
        self._set_type(SubscriptionType.USER_ASSIGNED)
        wanted = list(dict.fromkeys(partitions))
        if set(wanted) == self._assigned.keys():
            return False
        self._assign({p: self._assigned.get(p) or PartitionState(p) for p in wanted})
        return True

    def assign_from_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """Take the group's assignment. Partitions that stay assigned keep their state."""
        if not self.is_auto_assigned:
            raise IllegalState("partitions were assigned by a group that is not subscribed to")
        self._assign({p: self._assigned.get(p) or PartitionState(p) for p in partitions})

    def matches_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """True if all partitions belong to subscribed topics. After a change of the subscription
        they may not.
        """
        if self.type is SubscriptionType.AUTO_PATTERN:
            return all(self.matches(partition.topic) for partition in partitions)
        return all(partition.topic in self.subscription for partition in partitions)

    def _assign(self, states: dict[TopicPartition, PartitionState]) -> None:
        for partition, state in self._assigned.items():
            if states.get(partition) is not state:
                state.position.generation += 1
            else:
                state.position.pending_revocation = False
        self._assigned = OrderedDict(states)
        self.assignment_id += 1
        self.on_change()

    @property
    def assigned_partitions(self) -> list[TopicPartition]:
        return list(self._assigned)

    @property
    def states(self) -> list[PartitionState]:
        """The states of all assigned partitions; those served longest ago come first. Any thread
        may read it.
        """
        return list(self._assigned.values())

    def is_assigned(self, partition: TopicPartition) -> bool:
        return partition in self._assigned

    def state(self, partition: TopicPartition) -> PartitionState:
        """Return the state of a partition. Raises `IllegalState` if it is not assigned."""
        found = self._assigned.get(partition)
        if found is None:
            raise IllegalState(
                f"{partition} is not assigned to this consumer. What to do: use one of "
                f"assignment(), or assign() it first"
            )
        return found

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition; None if it is not assigned."""
        return self._assigned.get(partition)

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and return nothing more of these partitions, even if they are resumed: they are
        about to be revoked. A new assignment that still has them ends this.
        """
        for partition in partitions:
            state = self._assigned.get(partition)
            if state is not None:
                state.position.pending_revocation = True

    def move_to_end(self, partition: TopicPartition) -> None:
        """Move a partition that was served behind the others."""
        if partition in self._assigned:
            self._assigned.move_to_end(partition)

    # Positions.

    def seek(self, partition: TopicPartition, to: FetchPosition) -> None:
        """Go on at `to`; validated first if its epoch is known."""
        self.state(partition).seek_unvalidated(to)
        self.on_change()

    def set_end(self, partition: TopicPartition, end: int | None) -> None:
        """Set the offset at which reading stops (exclusive); None reads without end."""
        self.state(partition).position.end = NO_END if end is None else end
        self.on_change()

    def pause(self, partition: TopicPartition) -> None:
        """Return and fetch nothing of the partition; its buffered records stay."""
        self.state(partition).position.paused = True

    def resume(self, partition: TopicPartition) -> None:
        self.state(partition).position.paused = False
        self.on_change()

    @property
    def paused_partitions(self) -> list[TopicPartition]:
        return [p for p, state in self._assigned.items() if state.position.paused]

    def request_reset(
        self, partition: TopicPartition, reset: AutoOffsetResetStrategy | None = None
    ) -> None:
        """Look up a new position, by default with `auto.offset.reset`. Raises `IllegalState` if
        that is `none`.
        """
        chosen = reset or self.default_reset
        if chosen == NONE:
            raise IllegalState(f"auto.offset.reset=none has no position for {partition}")
        self.state(partition).request_reset(chosen)
        self.on_change()

    @property
    def initializing(self) -> list[TopicPartition]:
        """The partitions without a position, whose committed offset has to be looked up."""
        return [
            partition
            for partition, state in self._assigned.items()
            if state.state is INITIALIZING and not state.uncommitted
        ]

    def initialize(
        self, committed: Mapping[TopicPartition, FetchPosition | None]
    ) -> list[TopicPartition]:
        """Set positions from committed offsets (None: there is none).

        A partition without one is reset as `auto.offset.reset` says; with `none` it stays without a
        position and is returned.
        """
        uncommitted = []
        for partition, found in committed.items():
            state = self._assigned.get(partition)
            if state is None or state.state is not FetchState.INITIALIZING:
                continue
            if found is not None:
                state.seek_unvalidated(found)
            elif self.default_reset != NONE:
                state.request_reset(self.default_reset)
            else:
                state.uncommitted = True
                uncommitted.append(partition)
        self.on_change()
        return uncommitted

    def update_leaders(self, leader_of: Callable[[TopicPartition], LeaderAndEpoch]) -> None:
        """Set the leaders of all partitions; positions are validated where the leader changed."""
        for partition, state in self._assigned.items():
            state.update_leader(leader_of(partition))

    @property
    def consumed(self) -> dict[TopicPartition, FetchPosition]:
        """The consumed position of each partition that has one, for a commit."""
        return {
            p: FetchPosition(state.position.consumed, state.position.consumed_epoch)
            for p, state in self._assigned.items()
            if state.position.consumed >= 0
        }
