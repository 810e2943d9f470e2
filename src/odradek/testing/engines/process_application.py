"""An application that runs `odradek.process`, and the rules of reading, transforming and writing.

    input t@o ──► shape ─┬─► nothing
                         ├─► one record, or two in different partitions
                         └─► an exception: its dead letter

It runs the loop of the public API (`client.process_loop`) on engines in simulated time, and ends as
that does, with an error too; whoever runs it starts another one. Each transaction is noted for the
rules in `testing.transactions`. A value names the input that it is of, so there are three more:

| rule           | says                                                                        |
|----------------|-----------------------------------------------------------------------------|
| each input     | every committed input has all its outputs, or its dead letter, exactly once |
| in order       | outputs of one partition are in a partition in the order of their inputs    |
| only committed | the function was given no record that readers of committed ones do not see  |
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from odradek.client.consumer.application.poll_loop import RecordBuffer
from odradek.client.consumer.arguments import ConsumerArguments, consumer_arguments
from odradek.client.consumer.record import Record
from odradek.client.errors import KafkaError
from odradek.client.process_loop import ProcessLoop, pace_of, write_records
from odradek.client.processing import INTERVAL_S, plan_of
from odradek.client.producer.intercepted_send import ProducerRecord
from odradek.client.producer.send_path import SerializedRecord
from odradek.client.producer.transaction_block import TransactionBlock
from odradek.client.producer.transaction_phases import Phase
from odradek.config.addresses import DEFAULT_BROKER
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.consumer_application import (
    ConsumerApplication,
    ConsumerPlan,
    ReceivedRecords,
)
from odradek.testing.engines.engine_producer import EngineProducer
from odradek.testing.history import History
from odradek.testing.transactions import (
    ClientTransaction,
    ReadRecord,
    TransactionHistory,
    TransactionOutcome,
)

CLOSE_MS = 30_000
"""How long the API gives a producer whose `with` block ends by an exception."""
NOTHING, LETTER, ONE, TWO = "nothing", "letter", "one", "two"
SHAPES = (NOTHING, LETTER, ONE, ONE, ONE, ONE, TWO, TWO)
LETTER_PARTITION = 0


def shape_of(partition: TopicPartition, offset: int) -> str:
    """Return what the function makes of an input."""
    return SHAPES[zlib.crc32(f"{partition}@{offset}".encode()) % len(SHAPES)]


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One member of a group that processes. Times in ms."""

    name: str
    group: str
    transactional_id: str
    topics: Sequence[str]
    to: str
    partitions: int
    """The number of partitions of the topic `to`."""
    letters: str
    """The topic of the dead letters; it has one partition."""
    version: int
    """The newest `transaction.version` that the producer knows: 1 or 2."""
    consumer: tuple[tuple[str, str], ...] = ()
    producer: tuple[tuple[str, str], ...] = ()
    step_ns: tuple[int, int] = (0, 0)
    interval_s: float = INTERVAL_S
    max_records: int = 100
    work_ms: tuple[int, int] = (0, 0)
    """How long the function takes for some of the records."""


@dataclass(slots=True, eq=False)
class ProcessJournal:
    """The inputs that the functions of all processings of a run were given."""

    given: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)

    def add(self, record: Record[Any, Any], history: History) -> None:
        """Note an input."""
        tp = record.topic_partition
        known = self.given.setdefault(tp, {}).setdefault(record.offset, record.value or b"")
        if known != record.value:
            history.surprise("changed", f"{tp}@{record.offset}: {known!r}, then {record.value!r}")


class NotedBlock(TransactionBlock):
    """The block of a transaction that is noted. `now_ns` is asked when it is left."""

    def __init__(self, application: ProcessApplication) -> None:
        producer = application.producer
        super().__init__(producer.core, producer.wait)
        self._application = application
        self._phase = producer.core.transactions_or_error.transaction

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        application = self._application
        application.open = application.observed.begin(
            application.plan.transactional_id, application.name
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        application = self._application
        made, application.open = application.open, None
        assert made is not None
        if error is None:
            application.open = made
            made.commit_sent_ns = application.side.process.scheduler.now_ns
        try:
            await super().__aexit__(kind, error, traceback)
        except KafkaError:
            self._ended(made, TransactionOutcome.ABORTED)
            raise
        self._ended(
            made, TransactionOutcome.COMMITTED if error is None else TransactionOutcome.ABORTED
        )

    def _ended(self, made: ClientTransaction, outcome: TransactionOutcome) -> None:
        self._application.open = None
        if self._phase.phase is Phase.READY:
            made.outcome = outcome
        else:
            made.lose()
        if made.outcome is TransactionOutcome.COMMITTED:
            self._application.committed()
        version = self._phase.version
        self._application.reach(f"{made.outcome.value} in version {version}")


class NotedLoop(ProcessLoop):
    """The loop, with transactions that are noted."""

    application: ProcessApplication

    def transaction(self) -> TransactionBlock:
        return NotedBlock(self.application)


class ProcessApplication(ConsumerApplication):
    """Runs a plan until `leaving`, or until an error ends it."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        received: ReceivedRecords,
        observed: TransactionHistory,
        journal: ProcessJournal,
        plan: ProcessPlan,
    ) -> None:
        self.plan = plan
        self.observed = observed
        self.journal = journal
        self.open: ClientTransaction | None = None
        self.ended_by: KafkaError | None = None
        self.committed: Callable[[], None] = lambda: None
        """Called when a commit is acknowledged."""
        self.when_ended: Callable[[], None] = lambda: None
        self.taken_over = False
        """True if another one was started with its transactional id."""
        self._settings = plan_of(
            to=plan.to,
            group=plan.group,
            brokers=None,
            default_brokers=DEFAULT_BROKER,
            key=None,
            value=None,
            on_error=f"dlq:{plan.letters}",
            transactional_id=plan.transactional_id,
            consumer=dict(plan.consumer),
            producer=dict(plan.producer),
        )
        super().__init__(side, history, received, ConsumerPlan(plan.name, step_ns=plan.step_ns))
        self.producer = EngineProducer(side, self.application, self._settings.producer)
        if plan.version == 1:
            self.producer.agree_on(1)
        self._transactions = 0
        self._input: Record[Any, Any] | None = None

    def arguments(self, plan: ConsumerPlan) -> ConsumerArguments:
        return consumer_arguments((), None, None, self._settings.consumer)

    def reach(self, what: str) -> None:
        """Count a site."""
        self.side.process.scheduler.reach(f"transaction: process {what}")

    def start(self) -> None:
        self.side.process.run(self.producer.start)
        self.application.run(self._run())

    def crash(self) -> None:
        super().crash()
        if self.open is not None:
            self.open.lose()

    async def _run(self) -> None:
        """As the API does: the producer is there before the consumer, and closed after it."""
        core = self.producer.core
        transactions = core.transactions_or_error
        try:
            await self.producer.wait(lambda: transactions.init(core.settings.max_block_ms))
            await self._read()
        except KafkaError as error:
            self.ended_by = error
            self.reach(f"ends by {type(error).__name__}")
        close_ms = None if self.ended_by is None else CLOSE_MS
        await self.application.until(lambda: core.close(close_ms))
        self.when_ended()

    async def _read(self) -> None:
        await self.application.call(self._start_consumer)
        try:
            await self.call_api(lambda: self.calls.subscribe(self.plan.topics))
            await self.work()
            self.core.collector.mark_consumed()
        finally:
            if self.application.running:
                await self.poll_loop.close(CLOSE_MS / 1000)

    def _start_consumer(self) -> None:
        self.engine.start()
        self.core.start()

    async def work(self) -> None:
        core, plan = self.producer.core, self.plan
        pace = pace_of(self.poll_loop, core, plan.max_records)

        async def write(buffer: RecordBuffer) -> int:
            self._transactions += 1
            return await write_records(self._transform, self._send, self._settings, pace, buffer)

        async def pause(seconds: float) -> None:
            await self.application.pause(round(seconds * 1000))

        loop = NotedLoop(self.poll_loop, self.calls, core, self.producer.wait, write, pace, pause)
        loop.application = self
        while not self.leaving:
            await loop.run_once(plan.interval_s)

    # The function.

    async def _transform(self, record: Record[Any, Any]) -> list[ProducerRecord]:
        self._input = record
        self.journal.add(record, self.history)
        await self.application.pause(
            self.chance.between(*self.plan.work_ms) if self.chance.chance(100) else 0
        )
        tp = record.topic_partition
        shape = shape_of(tp, record.offset)
        if shape == LETTER:
            raise ValueError("this input becomes a dead letter")
        return [
            ProducerRecord(
                self.plan.to,
                self._value(str(number)),
                partition=(tp.partition + number) % self.plan.partitions,
            )
            for number in range({NOTHING: 0, ONE: 1, TWO: 2}[shape])
        ]

    def _value(self, what: str) -> bytes:
        """Return a value that names this attempt, so that it is unique in the run."""
        record = self._input
        assert record is not None
        name, offset = record.topic_partition, record.offset
        return f"{self.name}/{self._transactions}/{name}@{offset}/{what}".encode()

    async def _send(self, record: ProducerRecord | SerializedRecord) -> None:
        assert self.open is not None
        if isinstance(record, SerializedRecord):
            record.value = self._value(LETTER)
            record.partition = LETTER_PARTITION
            tp = TopicPartition(record.topic, LETTER_PARTITION)
            self.open.records.append((tp, record.value))
            await self.producer.send_later(record)
            return
        assert record.partition is not None
        tp = TopicPartition(record.topic, record.partition)
        self.open.records.append((tp, record.value))
        await self.producer.send(tp.topic, record.value, partition=tp.partition)

    def describe(self) -> str:
        """Return the state, for reports."""
        transaction = self.producer.core.transactions_or_error.transaction
        return (
            f"{self.name}: the producer {transaction.phase.value}, {self.open}; assigned"
            f" {sorted(self.core.subscriptions.assigned_partitions)}"
        )


# The rules.


@dataclass(frozen=True, slots=True)
class Output:
    """What a value says of its input."""

    partition: TopicPartition
    offset: int
    what: str


def output_of(value: bytes) -> Output:
    """Return what a value says: the opposite of `ProcessApplication._value`."""
    _, _, place, what = value.decode().split("/")
    name, _, offset = place.rpartition("@")
    topic, _, partition = name.rpartition("-")
    return Output(TopicPartition(topic, int(partition)), int(offset), what)


def expected(partition: TopicPartition, offset: int) -> list[Output]:
    """Return the outputs of an input."""
    shape = shape_of(partition, offset)
    numbers = {NOTHING: [], LETTER: [LETTER], ONE: ["0"], TWO: ["0", "1"]}[shape]
    return [Output(partition, offset, what) for what in numbers]


def judge(
    inputs: Iterable[ReadRecord],
    outputs: Sequence[ReadRecord],
    given: Mapping[TopicPartition, Mapping[int, bytes]],
) -> list[str]:
    """Return the violations of all rules: `inputs` and `outputs` are all committed records of their
    topics, each read once."""
    committed = {(read.partition, read.offset): read.value for read in inputs}
    return [
        *each_input_once(committed, outputs),
        *in_order(outputs),
        *only_committed(committed, given),
    ]


def each_input_once(
    inputs: Mapping[tuple[TopicPartition, int], bytes], outputs: Iterable[ReadRecord]
) -> list[str]:
    """Return the outputs that are missing, that are there again, or that nothing asked for."""
    found = Counter(output_of(read.value) for read in outputs)
    wanted = Counter(output for tp, offset in inputs for output in expected(tp, offset))
    return [
        f"{each.partition}@{each.offset}: output {each.what} is there {found[each]} times,"
        f" not {wanted[each]}"
        for each in sorted(found | wanted, key=lambda one: (one.partition, one.offset, one.what))
        if found[each] != wanted[each]
    ]


def in_order(outputs: Iterable[ReadRecord]) -> list[str]:
    """Return the outputs before which there is one of a later input of the same partition."""
    last: dict[tuple[TopicPartition, TopicPartition], int] = defaultdict(lambda: -1)
    found = []
    for read in sorted(outputs, key=lambda one: (one.partition, one.offset)):
        output = output_of(read.value)
        key = read.partition, output.partition
        if output.offset < last[key]:
            found.append(
                f"{read.partition}@{read.offset} is of {output.partition}@{output.offset}, after"
                f" {last[key]}"
            )
        last[key] = max(last[key], output.offset)
    return found


def only_committed(
    inputs: Mapping[tuple[TopicPartition, int], bytes],
    given: Mapping[TopicPartition, Mapping[int, bytes]],
) -> list[str]:
    """Return what functions were given, and readers of committed records were not."""
    return [
        f"{tp}@{offset}: a processing was given {value!r}, and committed is"
        f" {inputs.get((tp, offset))!r}"
        for tp, records in given.items()
        for offset, value in records.items()
        if inputs.get((tp, offset)) != value
    ]
