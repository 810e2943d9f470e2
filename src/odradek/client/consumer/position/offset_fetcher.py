"""Offset requests of the consumer: positions looked up and validated, questions answered.

    AWAIT_RESET ── ListOffsets: earliest, latest, or by time ──► FETCHING
    AWAIT_VALIDATION ── OffsetForLeaderEpoch (KIP-320) ─┬─ agrees ──► FETCHING
                                                        └─ truncated ──► `DeferredErrors`

`OffsetFetcher.update_positions` sends the requests that are missing; each partition has at most one
in flight. A failed request is tried again after a back-off; an error that retrying does not cure is
also raised by the application's poll. A response for a position that moved meanwhile is dropped.

With `by_duration`, a partition without a record that young is read from its end.

`OffsetQueries` answers the application. Everything runs on the engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from odradek.client import list_offsets
from odradek.client.consumer.position.deferred_errors import DeferredErrors
from odradek.client.consumer.position.position import Position
from odradek.client.consumer.position.subscription_state import (
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    PartitionState,
    SubscriptionState,
)
from odradek.client.engine import Engine
from odradek.client.errors import (
    ApiTimeout,
    KafkaError,
    NoOffsetForPartition,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_for,
)
from odradek.client.list_offsets import EARLIEST, LATEST, ListedOffset, OffsetLookup
from odradek.client.metadata.cluster_image import NO_EPOCH
from odradek.client.waiter import Waiter, spawn
from odradek.config.consumer import ConsumerConfig
from odradek.config.offset_reset import AutoOffsetResetStrategy, OffsetResetType
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import NEVER_MS, Alarm
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.list_offsets import ListOffsetsResponse
from odradek.protocol.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

CONSUMER_REPLICA_ID = -1
FIRST_VERSION_FOR_CONSUMERS = 3
"""Before this version of OffsetForLeaderEpoch, only clients that may alter the cluster may send it.
"""

PositionGeneration = tuple[Position, int]
"""A position and its generation. A partition that is assigned again has a new position, whose
generations start over.
"""


class OffsetFetcher:
    """Finds the positions of assigned partitions.

    `changed` is called when positions were found, `failed` with errors that the application has to
    know.
    """

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        deferred: DeferredErrors,
        changed: Callable[[], object],
        failed: Callable[[KafkaError], object],
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._config = config
        self._deferred = deferred
        self._changed = changed
        self._failed = failed
        self._in_flight: dict[TopicPartition, PositionGeneration] = {}
        """The partitions with a request in flight."""
        self._alarm = Alarm(engine.timer, self.update_positions)
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._alarm.cancel()

    def update_positions(self) -> None:
        """Send a request for every position that is missing or has to be validated."""
        if self._closed:
            return
        resets: dict[int, list[PartitionState]] = {}
        validations: dict[int, list[PartitionState]] = {}
        now_ms = self._engine.now_ms
        wake_ms = NEVER_MS
        leader_missing = False
        for state in self._subscriptions.states:
            if state.state is FetchState.AWAIT_RESET:
                groups = resets
            elif state.state is FetchState.AWAIT_VALIDATION:
                groups = validations
            else:
                continue
            if self._in_flight.get(state.topic_partition) == position_generation(state):
                continue
            if state.next_retry_ms > now_ms:
                wake_ms = min(wake_ms, state.next_retry_ms)
                continue
            leader = self._engine.metadata.image.leader(*state.topic_partition)
            if leader < 0:
                leader_missing = True
            else:
                groups.setdefault(leader, []).append(state)
        for node_id, states in resets.items():
            self._reset(node_id, states)
        for node_id, states in validations.items():
            self._validate(node_id, states)
        if leader_missing and not self._engine.metadata.update_requested:
            self._engine.metadata.request_update()
        if wake_ms != NEVER_MS:
            self._alarm.set_for(wake_ms)

    def _mark_in_flight(
        self, states: Iterable[PartitionState]
    ) -> dict[TopicPartition, PositionGeneration]:
        """Mark partitions as being looked up; return their present positions."""
        started = {state.topic_partition: position_generation(state) for state in states}
        self._in_flight.update(started)
        return started

    def _unmark_in_flight(
        self, started: dict[TopicPartition, PositionGeneration]
    ) -> dict[TopicPartition, PartitionState]:
        """Unmark partitions; return the states of those whose position has not moved."""
        current: dict[TopicPartition, PartitionState] = {}
        for partition, position in started.items():
            if self._in_flight.get(partition) == position:
                del self._in_flight[partition]
            state = self._subscriptions.get(partition)
            if state is not None and position_generation(state) == position:
                current[partition] = state
        return current

    def _retry(self, states: Iterable[PartitionState], error: KafkaError) -> None:
        """Try again after a back-off; report an error that retrying does not cure."""
        for state in states:
            self._deferred.back_off(state)
        log.debug("%s", error)
        if error.refresh_metadata:
            self._engine.metadata.request_update()
        if not list_offsets.is_retriable(error.code):
            self._failed(error)

    # Reset.

    def _reset(self, node_id: int, states: list[PartitionState]) -> None:
        wall_ms = self._engine.env.clock.wall_ms()
        wanted: dict[TopicPartition, OffsetLookup] = {}
        for state in states:
            assert state.reset is not None
            epoch = self._engine.metadata.image.leader_epoch(*state.topic_partition)
            wanted[state.topic_partition] = OffsetLookup(state.reset.timestamp(wall_ms), epoch)
        started = self._mark_in_flight(states)
        waiter = list_offsets.send_list_offsets(
            self._engine, node_id, wanted, self._config.read_committed
        )
        waiter.add_callback(lambda done: self._reset_answered(started, done))

    def _reset_answered(
        self, started: dict[TopicPartition, PositionGeneration], done: Waiter[ListOffsetsResponse]
    ) -> None:
        current = self._unmark_in_flight(started)
        if self._closed:
            return
        if isinstance(done.error, KafkaError):
            self._retry(current.values(), done.error)
        else:
            for partition, code, found in list_offsets.offsets_in(done.result()):
                state = current.pop(partition, None)
                if state is None or state.state is not FetchState.AWAIT_RESET:
                    continue
                if code != ErrorCode.NONE:
                    what = f"looking up the {state.reset} offset of {partition}"
                    self._retry([state], error_for(code, what))
                else:
                    self._reset_found(state, found)
        self._changed()

    def _reset_found(self, state: PartitionState, found: ListedOffset) -> None:
        if found.offset < 0:
            assert state.reset is not None
            if state.reset.type is OffsetResetType.BY_DURATION:
                state.request_reset(AutoOffsetResetStrategy(OffsetResetType.LATEST))
            else:
                self._deferred.back_off(state)
            return
        log.info(
            "%s: reading from offset %d (%s)", state.topic_partition, found.offset, state.reset
        )
        if found.leader_epoch != NO_EPOCH:
            self._engine.metadata.update_last_seen_epoch(state.topic_partition, found.leader_epoch)
        state.seek(FetchPosition(found.offset))
        self.update_leader(state)

    def update_leader(self, state: PartitionState) -> None:
        """Tell a partition's state who leads it."""
        info = self._engine.metadata.image.partition(*state.topic_partition)
        if info is not None:
            state.update_leader(LeaderAndEpoch(info.leader, info.leader_epoch))

    # Validation.

    def _validate(self, node_id: int, states: list[PartitionState]) -> None:
        versions = self._engine.client.versions(node_id)
        if versions is not None and not versions.supports(
            OffsetForLeaderEpochRequest, FIRST_VERSION_FOR_CONSUMERS
        ):
            for state in states:
                state.validated()
            self._changed()
            return
        started = self._mark_in_flight(states)
        validated = {state.topic_partition: state.fetch for state in states}
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for state in states:
            topics.setdefault(state.topic_partition.topic, []).append(
                OffsetForLeaderPartition(
                    partition=state.topic_partition.partition,
                    current_leader_epoch=state.leader.epoch,
                    leader_epoch=state.fetch.offset_epoch,
                )
            )
        request = RequestBuilder(
            OffsetForLeaderEpochRequest,
            lambda _: OffsetForLeaderEpochRequest(
                replica_id=CONSUMER_REPLICA_ID,
                topics=[OffsetForLeaderTopic(topic=t, partitions=p) for t, p in topics.items()],
            ),
        )
        waiter = self._engine.call(node_id, request, OffsetForLeaderEpochResponse)
        waiter.add_callback(lambda done: self._validate_answered(started, validated, done))

    def _validate_answered(
        self,
        started: dict[TopicPartition, PositionGeneration],
        validated: dict[TopicPartition, FetchPosition],
        done: Waiter[OffsetForLeaderEpochResponse],
    ) -> None:
        current = self._unmark_in_flight(started)
        if self._closed:
            return
        if isinstance(done.error, UnsupportedVersion):
            for state in current.values():
                state.validated()
        elif isinstance(done.error, KafkaError):
            self._retry(current.values(), done.error)
        else:
            for topic in done.result().topics:
                for found in topic.partitions:
                    partition = TopicPartition(topic.topic, found.partition)
                    unmoved = current.get(partition)
                    if unmoved is not None and unmoved.fetch == validated[partition]:
                        self._check_epoch_end(unmoved, found)
        self._changed()

    def _check_epoch_end(self, state: PartitionState, found: EpochEndOffset) -> None:
        """Compare the position with the end offset of its epoch in the leader's log."""
        if state.state is not FetchState.AWAIT_VALIDATION:
            return
        code = error_code(found.error_code)
        if code != ErrorCode.NONE:
            self._retry([state], error_for(code, f"validating {state.topic_partition}"))
            return
        state.validated()
        if found.end_offset < 0 or found.leader_epoch < 0:
            self._deferred.truncated(state, -1, NO_EPOCH)
        elif found.end_offset < state.fetch.offset:
            self._deferred.truncated(state, found.end_offset, found.leader_epoch)


def position_generation(state: PartitionState) -> PositionGeneration:
    return state.position, state.position.generation


class OffsetQueries:
    """Offsets, watermarks and lag for the application.

    Every waiter ends: at its deadline it fails with an error that names the obstacle.
    """

    def __init__(
        self, engine: Engine, subscriptions: SubscriptionState, read_committed: bool
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._read_committed = read_committed
        self._watchers: list[Waiter[None]] = []

    def positions_changed(self) -> None:
        """Complete the waiters for positions that are known by now."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.complete(None)

    def position(self, partition: TopicPartition, timeout_ms: int) -> Waiter[int]:
        """Return the offset of the next record to return, as soon as it is known."""
        waiter = spawn(self._position(partition))
        return self.within(timeout_ms, waiter, [partition], "finding the position of")

    async def _position(self, partition: TopicPartition) -> int:
        while True:
            state = self._subscriptions.state(partition)
            if state.position.offset >= 0:
                return state.position.offset
            if state.state is FetchState.INITIALIZING and state.uncommitted:
                raise no_offset_error([partition])
            watcher: Waiter[None] = Waiter()
            self._watchers.append(watcher)
            await watcher

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Waiter[dict[TopicPartition, ListedOffset]]:
        """Return the offsets for timestamps (ms) or for the special timestamps of
        `client.list_offsets`.
        """
        waiter = spawn(list_offsets.list_offsets(self._engine, wanted, self._read_committed))
        return self.within(timeout_ms, waiter, wanted, "looking up offsets of")

    def watermarks(self, partition: TopicPartition, timeout_ms: int) -> Waiter[tuple[int, int]]:
        """Return the log start offset and the end offset that may be read."""
        waiter = spawn(self._watermarks(partition))
        return self.within(timeout_ms, waiter, [partition], "looking up the ends of")

    async def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        low = spawn(
            list_offsets.list_offsets(self._engine, {partition: EARLIEST}, self._read_committed)
        )
        high = spawn(
            list_offsets.list_offsets(self._engine, {partition: LATEST}, self._read_committed)
        )
        return (await low)[partition].offset, (await high)[partition].offset

    def known_watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return the watermarks of the last fetch; None if the partition was not fetched yet."""
        state = self._subscriptions.state(partition)
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        if end is None or state.log_start_offset is None:
            return None
        return state.log_start_offset, end

    def lag(self, partition: TopicPartition, timeout_ms: int) -> Waiter[int]:
        """Return the number of offsets between the position and the end. Asks for the end if no
        fetch has told it.
        """
        waiter = spawn(self._lag(partition))
        return self.within(timeout_ms, waiter, [partition], "looking up the lag of")

    async def _lag(self, partition: TopicPartition) -> int:
        offset = await self._position(partition)
        known = self._subscriptions.state(partition).position.lag
        if known is not None:
            return known
        found = await list_offsets.list_offsets(
            self._engine, {partition: LATEST}, self._read_committed
        )
        return max(0, found[partition].offset - offset)

    def within(
        self,
        timeout_ms: int,
        waiter: Waiter[T],
        partitions: Iterable[TopicPartition],
        what: str,
    ) -> Waiter[T]:
        """Limit a waiter to `timeout_ms`; at the deadline it fails with the obstacle."""
        return self._engine.within(
            timeout_ms, waiter, lambda: self._timeout_error(partitions, what)
        )

    def _timeout_error(self, partitions: Iterable[TopicPartition], what: str) -> KafkaError:
        names = ", ".join(map(str, partitions))
        metadata = self._engine.metadata
        for topic in sorted({partition.topic for partition in partitions}):
            info = metadata.image.topics.get(topic)
            if info is not None and info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return UnknownTopicOrPartition(
                    f"{what} {names}: topic {topic} does not exist. What to do: "
                    f"{UnknownTopicOrPartition.advice}",
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
        why = f": {metadata.last_error}" if metadata.last_error else ""
        return ApiTimeout(f"{what} {names} took too long{why}")


def no_offset_error(partitions: Iterable[TopicPartition]) -> NoOffsetForPartition:
    """Return the error for partitions without a committed offset and without a reset strategy."""
    names = ", ".join(map(str, partitions))
    return NoOffsetForPartition(
        f"{names}: no offset is committed. What to do: {NoOffsetForPartition.advice}"
    )
