"""Waiting for new records without asking over and over: a long poll on every leader.

Spark asks a source for its latest offsets in a loop. Answering at once, 90 times a second, costs a
tenth of a core for nothing; answering after a pause costs latency. So `HeadWatch.wait` has a
consumer read from the heads on, for as little data as there can be, and returns when a record comes
out of it, or after the timeout: half a second at most, since Spark cannot stop a query while it
waits here.

The consumer has connections of its own: a broker answers a connection in order, and questions for
offsets must not queue behind a poll. What it brings is thrown away (one batch at most per poll).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from odradek import KafkaError
from odradek.spark.connections import FetchOptions, open_consumer
from odradek.spark.offsets import Offsets
from odradek.spark.options import ClientOptions

POLL_MS = 500
PAUSE_SECONDS = 0.02


class HeadWatch:
    """One per stream reader, for one thread."""

    def __init__(self, client: ClientOptions, *, read_committed: bool = False) -> None:
        self.consumer = open_consumer(
            FetchOptions(client, read_committed, max_bytes=1, max_partition_bytes=1)
        )
        self.watched: Offsets = {}
        """Where the consumer stands."""

    def wait(
        self, heads: Offsets, moved: Callable[[], Offsets], timeout_ms: int = POLL_MS
    ) -> Offsets:
        """The first answer of `moved()` that is not `heads`, or `heads` after `timeout_ms`."""
        deadline = time.monotonic() + timeout_ms / 1000
        while (rest := deadline - time.monotonic()) > 0:
            if not self.something_came(heads, rest):
                return heads
            found = moved()
            if found != heads:
                return found
            # The answers are at odds, or there was an error, which will pass or show elsewhere.
            time.sleep(min(PAUSE_SECONDS, rest))
        return heads

    def something_came(self, heads: Offsets, timeout_s: float) -> bool:
        """Whether there is reason to ask for the heads again, within so many seconds."""
        try:
            if self.watched != heads:
                self.watched = {}
                self.consumer.assign(heads)
                self.watched = dict(heads)
            if self.consumer.poll(timeout_s) is None:
                return False
        except KafkaError:
            pass
        self.watched = {}
        return True

    def close(self) -> None:
        self.consumer.close()
