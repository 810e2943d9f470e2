"""The timer against a sorted list and the purgatory against plain sets, for random histories."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.timing import DelayedOperation, DelayedOperationPurgatory, SystemTimer, TimerTask
from odradek.timing.timer_task import NOT_QUEUED
from odradek.timing.timing_wheel import TimingWheel

SETTINGS = settings(
    max_examples=150, stateful_step_count=60, deadline=None, derandomize=True, database=None
)

# Delays of every level, up to a year, and the limits of ticks and intervals of the first four.
DELAYS = st.one_of(
    st.integers(0, 45),
    st.integers(380, 420),
    st.integers(0, 10_000),
    st.sampled_from([19, 20, 21, 399, 400, 401, 7_999, 8_000, 8_001, 159_999, 160_000]),
    st.integers(0, 365 * 86_400_000),
)
TASKS = st.integers(0, 11)


class Task(TimerTask):
    """Records its name in `ran`, then calls a function."""

    def __init__(self, name: int, ran: list[int]) -> None:
        super().__init__(0)
        self.name, self.ran = name, ran
        self.then = lambda: None

    def run(self) -> None:
        self.ran.append(self.name)
        self.then()


class TimerAgainstSortedList(RuleBasedStateMachine):
    """The model maps the name of each scheduled task to its deadline, rounded down to the tick."""

    @initialize(
        start_ms=st.integers(0, 2**42),
        tick_ms=st.sampled_from([1, 1, 1, 7, 100]),
        wheel_size=st.sampled_from([20, 20, 2, 3, 64]),
    )
    def begin(self, start_ms: int, tick_ms: int, wheel_size: int) -> None:
        self.timer = SystemTimer(start_ms, tick_ms, wheel_size)
        self.tick_ms = tick_ms
        self.now_ms = start_ms
        self.ran: list[int] = []
        self.tasks = [Task(name, self.ran) for name in range(12)]
        self.model: dict[int, int] = {}

    def deadline(self, delay_ms: int) -> int:
        exact_ms = self.now_ms + delay_ms
        return exact_ms - exact_ms % self.tick_ms

    @rule(name=TASKS, delay_ms=DELAYS)
    def add_or_move(self, name: int, delay_ms: int) -> None:
        task = self.tasks[name]
        task.delay_ms = delay_ms
        self.timer.add(task)
        self.model[name] = self.deadline(delay_ms)

    @rule(name=TASKS)
    def cancel(self, name: int) -> None:
        assert self.tasks[name].cancel() == (name in self.model)
        self.model.pop(name, None)

    @rule(name=TASKS, victim=TASKS, other=TASKS, delay_ms=DELAYS)
    def let_it_cancel_and_add_when_it_runs(
        self, name: int, victim: int, other: int, delay_ms: int
    ) -> None:
        def then() -> None:
            # A task that is added again while due keeps its place among the due ones.
            self.added.pop(name, None)
            assert self.tasks[victim].cancel() == self.is_pending(victim)
            self.model.pop(victim, None)
            self.added.pop(victim, None)
            if not self.is_pending(other):
                self.tasks[other].delay_ms = delay_ms
                self.timer.add(self.tasks[other])
                self.added[other] = self.now_ms + delay_ms

        self.tasks[name].then = then

    def is_pending(self, name: int) -> bool:
        """True within a round for tasks added in it or not run yet."""
        return name in self.added or (name in self.model and name not in self.ran)

    @rule(jump_ms=DELAYS)
    def advance(self, jump_ms: int) -> None:
        self.now_ms += jump_ms
        self.run_and_compare()

    @precondition(lambda self: self.model)
    @rule()
    def sleep_until_the_next_deadline(self) -> None:
        deadline_ms = self.timer.next_deadline_ms()
        assert deadline_ms is not None
        self.now_ms = deadline_ms
        self.run_and_compare()

    def run_and_compare(self) -> None:
        self.ran.clear()
        self.added: dict[int, int] = {}
        before = dict(self.model)
        due = {name for name, deadline in before.items() if deadline <= self.now_ms}
        count = self.timer.advance_clock(self.now_ms)
        assert count == len(self.ran) == len(set(self.ran))
        # Due tasks that did not run were cancelled by a task that ran before them.
        assert set(self.ran) <= due
        assert all(name not in self.model for name in due - set(self.ran))
        deadlines = [before[name] for name in self.ran]
        assert deadlines == sorted(deadlines)
        for name in self.ran:
            self.model.pop(name, None)
        for name, exact_ms in self.added.items():
            self.model[name] = exact_ms - exact_ms % self.tick_ms

    @rule()
    def drain(self) -> None:
        """Drive the timer: each deadline takes at most one wake-up per task and level."""
        for task in self.tasks:
            task.then = lambda: None
        wakeups = 0
        while self.model:
            self.sleep_until_the_next_deadline()
            wakeups += 1
            assert wakeups <= 12 * 40
        assert self.timer.next_deadline_ms() is None

    @invariant()
    def next_deadline_is_never_too_late_nor_in_the_past(self) -> None:
        next_ms = self.timer.next_deadline_ms()
        if not self.model:
            assert next_ms is None
        else:
            assert next_ms is not None
            assert self.now_ms - self.tick_ms < next_ms
            assert next_ms <= max(self.now_ms, min(self.model.values()))

    @invariant()
    def every_task_is_where_its_deadline_says(self) -> None:
        linked = 0
        wheel: TimingWheel | None = self.timer.timing_wheel
        while wheel is not None:
            for bucket in wheel.buckets:
                entry = bucket.root.next
                counted = 0
                while entry is not None and entry is not bucket.root:
                    linked += 1
                    assert entry.task_list is bucket
                    counted += 1
                    assert bucket.expiration_ms != NOT_QUEUED
                    assert 0 <= entry.expiration_ms - bucket.expiration_ms < wheel.tick_ms
                    entry = entry.next
                assert bucket.count == counted
            wheel = wheel.overflow_wheel
        due = sum(task.is_due for task in self.tasks)
        assert linked == self.timer.size
        assert linked + due == len(self.model)
        assert all(task.is_scheduled == (task.name in self.model) for task in self.tasks)


class Operation(DelayedOperation):
    """Completes when all its flags are set."""

    def __init__(self, delay_ms: int, flags: set[int], up: set[int]) -> None:
        super().__init__(delay_ms)
        self.flags, self.up = flags, up
        self.completions = self.expirations = 0

    def try_complete(self) -> bool:
        return self.flags <= self.up and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expirations += 1


FLAGS = st.integers(0, 5)


class PurgatoryAgainstSets(RuleBasedStateMachine):
    """Operations wait for flags, and watch those flags."""

    @initialize(purge_interval=st.sampled_from([0, 3, 1000]), shards=st.sampled_from([1, 4]))
    def begin(self, purge_interval: int, shards: int) -> None:
        self.timer = SystemTimer(0)
        self.purge_interval = purge_interval
        self.purgatory = DelayedOperationPurgatory("p", self.timer, purge_interval, shards)
        self.up: set[int] = set()
        self.waiting: dict[Operation, int] = {}
        self.everyone: list[Operation] = []

    @rule(delay_ms=st.integers(0, 1000), flags=st.sets(FLAGS, min_size=1))
    def enter(self, delay_ms: int, flags: set[int]) -> None:
        operation = Operation(delay_ms, flags, self.up)
        self.everyone.append(operation)
        complete = self.purgatory.try_complete_else_watch(operation, sorted(flags))
        assert complete == (flags <= self.up)
        if not complete:
            self.waiting[operation] = self.timer.now_ms + delay_ms

    @rule(flag=FLAGS)
    def raise_flag(self, flag: int) -> None:
        self.up.add(flag)
        ready = [op for op in self.waiting if flag in op.flags and op.flags <= self.up]
        assert self.purgatory.check_and_complete(flag) == len(ready)
        for operation in ready:
            del self.waiting[operation]

    @rule(flag=FLAGS)
    def lower_flag(self, flag: int) -> None:
        self.up.discard(flag)

    @precondition(lambda self: self.everyone)
    @rule(data=st.data())
    def force(self, data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(self.everyone))
        if not operation.is_completed and operation not in self.waiting:
            return  # It was returned by cancel_for_key.
        assert operation.force_complete() == (operation in self.waiting)
        self.waiting.pop(operation, None)

    @rule(flag=FLAGS)
    def cancel_for_key(self, flag: int) -> None:
        cancelled = self.purgatory.cancel_for_key(flag)
        assert set(cancelled) == {op for op in self.waiting if flag in op.flags}
        for operation in cancelled:
            # They stay in the lists of their other keys until they complete, as in Kafka.
            del self.waiting[operation]  # type: ignore[arg-type]
            operation.force_complete()

    @rule(jump_ms=st.integers(0, 700))
    def advance(self, jump_ms: int) -> None:
        self.timer.advance_clock(self.timer.now_ms + jump_ms)
        expired = [op for op, deadline in self.waiting.items() if deadline <= self.timer.now_ms]
        assert all(operation.expirations == 1 for operation in expired)
        for operation in expired:
            del self.waiting[operation]

    @invariant()
    def each_is_completed_once_or_waits(self) -> None:
        for operation in self.everyone:
            assert operation.completions == (operation not in self.waiting)
            assert operation.expirations <= operation.completions

    @invariant()
    def counts_are_right_and_lists_bounded(self) -> None:
        due = sum(operation.is_due for operation in self.waiting)
        assert self.purgatory.num_delayed == self.timer.size == len(self.waiting) - due
        watches = sum(len(operation.flags) for operation in self.waiting)
        assert self.purgatory.watched >= watches


TestTimer = TimerAgainstSortedList.TestCase
TestTimer.settings = SETTINGS
TestPurgatory = PurgatoryAgainstSets.TestCase
TestPurgatory.settings = SETTINGS
