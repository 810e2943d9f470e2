"""Batches leaving the accumulator: drained, put back, expired, failed."""

from __future__ import annotations

from odradek.client.errors import ClientClosed
from odradek.client.producer.record_accumulator import NEVER_MS
from unit.client.producer.accumulating import (
    BACKOFF_MS,
    BATCH_BYTES,
    Queues,
    first_bytes,
    partitions,
    values,
)


class TestDraining:
    def test_drain_takes_one_batch_of_each_partition(self) -> None:
        queues = Queues(leaders=(1, 1))
        for value in (b"a", b"b"):
            for partition in (0, 1):
                queues.fill(value, partition)
        assert first_bytes(queues.drain()) == [b"a", b"a"]
        assert first_bytes(queues.drain()) == [b"b", b"b"]
        assert queues.drain() == []
        assert not queues.accumulator.has_undrained

    def test_drain_takes_only_partitions_that_the_nodes_lead(self) -> None:
        queues = Queues(leaders=(1, 2, 3))
        for partition in range(3):
            queues.append(b"x", partition)
        assert partitions(queues.drain(3, 1)) == [2, 0]

    def test_drain_rotates_so_that_no_partition_starves(self) -> None:
        queues = Queues(leaders=(1, 1, 1))
        for partition in range(3):
            for _ in range(4):
                queues.fill(b"x", partition)
        order = [partitions(queues.drain(max_bytes=2_000)) for _ in range(6)]
        assert order == [[0, 1], [2, 0], [1, 2], [0, 1], [2, 0], [1, 2]]

    def test_a_busier_partition_is_not_drained_more_often(self) -> None:
        queues = Queues(leaders=(1, 1))
        for _ in range(5):
            queues.fill(b"x", 0)
        queues.fill(b"y", 1)
        order = []
        for _ in range(3):
            order += partitions(queues.drain(max_bytes=1_000))
            queues.fill(b"x", 0)
        assert order == [0, 1, 0]

    def test_drain_takes_a_batch_larger_than_the_limit_alone(self) -> None:
        queues = Queues(leaders=(1, 1))
        queues.append(b"x" * 5_000, 0)
        queues.append(b"y", 1)
        assert partitions(queues.drain(max_bytes=1_000)) == [0]
        assert partitions(queues.drain(max_bytes=1_000)) == [1]

    def test_drain_seals_the_batches(self) -> None:
        queues = Queues()
        queues.append(b"a")
        [batch] = queues.drain()
        assert batch.is_sealed
        assert queues.pool.charged_bytes == len(batch.data), "the buffer is used again"
        assert queues.append(b"b")[1] == 0, "in a batch behind it"
        assert values(batch) == [b"a"]


class TestComingBack:
    def test_a_reenqueued_batch_returns_to_its_old_place(self) -> None:
        queues = Queues()
        for value in (b"a", b"b", b"c", b"d"):
            queues.fill(value)
        first, second, third = (queues.drain()[0] for _ in range(3))
        now_ms = queues.clock.now_ms
        for batch in (third, first, second):
            queues.accumulator.reenqueue(batch, now_ms)
        queues.clock.now_ms += 10 * BACKOFF_MS
        again = [queues.drain()[0] for _ in range(4)]
        assert first_bytes(again) == [b"a", b"b", b"c", b"d"]
        assert again[:3] == [first, second, third]

    def test_a_reenqueued_batch_has_the_same_bytes(self) -> None:
        queues = Queues()
        queues.append(b"a")
        [batch] = queues.drain()
        sent = batch.data
        queues.accumulator.reenqueue(batch, queues.clock.now_ms)
        queues.append(b"b")
        queues.clock.now_ms += 10 * BACKOFF_MS
        assert queues.drain()[0].data is sent
        assert batch.attempts == 1

    def test_the_parts_of_a_split_batch_take_its_place_and_memory(self) -> None:
        queues = Queues(leaders=(1,))
        for n in range(8):
            queues.append(b"%d" % n * 100)
        results = [queues.append(b"%d" % n * 100) for n in (8, 9)]
        [big] = queues.drain()
        whole = values(big)
        charged = queues.pool.charged_bytes
        assert queues.accumulator.split_and_reenqueue(big) > 1
        assert queues.pool.charged_bytes <= charged
        parts = []
        while queues.accumulator.has_undrained:
            parts += queues.drain()
        found = [value for part in parts for value in values(part)]
        assert found == whole + [b"8" * 100, b"9" * 100][len(whole) - 8 :]
        assert results[-1][0] is not None
        queues.finish(*parts)
        assert big.result.done and big.result.succeeded
        assert queues.pool.charged_bytes == 0
        assert queues.accumulator.incomplete_records == 0

    def test_a_topic_with_a_batch_in_flight_is_not_forgotten(self) -> None:
        queues = Queues()
        queues.append(b"a")
        [batch] = queues.drain()
        assert not queues.accumulator.forget_topic("t"), "its batch is under way"
        queues.accumulator.reenqueue(batch, queues.clock.now_ms)
        assert not queues.accumulator.forget_topic("t"), "its batch waits"
        queues.clock.now_ms += 10 * BACKOFF_MS
        assert queues.drain() == [batch]
        queues.finish(batch)
        assert queues.accumulator.forget_topic("t")
        assert "t" not in queues.accumulator.topics
        assert queues.accumulator.forget_topic("t"), "more than once does no harm"


class TestExpiring:
    def test_expired_batches_are_taken_out_in_order(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        assert queues.accumulator.next_expiry_ms() > NEVER_MS
        begun = queues.clock.now_ms
        queues.fill(b"a")
        queues.clock.now_ms += 400
        queues.fill(b"b")
        queues.fill(b"c")
        assert queues.accumulator.next_expiry_ms() == begun + 1_000
        assert queues.accumulator.expired_batches(begun + 999) == []
        [first] = queues.accumulator.expired_batches(begun + 1_000)
        assert queues.accumulator.next_expiry_ms() == begun + 1_400
        rest = queues.accumulator.expired_batches(begun + 1_400)
        assert len(rest) == 2
        assert [first, *rest] == sorted([*rest, first], key=lambda batch: batch.ordinal)
        assert not queues.accumulator.has_undrained

    def test_an_expired_open_batch_gets_no_more_records(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        queues.append(b"a")
        queues.accumulator.expired_batches(queues.clock.now_ms + 1_000)
        assert queues.append(b"b")[1] == 0

    def test_an_expired_open_batch_frees_all_its_memory(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        queues.append(b"a")
        [batch] = queues.accumulator.expired_batches(queues.clock.now_ms + 1_000)
        assert queues.pool.charged_bytes == BATCH_BYTES
        batch.fail(ClientClosed("late"), None)
        queues.accumulator.deallocate(batch)
        assert queues.pool.charged_bytes == 0

    def test_batches_in_flight_are_not_expired_here(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        queues.append(b"a")
        queues.drain()
        assert queues.accumulator.expired_batches(queues.clock.now_ms + 1_000) == []

    def test_a_reenqueued_batch_keeps_its_expiry(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        begun = queues.clock.now_ms
        queues.append(b"a")
        [batch] = queues.drain()
        queues.accumulator.reenqueue(batch, begun + 900)
        assert queues.accumulator.expired_batches(begun + 1_000) == [batch]


class TestEnding:
    def test_a_done_batch_frees_its_memory_when_no_request_carries_it(self) -> None:
        queues = Queues()
        queues.append(b"a")
        [batch] = queues.drain()
        batch.in_flight = True
        queues.finish(batch)
        assert queues.pool.charged_bytes > 0
        batch.in_flight = False
        queues.accumulator.deallocate(batch)
        assert queues.pool.charged_bytes == 0

    def test_incomplete_batches_are_counted_and_flushed(self) -> None:
        queues = Queues(leaders=(1, 1))
        queues.append(b"a")
        [batch] = queues.drain()
        queues.append(b"b", 1)
        queues.append(b"c", 1)
        assert queues.accumulator.incomplete_records == 3
        waited_for = queues.accumulator.begin_flush()
        assert waited_for[0] is batch and len(waited_for) == 2
        queues.finish(batch)
        assert queues.accumulator.incomplete_records == 2

    def test_take_all_takes_out_all_waiting_batches(self) -> None:
        queues = Queues(leaders=(1, -1))
        queues.append(b"a", 0)
        queues.append(b"b", 1)
        taken = queues.accumulator.take_all()
        assert partitions(taken) == [0, 1]
        assert not queues.accumulator.has_undrained
        assert queues.append(b"c", 0)[1] == 0, "nothing is added to what was given up"
