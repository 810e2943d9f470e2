"""Sends that fail: a typed error with advice, in time, and nothing queued."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.errors import (
    BufferFull,
    ClientClosed,
    InvalidTopic,
    MaxBlockTimeout,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
from odradek.client.producer.send_path import SendPath
from odradek.client.serializers import serializer
from odradek.model.errors import ErrorCode
from odradek.protocol.api.produce import ProduceRequest
from odradek.testing.scripted import SILENT, DelayedAnswer
from unit.client.producer.producing import Producing, forget


def refused(p: Producing, value: bytes = b"x", topic: str = "t", **given: Any) -> Exception:
    """Return the error of a send; nothing is queued, and no callback is called."""
    waiter = p.begin(value, topic, **given)
    p.cluster.until(lambda: waiter.done)
    assert waiter.error is not None
    assert p.told == []
    assert len(p.core.accumulator.incomplete) == 0
    return waiter.error  # type: ignore[return-value]


def test_an_unknown_topic_fails_after_max_block_ms():
    p = Producing(max_block_ms=2_000)
    begun = p.cluster.now_ms
    error = refused(p, topic="nowhere")
    assert isinstance(error, UnknownTopicOrPartition)
    assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "nowhere" in str(error) and "What to do" in str(error)
    assert 2_000 <= p.cluster.now_ms - begun <= 2_100


def test_a_topic_created_meanwhile_gets_the_record():
    p = Producing(max_block_ms=60_000)
    waiter = p.begin(b"x", "later")
    p.cluster.run(1_000)
    assert not waiter.done
    p.cluster.create("later")
    p.cluster.until(lambda: waiter.done)
    assert p.outcome(waiter.result()).offset == 0


def test_an_invalid_topic_fails_at_once():
    p = Producing()
    p.cluster.create("bad").error = ErrorCode.INVALID_TOPIC_EXCEPTION
    begun = p.cluster.now_ms
    assert isinstance(refused(p, topic="bad"), InvalidTopic)
    assert p.cluster.now_ms - begun <= 1_000


def test_an_unknown_partition_fails_after_max_block_ms():
    p = Producing(max_block_ms=2_000)
    error = refused(p, partition=9)
    assert isinstance(error, UnknownTopicOrPartition)
    assert "0 to 0" in str(error)


def test_a_partition_added_meanwhile_gets_the_record():
    p = Producing()
    p.send(b"one")
    waiter = p.begin(b"two", partition=1)
    topic = p.cluster.topics["t"]
    topic.leaders.append(1)
    topic.epochs.append(0)
    p.cluster.until(lambda: waiter.done)
    p.outcome(waiter.result())
    assert p.values("t", 1) == [b"two"]


def test_unreachable_brokers_fail_the_send_after_max_block_ms():
    p = Producing(max_block_ms=5_000)
    p.cluster[1].stop()
    begun = p.cluster.now_ms
    error = refused(p)
    assert isinstance(error, MaxBlockTimeout)
    assert "bootstrap.servers" in str(error)
    assert p.cluster.now_ms - begun <= 5_100


def test_a_record_larger_than_the_limit_is_refused():
    p = Producing(max_request_bytes=500)
    p.send(b"fits")
    p.flush()
    p.told.clear()
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size=500"):
        p.begin(b"x" * 500)


def test_a_record_larger_than_a_batch_has_a_batch_of_its_own():
    p = Producing(batch_bytes=200)
    values = [b"a" * 10, b"b" * 5_000, b"c" * 10]
    futures = [p.send(value) for value in values]
    assert [p.outcome(f).offset for f in futures] == [0, 1, 2]
    assert p.core.accumulator.pool.charged_bytes == 0


def full(**settings: Any) -> Producing:
    """A producer whose memory is used up by records that no broker takes."""
    p = Producing(batch_bytes=1_000, buffer_bytes=2_000, **settings)
    p.send(b"warm up")
    p.flush()
    p.told.clear()
    p.cluster[1].answers[ProduceRequest] = lambda request, version: SILENT
    for _ in range(2):
        p.send(b"x" * 900, callback=None)
    return p


def test_a_full_buffer_fails_the_send_after_max_block_ms():
    p = full(max_block_ms=2_000)
    begun = p.cluster.now_ms
    waiter = p.begin(b"y" * 900)
    p.cluster.until(lambda: waiter.done)
    assert isinstance(waiter.error, MaxBlockTimeout)
    assert "buffer.memory=2000" in str(waiter.error)
    assert 2_000 <= p.cluster.now_ms - begun <= 2_100
    assert not p.core.accumulator.pool.waiters


def test_a_full_buffer_raises_buffer_full_without_waiting():
    p = full()
    error = p.core.router.buffer_full_error(p.record("t", b"y"))
    assert isinstance(error, BufferFull) and isinstance(error, BufferError)
    assert "What to do" in str(error)


def test_a_send_that_gives_up_waiting_leaves_nothing_queued():
    p = full()
    waiter = p.begin(b"y" * 900)
    assert len(p.core.accumulator.pool.waiters) == 1
    p.side.do(lambda: waiter.fail(KeyboardInterrupt()))
    assert not p.core.accumulator.pool.waiters
    assert not p.core.pending


def test_waiting_records_are_queued_in_order():
    p = Producing(batch_bytes=1_000, buffer_bytes=1_000, linger_ms=0)
    waiters = [p.begin(b"%d" % n * 900, callback=None) for n in range(5)]
    for waiter in waiters:
        p.cluster.until(lambda waiter=waiter: waiter.done)  # type: ignore[misc]
    p.flush()
    assert [value[:1] for value in p.values() if value] == [b"0", b"1", b"2", b"3", b"4"]


def test_closing_fails_waiting_sends():
    p = full()
    waiting = [p.begin(b"y" * 900), p.begin(b"z", "nowhere")]
    p.side.wait(lambda: p.core.close(100))
    for waiter in waiting:
        assert isinstance(waiter.error, ClientClosed)
    with pytest.raises(ClientClosed, match="make another one"):
        p.begin(b"late")


def test_a_partitioner_function_chooses_the_partition():
    asked = []

    def third(topic, key, value, count):
        asked.append((topic, key, value, count))
        return 2 if value == b"there" else None

    p = Producing(leaders={"t": [1, 1, 1]}, partitioner=third)
    p.send(b"there", key=b"k")
    p.flush()
    assert asked == [("t", b"k", b"there", 3)]
    assert p.values("t", 2) == [b"there"]


def test_a_partitioner_with_an_invalid_partition_raises():
    p = Producing(partitioner=lambda topic, key, value, count: 5)
    waiter = p.begin(b"x")
    p.cluster.until(lambda: waiter.done)
    assert isinstance(waiter.error, ValueError)
    assert "chose partition 5" in str(waiter.error)


def held_up(partitioner, **settings: Any) -> tuple[Producing, list[ProduceRequest]]:
    """A producer whose memory is used up until `release` lets its brokers answer."""
    p = Producing(
        batch_bytes=1_000, buffer_bytes=1_000, partitioner=partitioner, max_block_ms=10**6
    )
    p.send(b"warm up")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]
    p.cluster[1].answers[ProduceRequest] = lambda r, v: DelayedAnswer(1_000, right(r, v))
    p.send(b"first" * 180)
    return p, right  # type: ignore[return-value]


def test_a_partitioner_is_called_once_for_a_record_that_waits_for_memory():
    asked: list[bytes | None] = []

    def choose(topic, key, value, count):
        asked.append(value[:6])
        return None if value.startswith(b"second") else 0

    p, _ = held_up(choose)
    waiting = [p.begin(b"second" * 150), p.begin(b"third." * 150)]
    assert not any(waiter.done for waiter in waiting), "there is no room"
    for waiter in waiting:
        p.cluster.until(lambda waiter=waiter: waiter.done)  # type: ignore[misc]
        p.outcome(waiter.result())
    assert asked == [b"warm u", b"firstf", b"second", b"third."]
    assert p.core.accumulator.pool.charged_bytes == 0


def test_a_partitioner_is_called_once_for_a_waiting_record_of_many():
    asked: list[bytes | None] = []

    def choose(topic, key, value, count):
        asked.append(value[:6])
        return 0

    p, _ = held_up(choose)
    asked.clear()
    clock = p.engine.env.clock
    send_path = SendPath(p.core.router, serializer("key", None), serializer("value", None), clock)
    rows = [send_path.source("t", [value * 150], None, None) for value in (b"second", b"third.")]
    many = send_path.bulk("t", rows, None, None)
    while (record := p.side.do(many.step)) is not None:
        many.add_queued(p.side.wait(lambda record=record: p.core.send_later(record).waiter))  # type: ignore[misc]
    p.flush()
    assert len(many.deliveries) == 2
    assert asked == [b"second", b"third."]
    assert [value[:6] for value in p.values()[2:]] == [b"second", b"third."]  # type: ignore[index]


def test_a_partitioner_that_raises_leaves_nothing_queued():
    def moody(topic, key, value, count):
        if value.startswith(b"second"):
            raise LookupError("no table for this")
        return 0

    p, _ = held_up(moody)
    with pytest.raises(LookupError):
        p.begin(b"second" * 150)
    third = p.begin(b"third." * 150)
    p.cluster.until(lambda: third.done)
    p.outcome(third.result())
    assert p.core.accumulator.pool.charged_bytes == 0
    assert not p.core.pending


def test_a_topic_forgotten_while_a_record_waits_for_memory_is_requested_again():
    p = Producing(
        brokers=2,
        leaders={"t": [1], "other": [1]},
        batch_bytes=1_000,
        buffer_bytes=1_000,
        max_block_ms=10**6,
    )
    for topic in ("t", "other"):
        p.send(b"warm up", topic)
        p.flush()
    right = p.cluster[1].answers[ProduceRequest]
    p.cluster[1].answers[ProduceRequest] = lambda r, v: DelayedAnswer(5_000, right(r, v))
    p.send(b"x" * 900, "other")
    waiter = p.begin(b"y" * 900, "t")
    assert not waiter.done
    forget(p, "t")
    p.cluster.until(lambda: waiter.done)
    assert p.outcome(waiter.result()).offset == 1
    assert p.core.accumulator.pool.charged_bytes == 0


def test_partitioner_ignore_keys_ignores_keys():
    p = Producing(leaders={"t": [1, 1, 1]}, ignore_keys=True)
    for _ in range(10):
        p.send(b"x", key=b"a")
        p.send(b"x", key=b"b")
    p.flush()
    assert sorted(len(p.values("t", n)) for n in range(3)) == [0, 0, 20]
