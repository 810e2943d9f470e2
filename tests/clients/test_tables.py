"""Bounded reads as one Arrow table, and decoded columns, from a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import odradek
from odradek.client.arrow_types import ArrowTable
from odradek.client.errors import ConfigError, DecodeError, UnknownTopicOrPartition
from odradek.testing.broker import Broker

LONG_S = 60.0
T0 = datetime(2026, 1, 1, tzinfo=UTC)
NewTopic = Callable[..., str]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def orders(broker: Broker, new_topic: NewTopic) -> str:
    """Ten orders in two partitions, an hour apart."""
    topic = new_topic(partitions=2)
    with odradek.Producer(brokers=broker.bootstrap, value="json") as producer:
        for number in range(10):
            producer.send(
                topic,
                {"id": number},
                partition=number % 2,
                timestamp=T0 + timedelta(hours=number),
            )
    return topic


def ids(table: ArrowTable) -> list[int]:
    return sorted(value["id"] for value in table["value"].to_pylist())


def test_read_returns_every_record_of_a_topic_or_of_its_given_partitions(
    broker: Broker, orders: str
) -> None:
    table = odradek.read(orders, brokers=broker.bootstrap)
    assert sorted(table["value"].to_pylist()) == [b'{"id":%d}' % n for n in range(10)]
    assert table.schema.metadata is None
    of_one = odradek.read(orders, partitions=[1], decode="json", brokers=broker.bootstrap)
    assert of_one["value"].to_pylist() == [{"id": n} for n in (1, 3, 5, 7, 9)]


@pytest.mark.parametrize("name", ["auto.offset.reset", "AUTO_OFFSET_RESET", "auto_offset_reset"])
def test_read_takes_settings_under_any_of_their_names(
    broker: Broker, orders: str, name: str
) -> None:
    settings: dict[str, Any] = {name: "none", "allow.auto.create.topics": True}
    settings["metadata.broker.list"] = broker.bootstrap
    assert len(odradek.read(orders, **settings)) == 10


def test_read_returns_the_records_between_two_times(broker: Broker, orders: str) -> None:
    since, until = T0 + timedelta(hours=3), T0 + timedelta(hours=7)
    table = odradek.read(orders, since=since, until=until, decode="json", brokers=broker.bootstrap)
    assert ids(table) == [3, 4, 5, 6]
    long_ago = datetime.now(UTC) - T0 - timedelta(hours=4, minutes=30)
    assert ids(odradek.read(orders, since=long_ago, decode="json", brokers=broker.bootstrap)) == [
        5,
        6,
        7,
        8,
        9,
    ]
    assert odradek.read(orders, since="1ms", brokers=broker.bootstrap).num_rows == 0


def test_read_uses_the_brokers_of_the_environment(
    broker: Broker, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BROKERS", broker.bootstrap)
    assert odradek.read(orders).num_rows == 10


def test_a_first_batch_without_values_does_not_fix_the_type(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    with odradek.Producer(brokers=broker.bootstrap) as producer:
        producer.send(topic, None, key="gone", partition=0)
        producer.send(topic, '{"id": 1}', partition=1)
    table = odradek.read(topic, decode="json", brokers=broker.bootstrap)
    assert sorted(map(str, table["value"].to_pylist())) == ["None", "{'id': 1}"]


def test_read_takes_the_brokers_as_bootstrap_servers(broker: Broker, orders: str) -> None:
    assert odradek.read(orders, bootstrap_servers=broker.bootstrap).num_rows == 10


def test_a_stream_whose_first_batch_has_no_values_still_decodes_json(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with odradek.Producer(brokers=broker.bootstrap) as producer:
        producer.send(topic, None, key="gone").result(LONG_S)
        producer.send(topic, '{"id": 1}').result(LONG_S)
    with odradek.Consumer(brokers=broker.bootstrap) as consumer:
        consumer.assign({(topic, 0): (0, 2)})
        batches = consumer.arrow(max_rows=1, max_wait=LONG_S, decode="json")
        found = pa.RecordBatchReader.from_stream(batches).read_all()
    assert found["value"].to_pylist() == [None, {"id": 1}]


def test_read_refuses_invalid_arguments_and_unknown_topics(broker: Broker) -> None:
    with pytest.raises(ConfigError, match="partitions is empty"):
        odradek.read("orders", partitions=[], brokers=broker.bootstrap)
    with pytest.raises(ConfigError, match=r"'soon' is not a duration.*give a datetime"):
        odradek.read("orders", since="soon", brokers=broker.bootstrap)
    with pytest.raises(UnknownTopicOrPartition):
        odradek.read("ordres", brokers=broker.bootstrap, default_api_timeout_ms=3000)


class TestDecoding:
    """Records that cannot be decoded do not count as returned, in either API."""

    def test_the_blocking_consumer_stays_at_a_record_that_cannot_be_decoded(
        self, broker: Broker, orders: str
    ) -> None:
        with odradek.Producer(brokers=broker.bootstrap) as producer:
            producer.send(orders, "no json", partition=0)
        with odradek.Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign({(orders, 0): (0, 6)})
            batches = consumer.arrow(max_wait=LONG_S, decode="json")
            for _ in range(2):
                with pytest.raises(DecodeError, match="at offset 5"):
                    next(batches)
                assert consumer.position((orders, 0)) == 0
        with odradek.Consumer(brokers=broker.bootstrap, on_decode_error="skip") as consumer:
            consumer.assign({(orders, 0): (0, 6)})
            reader = pa.RecordBatchReader.from_stream(
                consumer.arrow(max_wait=LONG_S, decode="json")
            )
            found = reader.read_all()["value"].to_pylist()
        assert found == [{"id": 0}, {"id": 2}, {"id": 4}, {"id": 6}, {"id": 8}, None]

    def test_the_asyncio_consumer_stays_at_a_record_that_cannot_be_decoded(
        self, broker: Broker, orders: str
    ) -> None:
        with odradek.Producer(brokers=broker.bootstrap) as producer:
            producer.send(orders, "no json", partition=0)

        async def read() -> None:
            async with odradek.aio.Consumer(brokers=broker.bootstrap) as consumer:
                await consumer.assign({(orders, 0): (0, 5), (orders, 1): (0, 5)})
                rows = 0
                async for batch in consumer.arrow(max_wait=LONG_S, decode="json"):
                    rows += batch.num_rows
                    assert batch.column("value").null_count == 0
                assert rows == 10
                await consumer.assign({(orders, 0): (0, 6)})
                with pytest.raises(DecodeError, match="at offset 5"):
                    await anext(consumer.arrow(max_wait=LONG_S, decode="json"))
                assert await consumer.position((orders, 0)) == 0

        asyncio.run(read())
