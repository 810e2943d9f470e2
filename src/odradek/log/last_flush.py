"""Before a clean stop: every log of a directory flushed to its end, many at once.

    start ─► up to `at_once` flushes on workers ─► each end begins the next ─► done

One log after the other would wait for the disk several times each; flushes that run together share
the journal's commits, as in group commit. `LogDirectory.close` then finds nothing left to flush.

What does not succeed here is left to `close`, which says so: a log whose flush cannot begin for
want of room is passed over, and when the directory is fenced, or `give_up` was called because it
takes too long, no more flushes begin. Nothing that was acknowledged depends on any of it: the next
start reads from the recovery points that were reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from odradek.log.fence import LogDirFailure
from odradek.log.flush import LogFlush
from odradek.log.log import Log
from odradek.model.env import Offload

AT_ONCE = 32
"""More would need more descriptors, and gain little: what runs together shares its waits."""


class LastFlush:
    """Of the logs given. `done` is called once, on the owner thread, when no flush is under way and
    none is to come.
    """

    def __init__(
        self,
        logs: Iterable[Log],
        offload: Offload,
        done: Callable[[], None],
        at_once: int = AT_ONCE,
    ) -> None:
        waiting = [log for log in logs if log.dirty or log.recovery_point < log.log_end_offset]
        self.total = len(waiting)
        self.ended = 0
        """Flushed, or passed over."""
        self.gave_up = False
        self._waiting: Iterator[Log] = iter(waiting)
        self._offload = offload
        self._done = done
        self._at_once = at_once
        self._in_flight = 0
        self._told = False

    def start(self) -> None:
        self._go_on()

    def give_up(self) -> None:
        """Begin no more flushes."""
        self.gave_up = True
        self._go_on()

    def _go_on(self) -> None:
        while self._in_flight < self._at_once and not self.gave_up:
            log = next(self._waiting, None)
            if log is None:
                break
            try:
                flush = log.begin_flush(checkpoint=True)
            except LogDirFailure:
                self.gave_up = True
                break
            except OSError:
                flush = None
            if flush is None:
                self.ended += 1
            else:
                self._submit(log, flush)
        if self._in_flight == 0 and not self._told:
            self._told = True
            self._done()

    def _submit(self, log: Log, flush: LogFlush) -> None:
        self._in_flight += 1

        def ended(_: object) -> None:
            self._in_flight -= 1
            self.ended += 1
            with suppress(LogDirFailure):  # the fence keeps it, and the next flush does not begin
                log.end_flush(flush)
            self._go_on()

        self._offload.submit(flush.run, ended, ended)
