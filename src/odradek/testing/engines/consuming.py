"""What applications that read with the consumer's engine have in common: engine, `PollLoop`, taking
records, and an end.

The wiring is what a face does. Derived classes say what happens in `work`, which ends when
`leaving` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from odradek.client.consumer.application.calls import ConsumerCalls
from odradek.client.consumer.application.poll_loop import PollLoop, RecordBuffer
from odradek.client.consumer.arguments import consumer_arguments
from odradek.client.consumer.consumer import ConsumerCore
from odradek.client.consumer.record import Record
from odradek.client.engine import Engine
from odradek.client.waiter import Waiter, spawn
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.application import SimApplication
from odradek.testing.engines.seen import Seen
from odradek.testing.history import History
from odradek.testing.scheduler import MS
from odradek.testing.scripted_broker import raise_bug

T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ConsumingPlan:
    """A consumer's settings, and how its application takes records. Times in ms."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()
    step_ns: tuple[int, int] = (0, 0)
    gather: int = 0
    """How many records it takes at once; 0: one by one."""
    wait_s: float = 0.5
    """How long it waits for them."""
    work_ms: tuple[int, int] = (0, 30)
    """How long it deals with what it took."""


class ConsumingApplication:
    """One consumer's."""

    def __init__(
        self, side: ClientProcess, history: History, seen: Seen, plan: ConsumingPlan
    ) -> None:
        self.side = side
        self.name = plan.name
        self.history = history
        self.seen = seen
        self.leaving = False
        self.crashed = False
        self._plan = plan
        self.application = SimApplication(
            side, side.process.scheduler.stream(f"application/{plan.name}"), plan.step_ns
        )
        self.chance = self.application.chance
        made = consumer_arguments([dict(plan.settings)], None, None, {})
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
        self.reading = PollLoop(self, self.application, self.core)

    def start(self) -> None:
        def begin() -> None:
            self.engine.start()
            self.core.start()

        self.side.process.run(begin)
        self.application.run(self._run())

    async def _run(self) -> None:
        await self.work()
        self.core.collector.settle()
        await self.reading.close(CLOSE_TIMEOUT_S)

    async def work(self) -> None:
        """Until `leaving`."""
        raise NotImplementedError

    def leave(self) -> None:
        """Come to an end, when it is convenient."""
        self.leaving = True

    def crash(self) -> None:
        """The process is gone."""
        self.crashed = True
        self.side.kill()

    @property
    def ended(self) -> bool:
        return self.crashed or self.application.ended

    async def ask(self, make: Callable[[], Coroutine[Waiter[Any], None, T]]) -> T:
        """A call of the application's. Raises what it raises."""
        found = await self.application.until(lambda: spawn(make()))
        self.core.collector.refresh()
        return found.result()

    async def take(self) -> list[Record[bytes, bytes]]:
        """The next records; none, if none came in time."""
        plan = self._plan
        if plan.gather:
            gathering = RecordBuffer(self.core.collector, plan.gather)
            await self.reading.gather(gathering, plan.wait_s)
            return gathering.records
        record = self.core.collector.next_record()
        if record is None:
            record = await self.reading.poll(plan.wait_s)
        return [] if record is None else [record]

    async def deal_with(self, records: list[Record[bytes, bytes]]) -> None:
        """Take some time over them."""
        longest = self._plan.work_ms
        await self.application.pause(self.chance.between(*(longest if records else (0, 1))))

    def surprise(self, kind: str, text: str) -> None:
        """Something that may not be."""
        now_ms = self.side.process.scheduler.now_ns // MS
        self.history.surprise(kind, f"{self.name} at {now_ms} ms: {text}")
