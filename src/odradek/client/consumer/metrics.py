"""Metrics of a consumer, by the names of Kafka's own consumer.

Totals count since the start. Averages and maxima cover the last 30 to 60 seconds (`SampledStat`).
Times are in ms, except where the name says seconds.

Fetches are counted once per batch and request, when the response arrives: a record counts as
consumed when it is available to the application, also one of an aborted transaction. Nothing is
counted per record. Runs on the engine's thread.
"""

from __future__ import annotations

from odradek.client.sampled_stat import SampledStat

NEVER_S = -1.0
"""The seconds since an event that has not happened yet."""


class FetchMetrics:
    """Metrics of one consumer's fetches."""

    def __init__(self) -> None:
        self.fetch_total = 0
        """Fetch responses."""
        self.records_consumed_total = 0
        self.bytes_consumed_total = 0
        """Size of the batches as received, so mostly compressed."""
        self.fetch_latency = SampledStat()
        """From sending a request to its response; brokers wait if there is nothing to read."""
        self.fetch_size = SampledStat()
        self.records_per_request = SampledStat()
        self.fetch_throttle_time = SampledStat()
        self._records = 0
        self._bytes = 0

    def count_records(self, records: int, size: int) -> None:
        """A response had records of a partition."""
        self._records += records
        self._bytes += size

    def fetch_completed(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """A response was processed."""
        self.fetch_total += 1
        self.records_consumed_total += self._records
        self.bytes_consumed_total += self._bytes
        self.fetch_latency.record(latency_ms, now_ms)
        self.fetch_size.record(self._bytes, now_ms)
        self.records_per_request.record(self._records, now_ms)
        self.fetch_throttle_time.record(throttle_ms, now_ms)
        self._records = self._bytes = 0

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """Return all metrics by Kafka's names."""
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
    """Metrics of one group member."""

    def __init__(self) -> None:
        self.commit_total = 0
        """Commits that were confirmed."""
        self.failed_commit_total = 0
        self.rebalance_total = 0
        """Rebalances that ended with an assignment."""
        self.failed_rebalance_total = 0
        """Attempts that did not."""
        self.heartbeat_total = 0
        self.commit_latency = SampledStat()
        """From the start of a commit, through all its attempts."""
        self.rebalance_latency = SampledStat()
        """From the first JoinGroup, through all attempts."""
        self.heartbeat_response_time = SampledStat()
        self._rebalance_began_ms: int | None = None
        self._rebalance_completed_ms: int | None = None
        self._heartbeat_sent_ms = 0
        self._heartbeat_answered_ms: int | None = None

    def commit_completed(self, began_ms: int, now_ms: int) -> None:
        """A commit was confirmed."""
        self.commit_total += 1
        self.commit_latency.record(now_ms - began_ms, now_ms)

    def join_sent(self, now_ms: int) -> None:
        """JoinGroup was sent, perhaps repeatedly."""
        if self._rebalance_began_ms is None:
            self._rebalance_began_ms = now_ms

    def rebalance_completed(self, now_ms: int) -> None:
        """An assignment arrived."""
        self.rebalance_total += 1
        if self._rebalance_began_ms is not None:
            self.rebalance_latency.record(now_ms - self._rebalance_began_ms, now_ms)
        self._rebalance_began_ms = None
        self._rebalance_completed_ms = now_ms

    def heartbeat_sent(self, now_ms: int) -> None:
        """A heartbeat was sent."""
        self.heartbeat_total += 1
        self._heartbeat_sent_ms = now_ms

    def heartbeat_answered(self, now_ms: int) -> None:
        """The coordinator answered a heartbeat, with or without an error."""
        self.heartbeat_response_time.record(now_ms - self._heartbeat_sent_ms, now_ms)
        self._heartbeat_answered_ms = now_ms

    def snapshot(self, last_poll_ms: int, now_ms: int) -> dict[str, float]:
        """Return all metrics by Kafka's names, except failed commits: Kafka has no name
        for them.
        """
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
    """Return a stat's average and maximum."""
    return {f"{name}-avg": stat.average(now_ms), f"{name}-max": stat.maximum(now_ms)}


def seconds_ago(then_ms: int | None, now_ms: int) -> float:
    """Return the seconds since `then_ms`; -1 if it has not happened."""
    return NEVER_S if then_ms is None else max(0, now_ms - then_ms) / 1000
