"""Applications that read with the consumer's engine, and the records that they received.

`ConsumerApplication` has what they share: the engine, its poll loop, taking records, and closing.
It is wired as in the blocking and the asyncio API. Subclasses implement `work`, which ends when
`leaving` is set.

`AssignedApplication` reads partitions it assigned itself: every record, once, in order, from the
first one on, whatever happens to the broker. At random it pauses partitions for a while (and must
get none of their records), or seeks back to an earlier position and reads on from there.

`ReceivedRecords` has the records that all consumers of a run received: one record per offset, which
is compared at the end with the records that the scripted readers found in the broker's logs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from odradek.client.consumer.application.calls import ConsumerCalls
from odradek.client.consumer.application.poll_loop import PollLoop, RecordBuffer
from odradek.client.consumer.arguments import ConsumerArguments, consumer_arguments
from odradek.client.consumer.consumer_core import ConsumerCore
from odradek.client.consumer.record import Record
from odradek.client.engine import Engine
from odradek.client.waiter import Waiter, spawn
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.application import SimApplication
from odradek.testing.history import Content, History
from odradek.testing.scheduler import MS, Scheduler
from odradek.testing.scripted import raise_bug

Log = Mapping[int, Content]


@dataclass(slots=True, eq=False)
class ReceivedRecords:
    """The records that consumers received, by partition and offset."""

    scheduler: Scheduler
    history: History
    records: dict[TopicPartition, dict[int, Content]] = field(default_factory=dict)

    def add(self, reader: str, record: Record[bytes, bytes]) -> None:
        """Add a record that a reader received."""
        tp, offset = record.topic_partition, record.offset
        content = Content(
            record.key, record.value or b"", tuple(record.headers), record.timestamp_ms
        )
        what = zlib.crc32(content.value, zlib.crc32(f"{tp} {offset}".encode()))
        self.scheduler.note(reader, "record", what)
        known = self.records.setdefault(tp, {}).setdefault(offset, content)
        if known != content:
            self.history.surprise(
                "changed", f"{tp}@{offset}: {reader} was handed {content}, others {known}"
            )

    @property
    def count(self) -> int:
        """The number of different records received."""
        return sum(len(records) for records in self.records.values())

    def judge(self, logs: Mapping[TopicPartition, Log]) -> list[str]:
        """Return the received records that differ from the logs."""
        return [
            f"{tp}@{offset}: handed out {content}, in the log is {logs.get(tp, {}).get(offset)}"
            for tp, records in self.records.items()
            for offset, content in records.items()
            if logs.get(tp, {}).get(offset) != content
        ]


T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """A consumer's settings, and how its application takes records. Times in ms."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()
    step_ns: tuple[int, int] = (0, 0)
    gather: int = 0
    """The number of records taken at once; 0: one by one."""
    wait_s: float = 0.5
    """The timeout of a take."""
    work_ms: tuple[int, int] = (0, 30)
    """The range of the time that processing takes."""


class ConsumerApplication:
    """Reads assigned partitions with one consumer, and checks what it receives."""

    def __init__(
        self, side: ClientProcess, history: History, received: ReceivedRecords, plan: ConsumerPlan
    ) -> None:
        self.side = side
        self.name = plan.name
        self.history = history
        self.received = received
        self.leaving = False
        self.crashed = False
        self._plan = plan
        self.application = SimApplication(
            side, side.process.scheduler.stream(f"application/{plan.name}"), plan.step_ns
        )
        self.chance = self.application.chance
        made = self.arguments(plan)
        self.engine = Engine(side.env, side.timer, made.config, on_bug=raise_bug)
        self.core = ConsumerCore(
            self.engine,
            made.config,
            made.deserializers,
            self.application.post,
            self.application.signal,
            made.assignors,
        )
        self.calls = ConsumerCalls(self.core)
        self.poll_loop = PollLoop(self, self.application, self.core)

    def arguments(self, plan: ConsumerPlan) -> ConsumerArguments:
        """Return what the consumer is made of."""
        return consumer_arguments([dict(plan.settings)], None, None, {})

    def start(self) -> None:
        def begin() -> None:
            self.engine.start()
            self.core.start()

        self.side.process.run(begin)
        self.application.run(self._run())

    async def _run(self) -> None:
        await self.work()
        self.core.collector.mark_consumed()
        await self.poll_loop.close(CLOSE_TIMEOUT_S)

    async def work(self) -> None:
        """Until `leaving`."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stop after the current round."""
        self.leaving = True

    def crash(self) -> None:
        """Kill the process."""
        self.crashed = True
        self.side.kill()

    @property
    def ended(self) -> bool:
        return self.crashed or self.application.ended

    async def call_api(self, make: Callable[[], Coroutine[Waiter[Any], None, T]]) -> T:
        """Make a call of the consumer's API; return its result or raise its error."""
        found = await self.application.until(lambda: spawn(make()))
        self.core.collector.refresh()
        return found.result()

    async def take(self) -> list[Record[bytes, bytes]]:
        """Return the next records; empty if none came in time."""
        plan = self._plan
        if plan.gather:
            buffer = RecordBuffer(self.core.collector, plan.gather)
            await self.poll_loop.fill(buffer, plan.wait_s)
            return buffer.records
        record = self.core.collector.next_record()
        if record is None:
            record = await self.poll_loop.poll(plan.wait_s)
        return [] if record is None else [record]

    async def process(self, records: list[Record[bytes, bytes]]) -> None:
        """Spend time on the records."""
        longest = self._plan.work_ms
        await self.application.pause(self.chance.between(*(longest if records else (0, 1))))

    def surprise(self, kind: str, text: str) -> None:
        """Note a violation."""
        now_ms = self.side.process.scheduler.now_ns // MS
        self.history.surprise(kind, f"{self.name} at {now_ms} ms: {text}")


@dataclass(frozen=True, slots=True)
class AssignedPlan:
    """The partitions it reads, and how often it pauses or seeks, per mille of its rounds."""

    consuming: ConsumerPlan
    partitions: Sequence[TopicPartition]
    pause_or_seek_rate: int = 30


class AssignedApplication(ConsumerApplication):
    """Reads assigned partitions. `next_offsets`: the next expected offset by partition."""

    def __init__(
        self, side: ClientProcess, history: History, received: ReceivedRecords, plan: AssignedPlan
    ) -> None:
        super().__init__(side, history, received, plan.consuming)
        self.plan = plan
        self.next_offsets = dict.fromkeys(plan.partitions, 0)
        self.calm = False
        """True if it no longer pauses or seeks."""
        self._paused: dict[TopicPartition, None] = {}

    async def work(self) -> None:
        await self.call_api(lambda: self.calls.assign(self.plan.partitions))
        while not self.leaving:
            records = await self.take()
            for record in records:
                self._take(record)
            await self.process(records)
            if self._paused if self.calm else self.chance.chance(self.plan.pause_or_seek_rate):
                await self._pause_or_seek()

    def _take(self, record: Record[bytes, bytes]) -> None:
        tp, offset = record.topic_partition, record.offset
        if tp in self._paused:
            self.surprise("paused", f"handed {tp}@{offset}, and {tp} is paused")
        if offset != self.next_offsets[tp]:
            self.surprise("skipped", f"handed {tp}@{offset} after {self.next_offsets[tp] - 1}")
        self.next_offsets[tp] = offset + 1
        self.received.add(self.name, record)

    async def _pause_or_seek(self) -> None:
        tp = self.chance.pick(self.plan.partitions)
        if self._paused:
            paused, self._paused = list(self._paused), {}
            await self.call_api(lambda: self.calls.resume(*paused))
        elif self.chance.chance(500):
            await self.call_api(lambda: self.calls.pause(tp))
            self._paused[tp] = None
        else:
            to = self.chance.between(0, self.next_offsets[tp])
            await self.call_api(lambda: self.calls.seek(tp, to))
            self.next_offsets[tp] = to

    def lag(self, ends: Mapping[TopicPartition, int]) -> list[str]:
        """Return the partitions that are not read to the end, for a report."""
        return [
            f"{self.name}: {tp} at {offset} of {ends[tp]}"
            for tp, offset in self.next_offsets.items()
            if offset < ends[tp]
        ]
