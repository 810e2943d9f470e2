"""An application whose transactions run on the producer's engine, and what it is told of each.

    init ──► begin ─► records, perhaps offsets of a group ─► commit or abort ──► the next one
      ▲                      │ an error                          │ no answer in time: ask again
      │                      ├─ requires_abort ─► abort ─────────┘
      └── another producer ◄─┴─ fatal: fenced, or aborted by its timeout

It is the careful client that `workload.transactional_producer` is not, and so notes the same for
the rules in `testing.transactions`. Besides, it checks what only an application sees: every error
of a step says what to do, a retriable one never shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.errors import (
    ApiTimeout,
    CommitUnknown,
    KafkaError,
    MaxBlockTimeout,
    UnknownTopicOrPartition,
)
from odradek.client.producer.transaction_steps import Transactions
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.application import SimApplication
from odradek.testing.engines.engine_producer import EngineProducer
from odradek.testing.history import History
from odradek.testing.scheduler import MS
from odradek.testing.transactions import (
    Acknowledged,
    ClientTransaction,
    Takeover,
    TransactionHistory,
    TransactionOutcome,
)
from odradek.testing.workload.transactional_producer import TransactionalProducerPlan

RESTART_MS = (10, 1_000)
CLOSE_MS = 1_000
PASSING = (ApiTimeout, CommitUnknown, MaxBlockTimeout)
"""Errors of an application that has set a time limit."""


@dataclass(frozen=True, slots=True)
class EngineTransactionsPlan:
    """The transactions it makes, and its settings. Times in ms."""

    producing: TransactionalProducerPlan
    settings: tuple[tuple[str, str], ...] = ()
    step_ns: tuple[int, int] = (0, 0)
    commit_ms: int | None = None
    """How long it waits for a commit before it asks for the outcome again; None: for ever."""

    @property
    def name(self) -> str:
        return self.producing.name


class FatalError(Exception):
    """The producer cannot go on: another one is to be made."""


class TransactionalApplication:
    """Runs a plan; it is finished when it has tried as many transactions as the plan says."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        observed: TransactionHistory,
        plan: EngineTransactionsPlan,
        committed: Callable[[], None],
    ) -> None:
        """`committed` is called when a commit is acknowledged."""
        self.side = side
        self._committed = committed
        self.plan = plan
        self.tried = 0
        self.crashed = False
        self.taken_over = False
        """True if another one was started with its transactional id."""
        self.last_error = "no error yet"
        self._history = history
        self._observed = observed
        several = "," in dict(plan.settings)["bootstrap.servers"]
        self._passing = (*PASSING, UnknownTopicOrPartition) if several else PASSING
        """Errors that do not end the producer; one of several brokers may not know a topic yet."""
        self._values = 0
        self._open: ClientTransaction | None = None
        self.application = SimApplication(
            side, side.process.scheduler.stream(f"application/{plan.name}"), plan.step_ns
        )
        self._chance = self.application.chance

    def start(self) -> None:
        self.application.run(self._work())

    def crash(self) -> None:
        """Kill the process."""
        self.crashed = True
        self.side.kill()
        if self._open is not None:
            self._open.lose()

    @property
    def finished(self) -> bool:
        return self.crashed or self.application.ended

    def pending(self) -> str:
        """Return what is unfinished, for a report."""
        left = self.plan.producing.transactions - self.tried
        return f"{self.plan.name}: {left} transactions to make; {self._open}; {self.last_error}"

    def _now_ns(self) -> int:
        return self.side.process.scheduler.now_ns

    def _reach(self, what: str) -> None:
        self.side.process.scheduler.reach(f"transaction: engine {what}")

    def _pause(self, range_ms: tuple[int, int]) -> int:
        return self._chance.between(*range_ms)

    def _note(self, what: str, error: KafkaError) -> None:
        """Note an error; raise `FatalError` if the producer cannot go on."""
        self.last_error = f"{what}: {error!r}"
        self._reach(f"{what} {type(error).__name__}")
        if error.fatal:
            raise FatalError from error
        if not error.requires_abort and not isinstance(error, self._passing):
            now_ms = self._now_ns() // MS
            self._history.surprise("refused", f"{self.plan.name} at {now_ms} ms: {self.last_error}")
            raise FatalError from error

    # One producer after the other.

    async def _work(self) -> None:
        plan = self.plan.producing
        while self.tried < plan.transactions:
            producer = EngineProducer(self.side, self.application, dict(self.plan.settings))
            if plan.version == 1:
                producer.agree_on(1)
            await self.application.call(producer.start)
            try:
                await self._run(producer)
            except FatalError:
                if self._open is not None:
                    self._open.lose()
                    self._open = None
            await self.application.until(lambda made=producer: made.core.close(CLOSE_MS))  # type: ignore[misc]
            await self.application.pause(self._pause(RESTART_MS))

    async def _run(self, producer: EngineProducer) -> None:
        transactions, max_block_ms = producer.core.transactions, producer.core.settings.max_block_ms
        assert transactions is not None
        while True:
            try:
                await producer.wait(lambda: transactions.init(max_block_ms))
                break
            except KafkaError as error:
                self._note("init", error)
        plan = self.plan.producing
        self._observed.takeovers.append(
            Takeover(self._now_ns(), plan.transactional_id, plan.name, *identity_of(producer))
        )
        while self.tried < plan.transactions:
            await self.application.pause(self._pause(plan.pause_ms))
            await self._transact(producer, transactions)

    # One transaction.

    async def _transact(self, producer: EngineProducer, transactions: Transactions) -> None:
        plan = self.plan.producing
        try:
            await producer.wait(transactions.begin)
        except KafkaError as error:
            self._note("begin", error)
            return
        self.tried += 1
        made = self._open = self._observed.begin(plan.transactional_id, plan.name)
        try:
            await self._write(producer, transactions, made)
            commits = not self._chance.chance(plan.abort_rate)
        except KafkaError as error:
            self._note("write", error)
            commits = False
        if commits:
            commits = await self._commit(producer, transactions, made)
        if not commits:
            await self._abort(producer, transactions)
            made.outcome = TransactionOutcome.ABORTED
        self._open = None
        version = transactions.transaction.version
        self._reach(f"{made.outcome.value} in version {version}")

    async def _write(
        self, producer: EngineProducer, transactions: Transactions, made: ClientTransaction
    ) -> None:
        plan, chance = self.plan.producing, self._chance
        writes = chance.between(1, plan.most_writes)
        offsets_after = chance.below(writes + 1) if chance.chance(plan.offsets_rate) else -1
        for number in range(writes + 1):
            if number == offsets_after:
                made.has_offsets = True
                await self._commit_offsets(producer, transactions, made.number)
            if number < writes:
                await self._send(producer, made)
            await self.application.pause(self._pause((0, plan.pause_ms[1])))
        if chance.chance(plan.linger_rate):
            self._reach("lingers near its timeout")
            near_ms = plan.timeout_ms
            await self.application.pause(
                self._pause((near_ms - near_ms // 4, near_ms + near_ms // 4))
            )

    async def _send(self, producer: EngineProducer, made: ClientTransaction) -> None:
        tp = self._chance.pick(self.plan.producing.partitions)
        for _ in range(self._chance.between(1, 4)):
            self._values += 1
            value = f"{self.plan.name}/{tp}/{self._values}".encode()
            made.records.append((tp, value))
            await producer.send(tp.topic, value, partition=tp.partition)

    async def _commit_offsets(
        self, producer: EngineProducer, transactions: Transactions, number: int
    ) -> None:
        plan = self.plan.producing
        group = ConsumerGroupMetadata(plan.group, -1, "", None)
        offsets = {plan.partitions[0]: OffsetAndMetadata(number, "", -1)}
        max_block_ms = producer.core.settings.max_block_ms
        await producer.wait(lambda: transactions.commit_offsets(group, offsets, max_block_ms))

    async def _commit(
        self, producer: EngineProducer, transactions: Transactions, made: ClientTransaction
    ) -> bool:
        """Commit, and ask for the outcome until it is known; False if it has to be aborted."""
        plan = self.plan.producing
        made.commit_sent_ns = self._now_ns()
        producer_id, epoch = identity_of(producer)
        while True:
            try:
                await producer.wait(lambda: transactions.commit(self.plan.commit_ms))
            except KafkaError as error:
                self._note("commit", error)
                if error.requires_abort:
                    return False
            else:
                break
        made.outcome = TransactionOutcome.COMMITTED
        self._committed()
        self._observed.acknowledged.append(
            Acknowledged(
                made.commit_sent_ns,
                plan.transactional_id,
                plan.name,
                "commit",
                producer_id,
                epoch,
            )
        )
        return True

    async def _abort(self, producer: EngineProducer, transactions: Transactions) -> None:
        max_block_ms = producer.core.settings.max_block_ms
        while True:
            try:
                await producer.wait(lambda: transactions.abort(max_block_ms))
                return
            except KafkaError as error:
                self._note("abort", error)


def identity_of(producer: EngineProducer) -> tuple[int, int]:
    """Return the producer id and epoch that a transactional producer has now."""
    manager = producer.core.accumulator.transaction_manager
    assert manager is not None
    producer_id, epoch = manager.identity
    return producer_id, epoch
