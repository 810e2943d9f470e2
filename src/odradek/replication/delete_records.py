"""DelayedDeleteRecords: a trim that waits until every live replica's log starts at the requested
offset, and will after a power failure.

With one replica the low watermark is its own log start offset, and what is waited for is the disk
(see `log_starts`). Without `log.durability=fsync` nothing waits.

Log starts on their way to the disk: what DeleteRecords waits for.

A trim has noted the new log start in its log's slot of `durable-ends` (`log.durable_ends`): from
there on it outlives the process. Before it is answered it outlives a power failure too, with
`log.durability=fsync`: one sync of that file for all trims of an event, and while it runs, later
ones wait for the next.

    moved(partition) ─► [end of event] worker: sync ─► log.durable_log_start
                                                       ─► durable(partition)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from odradek.log.fence import LogDirFailure
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.replication.produce import DelayedByPartition

NO_LOW_WATERMARK = -1


@dataclass(slots=True)
class DeleteRecordsStatus:
    """One partition of a trim: its answer so far. Pending ones start with REQUEST_TIMED_OUT."""

    partition: Partition | None
    target: int
    pending: bool
    error: ErrorCode
    low_watermark: int = NO_LOW_WATERMARK


class DelayedDeleteRecords(DelayedByPartition[DeleteRecordsStatus]):
    """See the module."""

    def settle(self, status: DeleteRecordsStatus) -> None:
        partition = status.partition
        assert partition is not None, "a pending status has a partition"
        error = partition.availability()
        if error is not ErrorCode.NONE:
            status.pending = False
            status.error = error
        elif partition.log.durable_log_start >= status.target:
            status.pending = False
            status.error = ErrorCode.NONE
            status.low_watermark = partition.log.durable_log_start


class LogStarts:
    """`durable` is called on the owner thread for every partition whose log start has got to the
    disk, `failed` when the disk failed.
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
        self._under_way = False
        self._scheduled = False

    def moved(self, partition: Partition) -> None:
        """The log start of this partition was raised and noted."""
        self._waiting[partition] = None
        if not self._scheduled:
            self._scheduled = True
            self._env.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        if self._under_way or not self._waiting:
            return
        starts = {partition: partition.log.written_log_start for partition in self._waiting}
        work = next(iter(starts)).log.sync_log_start  # one file has them all
        self._waiting = {}
        self._under_way = True

        def ended(error: BaseException | None) -> None:
            self._under_way = False
            if isinstance(error, LogDirFailure):
                self._failed(error)
                return
            assert error is None, f"log starts: {error!r}"
            for partition, offset in starts.items():
                log = partition.log
                log.durable_log_start = max(log.durable_log_start, offset)
                # Each in an event of its own: an answer that raises is nobody else's trouble.
                self._env.call_soon(partial(self._durable, partition))
            self._start()

        self._env.offload.submit(work, lambda _: ended(None), ended)
