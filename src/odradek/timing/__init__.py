"""Timers that cancel in O(1), and operations that wait for a condition or a deadline.

The package is independent of the broker and has no global state.

- `SystemTimer` (module `timer`): any number of timers on hierarchical timing wheels. Starting and
  cancelling take the same short time whether ten or a million are pending; cancelled timers are
  removed at once. It has no thread and no clock: a loop asks for `next_deadline_ms()`, sleeps, and
  calls `advance_clock(now_ms)`, which runs due tasks. Time is real or simulated.
- `DelayedOperation` and `DelayedOperationPurgatory`: an operation that completes exactly once,
  when its condition holds or its deadline passes; found by the keys whose events may complete it.
- `odradek.timing.threaded`: both for programs with threads, driven by a reaper thread that sleeps
  until exactly the next deadline.

Reading order: `timing_wheel` and `timer_task` (the wheels), `timer`, `delayed_operation`,
`purgatory`, `threaded`.

A timer with simulated time:

>>> from odradek.timing import SystemTimer
>>> timer = SystemTimer(now_ms=0)
>>> tea = timer.call_later(180_000, lambda: print("tea is ready"))
>>> eggs = timer.call_later(300_000, lambda: print("eggs are ready"))
>>> eggs.cancel()                   # in constant time; True: it will not run
True
>>> while (deadline_ms := timer.next_deadline_ms()) is not None:
...     ran = timer.advance_clock(deadline_ms)
tea is ready
>>> timer.now_ms, timer.size
(180000, 0)

An operation that waits for two events, at most a second:

>>> from odradek.timing import DelayedOperation, DelayedOperationPurgatory
>>> arrived = set()
>>> class Meeting(DelayedOperation):
...     def try_complete(self):
...         return {"odra", "dek"} <= arrived and self.force_complete()
...     def on_complete(self):
...         print("begins with", sorted(arrived))
...     def on_expiration(self):
...         print("somebody is missing")
>>> purgatory = DelayedOperationPurgatory("meetings", timer)
>>> purgatory.try_complete_else_watch(Meeting(1000), ["odra", "dek"])
False
>>> arrived.add("odra"); purgatory.check_and_complete("odra")
0
>>> arrived.add("dek"); purgatory.check_and_complete("dek")
begins with ['dek', 'odra']
1

`examples/timer.py` drives a timer in real time, by a loop and by the reaper thread.

Tests: unit/timing, property/test_timing_properties.py
"""

from odradek.timing.delayed_operation import DelayedOperation
from odradek.timing.purgatory import DelayedOperationPurgatory
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask, TimerTaskEntry, TimerTaskList
from odradek.timing.timing_wheel import TimingWheel

__all__ = [
    "DelayedOperation",
    "DelayedOperationPurgatory",
    "SystemTimer",
    "TimerTask",
    "TimerTaskEntry",
    "TimerTaskList",
    "TimingWheel",
]
