"""`odradek.process` while its group rebalances: each input has its effect once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import odradek
import odradek.aio
from odradek.client.errors import ProducerFenced
from odradek.client.processing import TransactionLimit
from odradek.testing.broker import Broker

PARTITIONS = 4
STEP = 200


class Members:
    """Processes of one group, on threads, that end with a test."""

    def __init__(self, broker: Broker, source: str, to: str, arrow: bool) -> None:
        self.broker = broker
        self.source = source
        self.to = to
        self.arrow = arrow
        self.called: dict[str, threading.Event] = {}
        self._stops: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}
        self.failures: list[BaseException] = []

    def start(self, name: str) -> None:
        """Start a member, and wait until it was given its first records."""
        called = self.called[name] = threading.Event()
        stop = self._stops[name] = threading.Event()

        def function(given: Any) -> Any:
            called.set()
            return given.select(["key", "value"]) if self.arrow else given.value

        def run() -> None:
            try:
                odradek.process(
                    self.source,
                    function,
                    to=self.to,
                    group=self.source,
                    brokers=self.broker.bootstrap,
                    arrow=self.arrow,
                    transactional_id=f"{self.source}-{name}",
                    max_records=50,
                    interval=0.02,
                    consumer={"heartbeat_interval_ms": 50},
                    stop=stop,
                )
            except BaseException as failure:
                self.failures.append(failure)

        thread = self._threads[name] = threading.Thread(target=run)
        thread.start()

    def stop(self, name: str) -> None:
        """Stop a member, and wait until it has left the group."""
        self._stops.pop(name).set()
        self._threads.pop(name).join()

    def stop_all(self) -> None:
        for name in list(self._stops):
            self.stop(name)


@contextmanager
def members(broker: Broker, source: str, to: str, arrow: bool) -> Iterator[Members]:
    made = Members(broker, source, to, arrow)
    try:
        yield made
    finally:
        made.stop_all()


def read_until(broker: Broker, topic: str, count: int) -> list[int]:
    """The committed records, as soon as there are `count`; a watchdog ends a call that hangs."""
    with odradek.Consumer(
        topic, brokers=broker.bootstrap, auto_offset_reset="earliest", value=int
    ) as reader:
        found: list[Any] = []
        while len(found) < count:
            found += [record.value for record in reader.consume(count - len(found))]
    return found


@pytest.mark.parametrize("arrow", [False, True])
def test_members_that_come_and_go_write_each_input_once(
    broker: Broker, new_topic: Callable[..., str], arrow: bool
) -> None:
    source, to = new_topic(PARTITIONS), new_topic(PARTITIONS)
    sent = 0
    with (
        odradek.Producer(brokers=broker.bootstrap) as producer,
        members(broker, source, to, arrow) as group,
    ):

        def send_more() -> None:
            nonlocal sent
            numbers = [str(number).encode() for number in range(sent, sent + STEP)]
            producer.send_many(source, numbers, keys=numbers)
            producer.flush()
            sent += STEP

        send_more()
        group.start("first")
        group.called["first"].wait()
        group.start("second")
        while not group.called["second"].is_set() and not group.failures:
            send_more()  # Until the second one has partitions with records.
        group.stop("first")
        send_more()
        group.start("third")
        send_more()
        found = read_until(broker, to, sent)
    assert not group.failures
    assert sorted(found) == list(range(sent))
    everything = odradek.read(to, brokers=broker.bootstrap)
    assert everything.num_rows == sent, "and no input twice"


def test_coroutines_are_awaited_and_what_they_raise_becomes_dead_letters(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    source, to, dead = new_topic(), new_topic(), new_topic()
    with odradek.Producer(brokers=broker.bootstrap) as producer:
        producer.send_many(source, [b"%d" % number for number in range(10)])

    async def run() -> int:
        stop = asyncio.Event()

        async def double(record: Any) -> int:
            await asyncio.sleep(0)
            if record.value == 9:
                stop.set()
            if record.value == 5:
                raise ValueError("five")
            return int(record.value) * 2

        return await odradek.aio.process(
            source,
            double,
            to=to,
            group=source,
            brokers=broker.bootstrap,
            value=int,
            on_error=f"dlq:{dead}",
            stop=stop,
            producer={"value": "json"},
        )

    assert asyncio.run(run()) == 10
    assert read_until(broker, to, 9) == [0, 2, 4, 6, 8, 12, 14, 16, 18]
    assert read_until(broker, dead, 1) == [5]


def test_a_process_whose_id_is_taken_over_ends_with_the_reason(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    source, to = new_topic(), new_topic()
    with odradek.Producer(brokers=broker.bootstrap) as producer:
        producer.send(source, b"1").result()

    def be_replaced(record: Any) -> bytes:
        with odradek.Producer(brokers=broker.bootstrap, transactional_id="taken") as other:
            other.init_transactions()
        return b"zombie"

    with pytest.raises(ProducerFenced, match="another producer has taken"):
        odradek.process(
            source,
            be_replaced,
            to=to,
            group=source,
            brokers=broker.bootstrap,
            transactional_id="taken",
        )
    assert odradek.read(to, brokers=broker.bootstrap).num_rows == 0


@pytest.mark.parametrize("awaits", [False, True])
def test_a_table_without_a_value_column_is_written_as_json(
    broker: Broker, new_topic: Callable[..., str], awaits: bool
) -> None:
    source, to = new_topic(), new_topic()
    with odradek.Producer(brokers=broker.bootstrap, value="json") as producer:
        producer.send_many(source, [{"city": "Brno", "amount": n} for n in range(3)])
    stop: Any = asyncio.Event() if awaits else threading.Event()

    def totals(table: Any) -> Any:
        stop.set()
        amounts = table["value"].combine_chunks().field("amount")
        return pa.table({"total": [sum(amounts.to_pylist())]})

    async def totals_later(table: Any) -> Any:
        await asyncio.sleep(0)
        return totals(table)

    given: dict[str, Any] = {"to": to, "group": source, "brokers": broker.bootstrap}
    given |= {"arrow": True, "decode": "json", "stop": stop}
    if awaits:
        count = asyncio.run(odradek.aio.process(source, totals_later, **given))
    else:
        count = odradek.process(source, totals, **given)
    assert count == 3
    assert odradek.read(to, brokers=broker.bootstrap)["value"].to_pylist() == [b'{"total":3}']


@pytest.mark.parametrize("awaits", [False, True])
def test_records_that_a_transaction_has_no_time_for_are_read_for_the_next_one(
    broker: Broker, new_topic: Callable[..., str], monkeypatch: Any, awaits: bool
) -> None:
    source, to = new_topic(2), new_topic()
    with odradek.Producer(brokers=broker.bootstrap) as producer:
        producer.send_many(source, [b"%d" % number for number in range(10)])
    called = 0
    stop: Any = asyncio.Event() if awaits else threading.Event()
    monkeypatch.setattr(TransactionLimit, "is_over", property(lambda pace: called % 3 == 0))

    def function(record: Any) -> int:
        nonlocal called
        called += 1
        if called == 10:
            stop.set()
        return int(record.value)

    given: dict[str, Any] = {"to": to, "group": source, "brokers": broker.bootstrap}
    if awaits:
        asyncio.run(odradek.aio.process(source, function, value=int, stop=stop, **given))
    else:
        odradek.process(source, function, value=int, stop=stop, **given)
    assert sorted(read_until(broker, to, 10)) == list(range(10))
    assert called == 10, "no record came twice"
