"""`close()` in a signal handler, whatever the handler interrupts."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek import Admin, Consumer, Producer, TopicPartition
from odradek.client.producer.futures import FutureRecordMetadata
from odradek.errors import ClientClosed
from odradek.testing import Broker
from unit.client.ringing_guard import RingingGuard

LONG_S = 60.0
NewTopic = Callable[..., str]
Handle = Callable[[Callable[[], object]], None]


@pytest.fixture
def handle() -> Iterator[Handle]:
    """Return `handle(action)`, which makes an action the handler of SIGUSR1 and SIGALRM."""
    signals = (signal.SIGUSR1, signal.SIGALRM)
    before = [signal.getsignal(each) for each in signals]

    def install(action: Callable[[], object]) -> None:
        def handler(*_: object) -> None:
            action()

        for each in signals:
            signal.signal(each, handler)

    yield install
    signal.setitimer(signal.ITIMER_REAL, 0)
    for each, old in zip(signals, before, strict=True):
        signal.signal(each, old)


def end_offset(broker: Broker, topic: str) -> int:
    with Admin(brokers=broker.bootstrap) as admin:
        return admin.end_offsets([(topic, 0)])[TopicPartition(topic, 0)]


@pytest.mark.parametrize("lock", ["accumulator_lock", "pool_lock"])
def test_a_producer_closes_after_the_call_that_holds_its_lock(
    broker: Broker, new_topic: NewTopic, handle: Handle, lock: str
) -> None:
    topic = new_topic()
    producer = Producer(brokers=broker.bootstrap, linger_ms=100_000, delivery_timeout_ms=200_000)
    sent = [producer.send(topic, b"%d" % number) for number in range(10)]
    handle(producer.close)
    with getattr(producer._core, lock):
        signal.raise_signal(signal.SIGUSR1)
        assert not sent[0].done(), "the handler has returned, and nothing was sent yet"
    assert [future.result(LONG_S).offset for future in sent] == list(range(10))
    producer.close()
    assert not producer._thread.running
    with pytest.raises(ClientClosed):
        producer.send(topic, b"")


def test_a_second_close_waits_for_the_deliveries(
    broker: Broker, new_topic: NewTopic, handle: Handle
) -> None:
    topic = new_topic()
    with Producer(brokers=broker.bootstrap, linger_ms=100_000) as producer:
        sent = producer.send(topic, b"")
        handle(producer.close)
        with producer._core.accumulator_lock:
            signal.raise_signal(signal.SIGUSR1)
    assert sent.done() and sent.exception() is None


def test_a_handler_closes_at_once_if_another_thread_holds_the_lock(
    broker: Broker, new_topic: NewTopic, handle: Handle
) -> None:
    topic = new_topic()
    producer = Producer(brokers=broker.bootstrap, linger_ms=100_000)
    sent = producer.send(topic, b"")
    handle(producer.close)
    held = threading.Event()

    def hold() -> None:
        with producer._core.accumulator_lock:
            held.set()
            threading.Event().wait(0.01)

    threading.Thread(target=hold).start()
    assert held.wait(LONG_S)
    signal.raise_signal(signal.SIGUSR1)
    assert sent.done() and not producer._thread.running


@pytest.mark.parametrize("at_end", [False, True], ids=["at its begin", "at its end"])
class TestSections:
    """The handler interrupts a section in which a client hands work to its engine."""

    def interrupt(self, client: Any, at_end: bool, handle: Handle) -> None:
        client._thread._guard = RingingGuard(client._thread._guard, at_end)
        handle(client.close)

    def test_a_producer_closed_in_a_handler_delivers_its_records(
        self, broker: Broker, new_topic: NewTopic, handle: Handle, at_end: bool
    ) -> None:
        topic = new_topic()
        producer = Producer(brokers=broker.bootstrap, linger_ms=100_000)
        producer.partitions_for(topic)
        sent = producer.send(topic, b"")
        self.interrupt(producer, at_end, handle)
        with contextlib.suppress(ClientClosed):
            producer.flush()
        assert sent.result(LONG_S).offset == 0
        assert not producer._thread.running

    def test_a_consumer_closed_in_a_handler_ends_its_iteration(
        self, broker: Broker, new_topic: NewTopic, handle: Handle, at_end: bool
    ) -> None:
        topic = new_topic()
        consumer = Consumer(topic, group=topic, brokers=broker.bootstrap)
        self.interrupt(consumer, at_end, handle)
        with pytest.raises(ClientClosed):
            list(consumer)
        assert not consumer._thread.running

    def test_of_an_admin_client(self, broker: Broker, handle: Handle, at_end: bool) -> None:
        admin = Admin(brokers=broker.bootstrap)
        self.interrupt(admin, at_end, handle)
        with pytest.raises(ClientClosed):
            admin.topics()
        assert not admin._thread.running


@pytest.mark.parametrize("seed", range(20))
def test_a_producer_closed_at_any_moment_delivers_what_it_took(
    broker: Broker, new_topic: NewTopic, handle: Handle, seed: int
) -> None:
    topic = new_topic()
    producer = Producer(brokers=broker.bootstrap, linger_ms=1)
    producer.partitions_for(topic)
    handle(producer.close)
    signal.setitimer(signal.ITIMER_REAL, random.Random(seed).uniform(0.0001, 0.01))
    sent: list[FutureRecordMetadata] = []
    with contextlib.suppress(ClientClosed):
        while True:
            sent.append(producer.send(topic, b"%d" % len(sent)))
    producer.close()
    offsets = [future.result(LONG_S).offset for future in sent]
    assert offsets == list(range(len(sent)))
    assert end_offset(broker, topic) - len(sent) in (0, 1), "the send that was interrupted"


@pytest.mark.parametrize("seed", range(10))
def test_a_consumer_closed_at_any_moment_commits_nothing_that_it_did_not_return(
    broker: Broker, new_topic: NewTopic, handle: Handle, seed: int
) -> None:
    topic = new_topic()
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(5000)])
    consumer = Consumer(topic, group=topic, brokers=broker.bootstrap, auto_offset_reset="earliest")
    first = next(consumer)
    handle(consumer.close)
    signal.setitimer(signal.ITIMER_REAL, random.Random(seed).uniform(0.0001, 0.01))
    last = first.offset
    with contextlib.suppress(ClientClosed):
        for record in consumer:
            assert record.offset == last + 1
            last = record.offset
    assert not consumer._thread.running
    with Admin(brokers=broker.bootstrap) as admin:
        (committed,) = admin.group_offsets(topic).values()
    assert committed.offset in (last, last + 1), (
        "only the record of the interrupted poll may repeat"
    )
