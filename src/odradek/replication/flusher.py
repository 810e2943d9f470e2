"""Group commit: one fsync makes the appends of many requests durable.

An appended partition is queued. At the end of the current event the flusher starts fsyncs for the
queued partitions on workers. While one of a partition runs, later appends to it wait for the next,
which covers all of them. At most `max_in_flight` run at a time; the others wait in their order.

    append -> request(partition) -> [end of event] begin_flush -> worker: fsync -> end_flush
    -> flushed(partition)

What a recovery has read is flushed from a queue of its own, a few at a time, so that appends do not
wait behind thousands of recovered logs. An append to one of them, or its leadership, moves it to
the other queue.

A flush that cannot begin for lack of descriptors or disk space is queued again, and tried with
the next request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from odradek.log.fence import LogDirFailure
from odradek.log.flush import LogFlush
from odradek.model.env import Env
from odradek.model.histogram import Histogram
from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 8
MAX_RECOVERED_IN_FLIGHT: Final = 2
"""The recovered logs that are flushed at a time, besides. Less than there are workers."""


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
        self._recovered: dict[Partition, bool] = {}
        self._in_flight: set[Partition] = set()
        self._recovered_in_flight = 0
        self._scheduled = False
        self._stopped = False
        self.flush_times = Histogram()
        """Nanoseconds from the beginning of a flush to its end on the owner thread."""
        self.flushed_bytes = 0
        self.failed_flushes = 0

    @property
    def waiting(self) -> int:
        """The number of partitions whose flush is requested and has not begun."""
        return len(self._waiting) + len(self._recovered)

    @property
    def in_flight(self) -> int:
        """The number of flushes under way."""
        return len(self._in_flight)

    @property
    def idle(self) -> bool:
        """True if nothing is queued and nothing runs."""
        return not self.waiting and not self._in_flight

    def request(self, partition: Partition, checkpoint: bool = False) -> None:
        """Flush this partition; with `checkpoint` move its recovery point too."""
        postponed = self._recovered.pop(partition, False)
        self._waiting[partition] = checkpoint or postponed or self._waiting.get(partition, False)
        self._schedule()

    def request_for_recovered(self, partition: Partition, checkpoint: bool) -> None:
        """Flush a partition whose log has just been recovered, behind all others like it."""
        self._recovered[partition] = checkpoint
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._env.call_soon(self._start)

    def forget(self, partition: Partition) -> None:
        """Drop a removed partition from the queues. A flush of it that runs is of no effect."""
        self._waiting.pop(partition, None)
        self._recovered.pop(partition, None)

    def stop(self) -> None:
        """Start no more flushes; those that run end normally."""
        self._stopped = True

    def _start(self) -> None:
        self._scheduled = False
        if self._stopped:
            return
        # Each one once, in their order, but without a copy of all: each flush that ends comes here.
        left = len(self._waiting) - sum(each in self._waiting for each in self._in_flight)
        while left > 0 and (room := self._room()) > 0:
            candidates = (each for each in self._waiting if each not in self._in_flight)
            for partition in list(islice(candidates, min(room, left))):
                left -= 1
                self._submit(partition, self._waiting.pop(partition), False)
        while self._recovered and self._recovered_in_flight < MAX_RECOVERED_IN_FLIGHT:
            partition = next(iter(self._recovered))
            if not self._submit(partition, self._recovered.pop(partition), True):
                break  # The others would be refused like it.

    def _room(self) -> int:
        return self._max_in_flight - (len(self._in_flight) - self._recovered_in_flight)

    def _submit(self, partition: Partition, checkpoint: bool, recovered: bool) -> bool:
        """Begin a flush, if there is something to flush. False if it is queued again."""
        log = partition.log
        try:
            flush = None if partition.failure else log.begin_flush(checkpoint)
        except LogDirFailure as failure:
            self._failed(partition, failure)
            return True
        except OSError as error:
            logger.error(
                "flush of %s could not start: %s; it is tried again with the next flush",
                partition.topic_partition,
                error,
            )
            queue = self._recovered if recovered else self._waiting
            queue[partition] = checkpoint
            return False
        if flush is None:
            return True
        self._in_flight.add(partition)
        self._recovered_in_flight += recovered
        began_ns = self._env.clock.monotonic_ns()
        # Its result is None, as is the error of a flush that has none.
        ended = partial(self._ended, partition, flush, recovered, began_ns)
        self._env.offload.submit(flush.run, ended, ended)
        return True

    def _ended(
        self,
        partition: Partition,
        flush: LogFlush,
        recovered: bool,
        began_ns: int,
        error: BaseException | None,
    ) -> None:
        self._in_flight.discard(partition)
        self._recovered_in_flight -= recovered
        self.flush_times.observe(self._env.clock.monotonic_ns() - began_ns)
        if error is None:
            self.flushed_bytes += flush.size
        else:
            self.failed_flushes += 1
        try:
            partition.log.end_flush(flush)
            assert error is None, f"flush of {partition.topic_partition}: {error!r}"
            self._flushed(partition)
        except LogDirFailure as failure:
            self._failed(partition, failure)
        finally:
            self._start()
