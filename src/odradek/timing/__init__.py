"""Hierarchical timing wheels, delayed operations and their purgatory."""

from odradek.timing.delayed_operation import DelayedOperation
from odradek.timing.purgatory import DelayedOperationPurgatory
from odradek.timing.timer import SystemTimer
from odradek.timing.timing_wheel import (
    TimerTask,
    TimerTaskEntry,
    TimerTaskList,
    TimingWheel,
)

__all__ = [
    "DelayedOperation",
    "DelayedOperationPurgatory",
    "SystemTimer",
    "TimerTask",
    "TimerTaskEntry",
    "TimerTaskList",
    "TimingWheel",
]
