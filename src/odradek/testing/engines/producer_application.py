"""An application that sends numbered records with the producer's engine, and remembers what became
of each.

    send ──► a future ──► told once: delivered, at an offset ─► ok
      │                         └─── an error ────────────────► info: it may be there, once
      └──► an error: nothing was queued ──────────────────────► fail

Every record is a `Send` of its own in the history, so the checker judges the log with them: those
delivered are at their offsets, once and in order, those that failed are there once at most. Judged
here is what only the application sees:

- every record has an outcome, one, and future and callback agree about it;
- callbacks of a partition are called in the order of its records;
- a record fails for want of time, and for no other reason;
- when nothing is wrong any more every partition can be sent to: a few records may fail until it is
  clear that an old connection, or an attempt at one, is dead or slow.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.client.engine import Engine
from odradek.client.errors import DeliveryTimeout, KafkaError, MaxBlockTimeout
from odradek.client.producer.arguments import producer_arguments
from odradek.client.producer.futures import Delivery, FutureRecordMetadata, WaiterFace
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import Intake, ProducerRecord
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.application import SimApplication
from odradek.testing.history import Content, Header, History, Send
from odradek.testing.scheduler import MS
from odradek.testing.scripted import raise_bug

NOWHERE = -1
"""The partition of a record that was not taken in."""
MAX_PROBES, PROBE_EVERY_MS = 60, 500


@dataclass(frozen=True, slots=True)
class SendingPlan:
    """What it sends, with which settings. Times in ms, sizes in bytes, rates per mille."""

    name: str
    partitions: Sequence[TopicPartition]
    """All of those topics that it sends to."""
    records: int
    settings: tuple[tuple[str, str], ...] = ()
    step_ns: tuple[int, int] = (0, 0)
    pause_ms: tuple[int, int] = (1, 100)
    burst_rate: int = 700
    """How many records come right behind another."""
    keys: int = 5
    """How many different ones; 0: records have none."""
    value_bytes: tuple[int, int] = (1, 300)
    flush_rate: int = 20
    calm_ns: int = 0
    """When nothing is wrong any more."""


@dataclass(slots=True, eq=False)
class Sent:
    """A record: its number, the evidence, its future if it was taken in, how often it was told."""

    number: int
    send: Send
    future: FutureRecordMetadata | None = None
    told: int = 0


class SendingApplication:
    """One producer's. `acked` is called for every delivered record."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        plan: SendingPlan,
        acked: Callable[[Send], None],
    ) -> None:
        self.side = side
        self.history = history
        self.plan = plan
        self.sent: list[Sent] = []
        self.crashed = False
        scheduler = side.process.scheduler
        self.application = SimApplication(
            side, scheduler.stream(f"application/{plan.name}"), plan.step_ns
        )
        made = producer_arguments(dict(plan.settings), None, None, None, "block", {})
        self.engine: Engine = made.engine(side.env, side.timer, raise_bug)
        self.core = ProducerCore(self.engine, made.settings, WaiterFace())
        self._intake = Intake(self.core.routing, made.key, made.value, side.env.clock)
        self._acked = acked
        self._chance = self.application.chance
        self._waking = False
        self._last_told: dict[TopicPartition, int] = {}

    def start(self) -> None:
        def begin() -> None:
            self.engine.start()
            self.core.start(self._wake)

        self.side.process.run(begin)
        self.application.run(self._work())

    def crash(self) -> None:
        """Nobody will be told anything any more."""
        self.crashed = True
        self.side.kill()
        for sent in self.sent:
            if sent.send.outcome == "open":
                self._end(sent.send, "info")

    @property
    def finished(self) -> bool:
        return self.crashed or self.application.ended

    def pending(self) -> str:
        """What it waits for, for a report."""
        left = sum(sent.send.outcome == "open" for sent in self.sent)
        to_send = max(0, self.plan.records - len(self.sent))
        return f"{self.plan.name}: {left} records open, {to_send} to send"

    def _wake(self) -> None:
        if not self._waking:
            self._waking = True
            self.application.post(self._turn)

    def _turn(self) -> None:
        self._waking = False
        self.core.sender.run_soon()

    # Sending.

    async def _work(self) -> None:
        plan, chance, application = self.plan, self._chance, self.application
        while len(self.sent) < plan.records:
            burst = chance.chance(plan.burst_rate)
            await application.pause(chance.between(*((0, 2) if burst else plan.pause_ms)))
            await self._send()
            if chance.chance(plan.flush_rate):
                await self._flush()
        await application.pause(max(0, plan.calm_ns - self._now_ns()) // MS)
        for partition in plan.partitions:
            await self._reach(partition)
        await application.until(lambda: self.core.close(None))

    async def _reach(self, partition: TopicPartition) -> None:
        """Send to a partition until something is delivered."""
        for _ in range(MAX_PROBES):
            probe = await self._send(partition)
            await self._flush()
            if probe.send.outcome == "ok":
                return
            await self.application.pause(PROBE_EVERY_MS)
        self.history.surprise("stuck", f"{self.plan.name} cannot send to {partition}")

    async def _flush(self) -> None:
        await self.application.until(lambda: self.core.flush(None))

    def _now_ns(self) -> int:
        return self.side.process.scheduler.now_ns

    async def _send(self, to: TopicPartition | None = None) -> Sent:
        """A record to this partition, or to any of a topic."""
        topic, number = (to or self._chance.pick(self.plan.partitions)).topic, len(self.sent)
        content = self._draw(number)
        send = Send(
            producer=self.plan.name,
            partition=TopicPartition(topic, NOWHERE),
            contents=[content],
            acks=-1,
            idempotent=True,
            in_order=True,
            invoked_ns=self._now_ns(),
            attempts=1,
        )
        sent = Sent(number, send)
        self.sent.append(sent)
        self.history.sends.append(send)
        try:
            partition = None if to is None else to.partition
            sent.future = await self._hand_in(topic, partition, content, self._callback(sent))
        except KafkaError as error:
            if not isinstance(error, MaxBlockTimeout):
                self.history.surprise("refused", f"{name_of(sent)} was not taken in: {error!r}")
            self._end(send, "fail")
        return sent

    def _callback(self, sent: Sent) -> DeliveryCallback:
        return lambda error, delivery: self.told(sent, error, delivery)

    async def _hand_in(
        self, topic: str, partition: int | None, content: Content, callback: DeliveryCallback
    ) -> FutureRecordMetadata:
        taken = self._intake.send(
            topic,
            content.value,
            content.key,
            content.headers,
            partition,
            content.timestamp_ms,
            callback,
        )
        if isinstance(taken, ProducerRecord):
            record = taken
            waiter = await self.application.until(lambda: self.core.send_later(record).waiter)
            return waiter.result()
        return taken

    def _draw(self, number: int) -> Content:
        plan, chance = self.plan, self._chance
        value = f"{plan.name}/{number}/".encode()
        headers: tuple[Header, ...] = (("h", value[:3]), ("nothing", None))
        return Content(
            key=b"key%d" % chance.below(plan.keys) if plan.keys else None,
            value=value + b"." * chance.between(*plan.value_bytes),
            headers=headers if chance.chance(200) else (),
            timestamp_ms=self.side.env.clock.wall_ms(),
        )

    # Outcomes.

    def told(self, sent: Sent, error: KafkaError | None, delivery: Delivery) -> None:
        """The callback of a record."""
        send = sent.send
        sent.told += 1
        if sent.told > 1:
            self.history.surprise("twice", f"{name_of(sent)}: its callback is called again")
            return
        tp = send.partition = TopicPartition(delivery.topic, delivery.partition)
        if sent.number < self._last_told.get(tp, -1):
            self.history.surprise(
                "order", f"{name_of(sent)}: told after record {self._last_told[tp]} of {tp}"
            )
        self._last_told[tp] = sent.number
        what = zlib.crc32(f"{tp} {delivery.offset} {sent.number}".encode())
        self.side.process.scheduler.note(self.plan.name, "failed" if error else "delivered", what)
        if error is not None:
            if not isinstance(error, DeliveryTimeout):
                self.history.surprise("refused", f"{name_of(sent)} failed: {error!r}")
            self._end(send, "info")
            return
        if delivery.offset < 0:
            self.history.surprise("refused", f"{name_of(sent)}: delivered without an offset")
        send.base_offset = delivery.offset
        self._end(send, "ok")
        self._acked(send)

    def _end(self, send: Send, outcome: str) -> None:
        send.outcome = outcome
        send.ended_ns = self._now_ns()
        send.losses = self.history.losses

    def judge(self) -> list[str]:
        """What was wrong with the outcomes, once all is over."""
        found = []
        for sent in [] if self.crashed else self.sent:
            outcome, future = sent.send.outcome, sent.future
            if outcome == "open" or (future is not None and not (sent.told and future.done())):
                found.append(f"{name_of(sent)} has no outcome")
            elif future is not None:
                error = future.exception(0)
                if (error is None) != (outcome == "ok"):
                    found.append(f"{name_of(sent)}: told {outcome}, its future has {error!r}")
                elif error is None and future.result(0).offset != sent.send.base_offset:
                    found.append(f"{name_of(sent)}: its future has {future.result(0)}")
        return found


def name_of(sent: Sent) -> str:
    """For people."""
    return f"record {sent.number} of {sent.send.producer}"
