"""Waiting for new records without asking over and over: a long poll on every leader.

Spark asks a source for its latest offsets in a loop. Answering at once, 90 times a second, costs a
tenth of a core for nothing; answering after a pause costs latency. So `HeadWatch.wait` leaves one
Fetch with every leader, from the heads on and for as little data as there can be, and returns when
one is answered, or after the timeout: half a second at most, since Spark cannot stop a query while
it waits here.

The Fetches run on connections of their own: a broker answers a connection in order, and questions
for offsets must not queue behind a poll. A Fetch that is not answered in time stays under way and
is found again by the next call. What it brings is thrown away (one batch at most per poll).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from odradek.client.simple.cluster import READ_COMMITTED, READ_UNCOMMITTED, Cluster, by_topic
from odradek.client.simple.connection import Disconnected
from odradek.client.simple.network_client import Pending
from odradek.model.ids import TopicPartition
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.spark.offsets import Offsets

POLL_MS = 500
LAST_VERSION_BY_NAME = 12
PAUSE_SECONDS = 0.02


class HeadWatch:
    """One per stream reader, for one thread."""

    def __init__(self, cluster: Cluster, *, read_committed: bool = False) -> None:
        self.cluster = cluster
        self.isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self.polls: dict[int, tuple[Pending[FetchResponse], Offsets]] = {}

    def wait(
        self, heads: Offsets, moved: Callable[[], Offsets], timeout_ms: int = POLL_MS
    ) -> Offsets:
        """The first answer of `moved()` that is not `heads`, or `heads` after `timeout_ms`."""
        deadline = time.monotonic() + timeout_ms / 1000
        self.take_answers()  # to polls of an earlier call, from where the heads were then
        while (rest_ms := int((deadline - time.monotonic()) * 1000)) > 0:
            self.ask(heads)
            waiting = [pending for pending, _ in self.polls.values()]
            if waiting and not self.cluster.client.first_ready(waiting, rest_ms):
                return heads
            began = time.monotonic()
            answered = self.take_answers()
            found = moved()
            if found != heads:
                return found
            if not answered or time.monotonic() - began < PAUSE_SECONDS:
                # Nobody to ask, or an answer that says nothing new (an error, a poll that ran out).
                time.sleep(min(PAUSE_SECONDS, rest_ms / 1000))
        return heads

    def ask(self, heads: Offsets) -> None:
        """Leave a Fetch from `heads` with every leader that has none, or one from elsewhere."""
        groups: dict[int, Offsets] = {}
        for partition, offset in heads.items():
            groups.setdefault(self.cluster.metadata.leader(partition), {})[partition] = offset
        for node_id in list(self.polls):
            if self.polls[node_id][1] != groups.get(node_id):
                self.cluster.client.abandon(self.polls.pop(node_id)[0])
        for node_id, positions in groups.items():
            if node_id not in self.polls:
                try:
                    self.polls[node_id] = (self.send(node_id, positions), positions)
                except Disconnected:
                    self.cluster.metadata.forget(by_topic(positions))

    def send(self, node_id: int, positions: Offsets) -> Pending[FetchResponse]:
        topics = [
            FetchTopic(topic=name, partitions=[self.position(p, positions[p]) for p in group])
            for name, group in by_topic(positions).items()
        ]
        request = FetchRequest(
            max_wait_ms=POLL_MS,
            min_bytes=1,
            max_bytes=1,
            isolation_level=self.isolation,
            topics=topics,
        )
        return self.cluster.client.send(
            node_id, request, FetchResponse, max_version=LAST_VERSION_BY_NAME
        )

    def position(self, partition: TopicPartition, offset: int) -> FetchPartition:
        return FetchPartition(
            partition=partition.partition, fetch_offset=offset, partition_max_bytes=1
        )

    def take_answers(self) -> bool:
        """Take what has arrived; whether anything had."""
        taken = False
        for node_id, (pending, positions) in list(self.polls.items()):
            if not self.cluster.client.first_ready([pending], 0):
                continue
            del self.polls[node_id]
            taken = True
            try:
                response = self.cluster.client.receive(pending)
            except Disconnected:
                self.cluster.metadata.forget(by_topic(positions))
                continue
            if any(p.error_code for topic in response.responses for p in topic.partitions):
                self.cluster.metadata.forget(by_topic(positions))
        return taken
