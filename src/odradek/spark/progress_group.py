"""The consumer group that shows the progress of a stream (`kafka.group.id`, `groupIdPrefix`).

Spark's checkpoint holds the progress. For lag monitoring, a thread commits the end of each finished
micro-batch as the offsets of a group without members, so that a slow or missing group coordinator
never delays a micro-batch. Only the newest end is committed, at most one a second. A failed commit
is logged once for each cause and tried again with the next end.
"""

from __future__ import annotations

import hashlib
import logging
import threading

from odradek import KafkaError
from odradek.spark.connections import admin_of
from odradek.spark.offsets import Offsets
from odradek.spark.options import ReadOptions

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0


def group_of(options: ReadOptions) -> str | None:
    """Return the name of the group; None without the options. With a prefix, it is the same for
    each run of a query: the suffix is a digest of its checkpoint, or else of its subscription."""
    if options.group_id is not None:
        return options.group_id
    if options.group_id_prefix is None:
        return None
    query = options.checkpoint_location or repr((options.subscription, options.starting))
    return f"{options.group_id_prefix}-{hashlib.sha256(query.encode()).hexdigest()[:16]}"


class ProgressGroup:
    """Commits the ends of micro-batches, in the background."""

    def __init__(self, options: ReadOptions, group_id: str) -> None:
        self.options = options
        self.group_id = group_id
        self.changed = threading.Condition()
        self.newest: Offsets = {}
        self.committed: Offsets = {}
        self.last_failure = ""
        self.awaited = False
        self.closed = False
        self.thread = threading.Thread(target=self.run, name="odradek-progress-group", daemon=True)
        self.thread.start()

    def commit(self, end: Offsets, *, within_s: float = 0.0) -> None:
        """Commit the end of a finished micro-batch; wait up to `within_s` for the commit."""
        with self.changed:
            self.newest = end
            self.awaited = within_s > 0
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.committed == end, within_s)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.thread.join()

    def run(self) -> None:
        while (end := self.next_end()) is not None:
            try:
                admin_of(self.options.client).alter_group_offsets(self.group_id, end)
            except KafkaError as error:
                self.report(error)
            with self.changed:
                self.committed = end
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.closed or self.awaited, PAUSE_SECONDS)

    def next_end(self) -> Offsets | None:
        with self.changed:
            self.changed.wait_for(lambda: self.closed or self.newest != self.committed)
            return None if self.closed else dict(self.newest)

    def report(self, error: KafkaError) -> None:
        if str(error) != self.last_failure:
            self.last_failure = str(error)
            log.warning(
                "the progress of this query cannot be committed for group %s (the query goes on; "
                "its checkpoint holds its progress): %s. What to do: give the query a group.id "
                "that no consumer uses",
                self.group_id,
                error,
            )
