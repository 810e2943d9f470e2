"""An idempotent producer with failing brokers: every record is written once, in order.

Each seed is another run: responses that are errors, come late, or never; connections that break
before or after the batch is written; requests that a broker reads from a buffer long after their
connection is closed; leaders that move; batches that are too large; records that expire meanwhile.
The same must hold in all runs.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from odradek.client.errors import DeliveryTimeout, KafkaError
from odradek.model.errors import ErrorCode
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.testing.scripted import CLOSE, SILENT, DelayedAnswer
from unit.client.producer.producing import Producing

RECORDS = 120
PARTITIONS = 3
PATIENT_MS = 120_000
"""No run takes that long, unless it is stuck."""
PASSING = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
)
FINAL = (ErrorCode.INVALID_RECORD, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Story:
    """The run of one seed: a producer, two failing brokers, and all outcomes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.trouble = self.chance.choice((0.05, 0.2, 0.5))
        self.patience_ms = self.chance.choice((3_000, 20_000, PATIENT_MS))
        self.p = Producing(
            brokers=2,
            leaders={"t": [1, 2, 1]},
            batch_bytes=self.chance.choice((1, 200, 1_000, 16_384)),
            linger_ms=self.chance.choice((0, 5)),
            max_in_flight=self.chance.choice((1, 2, 5)),
            delivery_timeout_ms=self.patience_ms,
            codec=self.chance.choice((0, 0, 3)),
            buffer_bytes=self.chance.choice((4_000, 1 << 20)),
            engine={"request_timeout_ms": self.chance.choice((500, 2_000))},
        )
        splits = self.chance.random() < 0.3
        if splits:
            self.p.brokers.max_batch_bytes = 300
        self.refuses = not (splits and self.patience_ms == PATIENT_MS)
        """False where a part of a batch without a response may be refused: then the records behind
        it expire."""
        for node_id in (1, 2):
            self.p.cluster[node_id].answers[ProduceRequest] = self.failing(node_id)
        self.calm = False
        self.unread: list[tuple[int, int, ProduceRequest]] = []
        """Late requests: after how many others, to which node, and the request."""
        self.asleep_until_ms = 0
        """No broker reads requests until this time."""
        self.refused: set[tuple[int, int, int]] = set()
        """The batches that a broker refuses again."""
        self.told: dict[int, list[Any]] = {}
        self.sent: dict[int, tuple[int, Any]] = {}

    def failing(self, node_id: int) -> Any:
        right = self.p.brokers.produce_at(node_id)

        def answer(request: ProduceRequest, version: int) -> Any:
            chance = self.chance
            self.read_on()
            if self.p.cluster.now_ms < self.asleep_until_ms and not self.calm:
                return self.leave_unread(node_id, request)
            if self.calm or chance.random() >= self.trouble:
                return right(request, version)
            what = chance.randrange(6)
            if what == 0:
                if chance.random() < 0.5:
                    return self.leave_unread(node_id, request)
                return chance.choice((CLOSE, SILENT))
            if what == 1:
                for topic in request.topic_data:
                    for part in topic.partition_data:
                        passes = chance.random() < 0.8 or not self.refuses
                        codes = PASSING if passes else FINAL
                        code = chance.choice(codes)
                        self.p.brokers.fail_next("t", part.index, code)
                        if not code.retriable:
                            self.refused.add(identity(part))
                return right(request, version)
            kept = right(request, version)
            if what == 2:
                return chance.choice((CLOSE, SILENT))
            return DelayedAnswer(chance.choice((1, 50, 700, 5_000)), kept)

        return answer

    def leave_unread(self, node_id: int, request: ProduceRequest) -> Any:
        """Stop reading for a while."""
        self.unread.append((self.chance.choice((1, 2, 4, 8, 16)), node_id, request))
        return SILENT

    def read_on(self) -> None:
        """Process the late requests that are due."""
        unread, self.unread = self.unread, []
        for others, node_id, request in unread:
            if others > 0 and not self.calm:
                self.unread.append((others - 1, node_id, request))
                continue
            for topic in request.topic_data:
                for part in topic.partition_data:
                    if identity(part) not in self.refused:
                        self.p.brokers.one(node_id, "t", part)

    def run(self) -> None:
        for number in range(RECORDS):
            partition = self.chance.randrange(PARTITIONS)
            self.send(number, partition)
            if self.chance.random() < 0.1:
                self.p.cluster.run(self.chance.choice((1, 10, 200, 1_000)))
            if self.chance.random() < 0.02:
                self.asleep_until_ms = self.p.cluster.now_ms + self.chance.choice((700, 3_200))
            if self.chance.random() < 0.05:
                self.p.cluster.move("t", partition, self.chance.choice((1, 2)))
        self.calm = True
        assert self.p.flush() == 0
        self.p.cluster.run(20_000)
        self.read_on()
        for partition in range(PARTITIONS):
            self.send(RECORDS + partition, partition)
        assert self.p.flush() == 0

    def send(self, number: int, partition: int) -> None:
        value = b"%d:" % number + b"x" * self.chance.choice((0, 10, 90))
        self.told[number] = []
        waiter = self.p.begin(value, partition=partition, callback=self.teller(number))
        self.p.cluster.until(lambda: waiter.done)
        self.sent[number] = (partition, waiter)

    def teller(self, number: int) -> Any:
        return lambda error, delivery: self.told[number].append((error, delivery))

    def check(self) -> None:
        written = {n: numbers(self.p.values("t", n)) for n in range(PARTITIONS)}
        for partition, found in written.items():
            assert len(found) == len(set(found)), f"written twice in partition {partition}"
            assert found == sorted(found), f"out of order in partition {partition}"
        for number, (partition, waiter) in self.sent.items():
            if waiter.error is not None:
                assert self.told[number] == []
                assert number not in written[partition]
                continue
            assert len(self.told[number]) == 1, "told once"
            error, delivery = self.told[number][0]
            assert waiter.result().exception(0) is error
            if error is None:
                assert number in written[partition]
                if delivery.offset >= 0:
                    assert written[partition][delivery.offset] == number
            else:
                assert isinstance(error, KafkaError)
                assert number < RECORDS, "when all is well again, all goes well again"
                if isinstance(error, DeliveryTimeout):
                    assert self.patience_ms < PATIENT_MS
                if "may or may not have been written" not in str(error):
                    assert number not in written[partition]
        accumulator = self.p.core.accumulator
        assert accumulator.pool.charged_bytes == 0
        assert not accumulator.incomplete and not self.p.core.sender.in_flight


def identity(part: Any) -> tuple[int, int, int]:
    """The producer of a batch, as its broker knows it: id, epoch and first sequence."""
    header = RecordBatchHeader(bytes(part.records), 0)
    return header.producer_id, header.producer_epoch, header.base_sequence


def numbers(values: list[bytes | None]) -> list[int]:
    return [int(value.partition(b":")[0]) for value in values if value is not None]


@pytest.mark.parametrize("seed", range(100))
def test_every_record_is_written_once_and_in_order(seed):
    story = Story(seed)
    story.run()
    story.check()
