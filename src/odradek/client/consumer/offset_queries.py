"""What an application may ask about offsets: of positions, of the log's ends, of times, of lag.

All answers are waiters with an end: what is not known in time fails with an error that says what
was in the way.

The engine's thread only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from odradek.client.consumer.partition_state import FetchState
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.engine import Engine
from odradek.client.errors import (
    ApiTimeout,
    KafkaError,
    NoOffsetForPartition,
    UnknownTopicOrPartition,
)
from odradek.client.list_offsets import EARLIEST, LATEST, ListedOffset, list_offsets
from odradek.client.waiter import Waiter, spawn
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition

T = TypeVar("T")


class OffsetQueries:
    """Of one consumer; `read_committed` as it reads."""

    def __init__(
        self, engine: Engine, subscriptions: SubscriptionState, read_committed: bool
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._read_committed = read_committed
        self._watchers: list[Waiter[None]] = []

    def positions_changed(self) -> None:
        """Some may be known by now."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.complete(None)

    def position(self, partition: TopicPartition, timeout_ms: int) -> Waiter[int]:
        """The offset of the next record to hand out, as soon as it is known."""
        waiter = spawn(self._position(partition))
        return self.within(timeout_ms, waiter, [partition], "finding the position of")

    async def _position(self, partition: TopicPartition) -> int:
        while True:
            state = self._subscriptions.state(partition)
            if state.position.offset >= 0:
                return state.position.offset
            if state.state is FetchState.INITIALIZING and state.uncommitted:
                raise no_offset([partition])
            watcher: Waiter[None] = Waiter()
            self._watchers.append(watcher)
            await watcher

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Waiter[dict[TopicPartition, ListedOffset]]:
        """The offsets for timestamps (ms), or for the special ones of `client.list_offsets`."""
        waiter = spawn(list_offsets(self._engine, wanted, self._read_committed))
        return self.within(timeout_ms, waiter, wanted, "looking up offsets of")

    def watermarks(self, partition: TopicPartition, timeout_ms: int) -> Waiter[tuple[int, int]]:
        """The first offset there is, and the one behind the last that may be read."""
        waiter = spawn(self._watermarks(partition))
        return self.within(timeout_ms, waiter, [partition], "looking up the ends of")

    async def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        low = spawn(list_offsets(self._engine, {partition: EARLIEST}, self._read_committed))
        high = spawn(list_offsets(self._engine, {partition: LATEST}, self._read_committed))
        return (await low)[partition].offset, (await high)[partition].offset

    def known_watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        """The same as of the last fetch; None if the partition was not fetched yet."""
        state = self._subscriptions.state(partition)
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        if end is None or state.log_start_offset is None:
            return None
        return state.log_start_offset, end

    def lag(self, partition: TopicPartition, timeout_ms: int) -> Waiter[int]:
        """How many offsets lie between the position and the end; the end is asked for, if it is
        not known from fetching.
        """
        waiter = spawn(self._lag(partition))
        return self.within(timeout_ms, waiter, [partition], "looking up the lag of")

    async def _lag(self, partition: TopicPartition) -> int:
        offset = await self._position(partition)
        known = self._subscriptions.state(partition).lag(self._read_committed)
        if known is not None:
            return known
        found = await list_offsets(self._engine, {partition: LATEST}, self._read_committed)
        return max(0, found[partition].offset - offset)

    def within(
        self,
        timeout_ms: int,
        waiter: Waiter[T],
        partitions: Iterable[TopicPartition],
        what: str,
    ) -> Waiter[T]:
        """The waiter; it fails when time is over, with what was in the way."""
        return self._engine.within(timeout_ms, waiter, lambda: self._late(partitions, what))

    def _late(self, partitions: Iterable[TopicPartition], what: str) -> KafkaError:
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
        why = f": {metadata.trouble}" if metadata.trouble else ""
        return ApiTimeout(f"{what} {names} took too long{why}")


def no_offset(partitions: Iterable[TopicPartition]) -> NoOffsetForPartition:
    """The error for partitions without a position, and nothing that says how to find one."""
    names = ", ".join(map(str, partitions))
    return NoOffsetForPartition(
        f"{names}: no offset is committed. What to do: {NoOffsetForPartition.advice}"
    )
