"""Interceptors of producers and consumers of both APIs, on a broker."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

import odradek.aio
from odradek import (
    Consumer,
    ConsumerInterceptor,
    Delivery,
    OffsetAndMetadata,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    ProducerRecords,
    Record,
    TopicPartition,
)
from odradek.client.errors import BufferFull, ClientClosed, ConfigError, UnknownTopicOrPartition
from odradek.testing import Broker

LONG_S = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as running:
        yield running
        assert running.bugs == 0


class Tracing(ProducerInterceptor, ConsumerInterceptor):
    """Adds a header to each record, and notes the calls and their threads."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Any]] = []
        self.threads: dict[str, set[threading.Thread]] = {}

    def _note(self, name: str, about: Any) -> None:
        self.notes.append((name, about))
        self.threads.setdefault(name, set()).add(threading.current_thread())

    def of(self, name: str) -> list[Any]:
        return [about for noted, about in self.notes if noted == name]

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self._note("send", record.value)
        return record.replace(headers=[*record.headers, ("trace", b"1")])

    def on_send_many(self, records: ProducerRecords) -> ProducerRecords:
        self._note("send many", records)
        return records.replace(headers=[*records.headers, ("trace", b"many")])

    def on_acknowledgement(
        self, delivery: Delivery, error: BaseException | None, headers: Sequence[Any]
    ) -> None:
        self._note("acknowledged", (delivery.offset, error, list(headers)))

    def on_acknowledgement_many(
        self, deliveries: Any, error: BaseException | None, headers: Sequence[Any]
    ) -> None:
        self._note("acknowledged many", (len(deliveries), error, list(headers)))

    def on_consume(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        self._note("consume", [record.offset for record in records])
        return records

    def on_consume_arrow(self, batch: Any) -> Any:
        self._note("consume arrow", batch.num_rows)
        return batch

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self._note("commit", {partition: at.offset for partition, at in offsets.items()})

    def close(self) -> None:
        self._note("close", None)


class EvenOnly(ConsumerInterceptor):
    """Leaves out every record whose value is odd, and doubles the others."""

    def on_consume(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        found: list[Record[Any, Any]] = []
        for record in records:
            value: Any = record.value
            if value % 2 == 0:
                found.append(record.replace(value=value * 2))
        return found


class Broken(ProducerInterceptor, ConsumerInterceptor):
    """Raises in all methods."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("broken")

    def on_acknowledgement(self, *_: Any) -> None:
        raise RuntimeError("broken")

    def on_consume(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        records.clear()
        raise RuntimeError("broken")

    def on_consume_arrow(self, batch: Any) -> Any:
        raise RuntimeError("broken")

    def on_commit(self, offsets: Any) -> None:
        raise RuntimeError("broken")

    def close(self) -> None:
        raise RuntimeError("broken")


def written(broker: Broker, topic: str, count: int, *, value: Any = "json") -> None:
    with Producer(brokers=broker.bootstrap, value=value) as producer:
        producer.send_many(topic, list(range(count))).result(LONG_S)


def headers_in(broker: Broker, topic: str, count: int) -> list[Any]:
    with Consumer(brokers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign({(topic, 0): (0, count)})
        return [record.headers for record in consumer]


class TestProducer:
    def test_records_pass_through_the_interceptors(self, broker: Broker, new_topic: Any) -> None:
        topic, tracing = new_topic(), Tracing()
        me = threading.current_thread()
        with Producer(brokers=broker.bootstrap, interceptors=[Broken(), tracing]) as producer:
            for value in ("a", "b"):
                producer.send(topic, value, headers={"own": "x"}).result(LONG_S)
            producer.produce(topic, "c")
        headers = [("own", b"x"), ("trace", b"1")]
        assert headers_in(broker, topic, 3) == [headers, headers, [("trace", b"1")]]
        assert tracing.of("send") == ["a", "b", "c"]
        assert [offset for offset, _, _ in tracing.of("acknowledged")] == [0, 1, 2]
        assert tracing.notes[-1][0] == "close"
        assert tracing.threads["send"] == tracing.threads["close"] == {me}
        assert me not in tracing.threads["acknowledged"]

    def test_a_record_that_cannot_be_queued_is_told_on_the_callers_thread(
        self, broker: Broker
    ) -> None:
        tracing = Tracing()
        settings = {"bootstrap.servers": broker.bootstrap, "max.block.ms": 300}
        producer = Producer(settings, interceptors=[tracing])
        with producer, pytest.raises(UnknownTopicOrPartition):
            producer.send("missing", "v")
        assert [note for note, _ in tracing.notes] == ["send", "acknowledged", "close"]
        assert isinstance(tracing.of("acknowledged")[0][1], UnknownTopicOrPartition)
        assert tracing.threads["acknowledged"] == {threading.current_thread()}

    def test_a_record_for_which_there_is_no_room_is_told(
        self, broker: Broker, new_topic: Any
    ) -> None:
        topic, tracing = new_topic(), Tracing()
        with Producer(
            brokers=broker.bootstrap,
            interceptors=[tracing],
            on_full="raise",
            buffer_memory=1_000,
            linger_ms=60_000,
            delivery_timeout_ms=120_000,
        ) as producer:
            producer.partitions_for(topic)
            producer.send(topic, "v" * 600)
            with pytest.raises(BufferFull):
                producer.send(topic, "v" * 600)
        outcomes = [type(error) for _, error, _ in tracing.of("acknowledged")]
        assert outcomes.count(BufferFull) == 1
        assert len(outcomes) == len(tracing.of("send"))

    def test_send_many_and_arrow_are_told_once(self, broker: Broker, new_topic: Any) -> None:
        topic, tracing = new_topic(), Tracing()
        own = [[("own", b"x")], None]
        table = pa.table(
            {
                "value": pa.array([b"1", b"2"]),
                "headers": pa.array(
                    [[{"key": k, "value": v} for k, v in each or []] or None for each in own],
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                ),
            }
        )
        with Producer(brokers=broker.bootstrap, interceptors=[tracing]) as producer:
            producer.send_many(topic, ["a", "b"]).result(LONG_S)
            producer.send_arrow(topic, table).result(LONG_S)
            producer.send_arrow(topic, table, headers="headers").result(LONG_S)
        many = [("trace", b"many")]
        assert headers_in(broker, topic, 6) == [many] * 4 + [[*many, ("own", b"x")], many]
        assert tracing.of("acknowledged many") == [(2, None, many)] * 3
        assert tracing.of("send") == tracing.of("acknowledged") == []
        columns = [records.columns for records in tracing.of("send many")]
        assert columns == [None, (None, "value", None), (None, "value", "headers")]

    def test_an_interceptor_that_sleeps_delays_only_its_own_producer(
        self, broker: Broker, new_topic: Any
    ) -> None:
        topic = new_topic()
        go_on = threading.Event()

        class Sleeping(ProducerInterceptor):
            def on_acknowledgement(self, *_: Any) -> None:
                go_on.wait(LONG_S)

        with Producer(brokers=broker.bootstrap, interceptors=[Sleeping()]) as slow:
            first = slow.send(topic, "slow")
            with Producer(brokers=broker.bootstrap) as other:
                while other.send(topic, "other").result(LONG_S).offset == 0:
                    pass  # The slow one's record is written, or will be, before its answer.
                assert not first.done()
            go_on.set()
            first.result(LONG_S)

    def test_a_producer_that_is_forgotten_closes_its_interceptors(
        self, broker: Broker, new_topic: Any
    ) -> None:
        tracing = Tracing()
        producer = Producer(brokers=broker.bootstrap, interceptors=[tracing])
        producer.send(new_topic(), "v").result(LONG_S)
        del producer
        gc.collect()
        assert [note for note, _ in tracing.notes] == ["send", "acknowledged", "close"]


class TestConsumer:
    @pytest.mark.parametrize("read", ["poll", "consume", "batches"])
    def test_records_may_be_replaced_and_left_out(
        self, broker: Broker, new_topic: Any, read: str
    ) -> None:
        topic, tracing = new_topic(), Tracing()
        written(broker, topic, 11)
        with Consumer(
            brokers=broker.bootstrap,
            group=topic,
            value="json",
            enable_auto_commit=False,
            interceptors=[tracing, Broken(), EvenOnly()],
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(topic)
            found: list[Any] = []
            while len(found) < 6:
                if read == "poll":
                    record = consumer.poll(0.1)
                    found += [] if record is None else [record]
                elif read == "consume":
                    found += consumer.consume(4, 0.1)
                else:
                    found += next(consumer.batches(max_wait=0.1))
            assert [record.value for record in found] == [0, 4, 8, 12, 16, 20]
            assert [record.offset for record in found] == [0, 2, 4, 6, 8, 10]
            consumer.commit()
            assert tracing.of("commit") == [{TopicPartition(topic, 0): 11}]
        assert list(chain(*tracing.of("consume"))) == list(range(11))
        assert tracing.notes[-1][0] == "close"
        assert set.union(*tracing.threads.values()) == {threading.current_thread()}

    def test_a_position_passes_records_that_are_left_out(
        self, broker: Broker, new_topic: Any
    ) -> None:
        topic = new_topic()
        written(broker, topic, 10)

        class Nothing(ConsumerInterceptor):
            def on_consume(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
                return []

        with Consumer(brokers=broker.bootstrap, interceptors=[Nothing()]) as consumer:
            consumer.assign({(topic, 0): (0, 10)})
            assert list(consumer) == []
            assert consumer.position((topic, 0)) == 10

    def test_automatic_commits_are_told_in_polls_and_at_the_end(
        self, broker: Broker, new_topic: Any
    ) -> None:
        topic, tracing = new_topic(), Tracing()
        written(broker, topic, 3)
        with Consumer(
            topic,
            brokers=broker.bootstrap,
            group=topic,
            auto_commit_interval_ms=50,
            interceptors=[tracing],
            auto_offset_reset="earliest",
        ) as consumer:
            assert len(consumer.consume(3, LONG_S)) == 3
            while not tracing.of("commit"):
                consumer.poll(0.05)
            assert tracing.of("commit")[-1] == {TopicPartition(topic, 0): 3}
            written(broker, topic, 2)
            assert len(consumer.consume(2, LONG_S)) == 2
        assert tracing.of("commit")[-1] == {TopicPartition(topic, 0): 5}
        assert tracing.notes[-1][0] == "close"
        assert tracing.threads["commit"] == {threading.current_thread()}

    def test_arrow_batches_are_told_once_and_can_still_be_committed(
        self, broker: Broker, new_topic: Any
    ) -> None:
        topic, tracing = new_topic(), Tracing()
        written(broker, topic, 10)

        class Half(ConsumerInterceptor):
            def on_consume_arrow(self, batch: Any) -> Any:
                return batch.slice(0, 5).replace_schema_metadata(None)

        with Consumer(
            topic,
            brokers=broker.bootstrap,
            group=topic,
            interceptors=[Broken(), tracing, Half()],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            batch = next(iter(consumer.arrow(max_rows=10)))
            assert batch.num_rows == 5
            consumer.commit(batch)
        assert tracing.of("consume arrow") == [10]
        assert tracing.of("commit") == [{TopicPartition(topic, 0): 10}]
        assert tracing.of("consume") == []

    @pytest.mark.parametrize(
        "returned",
        [
            None,
            (),
            ["a"],
            lambda records: records[::-1],
            lambda records: [*records, records[-1]],
        ],
    )
    def test_a_wrong_result_is_passed_over(
        self, broker: Broker, new_topic: Any, returned: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        topic = new_topic()
        written(broker, topic, 3)

        class Wrong(ConsumerInterceptor):
            def on_consume(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
                return returned(records) if callable(returned) else returned

        with Consumer(brokers=broker.bootstrap, interceptors=[Wrong()], value="json") as consumer:
            consumer.assign({(topic, 0): (0, 3)})
            assert [record.value for record in consumer] == [0, 1, 2]
        assert "Wrong.on_consume failed and was skipped: it must return a list" in caplog.text

    def test_records_that_are_read_again_come_again(self, broker: Broker, new_topic: Any) -> None:
        topic, tracing = new_topic(), Tracing()
        written(broker, topic, 4)
        with Consumer(brokers=broker.bootstrap, interceptors=[tracing]) as consumer:
            consumer.assign({(topic, 0): (0, 4)})
            consumer.poll(LONG_S)
            consumer.seek((topic, 0), 2)
            assert [record.offset for record in consumer] == [2, 3]
        assert tracing.of("consume") == [[0, 1, 2, 3], [2, 3]]


class TestAsyncio:
    def test_both_clients_run_their_interceptors_in_the_loop(
        self, broker: Broker, new_topic: Any
    ) -> None:
        topic, tracing = new_topic(), Tracing()
        address = broker.bootstrap

        async def main() -> None:
            async with odradek.aio.Producer(brokers=address, interceptors=[tracing]) as producer:
                await producer.send(topic, "a")
                await (await producer.enqueue(topic, "b"))
                await producer.send_many(topic, ["c"])
            async with odradek.aio.Consumer(
                topic,
                brokers=address,
                group=topic,
                interceptors=[tracing],
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer:
                assert len(await consumer.consume(3, LONG_S)) == 3
                await consumer.commit()

        asyncio.run(main())
        assert [note for note, _ in tracing.notes] == [
            "send",
            "acknowledged",
            "send",
            "acknowledged",
            "send many",
            "acknowledged many",
            "close",
            "consume",
            "commit",
            "close",
        ]
        assert set.union(*tracing.threads.values()) == {threading.current_thread()}

    def test_a_cancelled_send_is_told(self, broker: Broker) -> None:
        tracing = Tracing()

        async def main() -> None:
            async with odradek.aio.Producer(
                brokers=broker.bootstrap, interceptors=[tracing]
            ) as producer:
                sending = asyncio.create_task(producer.enqueue("missing", "v"))
                while not tracing.of("send"):
                    await asyncio.sleep(
                        0
                    )  # A turn of the loop, in which the record begins to wait.
                sending.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sending
                with pytest.raises(BufferFull):
                    producer.send_nowait("missing", "v")

        asyncio.run(main())
        errors = [type(error) for _, error, _ in tracing.of("acknowledged")]
        assert errors == [asyncio.CancelledError, BufferFull]

    def test_the_loop_does_not_turn_while_an_interceptor_works(
        self, broker: Broker, new_topic: Any
    ) -> None:
        topic = new_topic()
        turns_in_interceptor: list[int] = []
        turns = 0

        class Working(ProducerInterceptor):
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                before = turns
                # Another thread wakes the loop, which could turn now if it were free.
                loop = asyncio.get_running_loop()
                other = threading.Thread(target=loop.call_soon_threadsafe, args=(list,))
                other.start()
                other.join()
                turns_in_interceptor.append(turns - before)
                return record

        async def main() -> None:
            nonlocal turns

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            turning = asyncio.create_task(turn())
            async with odradek.aio.Producer(
                brokers=broker.bootstrap, interceptors=[Working()]
            ) as producer:
                assert (await producer.send(topic, "v")).offset == 0
            turning.cancel()

        asyncio.run(main())
        assert turns_in_interceptor == [0]


@pytest.mark.parametrize("make", [Producer, Consumer, odradek.aio.Producer, odradek.aio.Consumer])
def test_interceptor_classes_of_kafka_says_what_to_use(make: Callable[..., Any]) -> None:
    settings = {"bootstrap.servers": "localhost:1", "interceptor.classes": "com.example.Audit"}
    with pytest.raises(ConfigError, match=r"interceptors=\[\.\.\.\]"):
        make(settings)


@pytest.mark.parametrize("empty", ["", [], None])
def test_no_interceptor_classes_are_accepted(empty: object) -> None:
    Consumer({"bootstrap.servers": "localhost:1", "interceptor.classes": empty}).close()


def test_interceptors_may_be_in_the_mapping_of_settings(broker: Broker, new_topic: Any) -> None:
    topic, tracing = new_topic(), Tracing()
    settings = {"bootstrap.servers": broker.bootstrap, "interceptors": [tracing]}
    with Producer(settings) as producer:
        producer.send(topic, "v")
    assert tracing.of("send") == ["v"]


def test_a_closed_producer_tells_of_records_it_refuses(broker: Broker, new_topic: Any) -> None:
    topic, tracing = new_topic(), Tracing()
    producer = Producer(brokers=broker.bootstrap, interceptors=[tracing])
    producer.send(topic, "v").result(LONG_S)
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send(topic, "v")
    assert isinstance(tracing.of("acknowledged")[-1][1], ClientClosed)
