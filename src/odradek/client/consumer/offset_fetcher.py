"""OffsetFetcher: finds positions where none is known, and makes sure of those that are.

    AWAIT_RESET ── ListOffsets: earliest, latest, or by time ──► FETCHING
    AWAIT_VALIDATION ── OffsetForLeaderEpoch (KIP-320) ─┬─ agrees ──► FETCHING
                                                        └─ the log was truncated: see
                                                           `held_decisions`

`update_positions` begins whatever is missing and not under way. Each partition has at most one such
request under way; one that fails is tried again after a back-off, and what cannot be cured so is
raised by the application's poll, and tried again. An answer for a position that moved meanwhile is
dropped.

With `by_duration`, a partition that has nothing so young is read from its end.

The engine's thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from odradek.client import list_offsets
from odradek.client.alarm import NEVER_MS, Alarm
from odradek.client.api_versions import RequestBuilder
from odradek.client.cluster_image import NO_EPOCH
from odradek.client.consumer.held_decisions import HeldDecisions
from odradek.client.consumer.partition_state import (
    FetchPosition,
    FetchState,
    Leader,
    PartitionState,
)
from odradek.client.consumer.position import Position
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.engine import Engine
from odradek.client.errors import KafkaError, UnsupportedVersion, error_for
from odradek.client.list_offsets import Asked, ListedOffset
from odradek.client.waiter import Waiter
from odradek.config.consumer import ConsumerConfig
from odradek.config.offset_reset import OffsetReset, ResetStrategy
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition
from odradek.protocol.api.list_offsets import ListOffsetsResponse
from odradek.protocol.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger(__name__)

CONSUMER_REPLICA_ID = -1
FIRST_VERSION_FOR_CONSUMERS = 3
"""Of OffsetForLeaderEpoch: before it, only who may alter the cluster may ask."""

Place = tuple[Position, int]
"""A position in one of its generations. A partition that went and came back has another position,
whose generations begin anew."""


class OffsetFetcher:
    """`changed` is called when positions were found; `failed` with what the application must
    know."""

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        held: HeldDecisions,
        changed: Callable[[], object],
        failed: Callable[[KafkaError], object],
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._config = config
        self._held = held
        self._changed = changed
        self._failed = failed
        self._asked: dict[TopicPartition, Place] = {}
        """For what something is under way."""
        self._alarm = Alarm(engine.timer, self.update_positions)
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._alarm.cancel()

    def update_positions(self) -> None:
        """Ask for every position that is missing or has to be made sure of."""
        if self._closed:
            return
        resets: dict[int, list[PartitionState]] = {}
        validations: dict[int, list[PartitionState]] = {}
        now_ms = self._engine.now_ms
        wake_ms = NEVER_MS
        lost = False
        for state in self._subscriptions.states:
            if state.state is FetchState.AWAIT_RESET:
                groups = resets
            elif state.state is FetchState.AWAIT_VALIDATION:
                groups = validations
            else:
                continue
            if self._asked.get(state.topic_partition) == place_of(state):
                continue
            if state.next_retry_ms > now_ms:
                wake_ms = min(wake_ms, state.next_retry_ms)
                continue
            leader = self._engine.metadata.image.leader(*state.topic_partition)
            if leader < 0:
                lost = True
            else:
                groups.setdefault(leader, []).append(state)
        for node_id, states in resets.items():
            self._reset(node_id, states)
        for node_id, states in validations.items():
            self._validate(node_id, states)
        if lost and not self._engine.metadata.update_requested:
            self._engine.metadata.request_update()
        if wake_ms != NEVER_MS:
            self._alarm.set_for(wake_ms)

    def _begin(self, states: Iterable[PartitionState]) -> dict[TopicPartition, Place]:
        """Remember that these are being asked about; what they are now."""
        begun = {state.topic_partition: place_of(state) for state in states}
        self._asked.update(begun)
        return begun

    def _end(self, begun: dict[TopicPartition, Place]) -> dict[TopicPartition, PartitionState]:
        """The request is over: of what it was about, what has not moved."""
        current: dict[TopicPartition, PartitionState] = {}
        for partition, place in begun.items():
            if self._asked.get(partition) == place:
                del self._asked[partition]
            state = self._subscriptions.get(partition)
            if state is not None and place_of(state) == place:
                current[partition] = state
        return current

    def _retry(self, states: Iterable[PartitionState], error: KafkaError) -> None:
        """It came to nothing; what cannot be cured by trying is told, and tried all the same."""
        for state in states:
            self._held.back_off(state)
        log.debug("%s", error)
        if error.refresh_metadata:
            self._engine.metadata.request_update()
        if not list_offsets.passes(error.code):
            self._failed(error)

    # Resetting.

    def _reset(self, node_id: int, states: list[PartitionState]) -> None:
        wall_ms = self._engine.env.clock.wall_ms()
        wanted: dict[TopicPartition, Asked] = {}
        for state in states:
            assert state.reset is not None
            epoch = self._engine.metadata.image.leader_epoch(*state.topic_partition)
            wanted[state.topic_partition] = Asked(state.reset.timestamp(wall_ms), epoch)
        begun = self._begin(states)
        waiter = list_offsets.ask(self._engine, node_id, wanted, self._config.read_committed)
        waiter.add_callback(lambda done: self._reset_answered(begun, done))

    def _reset_answered(
        self, begun: dict[TopicPartition, Place], done: Waiter[ListOffsetsResponse]
    ) -> None:
        current = self._end(begun)
        if self._closed:
            return
        if isinstance(done.error, KafkaError):
            self._retry(current.values(), done.error)
        else:
            for partition, code, found in list_offsets.answers(done.result()):
                state = current.pop(partition, None)
                if state is None or state.state is not FetchState.AWAIT_RESET:
                    continue
                if code != ErrorCode.NONE:
                    what = f"looking up the {state.reset} offset of {partition}"
                    self._retry([state], error_for(code, what))
                else:
                    self._found(state, found)
        self._changed()

    def _found(self, state: PartitionState, found: ListedOffset) -> None:
        if found.offset < 0:
            assert state.reset is not None
            if state.reset.strategy is ResetStrategy.BY_DURATION:
                state.request_reset(OffsetReset(ResetStrategy.LATEST))
            else:
                self._held.back_off(state)
            return
        log.info(
            "%s: reading from offset %d (%s)", state.topic_partition, found.offset, state.reset
        )
        if found.leader_epoch != NO_EPOCH:
            self._engine.metadata.saw_epoch(state.topic_partition, found.leader_epoch)
        state.seek(FetchPosition(found.offset))
        self.meet_leader(state)

    def meet_leader(self, state: PartitionState) -> None:
        """Tell a position who leads its partition now."""
        info = self._engine.metadata.image.partition(*state.topic_partition)
        if info is not None:
            state.meet_leader(Leader(info.leader, info.leader_epoch))

    # Validating.

    def _validate(self, node_id: int, states: list[PartitionState]) -> None:
        versions = self._engine.client.versions(node_id)
        if versions is not None and not versions.supports(
            OffsetForLeaderEpochRequest, FIRST_VERSION_FOR_CONSUMERS
        ):
            for state in states:
                state.validated()
            self._changed()
            return
        begun = self._begin(states)
        asked = {state.topic_partition: state.fetch for state in states}
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
        waiter.add_callback(lambda done: self._validate_answered(begun, asked, done))

    def _validate_answered(
        self,
        begun: dict[TopicPartition, Place],
        asked: dict[TopicPartition, FetchPosition],
        done: Waiter[OffsetForLeaderEpochResponse],
    ) -> None:
        current = self._end(begun)
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
                    if unmoved is not None and unmoved.fetch == asked[partition]:
                        self._judge(unmoved, found)
        self._changed()

    def _judge(self, state: PartitionState, found: EpochEndOffset) -> None:
        """Where the leader's log has its end of the epoch that was read last."""
        if state.state is not FetchState.AWAIT_VALIDATION:
            return
        code = error_code(found.error_code)
        if code != ErrorCode.NONE:
            self._retry([state], error_for(code, f"validating {state.topic_partition}"))
            return
        state.validated()
        if found.end_offset < 0 or found.leader_epoch < 0:
            self._held.truncated(state, -1, NO_EPOCH)
        elif found.end_offset < state.fetch.offset:
            self._held.truncated(state, found.end_offset, found.leader_epoch)


def place_of(state: PartitionState) -> Place:
    return state.position, state.position.generation
