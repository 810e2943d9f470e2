"""The consumer group that shows how far a stream is (`kafka.group.id`, `groupIdPrefix`).

Spark's checkpoint is the truth. So that displays of lag see a query, the end of each finished
micro-batch is committed as the offsets of a group without members, by a thread of its own: a group
coordinator that is slow or away never holds up a micro-batch. Only the newest end is committed, at
most one a second. A commit that fails is logged once for each cause and tried again with the next
end.
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
    """The name of the group; None if none was asked for. With a prefix, it is the same for each run
    of a query: what follows is made of its checkpoint, or else of what it reads."""
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

    def show(self, end: Offsets, *, within_s: float = 0.0) -> None:
        """Commit the end of a finished micro-batch; wait for it for so long."""
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
                "the progress of this query cannot be committed for group %s (it goes on; its "
                "checkpoint holds its progress): %s. What to do: give the query a group.id that no "
                "consumer uses",
                self.group_id,
                error,
            )
