"""Makes raised log starts durable; DeleteRecords waits for this.

DeleteRecords has written the new log start to its log's slot of `durable-ends`
(`log.durable_ends`), so it survives the end of the process. With `log.durability=fsync` the
response waits until it survives a power failure too: one sync of that file for all requests of an
event. While a sync runs, later requests wait for the next.

    request(partition) ─► [end of event] worker: sync ─► log.durable_log_start
                                                         ─► durable(partition)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from odradek.log.fence import LogDirFailure
from odradek.model.env import Env
from odradek.replication.partition import Partition


class LogStartSyncer:
    """Calls `durable` on the owner thread for each partition whose log start is on disk, and
    `failed` when the disk failed.
    """

    def __init__(
        self,
        env: Env,
        durable: Callable[[Partition], None],
        failed: Callable[[LogDirFailure], None],
    ) -> None:
        self._env = env
        self._durable = durable
        self._failed = failed
        self._waiting: dict[Partition, None] = {}
        self._in_progress = False
        self._scheduled = False

    def request(self, partition: Partition) -> None:
        """Sync the log start of this partition, which was raised and written."""
        self._waiting[partition] = None
        if not self._scheduled:
            self._scheduled = True
            self._env.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        if self._in_progress or not self._waiting:
            return
        starts = {partition: partition.log.written_log_start for partition in self._waiting}
        work = next(iter(starts)).log.sync_log_start  # one file has those of all partitions
        self._waiting = {}
        self._in_progress = True

        def ended(error: BaseException | None) -> None:
            self._in_progress = False
            if isinstance(error, LogDirFailure):
                self._failed(error)
                return
            assert error is None, f"log starts: {error!r}"
            for partition, offset in starts.items():
                log = partition.log
                log.durable_log_start = max(log.durable_log_start, offset)
                # An event for each: a callback that raises does not keep the others from running.
                self._env.call_soon(partial(self._durable, partition))
            self._start()

        self._env.offload.submit(work, lambda _: ended(None), ended)
