"""The processes of a query that writes exactly once, in simulated time: drivers and executors.

    driver       tasks, attempts, speculation ─► the sink's commit ─► Spark's commit log
    executor     one attempt at a time, with clients that it keeps: its report goes to the driver

All that decides is the sink's own code: `steps`, `ledger`, `outcome`, `reading`, and the
`BatchDriver` that carries the steps out. What Spark does around them is scripted. The query
(`sim.sink_query`) is asked at each step whether the process is struck there, and told what it did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from odradek.client.errors import KafkaError
from odradek.client.producer.futures import DeliveredRange, FutureRecordMetadata
from odradek.spark.commit_protocol import merge_ranges
from odradek.spark.exactly_once import steps
from odradek.spark.exactly_once.driver import BatchDriver, DriverClients, LedgerReader
from odradek.spark.exactly_once.errors import ExactlyOnceError
from odradek.spark.exactly_once.ledger import TaskTransaction
from odradek.spark.exactly_once.reading import LogAdmin
from odradek.spark.exactly_once.steps import BatchState, SinkBatch, Steps
from odradek.spark.producers import LINGER_MS, SparkProducer
from odradek.testing.scheduler import MS
from sim.blocking_thread import BlockingThread

if TYPE_CHECKING:
    from sim.sink_query import SinkQuery

ATTEMPTS = 4
ABORT_S = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a task told its driver."""

    transaction: TaskTransaction | None
    drained: bool = False


@dataclass(eq=False)
class TaskAttempt:
    """An attempt of a task: it reports or fails, or its executor is lost."""

    batch: SinkBatch
    partition: int
    number: int
    rows: Sequence[str]
    executor: Executor
    report: Report | None = None
    failed: bool = False

    @property
    def over(self) -> bool:
        return self.failed or self.report is not None or self.executor.thread.killed

    @property
    def transactional_id(self) -> str:
        return f"{self.batch.prefix}.{self.partition}.{self.number}"


class ThreadClients(DriverClients):
    """The clients of a driver's thread."""

    def __init__(self, query: SinkQuery, thread: BlockingThread) -> None:
        super().__init__(query.plan.options)
        self._query = query
        self._thread = thread
        self._shared: LogAdmin | None = None

    def admin(self) -> LogAdmin:
        if self._shared is None:
            self._shared = self.new_admin()
        return self._shared

    def new_admin(self) -> LogAdmin:
        return self._query.new_admin(self._thread)

    def new_producer(self, transactional_id: str, transaction_timeout_ms: int) -> SparkProducer:
        return self._query.new_producer(self._thread, transactional_id, linger_ms=0)


class Executor:
    """A process that runs attempts, one at a time."""

    def __init__(self, query: SinkQuery, name: str) -> None:
        self.query = query
        self.thread = query.new_thread(name)
        self._reader: LedgerReader | None = None
        self._producer: SparkProducer | None = None

    @property
    def is_free(self) -> bool:
        return not self.thread.running and not self.thread.killed

    def start(self, attempt: TaskAttempt) -> None:
        self.thread.run(lambda: self._run(attempt))

    def _run(self, attempt: TaskAttempt) -> None:
        try:
            attempt.report = self._write(attempt)
        except (KafkaError, ExactlyOnceError) as error:
            self.query.reach(f"an attempt fails: {type(error).__name__}")
            attempt.failed = True
        else:
            self.query.reported(attempt)

    def _write(self, attempt: TaskAttempt) -> Report:
        """Write the rows as `TaskWriter` does with `ExactlyOnce`."""
        if not attempt.rows:
            return Report(None)
        plan, batch = self.query.plan, attempt.batch
        if self._reader is None:
            admin = self.query.new_admin(self.thread)
            self._reader = LedgerReader(admin, plan.ledger, plan.prefix, self.thread)
        decision = self._reader.read_for_task(batch)
        if steps.batch_state(batch, decision) is not BatchState.UNDECIDED:
            self.query.reach("a replay writes nothing")
            return Report(None, drained=True)
        producer = self._ready_producer(attempt.transactional_id)
        try:
            return Report(self._transaction(attempt, producer))
        except KafkaError:
            try:
                producer.abort_transaction(ABORT_S)
            except KafkaError:
                self._forget_producer()
            raise

    def _ready_producer(self, transactional_id: str) -> SparkProducer:
        """Return a producer with a transaction of this id, which is begun."""
        if self._producer is None:
            self._producer = self.query.new_producer(self.thread, transactional_id, LINGER_MS)
        try:
            self._producer.init_transactions(transactional_id=transactional_id)
            self._producer.begin_transaction()
        except KafkaError:
            self._forget_producer()
            raise
        return self._producer

    def _forget_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _transaction(self, attempt: TaskAttempt, producer: SparkProducer) -> TaskTransaction | None:
        plan, chance = self.query.plan, self.thread.chance
        sent: list[FutureRecordMetadata] = []
        for row in attempt.rows:
            self.query.may_strike_executor(self)
            if chance.chance(300):
                self.thread.sleep(chance.between(1, 60) / 1000)
            value = f"{row}/{attempt.transactional_id}".encode()
            sent.append(producer.send(plan.topic, value, partition=chance.below(plan.partitions)))
        found = producer.detach_transaction(plan.options.delivery_timeout_ms / 1000)
        assert found is not None
        written = [each.result(0) for each in sent]
        return TaskTransaction(
            attempt.partition,
            attempt.number,
            found.producer_id,
            found.epoch,
            found.transaction_version,
            merge_ranges(
                DeliveredRange(each.topic, each.partition, 1, each.offset, each.offset)
                for each in written
            ),
        )


class SinkDriver:
    """A driver's process. A query may run in it again when it has failed."""

    def __init__(self, query: SinkQuery, name: str) -> None:
        self.query = query
        self.name = name
        self.thread = query.new_thread(name)
        self.executors: list[Executor] = []
        self.doing = "tasks"
        self.is_rival = False
        self._driver: BatchDriver | None = None
        self._clients = ThreadClients(query, self.thread)

    @property
    def running(self) -> bool:
        return self.thread.running

    def start(self) -> None:
        self.doing = "tasks"
        self.thread.run(self._run)

    def kill(self) -> None:
        self.thread.kill()

    def pause(self, length_ms: int) -> None:
        self.thread.side.pause(length_ms * MS)

    def _run(self) -> None:
        query = self.query
        try:
            self._run_batches()
        except (KafkaError, ExactlyOnceError) as error:
            query.stopped(self, error)
        if query.is_last and query.checkpoint.is_complete:
            self._look_for_open_transactions()

    def _run_batches(self) -> None:
        checkpoint, plan = self.query.checkpoint, self.query.plan
        number = checkpoint.committed
        while number < len(checkpoint.rows):
            batch = SinkBatch(plan.prefix, number)
            self.doing = "tasks"
            reports, is_complete = self._run_tasks(batch, checkpoint.rows[number])
            if not is_complete:
                self.query.stopped(self, None)
                self._abort(batch, reports)
                return
            try:
                self._commit(batch, reports)
            except (KafkaError, ExactlyOnceError):
                self._abort(batch, reports)
                raise
            self.doing = "commit log"
            self.query.may_strike_driver(self)
            self.thread.sleep(self.thread.chance.between(1, 60) / 1000)
            if checkpoint.committed > number:
                self.query.reach("stopped by the commit log")
                return
            number = checkpoint.committed = number + 1

    def _look_for_open_transactions(self) -> None:
        pattern = rf"{re.escape(self.query.plan.prefix)}(\..*)?"
        admin = self._clients.admin()
        try:
            self.query.left_open = admin.list_transactions(states=["Ongoing"], pattern=pattern)
        except KafkaError:
            self.query.reach("the last look failed")  # The next driver looks again.

    # Tasks.

    def _run_tasks(self, batch: SinkBatch, rows: Sequence[str]) -> tuple[list[Report], bool]:
        """Run attempts until each task has a report; False if one has failed too often. Each time
        the rows are cut in another way."""
        chance, query = self.thread.chance, self.query
        mixed = list(rows)
        chance.shuffle(mixed)
        cut = chance.between(1, 3)
        attempts: list[list[TaskAttempt]] = [[] for _ in range(cut)]
        counted: dict[int, Report] = {}
        while len(counted) < cut:
            for partition, tried in enumerate(attempts):
                if partition in counted:
                    continue
                reported = [each for each in tried if each.report is not None]
                living = [each for each in tried if not each.over]
                if reported:
                    counted[partition] = cast("Report", reported[0].report)
                    self._end_others(reported[0], living)
                elif len(tried) == ATTEMPTS:
                    if not living:
                        return list(counted.values()), False
                elif not living or (chance.chance(30) and not query.is_last):
                    query.reach("an attempt is speculative" if living else "an attempt is made")
                    if tried and not living:
                        query.reach("an attempt is retried")
                    tried.append(self._begin(batch, partition, len(tried), mixed[partition::cut]))
            self.thread.sleep(chance.between(5, 40) / 1000)
        return [counted[partition] for partition in range(cut)], True

    def _begin(
        self, batch: SinkBatch, partition: int, number: int, rows: Sequence[str]
    ) -> TaskAttempt:
        free = [each for each in self.executors if each.is_free]
        if not free:
            free.append(Executor(self.query, f"{self.name}-executor{len(self.executors)}"))
            self.executors.append(free[0])
        executor = self.thread.chance.pick(free)
        attempt = TaskAttempt(batch, partition, number, rows, executor)
        executor.start(attempt)
        return attempt

    def _end_others(self, counted: TaskAttempt, others: Sequence[TaskAttempt]) -> None:
        """Kill the attempts that do not count, or let them go on in vain."""
        for each in others:
            self.query.losers.append(each)
            if self.thread.chance.chance(500):
                self.query.kill_soon(each.executor.thread, "an attempt is killed as superfluous", 1)

    # The sink's part.

    def _commit(self, batch: SinkBatch, reports: Sequence[Report]) -> None:
        plan = self.query.plan
        reported = transactions_of(reports)
        drained = [number for number, each in enumerate(reports) if each.drained]
        topic_ids = {plan.topic: plan.topic_id} if reported else {}
        running = plan.rules.commit_steps(batch, reported, topic_ids, drained)
        self._carry_out(batch, running)

    def _abort(self, batch: SinkBatch, reports: Sequence[Report]) -> None:
        """Abort what has failed, as `ExactlyOnce.abort` does."""
        if not reports:
            return
        try:
            reported = transactions_of(reports)
            self._carry_out(batch, self.query.plan.rules.abort_steps(batch, reported))
        except (KafkaError, ExactlyOnceError) as error:
            self.query.reach(f"an abort fails: {type(error).__name__}")

    def _carry_out(self, batch: SinkBatch, running: Steps) -> None:
        if self._driver is None:
            plan = self.query.plan
            self._driver = plan.rules.driver(plan.options, plan.ledger, plan.prefix, self._clients)
        self._driver.run(batch, self._watched(running))

    def _watched(self, running: Steps) -> Steps:
        """Yield the effects of steps; at each the driver may be struck."""
        result: Any = None
        while True:
            try:
                effect = running.send(result)
            except StopIteration:
                return
            self.doing = type(effect).__name__
            self.query.may_strike_driver(self)
            result = yield effect
            self.query.carried_out(effect, result)


def transactions_of(reports: Sequence[Report]) -> list[TaskTransaction]:
    return [each.transaction for each in reports if each.transaction is not None]
