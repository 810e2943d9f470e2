"""ConsumerInterceptors: the interceptors of one consumer, as one.

    CompletedFetch ─► on_consume ─► application           records that were decoded together
    PollLoop.convert ─► on_consume_arrow ─► application   one Arrow batch
    Commits ─► committed ─► tell_commits ─► on_commit     from the engine's thread to the other

The interceptors run on the application's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.consumer.arguments import OFFSETS_KEY
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.fetch.completed_fetch import Records, is_selection
from odradek.client.interceptor_hook import close_all
from odradek.client.interceptors import ConsumerInterceptor, hooks
from odradek.model.env import Clock
from odradek.model.topics import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

MAX_COMMITS = 100
"""How many commits wait for the application's next poll; then later ones are joined."""


def interceptors_of(
    interceptors: Sequence[ConsumerInterceptor], clock: Clock
) -> ConsumerInterceptors | None:
    """Return the interceptors of a consumer as one; None if there is none."""
    return ConsumerInterceptors(interceptors, clock) if interceptors else None


class ConsumerInterceptors:
    """The interceptors of one consumer. Application's thread, except for `committed`."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor], clock: Clock) -> None:
        base = ConsumerInterceptor
        self._on_consume = hooks(interceptors, base.on_consume, clock)
        self._on_consume_arrow = hooks(interceptors, base.on_consume_arrow, clock)
        self._on_commit = hooks(interceptors, base.on_commit, clock)
        self._close = hooks(interceptors, base.close, clock)
        self._commits: deque[dict[TopicPartition, OffsetAndMetadata]] = deque()

    @property
    def consumes(self) -> bool:
        """True if an interceptor wants to see records."""
        return bool(self._on_consume)

    @property
    def commits(self) -> bool:
        """True if an interceptor wants to know of commits."""
        return bool(self._on_commit)

    def on_consume(self, records: Records) -> Records:
        """Return the records for the application."""
        for hook in self._on_consume:
            try:
                made = hook.call(records.copy())
                if not isinstance(made, list) or not is_selection(made, records):
                    raise TypeError(
                        "it must return a list of records that it got, or that Record.replace made "
                        "of them, in the same order"
                    )
                records = made
            except Exception as error:
                hook.failed(error)
        return records

    def on_consume_arrow(self, batch: Any) -> Any:
        """Return the Arrow batch for the application. Its schema keeps the offsets to commit."""
        for hook in self._on_consume_arrow:
            try:
                made = hook.call(batch)
                if type(made) is not type(batch):
                    raise TypeError(f"it returned a {type(made).__name__}, not an Arrow batch")
                kept = batch.schema.metadata or {}
                own = made.schema.metadata or {}
                if OFFSETS_KEY in kept and OFFSETS_KEY not in own:
                    made = made.replace_schema_metadata({**own, OFFSETS_KEY: kept[OFFSETS_KEY]})
                batch = made
            except Exception as error:
                hook.failed(error)
        return batch

    def committed(self, offsets: Offsets) -> None:
        """Keep the offsets of a commit for `tell_commits`. Engine's thread."""
        latest = dict(offsets)
        if len(self._commits) >= MAX_COMMITS:
            latest = {**self._commits.pop(), **latest}
        self._commits.append(latest)

    def tell_commits(self) -> None:
        """Call `on_commit` for the commits since the last call."""
        commits = self._commits
        while commits:
            offsets = commits.popleft()
            for hook in self._on_commit:
                try:
                    hook.call(dict(offsets))
                except Exception as error:
                    hook.failed(error)

    def close(self) -> None:
        """Close all interceptors. A second call does nothing."""
        close_all(self._close)
