"""`flush.messages`: that many records are flushed before the last of them is acknowledged."""

from __future__ import annotations

import pytest

from odradek.protocol.api.create_topics import CreatableTopicConfig
from unit.broker.memory_broker import MemoryBroker, SentRequest


def serving_topic(flush_messages: int, durability: str) -> MemoryBroker:
    serving = MemoryBroker(log_durability=durability)
    config = CreatableTopicConfig(name="flush.messages", value=str(flush_messages))
    serving.create("t", configs=[config])
    return serving


def produce(serving: MemoryBroker, acks: int) -> SentRequest:
    """Send one record and run the callbacks, but no flush."""
    asked = serving.produce("t", acks=acks)
    serving.run_soon()
    return asked


@pytest.mark.parametrize("acks", [1, -1])
def test_the_record_that_reaches_flush_messages_waits_for_the_flush(acks: int):
    serving = serving_topic(3, "os")
    partition = serving.node.replicas.by_name["t", 0]
    assert produce(serving, acks).parts is not None
    assert produce(serving, acks).parts is not None
    assert (partition.high_watermark, partition.log.flushed_offset) == (2, 0)
    third = produce(serving, acks)
    assert third.parts is None
    assert partition.high_watermark == 2, "not for readers either"
    serving.run_work()
    assert third.parts is not None
    assert (partition.high_watermark, partition.log.flushed_offset) == (3, 3)
    assert produce(serving, acks).parts is not None
    assert serving.work == []


@pytest.mark.parametrize("acks", [1, -1])
def test_records_that_arrive_during_the_flush(acks: int):
    serving = serving_topic(2, "os")
    partition = serving.node.replicas.by_name["t", 0]
    asked = [produce(serving, acks) for _ in range(5)]
    assert [each.parts is not None for each in asked] == [True, False, False, False, False]
    serving.run_work()
    serving.run_soon()
    assert partition.log.flushed_offset == 2
    assert [each.parts is not None for each in asked] == [True, True, False, False, False]
    serving.run_work()
    assert [each.parts is not None for each in asked] == [True] * 5
    assert partition.high_watermark == 5


def test_with_fsync_acks_1_waits_for_flush_messages_too():
    serving = serving_topic(1, "fsync")
    asked = produce(serving, 1)
    assert asked.parts is None
    serving.run_work()
    assert asked.parts is not None


def test_without_flush_messages_acks_1_does_not_wait():
    serving = MemoryBroker()
    serving.create("t")
    assert produce(serving, 1).parts is not None


def test_acks_0_gets_no_response():
    serving = serving_topic(1, "os")
    assert produce(serving, 0).parts == ()
    serving.run_until_idle()
    assert serving.node.replicas.by_name["t", 0].log.flushed_offset == 1
