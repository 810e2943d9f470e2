"""DelayedOperation: completes exactly once, when its condition holds or its deadline passes.

               try_complete() finds the condition true,
               or any caller calls force_complete()
    waiting  -------------------------------------------->  completed     on_complete()
               the deadline passes: run()
    waiting  -------------------------------------------->  completed     on_complete(), then
                                                                          on_expiration()

A subclass overrides three methods. `try_complete` checks the condition and, if it holds, returns
`self.force_complete()`. `on_complete` does what is to be done then. `on_expiration` does what is to
be done in addition after a timeout. `force_complete` is the only way into the completed state; only
its first caller gets True and runs `on_complete`.

The safe try
The condition may change while it is being checked. All callers except the subclass itself use
`safe_try_complete` (once called maybeTryComplete in Kafka), which loses no wake-up:

- A try while the operation is being tried on the same thread (a `try_complete` that causes a check
  of the operation's own key) does not nest: it makes the running one check once more before it
  gives up.
- With a `lock` (see `threaded`), a try on another thread waits for the running one and then checks
  the condition itself.

Exceptions are not caught here. One from `try_complete` leaves the operation waiting. One from
`on_complete` or `on_expiration` is raised to the caller that completed the operation, which stays
completed and is not run again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import final

from mypy_extensions import mypyc_attr

from odradek.timing.timer_task import TimerTask, cancel


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(TimerTask):
    """Waits at most `delay_ms` from when it is given to a purgatory.

    `is_completed` is for reading only.
    """

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.is_completed = False
        self.lock: AbstractContextManager[object] | None = None
        self.is_trying = False
        self.try_again = False

    def try_complete(self) -> bool:
        """Return `self.force_complete()` if the condition holds, else False."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do what follows completion, by condition or deadline.

        Called once, with the lock held if there is one.
        """
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Do what follows `on_complete` if the deadline completed the operation."""
        raise NotImplementedError

    @final
    def force_complete(self) -> bool:
        """Complete now, whether or not the condition holds. True for the call that completes it."""
        return force_complete(self)

    @final
    def safe_try_complete(self) -> bool:
        """Call `try_complete` unless completed. True only if this call completed the operation."""
        return safe_try_complete(self)

    @final
    def run(self) -> None:
        """Complete the operation at its deadline."""
        counter = self.task_counter
        if counter is not None and not self.is_completed:
            counter.expired += 1
        self.expire()

    @final
    def expire(self) -> None:
        """Complete the operation as at its deadline, before it."""
        if force_complete(self):
            self.on_expiration()


# Functions for the same reason as those in `timer_task`.


def force_complete(operation: DelayedOperation) -> bool:
    """`operation.force_complete()` as a function."""
    if operation.is_completed:
        return False
    if operation.lock is None:
        return _complete(operation)
    with operation.lock:
        return _complete(operation)


def _complete(operation: DelayedOperation) -> bool:
    if operation.is_completed:
        return False
    operation.is_completed = True
    cancel(operation)
    operation.on_complete()
    return True


def safe_try_complete(operation: DelayedOperation) -> bool:
    """`operation.safe_try_complete()` as a function."""
    if operation.is_completed:
        return False
    if operation.lock is None:
        return _try(operation)
    with operation.lock:
        return _try(operation)


def _try(operation: DelayedOperation) -> bool:
    if operation.is_trying:
        operation.try_again = True
        return False
    operation.is_trying = True
    done = False
    try:
        while not operation.is_completed:
            operation.try_again = False
            done = operation.try_complete()
            if not operation.try_again:
                break
    finally:
        operation.is_trying = False
    return done
