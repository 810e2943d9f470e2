"""Publishing dead letters: acknowledged ones leave the list, others stay."""

from __future__ import annotations

import pytest

from odradek.client.consumer.application.dead_letters import DeadLetters
from odradek.client.consumer.application.poll_loop import ColumnBuffer, RecordBuffer, run_now
from odradek.client.consumer.record import BatchInfo, Record, TimestampType
from odradek.client.deserializers import Deserializers, deserializer
from odradek.client.errors import DeadLetterFailed, DecodeError, KafkaError, RecordTooLarge
from odradek.client.waiter import Waiter, completed
from odradek.protocol.records import MAX_TIMESTAMP
from unit.client.consumer.application import ORDERS, rows
from unit.client.consumer.simulated_reader import Reader

BATCH = BatchInfo("orders", 0, 0, TimestampType.CREATE_TIME)


def letter(offset: int, timestamp_ms: int = 1000) -> DecodeError:
    error = DecodeError(f"the record at {offset}")
    error.record = Record(BATCH, offset, timestamp_ms, None, b"%d" % offset)
    error.__cause__ = ValueError("no number")
    return error


class FakeProducer:
    """A producer that sends nothing; the test ends the waiters."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Waiter[None]]] = []
        self.acknowledges = True
        self.closed: list[int] = []
        self.timestamps: list[object] = []

    def send(
        self, topic: str, value: bytes | None, *, timestamp_ms: int | None, **fields: object
    ) -> Waiter[None]:
        assert value is not None
        self.timestamps.append(timestamp_ms)
        waiter: Waiter[None] = Waiter()
        self.sent.append((value, waiter))
        if self.acknowledges:
            waiter.complete(None)
        return waiter

    def close(self, timeout_ms: int) -> Waiter[int]:
        self.closed.append(timeout_ms)
        return completed(0)

    @property
    def values(self) -> list[bytes]:
        return [value for value, _ in self.sent]


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


class Publishing:
    """Dead letters as a poll publishes them."""

    def __init__(self, producer: FakeProducer) -> None:
        self.dead_letters = DeadLetters("dead", producer)
        self.woken = 0

    def publish(self, letters: list[DecodeError]) -> bool:
        self.dead_letters.send(self.dead_letters.unsent(letters), self._wake)
        return self.dead_letters.remove_acknowledged(letters)

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
def publishing(producer: FakeProducer) -> Publishing:
    return Publishing(producer)


def test_acknowledged_dead_letters_leave_the_list(
    producer: FakeProducer, publishing: Publishing
) -> None:
    letters = [letter(1), letter(2)]
    assert publishing.publish(letters)
    assert letters == []
    assert (producer.values, publishing.woken) == ([b"1", b"2"], 2)


def test_a_dead_letter_without_an_outcome_is_not_sent_again(
    producer: FakeProducer, publishing: Publishing
) -> None:
    producer.acknowledges = False
    letters = [letter(1), letter(2)]
    assert not publishing.publish(letters)
    producer.sent[0][1].complete(None)
    assert publishing.woken == 1
    assert publishing.publish(letters)
    assert [str(error) for error in letters] == ["the record at 2"]
    producer.sent[1][1].complete(None)
    assert publishing.publish(letters) and letters == []
    assert producer.values == [b"1", b"2"]


def test_a_failed_dead_letter_stays_and_is_sent_again(
    producer: FakeProducer, publishing: Publishing
) -> None:
    producer.acknowledges = False
    letters = [letter(1), letter(2)]
    publishing.publish(letters)
    producer.sent[0][1].fail(RecordTooLarge("too large"))
    producer.sent[1][1].complete(None)
    with pytest.raises(DeadLetterFailed, match=r"orders-0 at offset 1.*too large\. Nothing") as no:
        publishing.publish(letters)
    assert isinstance(no.value.__cause__, RecordTooLarge)
    assert [str(error) for error in letters] == ["the record at 1"]
    producer.acknowledges = True
    assert publishing.publish(letters)
    assert producer.values == [b"1", b"2", b"1"]


def test_an_invalid_timestamp_is_left_out(producer: FakeProducer, publishing: Publishing) -> None:
    times = [-5, -1, 0, 1000, MAX_TIMESTAMP - 1, MAX_TIMESTAMP]
    assert publishing.publish([letter(1, time) for time in times])
    assert producer.timestamps == [None, None, 0, 1000, MAX_TIMESTAMP - 1, None]


def test_a_seek_meanwhile_forgets_dead_letters_in_flight(
    producer: FakeProducer, publishing: Publishing
) -> None:
    producer.acknowledges = False
    publishing.publish([letter(1)])
    assert not publishing.publish([letter(7)])
    producer.sent[0][1].fail(RecordTooLarge("nobody is told"))
    producer.sent[1][1].complete(None)
    letters = [letter(9)]
    producer.acknowledges = True
    assert publishing.publish(letters) and letters == []
    assert producer.values == [b"1", b"7", b"9"]


class TestPolls:
    """A poll does not wait for a dead letter longer than its own timeout."""

    @pytest.fixture
    def reader(self, producer: FakeProducer) -> Reader:
        reader = Reader()
        deserializers = Deserializers(deserializer(bytes), deserializer(not_bad), set_aside=True)
        reader.application.collector.deserializers = deserializers
        reader.poll_loop.dead_letters = DeadLetters("dead", producer)
        reader.logs[ORDERS].append(rows(b"bad", b"good", b"good"))
        reader.application.assign([ORDERS], {ORDERS: 0}, {ORDERS: 3})
        return reader

    def test_a_poll_ends_at_its_timeout_before_the_outcome(
        self, reader: Reader, producer: FakeProducer
    ) -> None:
        producer.acknowledges = False
        before = reader.driver.time()
        assert reader.poll(5) is None
        assert reader.driver.time() - before == 5
        buffer = RecordBuffer(reader.poll_loop.collector, 10)
        assert run_now(reader.poll_loop.fill(buffer, 1))
        assert buffer.is_empty and reader.driver.time() - before == 6
        assert len(producer.sent) == 1

    def test_the_outcome_wakes_a_poll(self, reader: Reader, producer: FakeProducer) -> None:
        producer.acknowledges = False
        reader.later(700, lambda: producer.sent[0][1].complete(None))
        before = reader.driver.time()
        assert reader.all() == [(0, 1), (0, 2)]
        assert reader.driver.time() - before < 1

    def test_attention_is_given_while_a_dead_letter_has_no_outcome(
        self, reader: Reader, producer: FakeProducer
    ) -> None:
        producer.acknowledges = False
        reader.later(700, lambda: reader.consumer.fail(KafkaError("something else")))
        with pytest.raises(KafkaError, match="something else"):
            reader.poll(None)
        buffer = RecordBuffer(reader.poll_loop.collector, 10)
        reader.later(700, lambda: reader.consumer.fail(KafkaError("again")))
        with pytest.raises(KafkaError, match="again"):
            run_now(reader.poll_loop.fill(buffer, None))

    def test_rows_come_again_if_something_needs_attention_before_the_outcome(
        self, reader: Reader, producer: FakeProducer
    ) -> None:
        producer.acknowledges = False
        dead_letters = reader.poll_loop.dead_letters
        assert dead_letters is not None

        def take() -> list[int] | None:
            buffer = ColumnBuffer(reader.poll_loop.collector, 3)
            assert run_now(reader.poll_loop.fill(buffer, 5)) is not None
            offsets = list(memoryview(buffer.columns.offsets).cast("q"))

            def use() -> list[int]:
                dead_letters.column_letters.append(letter(1))
                return offsets

            return run_now(reader.poll_loop.convert(use))

        reader.later(700, lambda: reader.consumer.fail(KafkaError("a rebalance, say")))
        assert take() is None
        with pytest.raises(KafkaError, match="a rebalance"):
            reader.poll(0)
        producer.acknowledges = True
        assert take() == [0, 1, 2]


def not_bad(data: bytes) -> bytes:
    """Refuse a value that says that it is bad."""
    if data == b"bad":
        raise ValueError(data)
    return data


def test_close_waits_for_dead_letters_within_its_timeout(producer: FakeProducer) -> None:
    reader = Reader()
    reader.poll_loop.dead_letters = DeadLetters("dead", producer)
    run_now(reader.poll_loop.close(7))
    assert producer.closed == [7000]
