"""`on_decode_error="dlq:topic"`: records that cannot be decoded go to a topic, unchanged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import odradek
from odradek import Admin, Consumer, Producer, Record, TopicPartition
from odradek.errors import ConfigError, DeadLetterFailed, DecodeError, RecordTooLarge
from odradek.testing import Broker

LONG_S = 60.0
T0 = 1_700_000_000_000
GOOD, BAD = b'{"id": 1}', b"{"
NewTopic = Callable[..., str]
JSON: dict[str, Any] = {"value": "json", "auto_offset_reset": "earliest"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": False}
    with Broker(settings=settings) as running:
        yield running


@pytest.fixture
def produce(broker: Broker) -> Callable[..., None]:
    """Return `produce(topic, *values)`, which writes records with key, header and timestamp."""

    def send(topic: str, *values: bytes) -> None:
        with Producer(brokers=broker.bootstrap) as producer:
            for number, value in enumerate(values):
                producer.send(
                    topic, value, key=b"k%d" % number, headers={"n": "h"}, timestamp=T0 + number
                )

    return send


Produce = Callable[..., None]


def all_of(broker: Broker, topic: str) -> list[Record[bytes, bytes]]:
    with Consumer(brokers=broker.bootstrap) as consumer:
        consumer.assign({(topic, 0): (0, *consumer.end_offsets((topic, 0)).values())})
        return list(consumer)


def committed(broker: Broker, group: str) -> dict[TopicPartition, int]:
    with Admin(brokers=broker.bootstrap) as admin:
        return {each: at.offset for each, at in admin.group_offsets(group).items()}


class NotedLetters(list[DecodeError]):
    """The dead letters of an Arrow batch, and the event that there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()

    def append(self, letter: DecodeError) -> None:
        super().append(letter)
        self.arrived.set()


class TestWhatIsWritten:
    def test_a_dead_letter_has_the_record_and_the_error(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, dead = new_topic(), new_topic()
        produce(topic, GOOD, BAD)
        with Consumer(brokers=broker.bootstrap, on_decode_error=f"dlq:{dead}", **JSON) as consumer:
            consumer.assign({(topic, 0): (0, 2)})
            assert [record.value for record in consumer] == [{"id": 1}]
        (letter,) = all_of(broker, dead)
        assert (letter.key, letter.value, letter.timestamp_ms) == (b"k1", BAD, T0 + 1)
        headers = dict(letter.headers)
        message = headers.pop("__connect.errors.exception.message")
        assert message is not None and b"truncated" in message
        assert headers == {
            "n": b"h",
            "__connect.errors.topic": topic.encode(),
            "__connect.errors.partition": b"0",
            "__connect.errors.offset": b"1",
            "__connect.errors.stage": b"VALUE_CONVERTER",
            "__connect.errors.exception.class.name": b"msgspec.DecodeError",
        }

    def test_a_key_that_cannot_be_decoded_makes_a_dead_letter(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, dead = new_topic(), new_topic()
        produce(topic, GOOD)
        with Consumer(brokers=broker.bootstrap, key=int, on_decode_error=f"dlq:{dead}") as consumer:
            consumer.assign({(topic, 0): (0, 1)})
            assert list(consumer) == []
        assert dict(all_of(broker, dead)[0].headers)["__connect.errors.stage"] == b"KEY_CONVERTER"

    @pytest.mark.parametrize("how", ["one by one", "consume", "batches", "arrow", "read"])
    def test_every_way_to_read_writes_dead_letters(
        self, broker: Broker, new_topic: NewTopic, produce: Produce, how: str
    ) -> None:
        topic, dead = new_topic(), new_topic()
        values = [BAD if number % 3 else GOOD for number in range(1200)]
        produce(topic, *values)
        settings: dict[str, Any] = {
            "brokers": broker.bootstrap,
            "on_decode_error": f"dlq:{dead}",
            **JSON,
        }
        if how == "read":
            assert odradek.read(topic, decode="json", **settings).num_rows == 1200
        else:
            with Consumer(**settings) as consumer:
                consumer.assign({(topic, 0): (0, len(values))})
                assert len(read(consumer, how)) == 400
        letters = all_of(broker, dead)
        where = [int(dict(letter.headers)["__connect.errors.offset"] or b"") for letter in letters]
        assert where == [number for number in range(1200) if number % 3]
        assert all((letter.value, letter.headers[0]) == (BAD, ("n", b"h")) for letter in letters)


def read(consumer: Consumer[Any, Any], how: str) -> list[object]:
    """Read every record that can be decoded."""
    if how == "one by one":
        return list(consumer)
    if how == "consume":
        found: list[object] = []
        while more := consumer.consume(500, LONG_S):
            found += more
        return found
    if how == "batches":
        return [record for batch in consumer.batches(max_wait=LONG_S) for record in batch]
    rows = [row for batch in consumer.arrow(decode="json") for row in batch.to_pylist()]
    assert len(rows) == 1200, "rows stay, with a null value"
    return [row for row in rows if row["value"] is not None]


def test_a_poll_waits_for_a_dead_letter_no_longer_than_its_timeout(
    broker: Broker, new_topic: NewTopic, produce: Produce
) -> None:
    topic, dead = new_topic(), new_topic()
    produce(topic, BAD, GOOD)
    with Consumer(brokers=broker.bootstrap, on_decode_error=f"dlq:{dead}", **JSON) as consumer:
        consumer.assign({(topic, 0): 0})
        while (found := consumer.poll(0)) is None:
            assert consumer.position((topic, 0)) <= 1
        assert found.offset == 1
    assert len(all_of(broker, dead)) == 1, "short polls send nothing twice"


class TestMissingTopic:
    """The dead letter topic is made late; the time to find it is longer than these tests."""

    @pytest.fixture
    def topic(self, broker: Broker, new_topic: NewTopic) -> str:
        """A topic with a record that cannot be decoded at the begin of each partition."""
        topic = new_topic(partitions=2)
        with Producer(brokers=broker.bootstrap) as producer:
            for partition in (0, 1):
                producer.send(topic, BAD, partition=partition)
                producer.send(topic, GOOD, partition=partition)
        return topic

    def test_polls_return_and_take_part_in_rebalances(self, broker: Broker, topic: str) -> None:
        dead = f"{topic}-dead"
        revoked: list[TopicPartition] = []
        settings: dict[str, Any] = {"group": topic, "brokers": broker.bootstrap, **JSON}
        settings["on_decode_error"] = f"dlq:{dead}"
        with Consumer(**settings) as first, Consumer(**settings) as second:
            first.subscribe(topic, on_revoke=lambda _, partitions: revoked.extend(partitions))
            while not first.assignment():
                assert first.poll(0.05) is None
            for _ in range(5):
                assert first.poll(0.05) is None
            second.subscribe(topic)
            while [len(each.assignment()) for each in (first, second)] != [1, 1]:
                assert (first.poll(0.01), second.poll(0.01)) == (None, None)
            assert revoked
            assert [first.position(each) for each in first.assignment()] == [0]
            with Admin(brokers=broker.bootstrap) as admin:
                admin.create_topic(dead)
            found = [first.poll(LONG_S), second.poll(LONG_S)]
            assert all(record is not None and record.offset == 1 for record in found)
        letters = all_of(broker, dead)
        partitions = {dict(each.headers)["__connect.errors.partition"] for each in letters}
        assert partitions == {b"0", b"1"}

    def test_awaited_polls_return_and_take_part_in_rebalances(
        self, broker: Broker, topic: str
    ) -> None:
        settings: dict[str, Any] = {"group": topic, "brokers": broker.bootstrap, **JSON}
        settings["on_decode_error"] = f"dlq:{topic}-dead"

        async def main() -> None:
            async with odradek.aio.Consumer(**settings) as first:
                await first.subscribe(topic)
                while not await first.assignment():
                    assert await first.poll(0.05) is None
                async with odradek.aio.Consumer(topic, **settings) as second:
                    while [len(await each.assignment()) for each in (first, second)] != [1, 1]:
                        assert (await first.poll(0.01), await second.poll(0.01)) == (None, None)
                    with Admin(brokers=broker.bootstrap) as admin:
                        admin.create_topic(f"{topic}-dead")
                    found = [await first.poll(LONG_S), await second.poll(LONG_S)]
                    assert all(record is not None and record.offset == 1 for record in found)

        asyncio.run(main())
        assert committed(broker, topic) == {TopicPartition(topic, each): 2 for each in (0, 1)}

    def test_rows_of_a_revoked_partition_are_not_returned(self, broker: Broker, topic: str) -> None:
        settings: dict[str, Any] = {"group": topic, "brokers": broker.bootstrap, **JSON}
        settings["on_decode_error"] = f"dlq:{topic}-dead"
        rows: list[tuple[int, int]] = []
        stopped = threading.Event()

        def read(consumer: Consumer[Any, Any]) -> None:
            for batch in consumer.arrow(decode="json", max_wait=0.05):
                rows.extend(zip(*(batch[name].to_pylist() for name in ("partition", "offset"))))
                if stopped.is_set() or len(rows) == 2:
                    return

        with Consumer(topic, **settings) as first, Consumer(**settings) as second:
            dead_letters = first._poll_loop.dead_letters
            assert dead_letters is not None
            dead_letters.column_letters = noted = NotedLetters()
            reading = threading.Thread(target=read, args=(first,))
            reading.start()
            assert noted.arrived.wait(LONG_S)
            second.subscribe(topic)
            while not second.assignment():
                assert second.poll(0.05) is None
            with Admin(brokers=broker.bootstrap) as admin:
                admin.create_topic(f"{topic}-dead")
            record = second.poll(LONG_S)
            assert record is not None and record.offset == 1
            reading.join()
            assert sorted(rows) == [(1 - record.partition, 0), (1 - record.partition, 1)]


class TestGroups:
    def test_a_commit_passes_written_dead_letters(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, dead = new_topic(), new_topic()
        produce(topic, GOOD, BAD, GOOD, BAD)
        with Consumer(
            topic, group=topic, brokers=broker.bootstrap, on_decode_error=f"dlq:{dead}", **JSON
        ) as consumer:
            assert [record.offset for record in consumer.consume(2, LONG_S)] == [0, 2]
            while consumer.position((topic, 0)) < 4:
                assert consumer.poll(0.1) is None
        assert committed(broker, topic) == {TopicPartition(topic, 0): 4}
        assert [letter.key for letter in all_of(broker, dead)] == [b"k1", b"k3"]

    def test_a_commit_stays_before_a_dead_letter_that_failed(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, dead = new_topic(), new_topic(max_message_bytes="300")
        produce(topic, GOOD)
        produce(topic, b"{" * 1000, GOOD)
        settings: dict[str, Any] = {
            "group": topic,
            "brokers": broker.bootstrap,
            "on_decode_error": f"dlq:{dead}",
            **JSON,
        }
        with Consumer(topic, **settings) as consumer:
            assert [record.offset for record in consumer.consume(10, LONG_S)] == [0], (
                "the records before it"
            )
            for _ in range(2):
                with pytest.raises(DeadLetterFailed, match=rf"{topic}-0 at offset 1.*{dead}") as no:
                    consumer.consume(10, LONG_S)
                assert no.value.record is not None and no.value.record.offset == 1
                assert isinstance(no.value.__cause__, RecordTooLarge)
        assert committed(broker, topic) == {TopicPartition(topic, 0): 1}
        with Admin(brokers=broker.bootstrap) as admin:
            admin.set_config({"max.message.bytes": 100_000}, topic=dead)
        with Consumer(topic, **settings) as consumer:
            assert [record.offset for record in consumer.consume(1, LONG_S)] == [2]
        assert [letter.key for letter in all_of(broker, dead)] == [b"k0"]

    def test_a_seek_passes_a_dead_letter_that_failed(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, BAD, GOOD)
        with Consumer(
            brokers=broker.bootstrap,
            default_api_timeout_ms=100,
            on_decode_error="dlq:there-is-none",
            **JSON,
        ) as consumer:
            consumer.assign({(topic, 0): 0})
            with pytest.raises(DeadLetterFailed, match="there-is-none"):
                consumer.poll(LONG_S)
            consumer.seek((topic, 0), 1)
            found = consumer.poll(LONG_S)
            assert found is not None and found.offset == 1


def test_rows_are_put_back_if_their_dead_letter_fails(
    broker: Broker, new_topic: NewTopic, produce: Produce
) -> None:
    topic, dead = new_topic(), new_topic(max_message_bytes="300")
    produce(topic, GOOD, b"{" * 1000)
    with Consumer(brokers=broker.bootstrap, on_decode_error=f"dlq:{dead}") as consumer:
        consumer.assign({(topic, 0): (0, 2)})
        for _ in range(2):
            with pytest.raises(DeadLetterFailed, match="at offset 1"):
                next(consumer.arrow(decode="json"))
            assert consumer.position((topic, 0)) == 0


def test_a_dead_letter_makes_no_further_dead_letter(
    broker: Broker, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic()
    produce(topic, BAD)
    with Consumer(brokers=broker.bootstrap, on_decode_error=f"dlq:{topic}", **JSON) as consumer:
        consumer.assign({(topic, 0): 0})
        with pytest.raises(DeadLetterFailed, match="itself from the dead letter topic"):
            consumer.poll(LONG_S)
    assert len(all_of(broker, topic)) == 1


@pytest.mark.parametrize("wanted", ["dlq:", "dlq", "ignore", 7])
def test_an_invalid_on_decode_error_is_refused(wanted: Any) -> None:
    with pytest.raises(ConfigError, match="'dlq:' with the name of a topic"):
        Consumer(brokers="localhost:1", on_decode_error=wanted)


def test_the_asyncio_consumer_writes_dead_letters(
    broker: Broker, new_topic: NewTopic, produce: Produce
) -> None:
    topic, dead = new_topic(), new_topic()
    produce(topic, BAD, GOOD, BAD, GOOD)

    async def main() -> None:
        async with odradek.aio.Consumer(
            topic, group=topic, brokers=broker.bootstrap, on_decode_error=f"dlq:{dead}", **JSON
        ) as consumer:
            assert [record.offset for record in await consumer.consume(2, LONG_S)] == [1, 3]
        async with odradek.aio.Consumer(
            brokers=broker.bootstrap, on_decode_error=f"dlq:{dead}"
        ) as consumer:
            await consumer.assign({(topic, 0): (0, 4)})
            rows = [len(batch) async for batch in consumer.arrow(decode="json")]
            assert sum(rows) == 4

    asyncio.run(main())
    assert [letter.key for letter in all_of(broker, dead)] == [b"k0", b"k2"] * 2
    assert committed(broker, topic) == {TopicPartition(topic, 0): 4}


def test_the_asyncio_consumer_raises_a_failed_dead_letter(
    broker: Broker, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic()
    produce(topic, BAD, GOOD)

    async def main() -> None:
        async with odradek.aio.Consumer(
            brokers=broker.bootstrap,
            default_api_timeout_ms=100,
            on_decode_error="dlq:there-is-none",
            **JSON,
        ) as consumer:
            await consumer.assign({(topic, 0): 0})
            for _ in range(2):
                with pytest.raises(DeadLetterFailed) as failed:
                    await consumer.poll(LONG_S)
                assert not isinstance(failed.value, DecodeError)
            assert await consumer.position((topic, 0)) == 0

    asyncio.run(main())
