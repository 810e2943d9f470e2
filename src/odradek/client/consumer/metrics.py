"""What users of a consumer watch, by the names Kafka's own consumer gives them.

Totals count since the start. Averages and maxima are of the last half minute to minute
(`SampledStat`). Times are in ms, but where the name says seconds.

Fetching is counted once per batch and request, when the answer comes: records count as consumed
when they are there for the application, those of aborted transactions too. Nothing is counted per
record. The engine's thread only.
"""

from __future__ import annotations

from odradek.client.sampled_stat import SampledStat

NEVER_S = -1.0
"""What has not happened yet was so long ago."""


class FetchMetrics:
    """Of one consumer's fetches."""

    def __init__(self) -> None:
        self.fetch_total = 0
        """Answers."""
        self.records_consumed_total = 0
        self.bytes_consumed_total = 0
        """Of batches as they came, so mostly compressed."""
        self.fetch_latency = SampledStat()
        """From the sending of a request to its answer; with nothing to read, brokers wait."""
        self.fetch_size = SampledStat()
        self.records_per_request = SampledStat()
        self.fetch_throttle_time = SampledStat()
        self._records = 0
        self._bytes = 0

    def count_records(self, records: int, size: int) -> None:
        """An answer had so many records of a partition."""
        self._records += records
        self._bytes += size

    def fetch_completed(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """An answer came, and what it had was taken."""
        self.fetch_total += 1
        self.records_consumed_total += self._records
        self.bytes_consumed_total += self._bytes
        self.fetch_latency.record(latency_ms, now_ms)
        self.fetch_size.record(self._bytes, now_ms)
        self.records_per_request.record(self._records, now_ms)
        self.fetch_throttle_time.record(throttle_ms, now_ms)
        self._records = self._bytes = 0

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """All of it, by Kafka's names."""
        return {
            "fetch-total": self.fetch_total,
            "records-consumed-total": self.records_consumed_total,
            "bytes-consumed-total": self.bytes_consumed_total,
            **sampled("fetch-latency", self.fetch_latency, now_ms),
            **sampled("fetch-size", self.fetch_size, now_ms),
            **sampled("records-per-request", self.records_per_request, now_ms),
            **sampled("fetch-throttle-time", self.fetch_throttle_time, now_ms),
        }


class GroupMetrics:
    """Of one member of a group."""

    def __init__(self) -> None:
        self.commit_total = 0
        """Those that were confirmed."""
        self.failed_commit_total = 0
        self.rebalance_total = 0
        """Those that brought an assignment."""
        self.failed_rebalance_total = 0
        """Attempts that did not."""
        self.heartbeat_total = 0
        self.commit_latency = SampledStat()
        """From the begin of a commit, through all its attempts."""
        self.rebalance_latency = SampledStat()
        """From the first JoinGroup, through all attempts."""
        self.heartbeat_response_time = SampledStat()
        self._rebalance_began_ms: int | None = None
        self._rebalance_completed_ms: int | None = None
        self._heartbeat_sent_ms = 0
        self._heartbeat_answered_ms: int | None = None

    def commit_completed(self, began_ms: int, now_ms: int) -> None:
        """A commit is confirmed."""
        self.commit_total += 1
        self.commit_latency.record(now_ms - began_ms, now_ms)

    def join_sent(self, now_ms: int) -> None:
        """JoinGroup is sent, perhaps not for the first time."""
        if self._rebalance_began_ms is None:
            self._rebalance_began_ms = now_ms

    def rebalance_completed(self, now_ms: int) -> None:
        """An assignment came."""
        self.rebalance_total += 1
        if self._rebalance_began_ms is not None:
            self.rebalance_latency.record(now_ms - self._rebalance_began_ms, now_ms)
        self._rebalance_began_ms = None
        self._rebalance_completed_ms = now_ms

    def heartbeat_sent(self, now_ms: int) -> None:
        """A heartbeat is sent."""
        self.heartbeat_total += 1
        self._heartbeat_sent_ms = now_ms

    def heartbeat_answered(self, now_ms: int) -> None:
        """The coordinator answered it, whatever it said."""
        self.heartbeat_response_time.record(now_ms - self._heartbeat_sent_ms, now_ms)
        self._heartbeat_answered_ms = now_ms

    def snapshot(self, last_poll_ms: int, now_ms: int) -> dict[str, float]:
        """All of it, by Kafka's names; the commits that failed have none there."""
        return {
            "commit-total": self.commit_total,
            "failed-commit-total": self.failed_commit_total,
            "rebalance-total": self.rebalance_total,
            "failed-rebalance-total": self.failed_rebalance_total,
            "heartbeat-total": self.heartbeat_total,
            "last-poll-seconds-ago": seconds_ago(last_poll_ms, now_ms),
            "last-rebalance-seconds-ago": seconds_ago(self._rebalance_completed_ms, now_ms),
            "last-heartbeat-seconds-ago": seconds_ago(self._heartbeat_answered_ms, now_ms),
            **sampled("commit-latency", self.commit_latency, now_ms),
            **sampled("rebalance-latency", self.rebalance_latency, now_ms),
            **sampled("heartbeat-response-time", self.heartbeat_response_time, now_ms),
        }


def sampled(name: str, stat: SampledStat, now_ms: int) -> dict[str, float]:
    """A stat's average and maximum."""
    return {f"{name}-avg": stat.average(now_ms), f"{name}-max": stat.maximum(now_ms)}


def seconds_ago(then_ms: int | None, now_ms: int) -> float:
    """How long ago that was."""
    return NEVER_S if then_ms is None else max(0, now_ms - then_ms) / 1000
