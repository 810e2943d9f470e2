"""Consumers closed while one of their listeners runs, by the listener or another thread.

The close does everything it does otherwise, and the call that ran the listener ends.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import odradek.aio
from clients.group_readers import PATIENCE_S, NewTopic, consumer, until
from odradek import Admin, Consumer, Producer
from odradek.client.errors import ClientClosed
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker


def produce(broker: Broker, topic: str, count: int) -> None:
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(count)]).result(PATIENCE_S)


def is_left(broker: Broker, group: str) -> bool:
    """True if the group has no members."""
    with Admin(brokers=broker.bootstrap) as admin:
        return not admin.group(group).members


class ClosingListener:
    """A listener that closes its consumer and records its calls."""

    def __init__(self, close: Callable[[Any], object], occasion: str) -> None:
        self.told: list[str] = []
        self._close = close
        self._occasion = occasion

    def listener(self) -> dict[str, Callable[[Any, list[TopicPartition]], object]]:
        """Return the argument for `subscribe`."""
        return {f"on_{name}": self._callback(name) for name in ("assign", "revoke", "lost")}

    def _callback(self, name: str) -> Callable[[Any, list[TopicPartition]], object]:
        def called(member: Any, partitions: list[TopicPartition]) -> object:
            self.told.append(name)
            return self._close(member) if name == self._occasion else None

        return called


def close_by_a_signal(member: Any) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: member.close())
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("close", [Consumer.close, close_by_a_signal])
def test_a_listener_may_close_when_partitions_are_assigned(
    broker: Broker, new_topic: NewTopic, close: Callable[[Any], object]
) -> None:
    topic = new_topic(1)
    closing = ClosingListener(close, "assign")
    member = consumer(broker, topic)
    member.subscribe([topic], **closing.listener())
    with pytest.raises(ClientClosed):
        member.poll(PATIENCE_S)
    assert closing.told == ["assign", "revoke"], "as in Java, inside the first call"
    assert is_left(broker, topic)


def test_a_close_in_on_revoke_commits_and_calls_no_listener_twice(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 5)
    closing = ClosingListener(Consumer.close, "revoke")
    member = consumer(broker, topic)
    member.subscribe([topic], **closing.listener())
    assert len(member.consume(3, PATIENCE_S)) == 3
    member.unsubscribe()
    assert closing.told == ["assign", "revoke"]
    assert is_left(broker, topic)
    with pytest.raises(ClientClosed):
        member.poll()
    with consumer(broker, topic) as other:
        other.subscribe([topic])
        record = other.poll(PATIENCE_S)
        assert record is not None and record.offset == 3


def test_a_close_in_on_revoke_during_a_close_has_no_further_effect(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 1)
    closing = ClosingListener(Consumer.close, "revoke")
    member = consumer(broker, topic)
    member.subscribe([topic], **closing.listener())
    assert member.poll(PATIENCE_S) is not None
    member.close()
    assert closing.told == ["assign", "revoke"]
    assert is_left(broker, topic)


def test_a_listener_may_close_a_consumer_without_a_group(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    closing = ClosingListener(Consumer.close, "assign")
    member = Consumer(brokers=broker.bootstrap)
    member.subscribe([topic], **closing.listener())
    with pytest.raises(ClientClosed):
        member.poll(PATIENCE_S)
    assert closing.told == ["assign"]


def test_an_error_after_the_listeners_close_is_raised_by_the_poll(
    broker: Broker, new_topic: NewTopic
) -> None:
    def close_and_complain(member: Any) -> None:
        member.close()
        raise LookupError("no table for this partition")

    topic = new_topic(1)
    member = consumer(broker, topic)
    member.subscribe([topic], **ClosingListener(close_and_complain, "assign").listener())
    with pytest.raises(LookupError, match="no table"):
        member.poll(PATIENCE_S)
    assert is_left(broker, topic)


async def within_a_task(member: Any) -> None:
    await asyncio.create_task(member.close())


@pytest.mark.parametrize("close", [odradek.aio.Consumer.close, within_a_task])
def test_a_listener_of_an_asyncio_consumer_may_close_it(
    broker: Broker, new_topic: NewTopic, close: Callable[[Any], object]
) -> None:
    topic = new_topic(1)
    closing = ClosingListener(close, "assign")

    async def read() -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": topic}
        async with odradek.aio.Consumer(settings) as member:
            await member.subscribe([topic], **closing.listener())
            with pytest.raises(ClientClosed):
                await member.poll(PATIENCE_S)

    asyncio.run(read())
    assert closing.told == ["assign", "revoke"]
    assert is_left(broker, topic)


class BusyApplication:
    """An application, on a thread of its own, whose listener runs until it is released."""

    def __init__(self, member: Consumer[bytes, bytes], topic: str) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.over = threading.Event()
        self.told: list[str] = []
        self.error: BaseException | None = None
        self._member = member
        member.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _assigned(self, _: Any, partitions: list[TopicPartition]) -> None:
        self.told.append("assign")
        self.begun.set()
        assert self.let_go.wait(PATIENCE_S)

    def _revoked(self, _: Any, partitions: list[TopicPartition]) -> None:
        """Wait, if the closing thread still runs; meanwhile the poll ends."""
        self.told.append("revoke")
        assert self.over.wait(PATIENCE_S)

    def _poll(self) -> None:
        try:
            self._member.poll(PATIENCE_S)
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()

    def end(self) -> None:
        self.let_go.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def test_a_close_by_another_thread_waits_for_the_listener_up_to_its_timeout(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    member = consumer(broker, topic)
    busy = BusyApplication(member, topic)
    assert busy.begun.wait(PATIENCE_S)
    member.close(0.1)
    assert busy.told == ["assign"], "the close still waits for it"
    busy.end()
    assert isinstance(busy.error, ClientClosed)
    assert busy.told == ["assign"]


def test_a_close_by_another_thread_continues_when_the_listener_returns(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    member = consumer(
        broker, topic, **{"heartbeat.interval.ms": 1_700_000, "session.timeout.ms": 1_800_000}
    )
    busy = BusyApplication(member, topic)
    assert busy.begun.wait(PATIENCE_S)
    closing = threading.Thread(target=lambda: member.close(3000), daemon=True)
    closing.start()
    until(lambda: member._poll_loop.closed, "the close has begun")
    busy.end()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert busy.told == ["assign", "revoke"]
    assert isinstance(busy.error, ClientClosed)
