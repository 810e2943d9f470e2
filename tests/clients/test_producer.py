"""Our producer and our broker, through both faces, as a program uses them."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

import odradek.aio
from odradek import Admin, Producer
from odradek.client.errors import (
    BufferFull,
    ClientClosed,
    ConfigError,
    MaxBlockTimeout,
    RecordTooLarge,
    SerializationError,
)
from odradek.testing import Broker

LONG_S = 60.0
PARTITIONS = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as running:
        yield running
        assert running.bugs == 0


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic for this test alone."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with Admin(brokers=broker.bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS)
    return name


def read(broker: Broker, topic: str, count: int) -> list:
    """That many messages, by another client; partition by partition, in order."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reading"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=LONG_S)
        assert messages
        found += [message for message in messages if message.error() is None]
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def values(messages: list) -> list[bytes]:
    return [message.value() for message in messages]


# The blocking face.


def test_a_record_with_everything(broker, topic):
    told = []
    with Producer(brokers=broker.bootstrap, key="str", value="json") as producer:
        future = producer.send(
            topic,
            {"id": 7},
            key="k",
            headers={"a": "1", "b": None},
            partition=1,
            timestamp=1_700_000_000_000,
            on_delivery=lambda error, delivery: told.append((error, delivery)),
        )
        delivery = future.result(LONG_S)
    assert (delivery.topic, delivery.partition, delivery.offset) == (topic, 1, 0)
    assert delivery.timestamp_ms == 1_700_000_000_000
    assert told == [(None, delivery)]
    assert future.done() and future.exception() is None and not future.cancel()
    (message,) = read(broker, topic, 1)
    assert (message.key(), message.value()) == (b"k", b'{"id":7}')
    assert message.headers() == [("a", b"1"), ("b", None)]
    assert message.timestamp()[1] == 1_700_000_000_000


def test_leaving_the_block_delivers(broker, topic):
    with Producer(brokers=broker.bootstrap, linger_ms=60_000) as producer:
        futures = [producer.send(topic, str(number), partition=0) for number in range(100)]
    assert [future.result(0).offset for future in futures] == list(range(100))
    assert values(read(broker, topic, 100)) == [b"%d" % number for number in range(100)]


def test_leaving_the_block_by_an_exception_delivers_too(broker, topic):
    sent = []

    def fail() -> None:
        with Producer(brokers=broker.bootstrap) as producer:
            sent.append(producer.send(topic, "sent before"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sent[0].result(0).offset == 0


def test_the_same_key_goes_to_the_same_partition_as_with_other_clients(broker, topic):
    from kafka.partitioner.default import murmur2

    with Producer(brokers=broker.bootstrap) as producer:
        for key in (b"a", b"some key", "ключ".encode(), b"\0" * 40):
            delivery = producer.send(topic, b"x", key=key).result(LONG_S)
            assert delivery.partition == (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def test_confluent_kafkas_habits(broker, topic):
    told = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.ms": 1})
    producer.produce(topic, "v", "k", on_delivery=lambda error, message: told.append(error))
    producer.produce(topic, value="v", partition=2, callback=lambda e, m: told.append(e))
    assert producer.poll(0) == 0
    assert producer.flush() == 0
    assert len(producer) == 0 and producer
    assert told == [None, None]
    producer.close()
    producer.close()


def test_confluent_kafkas_batches(broker, topic):
    told = []

    def tell(error, delivery):
        told.append((error, delivery.partition))

    messages = [
        {"value": "a", "key": "k", "partition": 1},
        {"value": {"no": "bytes"}},
        {"value": b"c", "timestamp": 5, "headers": {"h": b"x"}, "callback": lambda *_: None},
    ]
    with Producer(brokers=broker.bootstrap) as producer:
        assert producer.produce_batch(topic, messages, 2, on_delivery=tell) == 2
        assert [type(message.get("_error")) for message in messages] == [
            type(None),
            SerializationError,
            type(None),
        ]
        messages[1]["value"] = "b"
        assert producer.produce_batch(topic, messages[1:2], partition=0) == 1
        assert "_error" not in messages[1]
        with pytest.raises(TypeError, match="give a dict of callback, headers, key"):
            producer.produce_batch(topic, [{"value": "x"}, {"valeu": "x"}])
    assert told == [(None, 1)]
    found = [(m.partition(), m.value(), m.key(), m.headers()) for m in read(broker, topic, 3)]
    assert found == [(0, b"b", None, None), (1, b"a", b"k", None), (2, b"c", None, [("h", b"x")])]
    with pytest.raises(ClientClosed):
        producer.produce_batch(topic, messages)


def test_a_record_whose_outcome_is_told_is_not_open_any_more(broker, topic):
    open_records = []
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send(topic, "v", on_delivery=lambda *_: open_records.append(len(producer)))
    assert open_records == [0]


def test_threads_may_share_a_producer(broker, topic):
    each, count = 500, 4
    with Producer(brokers=broker.bootstrap, batch_size=500) as producer:

        def work(name: int) -> None:
            for number in range(each):
                producer.send(topic, f"{name}:{number}", partition=0)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = values(read(broker, topic, each * count))
    for name in range(count):
        own = [value for value in found if value.startswith(b"%d:" % name)]
        assert own == [b"%d:%d" % (name, number) for number in range(each)]


def test_a_small_buffer_holds_up_senders_and_loses_nothing(broker, topic):
    with Producer(brokers=broker.bootstrap, batch_size=1_000, buffer_memory=4_000) as producer:
        for number in range(500):
            producer.send(topic, b"%04d" % number + b"x" * 300, partition=0)
    found = values(read(broker, topic, 500))
    assert [value[:4] for value in found] == [b"%04d" % number for number in range(500)]


def test_a_callback_may_send_and_must_not_wait(broker, topic):
    outcome: list[object] = []
    done = threading.Event()
    with Producer(brokers=broker.bootstrap) as producer:

        def again(error, delivery):
            try:
                producer.flush()
            except RuntimeError as refused:
                outcome.append(refused)
            producer.send(topic, "from a callback", on_delivery=lambda e, d: done.set())

        producer.send(topic, "first", on_delivery=again)
        assert done.wait(LONG_S)
    assert "do not wait in a callback" in str(outcome[0])


def test_futures_can_be_awaited_in_any_loop(broker, topic):
    with Producer(brokers=broker.bootstrap) as producer:

        async def main() -> int:
            futures = [producer.send(topic, "x", partition=0) for _ in range(10)]
            return max(delivery.offset for delivery in await asyncio.gather(*futures))

        assert asyncio.run(main()) == 9


def test_done_callbacks_of_futures(broker, topic):
    told: list[object] = []
    with Producer(brokers=broker.bootstrap) as producer:
        future = producer.send(topic, "x")
        future.add_done_callback(told.append)
        future.result(LONG_S)
    future.add_done_callback(told.append)
    assert told == [future, future]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(broker, topic, codec):
    with Producer(brokers=broker.bootstrap, compression_type=codec) as producer:
        producer.send_many(topic, [b"%d" % n * 50 for n in range(200)], partition=0)
    assert values(read(broker, topic, 200)) == [b"%d" % n * 50 for n in range(200)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(broker, topic, acks):
    with Producer(brokers=broker.bootstrap, acks=acks) as producer:
        delivery = producer.send(topic, "x", partition=0).result(LONG_S)
        assert delivery.offset == (-1 if acks == "0" else 0)
    assert len(read(broker, topic, 1)) == 1


def test_many_at_once(broker, topic):
    with Producer(brokers=broker.bootstrap, batch_size=1_000, buffer_memory=4_000) as producer:
        deliveries = producer.send_many(
            topic,
            [f"v{number}" for number in range(1_000)],
            keys=[f"k{number % 7}" for number in range(1_000)],
            headers={"h": "x"},
        )
        ranges = deliveries.result(LONG_S)
    assert len(deliveries) == sum(found.records for found in ranges) == 1_000
    messages = read(broker, topic, 1_000)
    assert {message.headers()[0] for message in messages} == {("h", b"x")}
    assert sorted(values(messages)) == sorted(b"v%d" % number for number in range(1_000))


def test_many_at_once_need_as_many_keys(broker, topic):
    with Producer(brokers=broker.bootstrap) as producer, pytest.raises(ValueError, match="1 keys"):
        producer.send_many(topic, ["a", "b"], keys=["k"])


def test_arrow(broker, topic):
    table = pa.table(
        {
            "payload": ["a", None, "c", "d"],
            "id": pa.array([b"1", b"2", None, b"4"], pa.large_binary()),
            "tags": pa.array(
                [[{"key": "x", "value": b"y"}], None, [], [{"key": "n", "value": None}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "where": pa.array([0, 1, 2, 0], pa.int16()),
            "when": pa.array([1, 2, 3, 4], pa.timestamp("s")),
        }
    )
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_arrow(
            topic,
            table,
            key="id",
            value="payload",
            headers="tags",
            partition="where",
            timestamp="when",
        ).result(LONG_S)
        producer.send_arrow(topic, table.slice(2), value="payload", partition=2).result(LONG_S)
    found = [
        (m.partition(), m.key(), m.value(), m.headers(), m.timestamp()[1])
        for m in read(broker, topic, 6)
    ]
    assert found[:4] == [
        (0, b"1", b"a", [("x", b"y")], 1_000),
        (0, b"4", b"d", [("n", None)], 4_000),
        (1, b"2", None, None, 2_000),
        (2, None, b"c", None, 3_000),
    ]
    assert [row[2] for row in found[4:]] == [b"c", b"d"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_arrow_of_many_kinds(broker, topic, kind):
    texts = ["a", "bb", None, "", "a"]
    array = pa.array([None if t is None else t.encode() for t in texts], pa.binary())
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    plain = array.cast(pa.string()).cast(wanted) if wanted != pa.binary() else array
    column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain
    batch = pa.record_batch({"value": column}).slice(1)
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_arrow(topic, batch, partition=0).result(LONG_S)
    assert values(read(broker, topic, 4)) == [b"bb", None, b"", b"a"]


def test_arrow_rows_as_json(broker, topic):
    table = pa.table({"k": ["x", "y"], "a": [1, 2], "b": ["p", None]})
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_arrow(topic, table, key="k", value="json", partition=0).result(LONG_S)
    found = [(m.key(), m.value()) for m in read(broker, topic, 2)]
    assert found == [(b"x", b'{"a":1,"b":"p"}'), (b"y", b'{"a":2,"b":null}')]


@pytest.mark.parametrize(
    ("data", "arguments", "said"),
    [
        (pa.table({"value": ["x"]}), {"value": "vlaue"}, "did you mean 'value'"),
        (pa.table({"value": [1]}), {}, "cannot be a column of int64"),
        (pa.table({"value": ["x"], "h": [1]}), {"headers": "h"}, "headers of records"),
        (pa.table({"value": ["x"], "p": ["y"]}), {"partition": "p"}, "partition of records"),
        ([1, 2], {}, "exports no Arrow data"),
    ],
)
def test_arrow_that_is_no_records(broker, topic, data, arguments, said):
    producer = Producer(brokers=broker.bootstrap)
    with producer, pytest.raises(SerializationError, match=said):
        producer.send_arrow(topic, data, **arguments)


# Bad input.


def test_what_is_refused_at_once(broker, topic):
    with Producer(brokers=broker.bootstrap, max_request_size=1_000) as producer:
        with pytest.raises(SerializationError, match='value="json"'):
            producer.send(topic, {"a": 1})
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size=1000"):
            producer.send(topic, "x" * 1_000)
        with pytest.raises(ValueError, match="no partition -5"):
            producer.send(topic, "x", partition=-5)
        with pytest.raises(SerializationError, match="timestamp"):
            producer.send(topic, "x", timestamp=-7)
    with pytest.raises(ClientClosed, match="closed"):
        producer.send(topic, "x")


def test_nobody_there():
    producer = Producer(brokers="127.0.0.1:1", max_block_ms=300)
    with producer, pytest.raises(MaxBlockTimeout, match=r"bootstrap\.servers"):
        producer.send("t", "x")


def test_a_full_buffer_may_be_an_error_at_once(broker, topic):
    settings = {"batch_size": 1_000, "buffer_memory": 1_000, "linger_ms": 60_000}
    with Producer(brokers=broker.bootstrap, on_full="raise", **settings) as producer:
        producer.send(topic, "x" * 500, partition=0)
        with pytest.raises(BufferFull, match=r"buffer\.memory=1000") as caught:
            producer.send(topic, "x" * 500, partition=1)
        assert isinstance(caught.value, BufferError)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lingerms": 5}, "linger"),
        ({"acks": "2"}, "acks"),
        ({"acks": "1", "enable_idempotence": True}, "acks has to be all|acks is 1"),
        ({"on_full": "drop"}, "'block' or 'raise'"),
        ({"value": "jsn"}, "no serializer"),
        ({"transactional_id": "x"}, "transactions"),
    ],
)
def test_bad_settings(settings, said):
    with pytest.raises(ConfigError, match=said):
        Producer(brokers="127.0.0.1:1", **settings)


FORKING = """
import os, sys
from odradek import Producer
from odradek.client.errors import ClientClosed

bootstrap, topic = sys.argv[1:]
with Producer(brokers=bootstrap, linger_ms=0) as producer:
    producer.send(topic, "parent", partition=0).result(60)
    child = os.fork()
    if child == 0:
        try:
            producer.send(topic, "child", partition=0)
        except ClientClosed as error:
            sys.stdout.write(str(error) + "\\n")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    producer.send(topic, "parent again", partition=0).result(60)
"""

FORGETTING = """
import sys
from odradek import Producer

producer = Producer(brokers=sys.argv[1], linger_ms=60_000)
producer.send(sys.argv[2], "not forgotten", partition=0)
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout


def test_a_forked_process_is_told_to_make_a_producer_of_its_own(broker, topic):
    assert "make a client in each process" in run(FORKING, broker.bootstrap, topic)
    assert values(read(broker, topic, 2)) == [b"parent", b"parent again"]


def test_the_end_of_the_process_delivers_what_a_forgotten_producer_has(broker, topic):
    run(FORGETTING, broker.bootstrap, topic)
    assert values(read(broker, topic, 1)) == [b"not forgotten"]


def test_a_producer_that_is_thrown_away_leaves_nobody_waiting(broker, topic):
    producer = Producer(brokers=broker.bootstrap, linger_ms=60_000)
    future = producer.send(topic, "x", partition=0)
    outcomes: list[BaseException | None] = []
    waiting = threading.Thread(target=lambda: outcomes.append(future.exception(LONG_S)))
    waiting.start()
    del producer
    gc.collect()
    waiting.join(LONG_S)
    [error] = outcomes
    assert isinstance(error, ClientClosed)
    assert "thrown away" in str(error)


# The face that is awaited.


def test_awaited(broker, topic):
    async def main() -> None:
        async with odradek.aio.Producer(brokers=broker.bootstrap, value="json") as producer:
            delivery = await producer.send(topic, {"id": 1}, partition=0)
            assert delivery.offset == 0
            futures = [await producer.enqueue(topic, n, partition=0) for n in range(50)]
            assert [(await future).offset for future in futures] == list(range(1, 51))
            later = producer.send_nowait(topic, "now", partition=0)
            assert await producer.flush() == 0
            assert later.result(0).offset == 51
            assert await producer.partitions_for(topic) == [0, 1, 2]
            many = await producer.send_many(topic, list(range(100)), partition=1)
            assert [found.records for found in await many] == [100]
            table = pa.table({"value": ["a", "b"]})
            arrow = await producer.send_arrow(topic, table, partition=2)
            assert (await arrow)[0].last_offset == 1
            assert producer.metrics()["record-send-total"] == 154

    asyncio.run(main())
    assert len(read(broker, topic, 154)) == 154


def test_awaited_leaving_the_block_delivers(broker, topic):
    async def main() -> list:
        async with odradek.aio.Producer(brokers=broker.bootstrap, linger_ms=60_000) as producer:
            return [await producer.enqueue(topic, "x", partition=0) for _ in range(10)]

    assert [future.result(0).offset for future in asyncio.run(main())] == list(range(10))


def test_awaited_bad_input(broker, topic):
    async def main() -> None:
        producer = odradek.aio.Producer(brokers=broker.bootstrap)
        with pytest.raises(ClientClosed, match="was not started"):
            await producer.send(topic, "x")
        async with producer:
            with pytest.raises(BufferFull, match="partitions_for"):
                producer.send_nowait(topic, "x")
            future = await producer.enqueue(topic, "x")
            with pytest.raises(RuntimeError, match="await the future"):
                future.result(LONG_S)
            await future
        with pytest.raises(ClientClosed):
            await producer.send(topic, "x")

    asyncio.run(main())


def test_awaited_a_cancelled_task_gives_its_place_up(broker, topic):
    async def main() -> None:
        settings = {"batch_size": 1_000, "buffer_memory": 1_000}
        async with odradek.aio.Producer(brokers=broker.bootstrap, **settings) as producer:
            waiting = asyncio.ensure_future(producer.enqueue("nowhere", "x"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await producer.send(topic, "y" * 900)

    asyncio.run(main())


def test_awaited_asking_for_partitions_makes_a_topic_ready_for_who_does_not_wait(broker, topic):
    async def main() -> None:
        async with odradek.aio.Producer(brokers=broker.bootstrap) as producer:
            with pytest.raises(BufferFull):
                producer.send_nowait(topic, "x", partition=1)
            assert await producer.partitions_for(topic) == [0, 1, 2]
            assert (await producer.send_nowait(topic, "x", partition=1)).offset == 0

    asyncio.run(main())


def test_awaited_a_cancelled_close_leaves_nothing_behind_and_can_be_awaited_again():
    async def main() -> None:
        with Broker() as broker:
            producer = odradek.aio.Producer(brokers=broker.bootstrap, linger_ms=60_000)
            await producer.start()
            await producer.send_many("t", ["known"])
            await producer.flush()
        future = await producer.enqueue("t", "nobody takes this")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ClientClosed, match="broken off"):
            await asyncio.wait_for(future, LONG_S)
        with pytest.raises(ClientClosed):
            await producer.send("t", "late")
        await producer.close()

    before = threading.enumerate()
    asyncio.run(main())
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert not any(name.startswith("odradek-producer") for name in left)
