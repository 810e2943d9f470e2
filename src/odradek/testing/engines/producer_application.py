"""An application that sends numbered records with the producer's engine and checks their outcomes.

    send ──► a future ──► one callback: delivered, at an offset ─► ok
      │                         └─── an error ───────────────────► info: it may be in the log, once
      └──► an error: nothing was queued ─────────────────────────► fail

Every record is a `SentBatch` of its own in the history, so the checker judges the log with them:
delivered records are at their offsets, once and in order; failed ones are in the log at most once.
This module checks what only the application sees:

- every record has exactly one outcome, and its future and its callback agree;
- callbacks of a partition are called in the order of its records;
- a record fails only because of a timeout (one of several brokers may also not know its topic yet);
- after the last fault every partition accepts records: a few may fail until the client has noticed
  that an old connection, or an attempt at one, is dead or slow.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.client.errors import (
    DeliveryTimeout,
    KafkaError,
    MaxBlockTimeout,
    UnknownTopicOrPartition,
)
from odradek.client.producer.futures import Delivery, FutureRecordMetadata
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.application import SimApplication
from odradek.testing.engines.engine_producer import EngineProducer
from odradek.testing.history import Content, Header, History, SentBatch
from odradek.testing.scheduler import MS

NOWHERE = -1
"""The partition of a record that was not queued."""
MAX_PROBES, PROBE_EVERY_MS = 60, 500


@dataclass(frozen=True, slots=True)
class SenderPlan:
    """The records it sends, and its settings. Times in ms, sizes in bytes, rates per mille."""

    name: str
    partitions: Sequence[TopicPartition]
    """All partitions of the topics it sends to."""
    records: int
    settings: tuple[tuple[str, str], ...] = ()
    step_ns: tuple[int, int] = (0, 0)
    pause_ms: tuple[int, int] = (1, 100)
    burst_rate: int = 700
    """The rate of records that follow another at once."""
    keys: int = 5
    """The number of different keys; 0: records have no key."""
    value_bytes: tuple[int, int] = (1, 300)
    flush_rate: int = 20
    calm_ns: int = 0
    """The time of the last fault."""


@dataclass(slots=True, eq=False)
class SentRecord:
    """A record: number, `SentBatch`, future if it was queued, and the number of callbacks."""

    number: int
    send: SentBatch
    future: FutureRecordMetadata | None = None
    callbacks: int = 0


class ProducerApplication:
    """An application with one producer. `acked` is called for every delivered record."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        plan: SenderPlan,
        acked: Callable[[SentBatch], None],
    ) -> None:
        self.side = side
        self.history = history
        self.plan = plan
        self.sent: list[SentRecord] = []
        self.crashed = False
        scheduler = side.process.scheduler
        self.application = SimApplication(
            side, scheduler.stream(f"application/{plan.name}"), plan.step_ns
        )
        self._producer = EngineProducer(side, self.application, dict(plan.settings))
        self.core = self._producer.core
        self._acked = acked
        self._chance = self.application.chance
        several = "," in dict(plan.settings)["bootstrap.servers"]
        self._refusals = (MaxBlockTimeout, UnknownTopicOrPartition) if several else MaxBlockTimeout
        """Why a record may not be taken in."""
        self._last_delivered: dict[TopicPartition, int] = {}

    def start(self) -> None:
        self.side.process.run(self._producer.start)
        self.application.run(self._work())

    def crash(self) -> None:
        """Kill the process; open records have an unknown outcome."""
        self.crashed = True
        self.side.kill()
        for sent in self.sent:
            if sent.send.outcome == "open":
                self._end(sent.send, "info")

    @property
    def finished(self) -> bool:
        return self.crashed or self.application.ended

    def pending(self) -> str:
        """Return what is unfinished, for a report."""
        left = sum(sent.send.outcome == "open" for sent in self.sent)
        to_send = max(0, self.plan.records - len(self.sent))
        return f"{self.plan.name}: {left} records open, {to_send} to send"

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
        """Send to a partition until a record is delivered."""
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

    async def _send(self, to: TopicPartition | None = None) -> SentRecord:
        """Send a record to this partition, or to any partition of a topic."""
        topic, number = (to or self._chance.pick(self.plan.partitions)).topic, len(self.sent)
        content = self._draw(number)
        send = SentBatch(
            producer=self.plan.name,
            partition=TopicPartition(topic, NOWHERE),
            contents=[content],
            acks=-1,
            idempotent=True,
            in_order=True,
            invoked_ns=self._now_ns(),
            attempts=1,
        )
        sent = SentRecord(number, send)
        self.sent.append(sent)
        self.history.sends.append(send)
        try:
            partition = None if to is None else to.partition
            sent.future = await self._hand_in(topic, partition, content, self._callback(sent))
        except KafkaError as error:
            if not isinstance(error, self._refusals):
                self.history.surprise("refused", f"{record_name(sent)} was not taken in: {error!r}")
            self._end(send, "fail")
        return sent

    def _callback(self, sent: SentRecord) -> DeliveryCallback:
        return lambda error, delivery: self.on_delivery(sent, error, delivery)

    async def _hand_in(
        self, topic: str, partition: int | None, content: Content, callback: DeliveryCallback
    ) -> FutureRecordMetadata:
        return await self._producer.send(
            topic,
            content.value,
            key=content.key,
            headers=content.headers,
            partition=partition,
            timestamp_ms=content.timestamp_ms,
            callback=callback,
        )

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

    def on_delivery(self, sent: SentRecord, error: KafkaError | None, delivery: Delivery) -> None:
        """Handle the delivery callback of a record."""
        send = sent.send
        sent.callbacks += 1
        if sent.callbacks > 1:
            self.history.surprise("twice", f"{record_name(sent)}: its callback is called again")
            return
        tp = send.partition = TopicPartition(delivery.topic, delivery.partition)
        if sent.number < self._last_delivered.get(tp, -1):
            self.history.surprise(
                "order",
                f"{record_name(sent)}: told after record {self._last_delivered[tp]} of {tp}",
            )
        self._last_delivered[tp] = sent.number
        what = zlib.crc32(f"{tp} {delivery.offset} {sent.number}".encode())
        self.side.process.scheduler.note(self.plan.name, "failed" if error else "delivered", what)
        if error is not None:
            if not isinstance(error, DeliveryTimeout):
                self.history.surprise("refused", f"{record_name(sent)} failed: {error!r}")
            self._end(send, "info")
            return
        if delivery.offset < 0:
            self.history.surprise("refused", f"{record_name(sent)}: delivered without an offset")
        send.base_offset = delivery.offset
        self._end(send, "ok")
        self._acked(send)

    def _end(self, send: SentBatch, outcome: str) -> None:
        send.outcome = outcome
        send.ended_ns = self._now_ns()
        send.losses = self.history.losses

    def judge(self) -> list[str]:
        """Return the violations in the outcomes, after the run."""
        found = []
        for sent in [] if self.crashed else self.sent:
            outcome, future = sent.send.outcome, sent.future
            if outcome == "open" or (future is not None and not (sent.callbacks and future.done())):
                found.append(f"{record_name(sent)} has no outcome")
            elif future is not None:
                error = future.exception(0)
                if (error is None) != (outcome == "ok"):
                    found.append(f"{record_name(sent)}: told {outcome}, its future has {error!r}")
                elif error is None and future.result(0).offset != sent.send.base_offset:
                    found.append(f"{record_name(sent)}: its future has {future.result(0)}")
        return found


def record_name(sent: SentRecord) -> str:
    """Return the name of a record, for messages."""
    return f"record {sent.number} of {sent.send.producer}"
