"""ConsumerCalls: the calls of an application to its consumer, except those for records.

Each call is a coroutine that awaits waiters; `spawn` runs it on the engine's thread. The blocking
and the asyncio consumer have a method of the same name that blocks on it or awaits it. `arguments`
describes the forms that arguments can have. Timeouts are in seconds; the default is
`default.api.timeout.ms`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from odradek.client.arguments import (
    ByPartition,
    PartitionLike,
    by_partition,
    checked_topics,
    limit_ms,
    partition_of,
    partitions_of,
)
from odradek.client.consumer.arguments import Offsets, Target, assignment_of, offsets_of, target_of
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.consumer_core import ConsumerCore
from odradek.client.consumer.group.runner import NEEDS_GROUP
from odradek.client.errors import IllegalState, InvalidGroupId
from odradek.client.list_offsets import EARLIEST, LATEST, lookup_timestamp_ms
from odradek.client.waiter import Waiter
from odradek.config.offset_reset import AutoOffsetResetStrategy
from odradek.model.sampled_stat import SampledStat
from odradek.model.topics import TopicPartition

log = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Watermarks(NamedTuple):
    """The first offset of a partition, and the offset behind the last readable record."""

    low: int
    high: int


class OffsetAndTimestamp(NamedTuple):
    """The offset, timestamp and leader epoch of a record that was looked up by time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1

    @property
    def timestamp(self) -> datetime:
        """The timestamp as a `datetime` in UTC."""
        return EPOCH + timedelta(milliseconds=self.timestamp_ms)


class ConsumerCalls:
    """The calls of one consumer. Runs on the engine's thread."""

    def __init__(self, consumer: ConsumerCore) -> None:
        self._consumer = consumer
        self._subscriptions = consumer.subscriptions
        self._queries = consumer.queries

    @contextmanager
    def _timed(self, stat: SampledStat) -> Iterator[None]:
        """Record how long a call of the application takes, also if it fails."""
        engine = self._consumer.engine
        began_ms = engine.now_ms
        try:
            yield
        finally:
            stat.record(engine.now_ms - began_ms, engine.now_ms)

    def _ms(self, timeout: float | None) -> int:
        if timeout is None:
            return self._consumer.config.default_api_timeout_ms
        return limit_ms(timeout)

    # Subscription and assignment.

    async def subscribe(self, topics: str | Iterable[str] | re.Pattern[str]) -> None:
        """Subscribe to topics by name, or to all topics whose whole name matches a pattern."""
        if not isinstance(topics, re.Pattern):
            self._consumer.subscribe(checked_topics(topics))
        elif isinstance(topics.pattern, str):
            self._consumer.subscribe_pattern(topics)
        else:
            raise TypeError(f"{topics!r} is a pattern of bytes. What to do: give one of text")

    async def subscription(self) -> list[str]:
        """Return the topics subscribed to, sorted."""
        return sorted(self._subscriptions.subscription)

    async def assign(
        self,
        partitions: Iterable[PartitionLike]
        | Mapping[PartitionLike, int | tuple[int | None, int | None] | None],
    ) -> None:
        """Read exactly these partitions, without sharing them with a group. A mapping gives the
        offset at which to begin, or a pair of offsets: where to begin and where to stop
        (exclusive). Reading ends when every partition has an end and was read up to it.
        """
        self._consumer.assign(*assignment_of(partitions))

    async def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, sorted."""
        return sorted(self._subscriptions.assigned_partitions)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partition numbers of a topic."""
        engine = self._consumer.engine
        waiter = engine.wait_for_topic(topic)
        found = await self._queries.within(
            self._ms(timeout), waiter, [TopicPartition(topic, 0)], "looking up"
        )
        return list(found.partitions)

    # Positions.

    async def seek(self, partitions: PartitionLike | Iterable[PartitionLike], to: Target) -> None:
        """Go on at an offset, at the "start", at the "end", or at the first record that is not
        older than a `datetime` (at the end, if there is none).
        """
        target = target_of(to)
        moved = partitions_of(partitions)
        for partition in moved:
            self._subscriptions.state(partition)
        if isinstance(target, datetime):
            at = lookup_timestamp_ms(target)
            found = await self._queries.list_offsets(dict.fromkeys(moved, at), self._ms(None))
            missing = [partition for partition in moved if found[partition].offset < 0]
            ends = await self._queries.list_offsets(dict.fromkeys(missing, LATEST), self._ms(None))
            for partition in moved:
                self._consumer.seek(partition, {**found, **ends}[partition].offset)
        elif isinstance(target, AutoOffsetResetStrategy):
            self._consumer.seek_by(moved, target)
        else:
            for partition in moved:
                self._consumer.seek(partition, target)

    async def pause(self, *partitions: PartitionLike | Iterable[PartitionLike]) -> None:
        """Return no records of these partitions until `resume`; fetched records are kept."""
        self._consumer.pause([p for each in partitions for p in partitions_of(each)])

    async def resume(self, *partitions: PartitionLike | Iterable[PartitionLike]) -> None:
        """Return records of these partitions again."""
        self._consumer.resume([p for each in partitions for p in partitions_of(each)])

    async def paused(self) -> list[TopicPartition]:
        """Return the paused partitions, sorted."""
        return sorted(self._subscriptions.paused_partitions)

    # Queries.

    async def position(self, partition: PartitionLike, timeout: float | None = None) -> int:
        """Return the offset of the next record to return."""
        return await self._queries.position(partition_of(partition), self._ms(timeout))

    async def watermarks(
        self, partition: PartitionLike, timeout: float | None = None, *, cached: bool = False
    ) -> Watermarks:
        """Return the first offset and the offset behind the last readable record; with `cached` as
        of the last fetch, if there was one.
        """
        wanted = partition_of(partition)
        known = self._queries.known_watermarks(wanted) if cached else None
        return Watermarks(*(known or await self._queries.watermarks(wanted, self._ms(timeout))))

    async def lag(self, partition: PartitionLike, timeout: float | None = None) -> int:
        """Return the number of offsets between the position and the end."""
        return await self._queries.lag(partition_of(partition), self._ms(timeout))

    async def offsets_for_times(
        self,
        times: ByPartition[datetime | int],
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is not older than a time (a `datetime`, or milliseconds
        since 1970), for each partition; None where there is none.
        """
        wanted = {each: lookup_timestamp_ms(at) for each, at in by_partition(times).items()}
        found = await self._queries.list_offsets(wanted, self._ms(timeout))
        return {
            partition: OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
            for partition, listed in found.items()
        }

    async def beginning_offsets(
        self, partitions: PartitionLike | Iterable[PartitionLike], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await self._ends(partitions, EARLIEST, timeout)

    async def end_offsets(
        self, partitions: PartitionLike | Iterable[PartitionLike], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last readable record of each partition."""
        return await self._ends(partitions, LATEST, timeout)

    async def _ends(
        self, partitions: Any, which: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions_of(partitions), which)
        found = await self._queries.list_offsets(wanted, self._ms(timeout))
        return {partition: listed.offset for partition, listed in found.items()}

    # Commits.

    async def commit(self, what: Any, timeout: float | None, asynchronous: bool) -> Offsets:
        """Commit and return the committed offsets; `asynchronous` does not wait for the commit."""
        offsets = self.consumed() if what is None else offsets_of(what)
        if asynchronous:
            self._consumer.group.commit(offsets).add_callback(log_failure)
        else:
            with self._timed(self._consumer.calls.commit_sync):
                await self._consumer.group.commit(offsets, self._ms(timeout))
        return offsets

    async def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's place in its group, for `send_offsets_to_transaction` of a
        producer. Raises `RebalanceInProgress` or `CommitFailed` while it has none."""
        return self._consumer.group.group_metadata()

    async def for_transaction(self, what: Any) -> tuple[Offsets, ConsumerGroupMetadata]:
        """Return the offsets to commit with a transaction, by default of what was consumed, and the
        consumer's place in its group. Raises `IllegalState` if it commits by itself."""
        config = self._consumer.config
        if config.group_id is not None and config.enable_auto_commit:
            raise IllegalState(
                f"the consumer of group {config.group_id} commits offsets by itself, also of "
                "records whose transaction is aborted. What to do: give it "
                "enable_auto_commit=False"
            )
        group = self._consumer.group.group_metadata()
        return self.consumed() if what is None else offsets_of(what), group

    def consumed(self) -> Offsets:
        """Return the offsets that the application has consumed."""
        return {
            partition: OffsetAndMetadata(at.offset, "", at.offset_epoch)
            for partition, at in self._subscriptions.consumed.items()
        }

    async def committed(
        self,
        partitions: PartitionLike | Iterable[PartitionLike] | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets for partitions, by default the assigned ones."""
        if self._consumer.config.group_id is None:
            raise InvalidGroupId(f"nothing is committed without a group. What to do: {NEEDS_GROUP}")
        wanted = (
            self._subscriptions.assigned_partitions
            if partitions is None
            else partitions_of(partitions)
        )
        with self._timed(self._consumer.calls.committed):
            return await self._consumer.group.committed(wanted, self._ms(timeout))


def log_failure(waiter: Waiter[None]) -> None:
    """Log the error of a commit that nobody waits for."""
    if waiter.error is not None:
        log.warning("an asynchronous commit failed: %s", waiter.error)
