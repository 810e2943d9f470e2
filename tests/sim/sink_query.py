"""A streaming query that writes exactly once, in simulated time: its checkpoint, its strikes.

    checkpoint   each micro-batch has its rows from the start; how they are cut is not kept
    query        starts drivers: one after another, or two on one checkpoint
    driver, executor   `sim.sink_processes`

It lives here, not in `odradek.testing`: the package of Spark is above that one. A process may be
killed or paused at any step, and an executor goes on for a while when its driver is gone.

Until the query is calm it is struck: attempts and executors are killed, retried, overtaken by
speculative ones, lost after their message; drivers are killed or paused at any effect of theirs,
for longer than transactions may be open, or get a rival. Then one driver alone brings everything to
its end. When all processes are gone and what they had sent has arrived, a last micro-batch is
written undisturbed: after that nothing of the prefix may be open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from odradek.client.admin.results import Transaction
from odradek.client.engine import Engine
from odradek.client.errors import BrokerError, ProducerFenced
from odradek.spark.exactly_once import steps
from odradek.spark.exactly_once.driver import BatchDriver
from odradek.spark.exactly_once.errors import LedgerDamaged, LedgerGone, RowsMissing
from odradek.spark.exactly_once.ledger import Decision, TaskTransaction
from odradek.spark.exactly_once.ledger_topic import LedgerTopic
from odradek.spark.exactly_once.reading import LogAdmin, LogCalls
from odradek.spark.exactly_once.steps import Steps
from odradek.spark.options import WriteOptions
from odradek.spark.producers import SparkProducer, producer_settings
from odradek.testing.client_process import ClientProcess
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, Scheduler
from sim.blocking_thread import BlockingThread, ThreadAdmin, ThreadProducer, Topics
from sim.sink_processes import Executor, SinkDriver, TaskAttempt

LOOK_MS = 40
"""How often the query looks after its drivers."""
LATE_MS = 2_500
"""After which nothing arrives any more of what processes had sent that are gone."""
Identity = tuple[int, int]
"""The producer id and epoch of a transaction of a task."""
AFTER_THE_DECISION = ("EndTransactions", "FenceLosers", "ReadOutcomes", "CopyRecords")


@dataclass(frozen=True, slots=True)
class Rules:
    """The parts of the sink that a test may break."""

    commit_steps: Callable[..., Steps] = steps.commit_steps
    abort_steps: Callable[..., Steps] = steps.abort_steps
    driver: type[BatchDriver] = BatchDriver


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What a seed decides of a query. Rates out of 1000."""

    prefix: str
    batches: int
    options: WriteOptions
    ledger: LedgerTopic
    topic: str
    topic_id: str
    partitions: int
    step_ns: tuple[int, int]
    rules: Rules
    most_rows: int
    """The longest micro-batch."""
    strikes: int
    """How often a driver is struck."""
    driver_rate: int
    """How often at an effect."""
    ending_rate: int
    """How often at one after the decision."""
    executor_rate: int
    """How often an executor is struck, at each row."""
    rival_rate: int
    """How often a driver gets a rival, at each look."""


@dataclass
class Checkpoint:
    """Spark's logs, on storage that survives all."""

    rows: list[list[str]]
    committed: int = 0

    @property
    def is_complete(self) -> bool:
        return self.committed == len(self.rows)


class CountedCalls(LogCalls):
    """The calls of the sink, which tell what losers they find."""

    def __init__(
        self,
        engine: Engine,
        api_timeout_ms: int,
        topics: Topics,
        reach: Callable[[str], None],
    ) -> None:
        super().__init__(engine, api_timeout_ms, topics)
        self._reach = reach

    async def list_transactions(self, **given: Any) -> list[Transaction]:
        found = await super().list_transactions(**given)
        for each in found:
            self._reach(f"a loser is {each.state}")
        return found


def identity_of(transaction: TaskTransaction) -> Identity:
    return transaction.producer_id, transaction.producer_epoch


@dataclass(eq=False)
class SinkQuery:
    """One query, and who starts, strikes and ends its processes."""

    scheduler: Scheduler
    fabric: Fabric
    plan: QueryPlan
    chance: SplitMix64 = field(init=False)
    checkpoint: Checkpoint = field(init=False)
    drivers: list[SinkDriver] = field(default_factory=list)
    losers: list[TaskAttempt] = field(default_factory=list)
    """Attempts that were still running when another one had reported."""
    executors_lost: list[TaskTransaction] = field(default_factory=list)
    """Transactions whose executors were lost after their message."""
    is_calm: bool = False
    is_last: bool = False
    """True when the last micro-batch is written."""
    left_open: list[Transaction] | None = None
    """What was open at the end; None until somebody has looked."""
    decided: dict[int, set[Identity]] = field(default_factory=dict)
    """What each micro-batch consists of, as its decision was written or read."""
    aborted: list[Identity] = field(default_factory=list)
    """What drivers have aborted: no decision names it or ever will."""
    wrong: list[str] = field(default_factory=list)
    """What no query may do; it ends the query."""
    _names: int = 0
    _to_come: bool = False
    _strikes: int = 0

    def __post_init__(self) -> None:
        self.chance = self.scheduler.stream(f"query/{self.plan.prefix}")
        self._strikes = self.plan.strikes
        rows = iter(range(1_000))
        self.checkpoint = Checkpoint([])
        for _ in range(self.plan.batches):
            size = self.chance.between(0, self.plan.most_rows)
            batch = [f"{self.plan.prefix}/row {next(rows)}" for _ in range(size)]
            self.checkpoint.rows.append(batch)

    def reach(self, what: str) -> None:
        self.scheduler.reach(f"sink: {what}")

    def new_thread(self, name: str) -> BlockingThread:
        """Return the thread of a new process."""
        side = ClientProcess(self.scheduler, self.fabric, name)
        return BlockingThread(side, self.scheduler.stream(f"thread/{name}"), self.plan.step_ns)

    def new_admin(self, thread: BlockingThread) -> LogAdmin:
        client = self.plan.options.client
        settings = {
            "bootstrap.servers": client.bootstrap_servers,
            "request.timeout.ms": client.request_timeout_ms,
            "default.api.timeout.ms": client.api_timeout_ms,
        }
        calls = partial(CountedCalls, reach=self.reach)
        return cast("LogAdmin", ThreadAdmin(thread, settings, calls))

    def new_producer(
        self, thread: BlockingThread, transactional_id: str, linger_ms: int
    ) -> SparkProducer:
        plan = self.plan
        settings = producer_settings(
            plan.options, transactional_id, plan.ledger.transaction_timeout_ms, linger_ms
        )
        return cast("SparkProducer", ThreadProducer(thread, settings))

    # Drivers.

    def start(self) -> None:
        self._start_driver()
        self._look_later()

    def _look_later(self) -> None:
        self.scheduler.after(LOOK_MS * MS, "spark", "look", self._look)

    @property
    def running(self) -> list[SinkDriver]:
        return [each for each in self.drivers if each.running]

    def _look(self) -> None:
        if self.finished:
            return
        running = self.running
        if not running and not self._to_come:
            if not self.checkpoint.is_complete:
                self._start_later(self._restart_ms())
            elif self.is_calm and not self.is_last:
                self._begin_last()
            elif self.is_last:
                self._start_later(LOOK_MS)
        elif len(running) == 1 and not self.is_calm and not self._to_come:
            is_away = running[0].thread.side.process.paused_until_ns > self.scheduler.now_ns
            rate = 20 * self.plan.rival_rate if is_away else self.plan.rival_rate
            if self.chance.chance(rate):
                self.reach("two drivers")
                self._start_driver()
        self._look_later()

    def _restart_ms(self) -> int:
        timeout_ms = self.plan.ledger.transaction_timeout_ms
        away_ms = self.chance.between(timeout_ms, 2 * timeout_ms)
        return 50 if self.is_calm else self.chance.pick((50, 400, away_ms))

    def _start_later(self, delay_ms: int) -> None:
        self._to_come = True

        def come() -> None:
            self._to_come = False
            if not self.running and not self.finished:
                self._start_driver()

        self.scheduler.after(delay_ms * MS, "spark", "start", come)

    def _start_driver(self) -> None:
        """Start the query: in the process in which it failed, or in a new one."""
        failed = [each for each in self.drivers if not each.running and not each.thread.killed]
        if failed and self.chance.chance(500):
            self.reach("a query runs again in its process")
            failed[-1].start()
            return
        for each in failed:
            each.kill()
        self._names += 1
        driver = SinkDriver(self, f"{self.plan.prefix}-driver{self._names}")
        self.drivers.append(driver)
        driver.start()

    def stopped(self, driver: SinkDriver, error: Exception | None) -> None:
        """Note why a query stopped; None: a task has failed too often. Nothing is ever deleted, so
        neither rows nor decisions may be missing. An error of a broker that the driver has not
        looked into shows no way out: one that was shut out is told of the other one."""
        self.reach(f"stopped by {type(error).__name__ if error else 'tasks'}")
        is_unseen = type(error) in (BrokerError, ProducerFenced)
        if is_unseen or isinstance(error, RowsMissing | LedgerGone | LedgerDamaged):
            self.wrong.append(f"{driver.name}: {type(error).__name__}: {error}")

    # Strikes.

    def may_strike_driver(self, driver: SinkDriver) -> None:
        """Kill or pause a driver soon, perhaps. Within its work."""
        if self.is_calm or self._strikes == 0:
            return
        is_decided = driver.doing in AFTER_THE_DECISION
        rate = self.plan.ending_rate if is_decided else self.plan.driver_rate
        if not self.chance.chance(rate):
            return
        self._strikes -= 1
        if self.chance.chance(350):
            timeout_ms = self.plan.ledger.transaction_timeout_ms
            length_ms = self.chance.between(timeout_ms // 2, 2 * timeout_ms)
            self.reach(f"a driver is paused in {driver.doing}")
            self._soon(driver.thread, "pause", lambda: driver.pause(length_ms), 20)
        else:
            self.kill_soon(driver.thread, lambda: f"a driver is killed in {driver.doing}", 80)

    def may_strike_executor(self, executor: Executor) -> None:
        """Kill or pause an executor soon, perhaps. Within its work."""
        if self.is_calm or not self.chance.chance(self.plan.executor_rate):
            return
        if self.chance.chance(250):
            length_ms = self.chance.between(100, 2 * self.plan.ledger.transaction_timeout_ms)
            self.reach("an executor is paused")
            pause = partial(executor.thread.side.pause, length_ms * MS)
            self._soon(executor.thread, "pause", pause, 20)
        else:
            self.kill_soon(executor.thread, "an attempt is killed", 40)

    def reported(self, attempt: TaskAttempt) -> None:
        """Note the message of an attempt, whose executor may be lost right after it."""
        if attempt in self.losers:
            self.reach("an attempt is denied")
        report = attempt.report
        if report is None or report.transaction is None or self.is_calm:
            return
        if self.chance.chance(2 * self.plan.executor_rate):
            self.executors_lost.append(report.transaction)
            self.kill_soon(attempt.executor.thread, "an executor is lost after its message", 1)

    def kill_soon(
        self, thread: BlockingThread, what: str | Callable[[], str], within_ms: int
    ) -> None:
        def kill() -> None:
            self.reach(what if isinstance(what, str) else what())
            thread.kill()

        self._soon(thread, "kill", kill, within_ms)

    def _soon(
        self, thread: BlockingThread, kind: str, strike: Callable[[], None], within_ms: int
    ) -> None:
        def strike_the_living() -> None:
            if thread.side.process.alive and not self.is_calm:
                strike()

        delay_ns = self.chance.between(0, within_ms * MS)
        self.scheduler.after(delay_ns, "spark", kind, strike_the_living)

    def carried_out(self, effect: steps.Effect, result: Any) -> None:
        """Note what an effect has done."""
        match effect:
            case steps.WriteDecision(decision) if result:
                self._note_decision(decision)
            case steps.ReadLedger() if result is not None:
                self._note_decision(result)
            case steps.EndTransactions(transactions, False):
                ended = zip(transactions, result, strict=True)
                self.aborted += [identity_of(each) for each, certain in ended if certain]
            case steps.EndTransactions(transactions, True):
                if not all(result):
                    self.reach("an end is ambiguous")
                for each, certain in zip(transactions, result, strict=True):
                    if certain and each in self.executors_lost:
                        self.reach("a driver ends what a lost executor wrote")
            case steps.CopyRecords() if result:
                self.reach("rows are copied")

    def _note_decision(self, decision: Decision) -> None:
        named = set(map(identity_of, decision.transactions))
        if self.decided.setdefault(decision.batch_id, named) != named:
            self.wrong.append(f"sink: {decision} is another one than before")

    # The end.

    def calm_down(self) -> None:
        """Leave one driver, and let it work."""
        self.is_calm = True
        for each in self.running[1:]:
            each.kill()
        for each in self.drivers:
            each.thread.side.process.paused_until_ns = 0
            for executor in each.executors:
                executor.thread.side.process.paused_until_ns = 0

    def _begin_last(self) -> None:
        """End all processes; when nothing of theirs arrives any more, write a last micro-batch."""
        self.kill()
        self._to_come = True

        def begin() -> None:
            self._to_come = False
            self.is_last = True
            self.checkpoint.rows.append([f"{self.plan.prefix}/the last row"])
            self._start_driver()

        self.scheduler.after(LATE_MS * MS, "spark", "last", begin)

    @property
    def finished(self) -> bool:
        return bool(self.wrong) or (self.left_open is not None and not self.running)

    def pending(self) -> list[str]:
        """Return what is unfinished, for a report."""
        if self.finished:
            return []
        doing = [f"{each.name} in {each.doing}" for each in self.running]
        committed, rows = self.checkpoint.committed, self.checkpoint.rows
        return [f"{self.plan.prefix}: {committed} of {len(rows)} micro-batches; {doing}"]

    def violations(self, read: Counter[str]) -> list[str]:
        """Return what is wrong at the end, by the rows that were read."""
        rows = [row for batch in self.checkpoint.rows for row in batch]
        return [
            *self.wrong,
            *(f"sink: {row} is missing" for row in rows if not read[row]),
            *(f"sink: {row} is there {read[row]} times" for row in rows if read[row] > 1),
            *(
                f"sink: {each} was aborted, and is in micro-batch {number}"
                for number, named in self.decided.items()
                for each in self.aborted
                if each in named
            ),
            *(f"sink: {each.transactional_id} was left open" for each in self.left_open or ()),
        ]

    def kill(self) -> None:
        """Kill all processes."""
        for driver in self.drivers:
            for thread in (driver.thread, *(each.thread for each in driver.executors)):
                if not thread.killed:
                    thread.kill()
