"""DelayedOperation: completes when its condition holds or when its time is up, exactly once.

               try_complete() finds the condition true,
               or anyone calls force_complete()
    waiting  -------------------------------------------->  completed     on_complete()
               the deadline passes: run()
    waiting  -------------------------------------------->  completed     on_complete(), then
                                                                          on_expiration()

A subclass says what to wait for in `try_complete`, which looks at the condition and, if it holds,
returns `self.force_complete()`; what to do then in `on_complete`; and what else to do if it was
too late in `on_expiration`. `force_complete` is the only way into the completed state, and only
its first caller gets True and runs `on_complete`.

The safe try
The condition may change while it is being looked at. `safe_try_complete` (long called
maybeTryComplete in Kafka) is how everybody but the subclass itself tries, and it loses no
wake-up:

- A try made while the operation is being tried on the same thread (a `try_complete` that changes
  something and has the operation's own key checked) does not nest: it makes the running one look
  once more before it gives up.
- With a `lock` (see `threaded`), a try made on another thread waits for the running one and then
  looks for itself.

Exceptions are not caught here. One from `try_complete` leaves the operation waiting. One from
`on_complete` or `on_expiration` goes to whoever completed it; it stays completed, and will not be
run again.
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
        """If the condition holds, `return self.force_complete()`, else `return False`."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """What to do when it completes, either way.

        Called once, with the lock held if there is one.
        """
        raise NotImplementedError

    def on_expiration(self) -> None:
        """What to do besides, after `on_complete`, if it was the deadline that completed it."""
        raise NotImplementedError

    @final
    def force_complete(self) -> bool:
        """Complete now, whether or not the condition holds. True for the one caller that did it."""
        return force_complete(self)

    @final
    def safe_try_complete(self) -> bool:
        """`try_complete`, unless it is completed. True only if this very call completed it."""
        return safe_try_complete(self)

    @final
    def run(self) -> None:
        """The deadline passed."""
        if force_complete(self):
            self.on_expiration()


# Functions for the same reason as those in `timing_wheel`.


def force_complete(operation: DelayedOperation) -> bool:
    """What `operation.force_complete()` does."""
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
    """What `operation.safe_try_complete()` does."""
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
