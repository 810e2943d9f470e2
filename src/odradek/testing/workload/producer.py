"""A simulated producer: batches for several partitions, retried until their outcome is known.

Each partition is a *lane*: its unresolved batches in order. From the oldest on, `max_in_flight` may
be in flight, and later ones that are resolved already count.

    sent ──► ok: resolved
         ├─► a retriable error, or no answer: the lane *drains* (waits for all that is in flight),
         │   backs off, and sends the unresolved batches again from the first, with the same
         │   sequences
         └─► the broker has lost the sequence (`OUT_OF_ORDER_SEQUENCE_NUMBER` for the oldest batch):
             the outcome of the batches is unknown, a new producer id starts at sequence 0

As in Kafka's producer an idempotent one may have five batches of a partition in flight: a broker
knows the last five of a producer, so that five more must not be appended after an unresolved one.
It has only one before the partition knows the producer id: there a broker takes any sequence (as
Kafka does), so a second batch would be appended even if the first was refused. A batch of a plain
producer has an unknown outcome after `max_attempts`; with `acks=0` every batch has. So has a batch
for a topic that is being deleted, or for a partition with damaged bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol import record_batch_builder
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.testing.history import Content, Header, History, SentBatch
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS
from odradek.testing.workload.cluster_client import ClusterClient
from odradek.testing.workload.topics import TOPIC_UNKNOWN, TopicLife


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """The plan of a producer. Sizes in bytes, times in ms."""

    name: str
    partitions: Sequence[TopicPartition]
    batches: int
    acks: int = -1
    idempotent: bool = False
    max_in_flight: int = 1
    max_attempts: int = 50
    max_records: int = 5
    value_bytes: tuple[int, int] = (1, 300)
    codec: int = 0
    version: int = 13
    pause_ms: tuple[int, int] = (1, 150)
    """The pause between bursts; batches of a burst follow within milliseconds."""
    burst_rate: int = 700
    forgetful: Sequence[str] = ()
    """Topics whose records may be deleted before their producer has the acknowledgement."""


@dataclass(slots=True, eq=False)
class LaneBatch:
    """A batch in its lane: its `SentBatch`, its number there and its base sequence."""

    send: SentBatch
    number: int
    base_sequence: int
    in_flight: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """The unresolved batches of one partition, oldest first."""

    partition: TopicPartition
    made: int = 0
    next_sequence: int = 0
    unresolved: list[LaneBatch] = field(default_factory=list)
    draining: bool = False
    known: bool = False
    """True if the partition has a batch of this producer id."""

    @property
    def in_flight(self) -> int:
        return sum(batch.in_flight for batch in self.unresolved)


def draw_contents(
    chance: SplitMix64,
    plan: ProducerPlan,
    partition: TopicPartition,
    values: int,
    timestamp_ms: int,
) -> list[Content]:
    """Draw the records of a batch, by a producer that has made `values`: each value is unique."""
    made = []
    for _ in range(chance.between(1, plan.max_records)):
        values += 1
        name = f"{plan.name}/{partition}/{values}/".encode()
        headers: tuple[Header, ...] = ()
        if chance.chance(200):
            headers = (("h", name[:2]), ("nothing", None))
        made.append(
            Content(
                key=None if chance.chance(300) else name[-6:],
                value=name + b"." * chance.between(*plan.value_bytes),
                headers=headers,
                timestamp_ms=timestamp_ms,
            )
        )
    return made


SEQUENCE_LOST = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


@dataclass(slots=True, eq=False)
class SimProducer:
    """Runs a plan; it is finished when every batch is resolved."""

    client: ClusterClient
    history: History
    plan: ProducerPlan
    topics: Mapping[str, TopicLife]
    acked: Callable[[SentBatch], None]
    made: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    last_error: str = "no error yet"
    _generation: int = 0
    _lanes: list[Lane] = field(default_factory=list)
    _values: int = 0

    def start(self) -> None:
        self._lanes = [Lane(partition) for partition in self.plan.partitions]
        if self.plan.idempotent:
            self._ask_producer_id()
        self._pause()

    @property
    def finished(self) -> bool:
        return self.made == self.plan.batches and not any(x.unresolved for x in self._lanes)

    def pending(self) -> str:
        """Return what is unfinished, for a report."""
        left = sum(len(lane.unresolved) for lane in self._lanes)
        to_make = self.plan.batches - self.made
        return f"{self.plan.name}: {left} unresolved, {to_make} to make; {self.last_error}"

    # Making batches.

    def _pause(self) -> None:
        if self.made < self.plan.batches:
            burst = self.client.chance.chance(self.plan.burst_rate)
            delay_ms = self.client.chance.between(*((0, 3) if burst else self.plan.pause_ms))
            self.client.process.post(delay_ms * MS, "make", self._make)

    def _make(self) -> None:
        if not self._lanes:
            return
        lane = self.client.chance.pick(self._lanes)
        if len(lane.unresolved) < 2 * self.plan.max_in_flight:
            now_ms = self.client.process.clock.wall_ms()
            contents = draw_contents(
                self.client.chance, self.plan, lane.partition, self._values, now_ms
            )
            self._values += len(contents)
            send = SentBatch(
                producer=self.plan.name,
                partition=lane.partition,
                contents=contents,
                acks=self.plan.acks,
                idempotent=self.plan.idempotent,
                in_order=self.plan.idempotent or self.plan.max_in_flight == 1,
                invoked_ns=self.client.process.scheduler.now_ns,
            )
            self.history.sends.append(send)
            lane.unresolved.append(LaneBatch(send, lane.made, lane.next_sequence))
            lane.made += 1
            lane.next_sequence += len(contents)
            self.made += 1
            self._advance(lane)
        self._pause()

    # Sending.

    def _advance(self, lane: Lane) -> None:
        if lane.draining or (self.plan.idempotent and self.producer_id < 0):
            return
        limit = self.plan.max_in_flight if lane.known or not self.plan.idempotent else 1
        end = lane.unresolved[0].number + limit if lane.unresolved else 0
        for batch in [each for each in lane.unresolved if each.number < end]:
            if not batch.in_flight and not lane.draining:
                self._send(lane, batch)

    def _send(self, lane: Lane, batch: LaneBatch) -> None:
        batch.in_flight = True
        batch.send.attempts += 1
        batch.send.losses = self.history.losses
        batch.send.last_sent_ns = self.client.process.scheduler.now_ns
        generation = self._generation
        answered = self.plan.acks != 0
        self.client.call_leader(
            lane.partition,
            self._request(batch),
            self.plan.version,
            ProduceResponse if answered else None,
            lambda response: self._answered(lane, batch, generation, response),
            lambda: self._unanswered(lane, batch, generation) if answered else None,
        )
        if not answered:
            self._resolve(lane, batch, "info")

    def _request(self, batch: LaneBatch) -> ProduceRequest:
        send = batch.send
        records = record_batch_builder.build(
            [(c.key, c.value, c.headers, c.timestamp_ms) for c in send.contents],
            self.plan.codec,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=batch.base_sequence if self.plan.idempotent else -1,
        )
        partition = PartitionProduceData(index=send.partition.partition, records=records)
        to = self.topics[send.partition.topic]
        topic = TopicProduceData(name=to.name, topic_id=to.id, partition_data=[partition])
        return ProduceRequest(acks=self.plan.acks, timeout_ms=1500, topic_data=[topic])

    # Answers.

    def _answered(
        self, lane: Lane, batch: LaneBatch, generation: int, response: ProduceResponse
    ) -> None:
        if generation != self._generation or lane not in self._lanes:
            return
        batch.in_flight = False
        answer = response.responses[0].partition_responses[0]
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.NONE:
            self._acknowledged(lane, batch, answer)
            return
        self._reach(error.name)
        self.last_error = f"{lane.partition}: {error.name} {answer.error_message}"
        self.client.note_error(lane.partition, error)
        ending = lane.partition.topic in self.history.topic_deletions
        if error in TOPIC_UNKNOWN and not (ending or self.client.several):
            self.history.surprise("refused", f"{self.plan.name} to {lane.partition}: {error.name}")
        if error == ErrorCode.KAFKA_STORAGE_ERROR and lane.partition in self.history.damaged:
            self._leave(lane)
        elif ending and not error.retriable:
            self._resolve(lane, batch, "info")
        elif error in SEQUENCE_LOST and lane.unresolved[0] is not batch:
            self._drain(lane)
        elif error in SEQUENCE_LOST:
            self._sequence_lost(batch, error)
        elif error.retriable or error == ErrorCode.KAFKA_STORAGE_ERROR:
            self._try_again(lane, batch)
        else:
            self.history.surprise(
                "refused",
                f"{self.plan.name} to {lane.partition}: {error.name} {answer.error_message}",
            )
            self._resolve(lane, batch, "info")

    def _acknowledged(self, lane: Lane, batch: LaneBatch, answer: PartitionProduceResponse) -> None:
        lane.known = True
        batch.send.base_offset = answer.base_offset
        if answer.base_offset < 0:
            self.history.surprise("refused", f"{self.plan.name}: acked without an offset")
        self._resolve(lane, batch, "ok")
        self.acked(batch.send)

    def _unanswered(self, lane: Lane, batch: LaneBatch, generation: int) -> None:
        if generation == self._generation and lane in self._lanes:
            batch.in_flight = False
            self._reach("no answer")
            self._try_again(lane, batch)

    def _reach(self, what: str) -> None:
        self.client.process.scheduler.reach(f"producer: {what}")

    def _try_again(self, lane: Lane, batch: LaneBatch) -> None:
        if batch.send.attempts >= self.plan.max_attempts and not self.plan.idempotent:
            self._resolve(lane, batch, "info")
        else:
            self._drain(lane)

    def _drain(self, lane: Lane) -> None:
        """When no batch of the lane is in flight, back off and send again from the first."""
        lane.draining = True
        if lane.in_flight == 0:
            generation, delay_ms = self._generation, self.client.chance.between(10, 300)
            self.client.process.post(
                delay_ms * MS, "retry", lambda: self._drained(lane, generation)
            )

    def _drained(self, lane: Lane, generation: int) -> None:
        if generation == self._generation and lane.in_flight == 0:
            lane.draining = False
            self._reach("batches sent again")
            self._advance(lane)

    def _resolve(self, lane: Lane, batch: LaneBatch, outcome: str) -> None:
        send = batch.send
        send.outcome = outcome
        send.ended_ns = self.client.process.scheduler.now_ns
        lane.unresolved.remove(batch)
        if lane.draining:
            self._drain(lane)
        else:
            self._advance(lane)

    # Giving up.

    def abandon(self) -> None:
        """Make no more batches; the outcome of those in flight is unknown."""
        self._generation += 1
        for lane in list(self._lanes):
            self._leave(lane)

    def _leave(self, lane: Lane) -> None:
        """Give up a partition; its batches have an unknown outcome."""
        self._lanes.remove(lane)
        for batch in lane.unresolved:
            batch.send.outcome = "info"
            batch.send.ended_ns = self.client.process.scheduler.now_ns
        lane.unresolved.clear()
        if not self._lanes:
            self.made = self.plan.batches

    # Producer ids.

    def _ask_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.client.call(request, 5, InitProducerIdResponse, self._identified, self._ask_later)

    def _identified(self, response: InitProducerIdResponse) -> None:
        error = ErrorCode(response.error_code)
        if error != ErrorCode.NONE:
            if not error.retriable:
                self.history.surprise("refused", f"InitProducerId: {error.name}")
            self._ask_later()
            return
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        for lane in self._lanes:
            self._advance(lane)

    def _ask_later(self) -> None:
        delay_ms = self.client.chance.between(20, 300)
        self.client.process.post(delay_ms * MS, "retry id", self._ask_producer_id)

    def _sequence_lost(self, batch: LaneBatch, error: ErrorCode) -> None:
        """Start with a new producer id: the broker forgot batches, and the unresolved ones may or
        may not be in the log.

        This is allowed if records are deleted: after a restart the broker knows the last batch of
        each producer, and earlier ones only from the log.
        """
        if self.plan.max_in_flight == 1 or batch.send.partition.topic not in self.plan.forgetful:
            self.history.surprise(
                "lost",
                f"{self.plan.name} to {batch.send.partition}: {error.name}"
                f" at sequence {batch.base_sequence} of {self.producer_id}",
            )
        self._generation += 1
        self.producer_id = self.producer_epoch = -1
        for lane in self._lanes:
            lane.draining = False
            for waiting in list(lane.unresolved):
                if waiting.send.attempts:
                    waiting.in_flight = False
                    self._resolve(lane, waiting, "info")
            lane.next_sequence, lane.known = 0, False
            for waiting in lane.unresolved:
                waiting.base_sequence = lane.next_sequence
                lane.next_sequence += len(waiting.send.contents)
        self._ask_producer_id()
