"""Publishing dead letters: acknowledged ones leave the list, others stay."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.consumer.application.dead_letters import DeadLetters
from odradek.client.consumer.application.poll_loop import run_now
from odradek.client.consumer.record import BatchInfo, Record, TimestampType
from odradek.client.errors import DeadLetterFailed, DecodeError, KafkaError, RecordTooLarge
from odradek.protocol.records import MAX_TIMESTAMP
from unit.client.consumer.simulated_reader import Reader

BATCH = BatchInfo("orders", 0, 0, TimestampType.CREATE_TIME)


def letter(offset: int, timestamp_ms: int = 1000) -> DecodeError:
    error = DecodeError(f"the record at {offset}")
    error.record = Record(BATCH, offset, timestamp_ms, None, b"%d" % offset)
    error.__cause__ = ValueError("no number")
    return error


class Sent:
    """A record's future; the test sets its outcome."""

    def __init__(self) -> None:
        self.known = False
        self.error: KafkaError | None = None

    def done(self) -> bool:
        return self.known

    def exception(self) -> KafkaError | None:
        return self.error


class FakeProducer:
    """A producer that sends nothing and records what was sent, by value."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Sent]] = []
        self.refused: KafkaError | None = None
        self.waited: list[float | None] = []
        self.acknowledges = True
        self.closed: list[float | None] = []
        self.timestamps: list[object] = []

    async def enqueue(self, topic: str, value: bytes, **fields: object) -> Any:
        if self.refused is not None:
            raise self.refused
        self.timestamps.append(fields["timestamp"])
        sent = Sent()
        self.sent.append((value, sent))
        return sent

    async def wait(self, sent: Any, timeout_s: float | None) -> None:
        self.waited.append(timeout_s)
        sent.known = sent.known or self.acknowledges

    async def close(self, timeout_s: float | None) -> None:
        self.closed.append(timeout_s)

    @property
    def values(self) -> list[bytes]:
        return [value for value, _ in self.sent]


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
def dead_letters(producer: FakeProducer) -> DeadLetters:
    fake: Any = producer
    return DeadLetters("dead", fake)


def test_all_dead_letters_are_sent_before_the_first_is_awaited(
    producer: FakeProducer, dead_letters: DeadLetters
) -> None:
    letters = [letter(1), letter(2)]
    assert run_now(dead_letters.publish(letters))
    assert letters == []
    assert (producer.values, producer.waited) == ([b"1", b"2"], [None, None])


def test_a_dead_letter_without_an_outcome_in_time_is_not_sent_again(
    producer: FakeProducer, dead_letters: DeadLetters
) -> None:
    producer.acknowledges = False
    letters = [letter(1), letter(2)]
    assert not run_now(dead_letters.publish(letters, lambda: 0.5))
    assert (len(letters), producer.waited) == (2, [0.5]), "one wait takes all the time there is"
    producer.sent[0][1].known = True
    assert not run_now(dead_letters.publish(letters, lambda: 0.0))
    assert [str(error) for error in letters] == ["the record at 2"]
    producer.acknowledges = True
    assert run_now(dead_letters.publish(letters))
    assert producer.values == [b"1", b"2"]


def test_a_failed_dead_letter_stays_and_is_sent_again(
    producer: FakeProducer, dead_letters: DeadLetters
) -> None:
    producer.acknowledges = False
    letters = [letter(1), letter(2)]
    run_now(dead_letters.publish(letters, lambda: 0.0))
    for _, sent in producer.sent:
        sent.known = True
    producer.sent[0][1].error = RecordTooLarge("too large")
    with pytest.raises(DeadLetterFailed, match=r"orders-0 at offset 1.*too large") as failed:
        run_now(dead_letters.publish(letters, lambda: 0.0))
    assert isinstance(failed.value.__cause__, RecordTooLarge)
    assert [str(error) for error in letters] == ["the record at 1"]
    producer.acknowledges = True
    assert run_now(dead_letters.publish(letters))
    assert producer.values == [b"1", b"2", b"1"]


def test_a_dead_letter_that_cannot_be_queued_stays_with_all_behind_it(
    producer: FakeProducer, dead_letters: DeadLetters
) -> None:
    producer.refused = KafkaError("no such topic")
    letters = [letter(1), letter(2)]
    with pytest.raises(DeadLetterFailed, match=r"offset 1.*no such topic\. Nothing is lost"):
        run_now(dead_letters.publish(letters))
    assert len(letters) == 2
    producer.refused = None
    assert run_now(dead_letters.publish(letters))
    assert producer.values == [b"1", b"2"]


def test_an_invalid_timestamp_is_left_out(
    producer: FakeProducer, dead_letters: DeadLetters
) -> None:
    times = [-5, -1, 0, 1000, MAX_TIMESTAMP - 1, MAX_TIMESTAMP]
    assert run_now(dead_letters.publish([letter(1, time) for time in times]))
    assert producer.timestamps == [None, None, 0, 1000, MAX_TIMESTAMP - 1, None]


def test_a_seek_meanwhile_forgets_dead_letters_in_flight(
    producer: FakeProducer, dead_letters: DeadLetters
) -> None:
    producer.acknowledges = False
    run_now(dead_letters.publish([letter(1)], lambda: 0.0))
    producer.acknowledges = True
    assert run_now(dead_letters.publish([letter(7)]))
    assert producer.values == [b"1", b"7"]
    assert len(producer.waited) == 2


def test_close_waits_for_dead_letters_within_its_timeout(producer: FakeProducer) -> None:
    reader = Reader()
    fake: Any = producer
    reader.poll_loop.dead_letters = DeadLetters("dead", fake)
    run_now(reader.poll_loop.close(7))
    assert producer.closed == [7]
