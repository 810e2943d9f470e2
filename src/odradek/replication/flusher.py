"""Group commit: appended bytes get to disk, many requests per fsync.

A partition that was appended to is put on the list of the waiting; at the end of the current event
the flusher starts fsyncs for them on workers. While one of a partition runs, later appends wait for
the next, which covers all of them. At most `max_in_flight` run at a time; the others wait in the
order they came.

    append -> wants(partition) -> [end of event] begin_flush -> worker: fsync -> end_flush ->
    flushed(partition)

A flush that cannot begin for want of descriptors or room goes back to the waiting and is tried with
the next one that is wanted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.log.fence import LogDirFailure
from odradek.model.env import Env
from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 8


class Flusher:
    """`flushed` is called on the owner thread when a partition's durable end has moved, `failed`
    when an fsync failed.
    """

    def __init__(
        self,
        env: Env,
        flushed: Callable[[Partition], None],
        failed: Callable[[Partition, LogDirFailure], None],
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._env = env
        self._flushed = flushed
        self._failed = failed
        self._max_in_flight = max_in_flight
        self._waiting: dict[Partition, bool] = {}
        self._in_flight: set[Partition] = set()
        self._scheduled = False
        self._stopped = False

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing runs."""
        return not self._waiting and not self._in_flight

    def wants(self, partition: Partition, checkpoint: bool = False) -> None:
        """This partition has bytes that are not on disk; `checkpoint`: move its recovery point
        too.
        """
        self._waiting[partition] = checkpoint or self._waiting.get(partition, False)
        if not self._scheduled:
            self._scheduled = True
            self._env.call_soon(self._start)

    def forget(self, partition: Partition) -> None:
        """The partition is gone; a flush that runs for it ends in vain."""
        self._waiting.pop(partition, None)

    def stop(self) -> None:
        """Begin no more flushes; those that run come to their end."""
        self._stopped = True

    def _start(self) -> None:
        self._scheduled = False
        if self._stopped:
            return
        for partition in list(self._waiting):
            if len(self._in_flight) >= self._max_in_flight:
                return
            if partition not in self._in_flight:
                self._submit(partition, self._waiting.pop(partition))

    def _submit(self, partition: Partition, checkpoint: bool) -> None:
        log = partition.log
        try:
            flush = None if partition.failure else log.begin_flush(checkpoint)
        except LogDirFailure as failure:
            self._failed(partition, failure)
            return
        except OSError as error:
            logger.error("a flush of %s is put off: %s", partition.topic_partition, error)
            self._waiting[partition] = checkpoint
            return
        if flush is None:
            return
        self._in_flight.add(partition)

        def ended(error: BaseException | None) -> None:
            self._in_flight.discard(partition)
            try:
                log.end_flush(flush)
                assert error is None, f"flush of {partition.topic_partition}: {error!r}"
                self._flushed(partition)
            except LogDirFailure as failure:
                self._failed(partition, failure)
            finally:
                self._start()

        self._env.offload.submit(flush.run, lambda _: ended(None), ended)
