"""Group commit: one fsync makes the appends of many requests durable.

An appended partition is queued. At the end of the current event the flusher starts fsyncs for the
queued partitions on workers. While one of a partition runs, later appends to it wait for the next,
which covers all of them. At most `max_in_flight` run at a time; the others wait in their order.

    append -> request(partition) -> [end of event] begin_flush -> worker: fsync -> end_flush
    -> flushed(partition)

A flush that cannot begin for lack of descriptors or disk space is queued again, and tried with
the next request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice

from odradek.log.fence import LogDirFailure
from odradek.model.env import Env
from odradek.model.histogram import Histogram
from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 8


class Flusher:
    """Calls `flushed` on the owner thread when a partition's durable end has moved, `failed` when
    an fsync failed.
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
        self.flush_times = Histogram()
        """Nanoseconds from the beginning of a flush to its end on the owner thread."""
        self.flushed_bytes = 0
        self.failed_flushes = 0

    @property
    def waiting(self) -> int:
        """The number of partitions whose flush is requested and has not begun."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """The number of flushes under way."""
        return len(self._in_flight)

    @property
    def idle(self) -> bool:
        """True if nothing is queued and nothing runs."""
        return not self._waiting and not self._in_flight

    def request(self, partition: Partition, checkpoint: bool = False) -> None:
        """Flush this partition; with `checkpoint` move its recovery point too."""
        self._waiting[partition] = checkpoint or self._waiting.get(partition, False)
        if not self._scheduled:
            self._scheduled = True
            self._env.call_soon(self._start)

    def forget(self, partition: Partition) -> None:
        """Drop a removed partition from the queue. A flush of it that runs is of no effect."""
        self._waiting.pop(partition, None)

    def stop(self) -> None:
        """Start no more flushes; those that run end normally."""
        self._stopped = True

    def _start(self) -> None:
        self._scheduled = False
        if self._stopped:
            return
        # Each one once, in their order, but without a copy of all: each flush that ends comes here.
        left = len(self._waiting) - sum(each in self._waiting for each in self._in_flight)
        while left > 0 and (room := self._max_in_flight - len(self._in_flight)) > 0:
            candidates = (each for each in self._waiting if each not in self._in_flight)
            for partition in list(islice(candidates, min(room, left))):
                left -= 1
                self._submit(partition, self._waiting.pop(partition))

    def _submit(self, partition: Partition, checkpoint: bool) -> None:
        log = partition.log
        try:
            flush = None if partition.failure else log.begin_flush(checkpoint)
        except LogDirFailure as failure:
            self._failed(partition, failure)
            return
        except OSError as error:
            logger.error(
                "flush of %s could not start: %s; it is tried again with the next flush",
                partition.topic_partition,
                error,
            )
            self._waiting[partition] = checkpoint
            return
        if flush is None:
            return
        self._in_flight.add(partition)
        clock = self._env.clock
        began_ns = clock.monotonic_ns()

        def ended(error: BaseException | None) -> None:
            self._in_flight.discard(partition)
            self.flush_times.observe(clock.monotonic_ns() - began_ns)
            if error is None:
                self.flushed_bytes += flush.size
            else:
                self.failed_flushes += 1
            try:
                log.end_flush(flush)
                assert error is None, f"flush of {partition.topic_partition}: {error!r}"
                self._flushed(partition)
            except LogDirFailure as failure:
                self._failed(partition, failure)
            finally:
                self._start()

        self._env.offload.submit(flush.run, lambda _: ended(None), ended)
