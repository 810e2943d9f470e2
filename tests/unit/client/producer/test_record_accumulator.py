"""The queues between those who send and the sender: what is ready when, what is drained in which
order, what expires, and what comes back.

Alone: a clock that a test sets, no connection, no metadata but what a test says.
"""

from __future__ import annotations

import random

import pytest
from librt.threading import Lock

from odradek.client.backoff import ExponentialBackoff
from odradek.client.errors import ClientClosed
from odradek.client.producer.buffer_pool import BufferPool
from odradek.client.producer.delivery import ProduceRequestResult, WaiterFace
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.record_accumulator import NEVER_MS, RecordAccumulator
from odradek.client.producer.record_appender import AccumulatorSettings
from odradek.model.ids import TopicPartition
from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.record_writer import NO_HEADERS

BATCH_BYTES = 1_000
ROOMY = 1 << 20
BACKOFF_MS = 100


class SetClock:
    """Stands where it was set."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_000_000 + self.now_ms


class Queues:
    """An accumulator with topic `t`, whose partitions have these leaders."""

    def __init__(
        self,
        leaders: tuple[int, ...] = (1,),
        buffer_bytes: int = ROOMY,
        linger_ms: int = 0,
        **settings: int,
    ) -> None:
        self.clock = SetClock()
        self.pool = BufferPool(buffer_bytes, BATCH_BYTES, Lock())
        self.woken = 0
        self.accumulator = RecordAccumulator(
            AccumulatorSettings(batch_bytes=BATCH_BYTES, linger_ms=linger_ms, **settings),
            self.pool,
            Lock(),
            WaiterFace(),
            self.clock,
            random.Random(1),
            ExponentialBackoff(BACKOFF_MS, BACKOFF_MS, random.Random(1)),
        )
        self.accumulator.wake = self._wake
        self.lead(*leaders)

    def _wake(self) -> None:
        self.woken += 1

    def lead(self, *leaders: int, topic: str = "t", epoch: int = 0) -> None:
        """These nodes lead the topic's partitions now."""
        self.accumulator.update_topic(topic, [(leader, epoch) for leader in leaders])

    def append(
        self, value: bytes, partition: int = 0, topic: str = "t", spare: object = None
    ) -> tuple[ProduceRequestResult | None, int]:
        return self.accumulator.append(
            self.accumulator.topics[topic], partition, 1, None, value, NO_HEADERS, None, spare
        )

    def fill(self, value: bytes, partition: int = 0) -> ProduceRequestResult:
        """A record that has a batch almost for itself."""
        result, index = self.append(value * 900, partition)
        assert result is not None and index == 0
        return result

    def ready(self) -> list[int]:
        return list(self.accumulator.ready(self.clock.now_ms).ready_nodes)

    def drain(self, *nodes: int, max_bytes: int = ROOMY) -> list[ProducerBatch]:
        """The batches for one or several nodes, as one list; as a sender does it."""
        self.ready()
        drained = self.accumulator.drain(nodes or (1,), max_bytes, self.clock.now_ms)
        return [batch for batches in drained.values() for batch in batches]

    def finish(self, *batches: ProducerBatch) -> None:
        """They were written."""
        for batch in batches:
            batch.complete(0, -1)
            self.accumulator.finished(batch)


def first_bytes(batches: list[ProducerBatch]) -> list[bytes]:
    """The first byte of the first value of each."""
    return [values(batch)[0][:1] for batch in batches]


def values(batch: ProducerBatch) -> list[bytes]:
    header = RecordBatchHeader(batch.data, 0)
    return [record.value or b"" for record in records_of(batch.data, header)]


def partitions(batches: list[ProducerBatch]) -> list[int]:
    return [batch.topic_partition.partition for batch in batches]


class TestAppending:
    def test_records_share_a_batch_while_there_is_room(self) -> None:
        queues = Queues()
        (first, one), (second, two) = queues.append(b"a" * 400), queues.append(b"b" * 400)
        third, three = queues.append(b"c" * 400)
        assert first is second is not third
        assert (one, two, three) == (0, 1, 0)

    def test_a_new_batch_and_a_full_one_wake_the_sender_and_what_is_between_does_not(self) -> None:
        queues = Queues()
        woken = []
        for value in (b"a" * 400, b"b" * 400, b"c" * 400):
            queues.append(value)
            woken.append(queues.woken)
        assert woken == [1, 1, 2]

    def test_a_record_larger_than_a_batch_has_one_of_its_own_size(self) -> None:
        queues = Queues()
        result, _ = queues.append(b"x" * 5_000)
        assert result is not None
        assert queues.pool.charged_bytes > 5_000

    def test_without_memory_there_is_no_result(self) -> None:
        queues = Queues(buffer_bytes=BATCH_BYTES)
        queues.append(b"a" * 800)
        assert queues.append(b"b")[1] == 1, "what fits the open batch needs none"
        assert queues.append(b"c" * 900)[0] is None
        assert queues.append(b"d")[0] is None, "nothing gets ahead of what has to wait"

    def test_memory_that_was_waited_for_is_used(self) -> None:
        queues = Queues(buffer_bytes=2 * BATCH_BYTES)
        spare = queues.pool.allocate(BATCH_BYTES)
        queues.fill(b"a")
        assert queues.append(b"b" * 900) == (None, 0)
        result, index = queues.append(b"b" * 900, spare=spare)
        assert result is not None and index == 0

    def test_memory_that_was_waited_for_goes_back_if_another_made_room(self) -> None:
        queues = Queues()
        spare = queues.pool.allocate(BATCH_BYTES)
        queues.append(b"somebody else's")
        before = queues.pool.charged_bytes
        assert queues.append(b"b", spare=spare)[1] == 1
        assert queues.pool.charged_bytes == before - BATCH_BYTES

    @pytest.mark.parametrize("begun", [False, True], ids=["nothing open", "an open batch"])
    def test_memory_that_was_waited_for_goes_back_if_the_producer_is_closed(
        self, begun: bool
    ) -> None:
        queues = Queues()
        spare = queues.pool.allocate(BATCH_BYTES)
        if begun:
            queues.append(b"a")
        before = queues.pool.charged_bytes
        queues.accumulator.close(ClientClosed("closed"))
        with pytest.raises(ClientClosed):
            queues.append(b"b", spare=spare)
        assert queues.pool.charged_bytes == before - BATCH_BYTES

    def test_without_a_partition_records_stick_to_one_until_a_batch_was_filled(self) -> None:
        queues = Queues(leaders=(1,) * 8)
        for _ in range(40):
            queues.append(b"x" * 90, partition=-1)
        found = []
        while queues.accumulator.has_undrained:
            found += [len(values(batch)) for batch in queues.drain()]
        assert sum(found) == 40
        assert len(found) <= 6, "few batches, and full ones"


class TestReady:
    def test_nothing_is_not(self) -> None:
        check = Queues().accumulator.ready(0)
        assert (dict(check.ready_nodes), check.next_check_delay_ms) == ({}, NEVER_MS)

    def test_what_has_lingered(self) -> None:
        queues = Queues(linger_ms=50)
        queues.append(b"x")
        queues.clock.now_ms += 20
        check = queues.accumulator.ready(queues.clock.now_ms)
        assert (dict(check.ready_nodes), check.next_check_delay_ms) == ({}, 30)
        queues.clock.now_ms += 30
        assert queues.ready() == [1]

    def test_what_is_full(self) -> None:
        queues = Queues(linger_ms=50)
        queues.fill(b"a")
        assert queues.ready() == [], "there is room for a small one"
        queues.fill(b"b")
        assert queues.ready() == [1], "another one was begun behind it"

    def test_all_while_somebody_waits_for_memory(self) -> None:
        queues = Queues(linger_ms=50, buffer_bytes=BATCH_BYTES)
        queues.append(b"x")
        waiting = queues.pool.wait(BATCH_BYTES)
        assert queues.ready() == [1]
        queues.pool.give_up(waiting, TimeoutError())
        assert queues.ready() == []

    def test_all_while_somebody_flushes(self) -> None:
        queues = Queues(linger_ms=50)
        queues.append(b"x")
        for _ in range(2):
            queues.accumulator.begin_flush()
        queues.accumulator.end_flush()
        assert queues.ready() == [1], "the other one has not ended"
        queues.accumulator.end_flush()
        assert queues.ready() == []

    def test_all_when_the_producer_closes(self) -> None:
        queues = Queues(linger_ms=50)
        queues.append(b"x")
        queues.accumulator.close(ClientClosed("closed"))
        assert queues.ready() == [1]
        with pytest.raises(ClientClosed):
            queues.append(b"y")

    def test_only_nodes_that_lead_something(self) -> None:
        queues = Queues(leaders=(1, 2, -1))
        for partition in range(3):
            queues.append(b"x", partition)
        check = queues.accumulator.ready(queues.clock.now_ms)
        assert list(check.ready_nodes) == [1, 2]
        assert list(check.unknown_leader_topics) == ["t"]

    def test_not_what_is_muted(self) -> None:
        queues = Queues()
        queues.append(b"x")
        queues.accumulator.mute(TopicPartition("t", 0), True)
        assert queues.ready() == []
        assert queues.drain() == []
        queues.accumulator.mute(TopicPartition("t", 0), False)
        assert queues.ready() == [1]

    def test_what_failed_when_its_back_off_is_over_however_urgent_it_is(self) -> None:
        queues = Queues()
        queues.append(b"x")
        [batch] = queues.drain()
        queues.accumulator.reenqueue(batch, queues.clock.now_ms)
        queues.accumulator.begin_flush()
        check = queues.accumulator.ready(queues.clock.now_ms)
        assert dict(check.ready_nodes) == {}
        assert 0 < check.next_check_delay_ms <= 2 * BACKOFF_MS
        assert queues.drain() == []
        queues.clock.now_ms += check.next_check_delay_ms
        assert queues.ready() == [1]
        assert queues.drain() == [batch]

    def test_when_to_look_again_does_not_hang_on_what_else_the_node_leads(self) -> None:
        """What is ready may not be drained all the same, and then nothing else would wake it."""
        queues = Queues(leaders=(1, 1))
        queues.append(b"x", 1)
        [batch] = queues.drain()
        queues.append(b"y", 0)
        queues.accumulator.reenqueue(batch, queues.clock.now_ms)
        for partition in (0, 1):
            queues.append(b"behind", partition)
        check = queues.accumulator.ready(queues.clock.now_ms)
        assert list(check.ready_nodes) == [1]
        assert 0 < check.next_check_delay_ms <= 2 * BACKOFF_MS

    def test_what_failed_at_once_if_the_leader_is_another(self) -> None:
        queues = Queues()
        queues.append(b"x")
        [batch] = queues.drain()
        queues.accumulator.reenqueue(batch, queues.clock.now_ms)
        queues.lead(2, epoch=1)
        assert queues.ready() == [2]
        assert queues.drain(2) == [batch]


class TestDraining:
    def test_takes_one_batch_of_each_partition(self) -> None:
        queues = Queues(leaders=(1, 1))
        for value in (b"a", b"b"):
            for partition in (0, 1):
                queues.fill(value, partition)
        assert first_bytes(queues.drain()) == [b"a", b"a"]
        assert first_bytes(queues.drain()) == [b"b", b"b"]
        assert queues.drain() == []
        assert not queues.accumulator.has_undrained

    def test_takes_only_what_the_nodes_lead(self) -> None:
        queues = Queues(leaders=(1, 2, 3))
        for partition in range(3):
            queues.append(b"x", partition)
        assert partitions(queues.drain(3, 1)) == [2, 0]

    def test_takes_turns_so_that_no_partition_starves(self) -> None:
        queues = Queues(leaders=(1, 1, 1))
        for partition in range(3):
            for _ in range(4):
                queues.fill(b"x", partition)
        order = [partitions(queues.drain(max_bytes=2_000)) for _ in range(6)]
        assert order == [[0, 1], [2, 0], [1, 2], [0, 1], [2, 0], [1, 2]]

    def test_who_has_more_all_the_time_gets_no_more_turns(self) -> None:
        queues = Queues(leaders=(1, 1))
        for _ in range(5):
            queues.fill(b"x", 0)
        queues.fill(b"y", 1)
        order = []
        for _ in range(3):
            order += partitions(queues.drain(max_bytes=1_000))
            queues.fill(b"x", 0)
        assert order == [0, 1, 0]

    def test_takes_a_batch_that_is_larger_than_the_limit_alone(self) -> None:
        queues = Queues(leaders=(1, 1))
        queues.append(b"x" * 5_000, 0)
        queues.append(b"y", 1)
        assert partitions(queues.drain(max_bytes=1_000)) == [0]
        assert partitions(queues.drain(max_bytes=1_000)) == [1]

    def test_makes_what_it_takes_final(self) -> None:
        queues = Queues()
        queues.append(b"a")
        [batch] = queues.drain()
        assert batch.is_sealed
        assert queues.pool.charged_bytes == len(batch.data), "the buffer is used again"
        assert queues.append(b"b")[1] == 0, "in a batch behind it"
        assert values(batch) == [b"a"]


class TestComingBack:
    def test_to_its_old_place(self) -> None:
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

    def test_unchanged(self) -> None:
        queues = Queues()
        queues.append(b"a")
        [batch] = queues.drain()
        sent = batch.data
        queues.accumulator.reenqueue(batch, queues.clock.now_ms)
        queues.append(b"b")
        queues.clock.now_ms += 10 * BACKOFF_MS
        assert queues.drain()[0].data is sent
        assert batch.attempts == 1

    def test_in_parts_in_its_old_place_with_its_memory(self) -> None:
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

    def test_to_a_topic_that_nobody_uses_any_more(self) -> None:
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
    def test_what_waits_for_so_long_is_taken_out_in_order(self) -> None:
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

    def test_an_open_one_takes_nothing_more(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        queues.append(b"a")
        queues.accumulator.expired_batches(queues.clock.now_ms + 1_000)
        assert queues.append(b"b")[1] == 0

    def test_an_open_one_gives_all_its_memory_back(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        queues.append(b"a")
        [batch] = queues.accumulator.expired_batches(queues.clock.now_ms + 1_000)
        assert queues.pool.charged_bytes == BATCH_BYTES
        batch.fail(ClientClosed("late"), None)
        queues.accumulator.finished(batch)
        assert queues.pool.charged_bytes == 0

    def test_what_is_under_way_is_not_for_here(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        queues.append(b"a")
        queues.drain()
        assert queues.accumulator.expired_batches(queues.clock.now_ms + 1_000) == []

    def test_its_time_goes_on_while_it_comes_back(self) -> None:
        queues = Queues(delivery_timeout_ms=1_000)
        begun = queues.clock.now_ms
        queues.append(b"a")
        [batch] = queues.drain()
        queues.accumulator.reenqueue(batch, begun + 900)
        assert queues.accumulator.expired_batches(begun + 1_000) == [batch]


class TestEnding:
    def test_a_batch_gives_its_memory_back_when_nothing_carries_it(self) -> None:
        queues = Queues()
        queues.append(b"a")
        [batch] = queues.drain()
        batch.in_flight = True
        queues.finish(batch)
        assert queues.pool.charged_bytes > 0
        batch.in_flight = False
        queues.accumulator.finished(batch)
        assert queues.pool.charged_bytes == 0

    def test_what_is_not_done_is_counted_and_flushed(self) -> None:
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

    def test_giving_up_takes_out_everything_that_waits(self) -> None:
        queues = Queues(leaders=(1, -1))
        queues.append(b"a", 0)
        queues.append(b"b", 1)
        taken = queues.accumulator.take_all()
        assert partitions(taken) == [0, 1]
        assert not queues.accumulator.has_undrained
        assert queues.append(b"c", 0)[1] == 0, "nothing is added to what was given up"
