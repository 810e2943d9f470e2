"""The worked examples of 002_96a4f04590806e27.txt: Kafka's producer.

Each test quotes the example by its numbers. Where the document's own count is wrong, the test's
docstring says so.
"""

from __future__ import annotations

import struct

import pytest
from librt.threading import Lock

from odradek.client.errors import MaxBlockTimeout
from odradek.client.producer.buffer_pool import Buffer, BufferPool
from odradek.config.producer import ProducerConfig
from odradek.network.framing import Framing
from seeds.scripted_producer import ScriptedProducer

MIB = 1024 * 1024
POOL_BYTES = 32 * MIB
BATCH_BYTES = 16_384

# -- defaults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("max.block.ms", 60_000),
        ("request.timeout.ms", 30_000),
        ("max.in.flight.requests.per.connection", 5),
        ("metadata.max.idle.ms", 5 * 60_000),
        ("buffer.memory", POOL_BYTES),
        ("batch.size", BATCH_BYTES),
    ],
)
def test_defaults_are_60_s_30_s_5_in_flight_5_minutes_and_32_mb(name: str, default: int) -> None:
    assert ProducerConfig.declared[name].default == default


def test_a_producer_with_defaults_has_a_pool_of_32_mb_with_buffers_of_one_batch() -> None:
    pool = ScriptedProducer().core.accumulator.pool
    assert (pool.total_bytes, pool.poolable_bytes) == (POOL_BYTES, BATCH_BYTES)


# -- BufferPool.allocate: the four cases -----------------------------------------------------------


def full_pool() -> tuple[BufferPool, list[Buffer]]:
    """32 MB, all of it in 2048 buffers of one batch that are in use."""
    pool = BufferPool(POOL_BYTES, BATCH_BYTES, Lock())
    buffers = [allocated(pool, BATCH_BYTES) for _ in range(POOL_BYTES // BATCH_BYTES)]
    assert len(buffers) == 2048 and pool.available == 0 and pool.free == []
    return pool, buffers


def allocated(pool: BufferPool, size: int) -> Buffer:
    buffer = pool.allocate(size)
    assert buffer is not None
    return buffer


def test_case_1_a_request_of_one_batch_takes_a_buffer_from_the_free_list() -> None:
    pool, buffers = full_pool()
    pool.put_back(buffers[7])
    assert allocated(pool, BATCH_BYTES) is buffers[7]
    assert (pool.available, pool.free) == (0, [])


def test_case_2_a_larger_request_that_fits_gets_the_memory_of_free_buffers() -> None:
    pool, buffers = full_pool()
    for buffer in buffers[:10]:
        pool.put_back(buffer)
    larger = allocated(pool, 3 * BATCH_BYTES + 1)
    assert larger.size == 3 * BATCH_BYTES + 1
    assert len(pool.free) == 6, "four were given up"
    assert pool.available == BATCH_BYTES - 1


def test_case_3_a_request_that_does_not_fit_waits_until_enough_was_given_back() -> None:
    pool, buffers = full_pool()
    assert pool.allocate(BATCH_BYTES + 1) is None
    first, second = pool.wait(BATCH_BYTES + 1), pool.wait(BATCH_BYTES)
    pool.put_back(buffers[0])
    pool.serve()
    assert not first.waiter.done and not second.waiter.done, "the first is served first"
    assert pool.allocate(BATCH_BYTES) is None, "nor does a later request pass those that wait"
    pool.put_back(buffers[1])
    pool.serve()
    assert first.waiter.result().size == BATCH_BYTES + 1
    assert not second.waiter.done
    pool.put_back(buffers[2])
    pool.serve()
    assert second.waiter.done


def test_case_4_a_request_above_32_mb_is_an_error_at_once() -> None:
    pool = BufferPool(POOL_BYTES, BATCH_BYTES, Lock())
    with pytest.raises(ValueError, match=f"{POOL_BYTES + 1} bytes do not fit"):
        pool.allocate(POOL_BYTES + 1)
    assert pool.allocate(POOL_BYTES) is not None


def test_a_buffer_of_one_batch_goes_back_empty_to_the_free_list_and_another_size_to_the_rest() -> (
    None
):
    pool = BufferPool(POOL_BYTES, BATCH_BYTES, Lock())
    one_batch, larger = allocated(pool, BATCH_BYTES), allocated(pool, BATCH_BYTES + 1)
    one_batch.writer.write(b"records")
    pool.put_back(larger)
    assert (pool.free, pool.available) == ([], POOL_BYTES - BATCH_BYTES)
    pool.put_back(one_batch)
    assert (pool.free, pool.available) == ([one_batch], POOL_BYTES - BATCH_BYTES)
    assert len(one_batch.writer) == 0


def test_waiting_for_memory_ends_after_60_s_less_what_waiting_for_metadata_took() -> None:
    producer = ScriptedProducer(buffer_memory=BATCH_BYTES)
    producer.answers = False
    producer.accepted(b"fills the only buffer")
    begun_ms = producer.cluster.now_ms
    waiting = producer.send(b"x", "later")
    producer.cluster.run(20_000)
    producer.cluster.create("later")
    producer.cluster.run(1_000)
    producer.cluster.until(lambda: waiting.done)
    assert isinstance(waiting.error, MaxBlockTimeout)
    assert "buffer.memory" in str(waiting.error)
    assert producer.cluster.now_ms - begun_ms == 60_000


# -- reading: sticky and split responses -----------------------------------------------------------

HELLO, FLINK = b"hello word", b"flink kafka"


def frames(*pieces: bytes) -> list[bytes]:
    """What a connection hands out when these pieces arrive."""
    framing, found = Framing(1 << 20), []
    for piece in pieces:
        framing.feed(piece)
        while (frame := framing.next_frame()) is not None:
            found.append(frame)
    return found


def with_size(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def test_the_two_responses_have_10_and_11_bytes_and_a_size_of_4_bytes_in_front() -> None:
    assert (len(HELLO), len(FLINK)) == (10, 11)
    assert with_size(HELLO) + with_size(FLINK) == (
        b"\x00\x00\x00\x0ahello word\x00\x00\x00\x0bflink kafka"
    )


def test_a_response_that_arrives_split_is_handed_out_whole() -> None:
    """The pieces are "hello word", "flink " and "kafka"."""
    assert frames(with_size(HELLO), with_size(b"")[:3] + b"\x0bflink ", b"kafka") == [HELLO, FLINK]


def test_responses_that_arrive_joined_are_handed_out_apart() -> None:
    """The document's pieces are "hello wordflink" and "kafka": 20 bytes of 21, for the blank after
    "flink" is lost. With it, the first piece has 16 bytes of the two payloads."""
    stream = with_size(HELLO) + with_size(FLINK)
    cut = stream.index(b"kafka")
    assert HELLO + FLINK[:6] == b"hello word" + b"flink "
    assert frames(stream[:cut], stream[cut:]) == [HELLO, FLINK]


def test_wherever_the_two_responses_are_cut_they_are_the_same() -> None:
    stream = with_size(HELLO) + with_size(FLINK)
    assert len(stream) == 4 + 10 + 4 + 11
    for at in range(len(stream) + 1):
        assert frames(stream[:at], stream[at:]) == [HELLO, FLINK]
    assert frames(*[stream[at : at + 1] for at in range(len(stream))]) == [HELLO, FLINK]


# -- Sender ----------------------------------------------------------------------------------------


def test_partitions_that_one_broker_leads_are_sent_in_one_request() -> None:
    producer = ScriptedProducer(partitions=3, linger_ms=5)
    futures = [producer.accepted(b"x", partition=number) for number in range(3)]
    for future in futures:
        producer.offset(future)
    assert len(producer.requests) == 1
    assert sorted(producer.requests[0]) == [("t", 0), ("t", 1), ("t", 2)]


def test_no_more_than_5_requests_are_in_flight_to_one_broker() -> None:
    producer = ScriptedProducer()
    producer.offset(producer.accepted(b"connects"))
    producer.requests.clear()
    producer.answers = False
    for _ in range(8):
        producer.accepted(b"x")
        producer.cluster.run(10)
    assert producer.engine.client.in_flight.count(1) == 5
    assert len(producer.requests) <= 5


def test_each_record_of_a_batch_gets_the_base_offset_plus_its_place() -> None:
    producer = ScriptedProducer(linger_ms=5)
    producer.base_offset = 7
    futures = [producer.accepted(value) for value in (b"first", b"second", b"third")]
    assert [producer.offset(future) for future in futures] == [7, 8, 9]
    assert producer.requests == [[("t", 0)]]


def test_when_a_batch_is_done_its_memory_is_back_in_the_pool() -> None:
    producer = ScriptedProducer()
    producer.offset(producer.accepted(b"x"))
    pool = producer.core.accumulator.pool
    assert pool.charged_bytes == 0
    assert len(pool.free) == 1, "the buffer is kept for the next batch"


# -- Metadata --------------------------------------------------------------------------------------


def test_a_topic_that_nothing_was_sent_to_for_5_minutes_is_no_longer_asked_for() -> None:
    producer = ScriptedProducer()
    producer.cluster.create("other")
    producer.offset(producer.accepted(b"x"))
    producer.offset(producer.accepted(b"x", "other"))
    for _ in range(11):
        producer.cluster.run(60_000)
        producer.offset(producer.accepted(b"x"))
    producer.asked_for.clear()
    producer.engine.metadata.request_update()
    producer.cluster.until(lambda: bool(producer.asked_for))
    assert producer.asked_for == [["t"]]


def test_a_send_to_an_unknown_topic_asks_for_it_alone_and_waits_until_it_is_known() -> None:
    producer = ScriptedProducer()
    producer.offset(producer.accepted(b"x"))
    producer.asked_for.clear()
    producer.cluster.create("new")
    assert producer.offset(producer.accepted(b"x", "new")) == 0
    assert producer.asked_for == [["new"]]
