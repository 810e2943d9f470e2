"""One assigned partition: where fetching stands, which runs ahead of the application.

                  a committed offset, or seek                 the leader moved on
    INITIALIZING ────────────────────────────► FETCHING ◄──────────────────────► AWAIT_VALIDATION
         │                                      ▲    │                               │
         │ nothing committed        offset found│    │ out of range                  │ truncated
         └───────────────────────► AWAIT_RESET ─┴────┴───────────────────────────────┘

- INITIALIZING: no position is known yet.
- FETCHING: `fetch_offset` is where the next fetch begins.
- AWAIT_RESET: the position is being looked up, by `reset`.
- AWAIT_VALIDATION: the leader is being asked (KIP-320) whether its log still agrees with what was
  read up to `fetch_offset`, whose last record was of `fetch_epoch`.

The application follows behind, by way of `position`: what it was not handed yet stays good whatever
happens here, until `position.move`. So an end that was reached too far ahead (the offset is out of
range, the log was truncated) is `held` until the application comes to it.

The engine's thread only.

SubscriptionState: what the application wants to read, what it was assigned, and how far each
partition is.

    subscribe(topics) ─► AUTO_TOPICS ─┐  the group assigns
    subscribe(pattern) ─► AUTO_PATTERN┴─► assign_from_subscribed ─┐
    assign(partitions) ─► USER_ASSIGNED ─► assign_from_user ──────┴─► PartitionStates
    unsubscribe ─► NONE

The kinds do not mix: who wants another one unsubscribes first. A partition that stays assigned
keeps its state; one that goes away and comes back begins anew, and what was fetched for it is void.

Here is what every part of the consumer shares: the coordinator changes the assignment and brings
committed offsets, the fetcher and the offset fetcher move positions on, commits read what was
consumed. The engine's thread only; the application's thread shares a partition's `position` alone.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from odradek.client.consumer.position.position import NO_END, NO_EPOCH, NO_OFFSET, Position
from odradek.client.errors import IllegalState
from odradek.config.offset_reset import NONE, AutoOffsetResetStrategy
from odradek.model.topics import TopicPartition


class FetchState(Enum):
    """See the diagram above."""

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"


class FetchPosition(NamedTuple):
    """Where to read on, and what is known of the record before: enough to notice a truncation."""

    offset: int
    offset_epoch: int = NO_EPOCH
    """Of the record before `offset`; -1 unknown."""


class LeaderAndEpoch(NamedTuple):
    """Who leads the partition, in which epoch; -1 unknown."""

    node_id: int = -1
    epoch: int = NO_EPOCH


NO_LEADER = LeaderAndEpoch()


class PartitionState:
    """The state of `topic_partition`, which is assigned."""

    __slots__ = (
        "failures",
        "fetch",
        "fetched_bytes",
        "deferred",
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
        """The leader that `fetch` was last found to agree with."""
        self.reset: AutoOffsetResetStrategy | None = None
        """How a new position is being looked up."""
        self.next_retry_ms = 0
        """Nothing is to be asked about this partition before."""
        self.failures = 0
        """In a row, of asking about it."""
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.deferred = False
        """Something is on its way to the application that decides how to go on."""
        self.uncommitted = False
        """The group has no offset for it, and nothing says where else to begin."""
        self.fetched_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Fetched, and not handed out or thrown away yet."""
        return self.fetched_bytes - self.position.released_bytes

    @property
    def is_fetchable(self) -> bool:
        """Whether more may be fetched, as far as this partition is concerned."""
        position = self.position
        return (
            self.state is FetchState.FETCHING
            and not self.deferred
            and not position.withheld
            and self.fetch.offset < position.end
        )

    # Moving.

    def seek(self, to: FetchPosition) -> None:
        """Go on there, in all certainty that the leader has that offset, or will say so."""
        self.position.move(to.offset, to.offset_epoch)
        self._start_over(FetchState.FETCHING, to, None)

    def seek_unvalidated(self, to: FetchPosition) -> None:
        """Go on there when the leader has confirmed it; at once if there is nothing to confirm."""
        self.seek(to)
        self.leader = NO_LEADER

    def request_reset(self, reset: AutoOffsetResetStrategy) -> None:
        """Look the position up anew."""
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
        """More was fetched, up to there."""
        self.fetch = FetchPosition(next_offset, epoch)
        self.fetched_bytes += size
        self.failures = 0

    # Validation.

    def update_leader(self, leader: LeaderAndEpoch) -> None:
        """This is the leader now. What was read is validated if it may be another log's."""
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
        """The leader's log agrees."""
        if self.state is FetchState.AWAIT_VALIDATION:
            self.state = FetchState.FETCHING

    # What is known of the log.

    def lag(self, read_committed: bool) -> int | None:
        """Records between the application and the end it may read to; None if not known yet."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        offset = self.position.offset
        return None if end is None or offset < 0 else max(0, end - offset)

    @property
    def lead(self) -> int | None:
        """Records between the start of the log and the application; None if not known yet."""
        start, offset = self.log_start_offset, self.position.offset
        return None if start is None or offset < 0 else max(0, offset - start)


class SubscriptionType(Enum):
    """What decides which partitions are assigned."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    USER_ASSIGNED = "partitions"


class SubscriptionState:
    """One consumer's. `default_reset` is how positions are found where none is known."""

    def __init__(self, default_reset: AutoOffsetResetStrategy) -> None:
        self.default_reset = default_reset
        self.type = SubscriptionType.NONE
        self.subscription: frozenset[str] = frozenset()
        """The topics subscribed to, by name or by the pattern."""
        self.pattern: re.Pattern[str] | None = None
        self.assignment_id = 0
        """Another one after every change of the assignment."""
        self.on_change: Callable[[], object] = lambda: None
        """Called when positions may be missing, or more may be fetched, that was not so before."""
        self._group_subscription: frozenset[str] = frozenset()
        # Also looked at from the application's thread: moving one to the end is a single step.
        self._assigned: OrderedDict[TopicPartition, PartitionState] = OrderedDict()

    # What is wanted.

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Topics by name; whether that is another subscription than before."""
        self._set_type(SubscriptionType.AUTO_TOPICS)
        return self._subscribe(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Topics whose whole name the pattern matches; `subscribe_from_pattern` tells which."""
        self._set_type(SubscriptionType.AUTO_PATTERN)
        self.pattern = pattern

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """The topics that match now; whether these are others than before."""
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
        """Whether the pattern subscribed to means that topic."""
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None

    def group_subscribe(self, topics: Iterable[str]) -> bool:
        """The leader of a group has to know the topics of all members; whether some are new."""
        wanted = frozenset(topics) | self.subscription
        changed = not wanted <= self._group_subscription
        self._group_subscription = wanted
        return changed

    def reset_group_subscription(self) -> None:
        """Not the leader any more: this member's own topics will do."""
        self._group_subscription = self.subscription

    @property
    def metadata_topics(self) -> frozenset[str]:
        """The topics whose metadata is needed."""
        if self.type is SubscriptionType.USER_ASSIGNED:
            return frozenset(partition.topic for partition in self._assigned)
        return self._group_subscription | self.subscription

    @property
    def is_auto_assigned(self) -> bool:
        """Whether a group assigns the partitions."""
        return self.type in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)

    def unsubscribe(self) -> None:
        """Nothing is wanted any more, and nothing is assigned."""
        self.type = SubscriptionType.NONE
        self.subscription = self._group_subscription = frozenset()
        self.pattern = None
        self._assign({})

    def _set_type(self, wanted: SubscriptionType) -> None:
        if self.type not in (SubscriptionType.NONE, wanted):
            raise IllegalState(
                f"this consumer reads {self.type.value} it was given, and cannot read "
                f"{wanted.value} as well. What to do: unsubscribe() first"
            )
        self.type = wanted

    # What is assigned.

    def assign_from_user(self, partitions: Iterable[TopicPartition]) -> bool:
        """Exactly these; whether that is another assignment than before."""
        self._set_type(SubscriptionType.USER_ASSIGNED)
        wanted = list(dict.fromkeys(partitions))
        if set(wanted) == self._assigned.keys():
            return False
        self._assign({p: self._assigned.get(p) or PartitionState(p) for p in wanted})
        return True

    def assign_from_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """What the group assigns. Those already here keep their state."""
        if not self.is_auto_assigned:
            raise IllegalState("partitions were assigned by a group that is not subscribed to")
        self._assign({p: self._assigned.get(p) or PartitionState(p) for p in partitions})

    def matches_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of them are of topics that are subscribed to (a rebalance may be late)."""
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
        """All that are assigned; those served longest ago first. Any thread."""
        return list(self._assigned.values())

    def is_assigned(self, partition: TopicPartition) -> bool:
        return partition in self._assigned

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition. Raises `IllegalState` for another one."""
        found = self._assigned.get(partition)
        if found is None:
            raise IllegalState(
                f"{partition} is not assigned to this consumer. What to do: use one of "
                f"assignment(), or assign() it first"
            )
        return found

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition, if it is assigned."""
        return self._assigned.get(partition)

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """They are about to be taken away: nothing more is fetched for them, nor handed out,
        whatever is resumed meanwhile. An assignment that leaves them here ends that.
        """
        for partition in partitions:
            state = self._assigned.get(partition)
            if state is not None:
                state.position.pending_revocation = True

    def move_to_end(self, partition: TopicPartition) -> None:
        """It was served: others come first next time."""
        if partition in self._assigned:
            self._assigned.move_to_end(partition)

    # Positions.

    def seek(self, partition: TopicPartition, to: FetchPosition) -> None:
        """Go on there; what the leader thinks of it is found out if the epoch is known."""
        self.state(partition).seek_unvalidated(to)
        self.on_change()

    def set_end(self, partition: TopicPartition, end: int | None) -> None:
        """Read no further than that offset (excluded); None: for ever."""
        self.state(partition).position.end = NO_END if end is None else end
        self.on_change()

    def pause(self, partition: TopicPartition) -> None:
        """Hand out nothing and fetch nothing; what is buffered stays."""
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
        """Look a position up, by default as the settings say, which must not be `none`."""
        chosen = reset or self.default_reset
        if chosen == NONE:
            raise IllegalState(f"auto.offset.reset=none has no position for {partition}")
        self.state(partition).request_reset(chosen)
        self.on_change()

    @property
    def initializing(self) -> list[TopicPartition]:
        """Those without a position, for which a committed offset is to be looked up."""
        return [
            partition
            for partition, state in self._assigned.items()
            if state.state is FetchState.INITIALIZING and not state.uncommitted
        ]

    def initialize(
        self, committed: Mapping[TopicPartition, FetchPosition | None]
    ) -> list[TopicPartition]:
        """Committed offsets, None where there is none: those partitions begin where the settings
        say. If these say `none` they stay without a position, and are returned.
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
        """Who leads what now: positions are validated where that changed."""
        for partition, state in self._assigned.items():
            state.update_leader(leader_of(partition))

    @property
    def consumed(self) -> dict[TopicPartition, FetchPosition]:
        """What the application is done with, of all partitions of which it had any: to commit."""
        return {
            p: FetchPosition(state.position.consumed, state.position.consumed_epoch)
            for p, state in self._assigned.items()
            if state.position.consumed >= 0
        }
