"""Our producer and our broker in blocking programs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from clients.producer.read_back import LONG_S, PARTITIONS, read, values
from odradek import Producer
from odradek.client.errors import (
    BufferFull,
    ClientClosed,
    ConfigError,
    MaxBlockTimeout,
    RecordTooLarge,
    SerializationError,
)


def test_a_record_with_every_field_is_read_back(broker, topic):
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


def test_a_key_goes_to_the_same_partition_as_with_other_clients(broker, topic):
    from kafka.partitioner.default import murmur2

    with Producer(brokers=broker.bootstrap) as producer:
        for key in (b"a", b"some key", "ключ".encode(), b"\0" * 40):
            delivery = producer.send(topic, b"x", key=key).result(LONG_S)
            assert delivery.partition == (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def test_the_methods_of_confluent_kafka_work(broker, topic):
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


def test_a_delivery_callback_finds_the_buffer_free(broker, topic):
    refused = []
    with Producer(brokers=broker.bootstrap, buffer_memory=1000, on_full="raise") as producer:

        def send_another(*_: object) -> None:
            try:
                producer.send(topic, "v" * 900, partition=0)
            except BufferFull as error:
                refused.append(error)

        producer.partitions_for(topic)
        producer.send(topic, "v" * 900, partition=0, on_delivery=send_another).result(LONG_S)
        producer.flush()
        assert not refused
        for _ in range(100):
            producer.send(topic, "v" * 900, partition=0).result(LONG_S)


def test_a_delivered_record_no_longer_counts_as_queued(broker, topic):
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


def test_a_full_buffer_blocks_senders_and_loses_nothing(broker, topic):
    with Producer(brokers=broker.bootstrap, batch_size=1_000, buffer_memory=4_000) as producer:
        for number in range(500):
            producer.send(topic, b"%04d" % number + b"x" * 300, partition=0)
    found = values(read(broker, topic, 500))
    assert [value[:4] for value in found] == [b"%04d" % number for number in range(500)]


def test_a_callback_may_send_and_may_not_flush(broker, topic):
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


def test_done_callbacks_of_futures_are_called_before_and_after_delivery(broker, topic):
    told: list[object] = []
    with Producer(brokers=broker.bootstrap) as producer:
        future = producer.send(topic, "x")
        future.add_done_callback(told.append)
        future.result(LONG_S)
    future.add_done_callback(told.append)
    assert told == [future, future]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_read_back(broker, topic, codec):
    with Producer(brokers=broker.bootstrap, compression_type=codec) as producer:
        producer.send_many(topic, [b"%d" % n * 50 for n in range(200)], partition=0)
    assert values(read(broker, topic, 200)) == [b"%d" % n * 50 for n in range(200)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_delivers(broker, topic, acks):
    with Producer(brokers=broker.bootstrap, acks=acks) as producer:
        delivery = producer.send(topic, "x", partition=0).result(LONG_S)
        assert delivery.offset == (-1 if acks == "0" else 0)
    assert len(read(broker, topic, 1)) == 1


# Invalid input.


def test_invalid_records_are_refused_by_the_call(broker, topic):
    with Producer(brokers=broker.bootstrap, max_request_size=1_000) as producer:
        with pytest.raises(SerializationError, match='value="json"'):
            producer.send(topic, {"a": 1})  # type: ignore[arg-type]
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size=1000"):
            producer.send(topic, "x" * 1_000)
        with pytest.raises(ValueError, match="no partition -5"):
            producer.send(topic, "x", partition=-5)
        for timestamp in (-7, "now", 1.5):
            with pytest.raises(SerializationError, match="give a datetime, or milliseconds"):
                producer.send(topic, "x", timestamp=timestamp)  # type: ignore[arg-type]
    with pytest.raises(ClientClosed, match="closed"):
        producer.send(topic, "x")


def test_an_unreachable_broker_ends_in_a_max_block_timeout():
    producer = Producer(brokers="127.0.0.1:1", max_block_ms=300)
    with producer, pytest.raises(MaxBlockTimeout, match=r"bootstrap\.servers"):
        producer.send("t", "x")


def test_with_on_full_raise_a_full_buffer_is_an_error_at_once(broker, topic):
    settings = {"batch_size": 1_000, "buffer_memory": 1_000, "linger_ms": 60_000}
    with Producer(brokers=broker.bootstrap, on_full="raise", **settings) as producer:  # type: ignore[call-overload]
        producer.send(topic, "x" * 500, partition=0)
        with pytest.raises(BufferFull, match=r"buffer\.memory=1000") as caught:
            producer.send(topic, "x" * 500, partition=1)
        assert isinstance(caught.value, BufferError)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lingerms": 5}, "linger"),
        ({"acks": "2"}, "acks"),
        ({"acks": "1", "enable_idempotence": True}, "acks is 1"),
        ({"on_full": "drop"}, "'block' or 'raise'"),
        ({"value": "jsn"}, "no serializer"),
    ],
)
def test_invalid_producer_settings_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        Producer(brokers="127.0.0.1:1", **settings)
