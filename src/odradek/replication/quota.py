"""Throttling replication traffic, for reassignments beside clients' traffic (KIP-73).

A broker has two quotas, one for what it sends as a leader and one for what it fetches as a
follower. Each has a rate (`leader.replication.throttled.rate`, `follower.replication.throttled.
rate`) and the replicas it is for (`leader.replication.throttled.replicas` and the follower's, of
each topic). Only replicas that are not in sync are throttled: nothing that producers wait for.

The rate is that of the last `SAMPLES` seconds. While it is above the quota a throttled replica is
left out: a leader sends it nothing, a follower does not ask. As in Kafka a fetch that has begun is
counted whole, so the rate may be above the quota for a moment by the size of a fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from odradek.replication.partition import Partition

UNLIMITED: Final = (1 << 63) - 1
SAMPLES: Final = 11
SAMPLE_MS: Final = 1000
ALL: Final = "*"

Key = tuple[UUID, int]


class ReplicationQuota:
    """One quota of a broker: bytes a second, and the partitions that it is for."""

    def __init__(self, node_id: int, now_ms: Callable[[], int]) -> None:
        """`now_ms`: monotonic time."""
        self._node_id = node_id
        self._now_ms = now_ms
        self.rate = UNLIMITED
        """Bytes a second."""
        self._throttled: dict[UUID, frozenset[int] | None] = {}
        self._samples: deque[tuple[int, int]] = deque()  # (beginning, bytes)

    def set_replicas(self, topic_id: UUID, replicas: Iterable[str]) -> None:
        """Set the throttled replicas of a topic: `partition:broker`, or `*` for all."""
        entries = list(replicas)
        if ALL in entries:
            self._throttled[topic_id] = None
            return
        mine = [entry.split(":") for entry in entries]
        numbers = frozenset(int(number) for number, node in mine if int(node) == self._node_id)
        if numbers:
            self._throttled[topic_id] = numbers
        else:
            self._throttled.pop(topic_id, None)

    def forget(self, topic_id: UUID) -> None:
        """Forget a deleted topic."""
        self._throttled.pop(topic_id, None)

    def is_throttled(self, key: Key) -> bool:
        """True if the quota is for this partition."""
        topic_id, number = key
        if topic_id not in self._throttled:
            return False
        numbers = self._throttled[topic_id]
        return numbers is None or number in numbers

    @property
    def is_exceeded(self) -> bool:
        """True if the rate of the last seconds is above the quota."""
        return self.rate < UNLIMITED and self.measured_rate() > self.rate

    def measured_rate(self) -> float:
        """Bytes a second: those of the last samples, by the time since the oldest began, which
        counts as one whole sample at least.
        """
        now_ms = self._now_ms()
        while self._samples and now_ms - self._samples[0][0] >= SAMPLES * SAMPLE_MS:
            self._samples.popleft()
        if not self._samples:
            return 0.0
        elapsed_ms = max(SAMPLE_MS, now_ms - self._samples[0][0])
        return 1000 * sum(size for _, size in self._samples) / elapsed_ms

    def add(self, size: int) -> None:
        """Count bytes of throttled replicas."""
        now_ms = self._now_ms()
        if self._samples and now_ms - self._samples[-1][0] < SAMPLE_MS:
            began_ms, before = self._samples[-1]
            self._samples[-1] = began_ms, before + size
        else:
            self._samples.append((now_ms, size))
            if len(self._samples) > SAMPLES:
                self._samples.popleft()


class LeaderQuota(ReplicationQuota):
    """The quota of what a leader sends (`follower_fetch.Throttle`)."""

    def is_exceeded_for(self, partition: Partition, broker_id: int) -> bool:
        return self._applies(partition, broker_id) and self.is_exceeded

    def record(self, partition: Partition, broker_id: int, size: int) -> None:
        if self._applies(partition, broker_id):
            self.add(size)

    def _applies(self, partition: Partition, broker_id: int) -> bool:
        leadership = partition.leadership
        return self.is_throttled(
            (partition.topic_id, partition.topic_partition.partition)
        ) and not (leadership is not None and broker_id in leadership.isr)


class FollowerQuota(ReplicationQuota):
    """The quota of what the replicas that catch up fetch (`replica_fetcher.Quota`)."""

    def is_exceeded_for(self, key: Key) -> bool:
        return self.is_throttled(key) and self.is_exceeded

    def record(self, key: Key, size: int) -> None:
        if self.is_throttled(key):
            self.add(size)
