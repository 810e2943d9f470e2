"""SystemTimer: a timer that an owner loop drives, in real or simulated time.

    while True:
        deadline_ms = timer.next_deadline_ms()    # None: nothing is pending
        wait(None if deadline_ms is None else deadline_ms - clock())
        timer.advance_clock(clock())              # first after every wake-up
        ...                                       # then other events; they may add and cancel

The timer has no clock of its own: its time is the last argument of `advance_clock`, and delays
count from there. A loop therefore advances it after every wake-up, whether or not a task is due,
before it handles anything that may add a task.

Rules
- A task runs in `advance_clock` and nowhere else: `add` never calls it, even if its delay is 0.
- Due tasks run in the order of their deadlines, to the resolution of the tick. The order of tasks
  with the same deadline is unspecified, but the same for the same calls.
- A task may add and cancel tasks, itself included. A cancelled task does not run, even if it was
  due in the same round. An added task runs in a later `advance_clock`, even if it is due at once,
  so no task can block the loop.
- An exception leaves `advance_clock` at once. The due tasks after it stay due, and the next call
  runs them.
- `next_deadline_ms` is the beginning of the earliest bucket. For tasks far in the future that is a
  coarse bucket, where tasks move down a level and none may run. Buckets emptied by cancelling cause
  no wake-up.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64, mypyc_attr

from odradek.timing.timer_task import TaskCounter, TimerTask, TimerTaskEntry, claim, unschedule
from odradek.timing.timing_wheel import MAX_DEADLINE_MS, DelayQueue, TimingWheel


class CallTask(TimerTask):
    """A task that calls a function."""

    def __init__(self, delay_ms: int, function: Callable[[], object]) -> None:
        super().__init__(delay_ms)
        self.function = function

    def run(self) -> None:
        self.function()


@mypyc_attr(allow_interpreted_subclasses=True)
class ClockListener:
    """Is called after tasks have run: a purgatory then removes expired operations."""

    def clock_advanced(self) -> None:
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class SystemTimer:
    """Schedules tasks on one hierarchy of timing wheels.

    `now_ms` is the initial time, from any origin.
    """

    def __init__(self, now_ms: int, tick_ms: int = 1, wheel_size: int = 20) -> None:
        if now_ms < 0:
            raise ValueError(f"time begins at 0 or later, not at {now_ms}")
        self.now_ms: i64 = now_ms
        self.task_counter = TaskCounter()
        self.delay_queue = DelayQueue()
        self.timing_wheel = TimingWheel(
            tick_ms, wheel_size, now_ms, self.task_counter, self.delay_queue
        )
        self.counters: dict[str, TaskCounter] = {}
        """The number of tasks in the wheels by kind, for those whose owner names one."""
        self.is_shut_down = False
        self._due: list[TimerTaskEntry] = []
        self._listeners: list[ClockListener] = []

    @property
    def size(self) -> int:
        """The number of tasks in the wheels, without due tasks that wait to be run."""
        return self.task_counter.count

    def counter(self, kind: str) -> TaskCounter:
        """Return the counter of a kind of tasks: the `task_counter` of each when it is added."""
        found = self.counters.get(kind)
        if found is None:
            found = self.counters[kind] = TaskCounter()
        return found

    def add(self, task: TimerTask) -> None:
        """Schedule the task `task.delay_ms` from now; if it was scheduled, it moves there.

        Constant time.
        """
        self.schedule(task, self.now_ms + task.delay_ms)

    def call_later(
        self, delay_ms: int, function: Callable[[], object], counter: TaskCounter | None = None
    ) -> TimerTask:
        """Schedule a call; `cancel` the returned task to prevent it."""
        task = CallTask(delay_ms, function)
        task.task_counter = counter
        self.add(task)
        return task

    def schedule(self, task: TimerTask, deadline_ms: int) -> None:
        """Schedule the task for a point in time; after that, for the next `advance_clock`."""
        if self.is_shut_down:
            raise RuntimeError("the timer is shut down")
        unschedule(task)
        task.expiration_ms = min(deadline_ms, MAX_DEADLINE_MS)
        if not self.timing_wheel.add(task):
            task.is_due = True
            self._due.append(task)

    def next_deadline_ms(self) -> int | None:
        """Return when `advance_clock` has something to do next, None if nothing is pending.

        This is never later than the first deadline.
        """
        due = self._due
        while due and not due[-1].is_due:
            due.pop()
        if due:
            return self.now_ms
        bucket = self.delay_queue.peek()
        return None if bucket is None else bucket.expiration_ms

    def advance_clock(self, now_ms: int) -> int:
        """Set the time, which never goes back, and run due tasks; return how many ran."""
        return self.run_due(self.expire(now_ms))

    def expire(self, now_ms: int) -> list[TimerTaskEntry]:
        """Set the time and return the due tasks without running them.

        The first half of `advance_clock`.
        """
        time_ms: i64 = max(self.now_ms, now_ms)
        self.now_ms = time_ms
        wheel = self.timing_wheel
        bucket = self.delay_queue.poll(time_ms)
        while bucket is not None:
            wheel.advance_clock(bucket.expiration_ms)
            bucket.flush(wheel, self._due)
            bucket = self.delay_queue.poll(time_ms)
        # Kafka leaves the hand at the last bucket; here it moves on to now, so that after an idle
        # time new tasks start at the right level. All expired tasks have left the wheels.
        wheel.advance_clock(time_ms)
        due = self._due
        if due:
            self._due = []
        return due

    def run_due(self, due: list[TimerTaskEntry]) -> int:
        """Run the tasks of `due` that were not cancelled meanwhile; return how many ran.

        The second half of `advance_clock`.
        """
        ran: i64 = 0
        taken: i64 = 0
        try:
            for entry in due:
                taken += 1
                if self.claim(entry):
                    ran += 1
                    try:
                        entry.run()
                    except Exception as error:
                        self.task_failed(error)
        finally:
            if taken < len(due):
                self.put_back(due[taken:])
        if ran:
            for listener in self._listeners:
                listener.clock_advanced()
        return ran

    def claim(self, entry: TimerTaskEntry) -> bool:
        """Take an entry out for running; False if it was cancelled. `threaded` takes its lock."""
        return claim(entry)

    def put_back(self, entries: list[TimerTaskEntry]) -> None:
        """Keep entries due that `run_due` did not reach."""
        self._due = entries + self._due

    def task_failed(self, error: Exception) -> None:
        """Handle an exception of a task: raise it. `threaded` reports it and goes on."""
        raise error

    def listen(self, listener: ClockListener) -> None:
        """Call `clock_advanced` after every `advance_clock` in which tasks ran."""
        self._listeners = [*self._listeners, listener]

    def unlisten(self, listener: ClockListener) -> None:
        """Stop calling it. Raises `ValueError` if it was not listening."""
        listeners = list(self._listeners)
        listeners.remove(listener)
        self._listeners = listeners

    def shutdown(self) -> None:
        """Cancel every task. Adding one from now on raises `RuntimeError`."""
        self.is_shut_down = True
        self.delay_queue.clear()
        for entry in self._due:
            unschedule(entry)
        self._due = []
