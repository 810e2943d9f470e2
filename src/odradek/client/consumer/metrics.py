"""What is counted for the metrics of a consumer: fetches, partitions, its group, its polls.

Fetches are counted once per batch and request, when the response arrives: a record counts as
consumed when it is available to the application, also one of an aborted transaction. Lag and lead
of a partition are recorded when the application comes back for more records than are decoded. So
nothing is counted per record. Times are in ms.

    engine's thread         FetchMetrics, GroupMetrics; end and start in PartitionMetrics
    application's thread    lag and lead in PartitionMetrics, CallMetrics

Each number has one writer, and any thread may read it. Compiled, as it is used for each fetch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, final

from mypy_extensions import i64

from odradek.model.sampled_stat import SampledStat

NEVER_S: Final = -1.0
"""Stands for the seconds since an event that has not happened yet."""
UNKNOWN_OFFSET: Final[i64] = -1
NOT_YET_MS: Final[i64] = -1


@final
class TopicFetchMetrics:
    """What was fetched of one topic, or of all."""

    def __init__(self) -> None:
        self.records = SampledStat()
        """Records by fetch response."""
        self.size = SampledStat()
        """Size of the batches as received, so mostly compressed, by fetch response."""
        self._records: i64 = 0
        self._bytes: i64 = 0

    def count_records(self, records: i64, size: i64) -> None:
        """The response has records of a partition."""
        self._records += records
        self._bytes += size

    def fetch_completed(self, now_ms: i64) -> None:
        """Record what was counted in one response."""
        self.records.record(self._records, now_ms)
        self.size.record(self._bytes, now_ms)
        self._records = self._bytes = 0


@final
class FetchMetrics:
    """What one consumer fetched."""

    def __init__(self) -> None:
        self.all_topics = TopicFetchMetrics()
        self.topics: dict[str, TopicFetchMetrics] = {}
        self.fetch_latency = SampledStat()
        """From sending a request to its response; brokers wait if there is nothing to read."""
        self.fetch_throttle_time = SampledStat()
        self._touched: dict[str, TopicFetchMetrics] = {}

    def count_records(self, topic: str, records: i64, size: i64) -> None:
        """A response has records of a partition of this topic."""
        self.all_topics.count_records(records, size)
        counted = self._touched.get(topic)
        if counted is None:
            counted = self.topics.get(topic)
            if counted is None:
                counted = self.topics[topic] = TopicFetchMetrics()
            self._touched[topic] = counted
        counted.count_records(records, size)

    def fetch_completed(self, latency_ms: i64, throttle_ms: i64, now_ms: i64) -> None:
        """A response was processed."""
        self.all_topics.fetch_completed(now_ms)
        if self._touched:
            for counted in self._touched.values():
                counted.fetch_completed(now_ms)
            self._touched.clear()
        self.fetch_latency.record(latency_ms, now_ms)
        self.fetch_throttle_time.record(throttle_ms, now_ms)

    def forget_topics(self, kept: frozenset[str]) -> None:
        """Drop the metrics of all other topics."""
        for topic in [each for each in self.topics if each not in kept]:
            del self.topics[topic]


@final
class PartitionMetrics:
    """How far the application is from both ends of one partition."""

    def __init__(self) -> None:
        self.end: i64 = UNKNOWN_OFFSET
        """The offset behind the last readable record, as of the last fetch; -1 unknown."""
        self.start: i64 = UNKNOWN_OFFSET
        """The first offset, as of the last fetch; -1 unknown."""
        self.lag = SampledStat()
        self.lead = SampledStat()

    def record(self, offset: i64, now_ms: i64) -> None:
        """The application has received all records before `offset`."""
        if offset >= 0:
            if self.end >= 0:
                self.lag.record(max(0, self.end - offset), now_ms)
            if self.start >= 0:
                self.lead.record(max(0, offset - self.start), now_ms)


@final
class GroupMetrics:
    """What one group member did."""

    def __init__(self) -> None:
        self.commit_latency = SampledStat()
        """Confirmed commits: from the start of a commit, through all its attempts."""
        self.failed_commits = SampledStat()
        self.rebalance_latency = SampledStat()
        """Milliseconds from the first JoinGroup to the assignment, through all attempts."""
        self.failed_rebalances = SampledStat()
        """Attempts to join that ended without an assignment."""
        self.join_time = SampledStat()
        """From a JoinGroup to its response, if that names a generation."""
        self.sync_time = SampledStat()
        """From a SyncGroup to its response, if that has an assignment."""
        self.heartbeats = SampledStat()
        self.heartbeat_response_time = SampledStat()
        self.rebalanced_ms: i64 = NOT_YET_MS
        """When the last rebalance ended; -1 never."""
        self.heartbeat_sent_ms: i64 = NOT_YET_MS
        """When the last heartbeat was sent; -1 never."""
        self._rebalance_began_ms: i64 = NOT_YET_MS
        self._join_sent_ms: i64 = 0
        self._sync_sent_ms: i64 = 0

    def commit_completed(self, began_ms: i64, now_ms: i64) -> None:
        """Record the time of a commit that was confirmed."""
        self.commit_latency.record(now_ms - began_ms, now_ms)

    def commit_failed(self, now_ms: i64) -> None:
        """Count a commit that ended without being confirmed."""
        self.failed_commits.record(1, now_ms)

    def join_sent(self, now_ms: i64) -> None:
        """Note the time of a JoinGroup; the first one begins the rebalance."""
        self._join_sent_ms = now_ms
        if self._rebalance_began_ms == NOT_YET_MS:
            self._rebalance_began_ms = now_ms

    def joined(self, now_ms: i64) -> None:
        """Record the time since the JoinGroup: its response names a generation."""
        self.join_time.record(now_ms - self._join_sent_ms, now_ms)

    def sync_sent(self, now_ms: i64) -> None:
        """Note the time of a SyncGroup."""
        self._sync_sent_ms = now_ms

    def rebalance_completed(self, now_ms: i64) -> None:
        """Record the times of a rebalance that ended with an assignment."""
        self.sync_time.record(now_ms - self._sync_sent_ms, now_ms)
        self.rebalance_latency.record(now_ms - self._rebalance_began_ms, now_ms)
        self._rebalance_began_ms = NOT_YET_MS
        self.rebalanced_ms = now_ms

    def rebalance_failed(self, now_ms: i64) -> None:
        """Count an attempt to join that ended without an assignment."""
        self.failed_rebalances.record(1, now_ms)

    def heartbeat_sent(self, now_ms: i64) -> None:
        """Count a heartbeat, and note its time."""
        self.heartbeats.record(1, now_ms)
        self.heartbeat_sent_ms = now_ms

    def heartbeat_answered(self, now_ms: i64) -> None:
        """Record the time since the heartbeat that is answered, with or without an error."""
        self.heartbeat_response_time.record(now_ms - self.heartbeat_sent_ms, now_ms)


@final
class CallMetrics:
    """How long calls of the application took."""

    def __init__(self) -> None:
        self.poll_idle = SampledStat()
        """Waits for records inside polls."""
        self.commit_sync = SampledStat()
        self.committed = SampledStat()
        self.listener = {event: SampledStat() for event in ("assigned", "revoked", "lost")}
        """Calls of the rebalance listener, by the value of their `RebalanceEvent`."""

    def listener_called(self, event: Enum, took_ms: i64, now_ms: i64) -> None:
        """The rebalance listener returned, or raised."""
        self.listener[event.value].record(took_ms, now_ms)


def seconds_ago(then_ms: int, now_ms: int) -> float:
    """Return the seconds since `then_ms`; -1 if it has not happened."""
    return NEVER_S if then_ms == NOT_YET_MS else max(0, now_ms - then_ms) / 1000
