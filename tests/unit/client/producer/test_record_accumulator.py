"""Appending records to batches, and the nodes that are ready."""

from __future__ import annotations

import pytest

from odradek.client.errors import ClientClosed
from odradek.client.producer.record_accumulator import NEVER_MS
from odradek.model.topics import TopicPartition
from unit.client.producer.accumulating import (
    BACKOFF_MS,
    BATCH_BYTES,
    Queues,
    values,
)


class TestAppending:
    def test_records_share_a_batch_while_there_is_room(self) -> None:
        queues = Queues()
        (first, one), (second, two) = queues.append(b"a" * 400), queues.append(b"b" * 400)
        third, three = queues.append(b"c" * 400)
        assert first is second is not third
        assert (one, two, three) == (0, 1, 0)

    def test_only_a_new_or_a_full_batch_wakes_the_sender(self) -> None:
        queues = Queues()
        woken = []
        for value in (b"a" * 400, b"b" * 400, b"c" * 400):
            queues.append(value)
            woken.append(queues.woken)
        assert woken == [1, 1, 2]

    def test_a_record_larger_than_a_batch_gets_a_batch_of_its_own_size(self) -> None:
        queues = Queues()
        result, _ = queues.append(b"x" * 5_000)
        assert result is not None
        assert queues.pool.charged_bytes > 5_000

    def test_append_returns_no_result_without_memory(self) -> None:
        queues = Queues(buffer_bytes=BATCH_BYTES)
        queues.append(b"a" * 800)
        assert queues.append(b"b")[1] == 1, "what fits the open batch needs none"
        assert queues.append(b"c" * 900)[0] is None
        assert queues.append(b"d")[0] is None, "nothing gets ahead of what has to wait"

    def test_append_uses_the_spare_buffer(self) -> None:
        queues = Queues(buffer_bytes=2 * BATCH_BYTES)
        spare = queues.pool.allocate(BATCH_BYTES)
        queues.fill(b"a")
        assert queues.append(b"b" * 900) == (None, 0)
        result, index = queues.append(b"b" * 900, spare=spare)
        assert result is not None and index == 0

    def test_the_spare_buffer_goes_back_if_there_is_room(self) -> None:
        queues = Queues()
        spare = queues.pool.allocate(BATCH_BYTES)
        queues.append(b"somebody else's")
        before = queues.pool.charged_bytes
        assert queues.append(b"b", spare=spare)[1] == 1
        assert queues.pool.charged_bytes == before - BATCH_BYTES

    @pytest.mark.parametrize("begun", [False, True], ids=["nothing open", "an open batch"])
    def test_the_spare_buffer_goes_back_if_the_producer_is_closed(self, begun: bool) -> None:
        queues = Queues()
        spare = queues.pool.allocate(BATCH_BYTES)
        if begun:
            queues.append(b"a")
        before = queues.pool.charged_bytes
        queues.accumulator.close(ClientClosed("closed"))
        with pytest.raises(ClientClosed):
            queues.append(b"b", spare=spare)
        assert queues.pool.charged_bytes == before - BATCH_BYTES

    def test_records_without_a_partition_stay_with_one_until_a_batch_is_filled(self) -> None:
        queues = Queues(leaders=(1,) * 8)
        for _ in range(40):
            queues.append(b"x" * 90, partition=-1)
        found = []
        while queues.accumulator.has_undrained:
            found += [len(values(batch)) for batch in queues.drain()]
        assert sum(found) == 40
        assert len(found) <= 6, "few batches, and full ones"


class TestReady:
    def test_an_empty_accumulator_has_no_ready_node(self) -> None:
        check = Queues().accumulator.ready(0)
        assert (dict(check.ready_nodes), check.next_check_delay_ms) == ({}, NEVER_MS)

    def test_a_batch_is_ready_after_linger_ms(self) -> None:
        queues = Queues(linger_ms=50)
        queues.append(b"x")
        queues.clock.now_ms += 20
        check = queues.accumulator.ready(queues.clock.now_ms)
        assert (dict(check.ready_nodes), check.next_check_delay_ms) == ({}, 30)
        queues.clock.now_ms += 30
        assert queues.ready() == [1]

    def test_a_full_batch_is_ready(self) -> None:
        queues = Queues(linger_ms=50)
        queues.fill(b"a")
        assert queues.ready() == [], "there is room for a small one"
        queues.fill(b"b")
        assert queues.ready() == [1], "another one was begun behind it"

    def test_all_batches_are_ready_while_somebody_waits_for_memory(self) -> None:
        queues = Queues(linger_ms=50, buffer_bytes=BATCH_BYTES)
        queues.append(b"x")
        waiting = queues.pool.wait(BATCH_BYTES)
        assert queues.ready() == [1]
        queues.pool.give_up(waiting, TimeoutError())
        assert queues.ready() == []

    def test_all_batches_are_ready_during_a_flush(self) -> None:
        queues = Queues(linger_ms=50)
        queues.append(b"x")
        for _ in range(2):
            queues.accumulator.begin_flush()
        queues.accumulator.end_flush()
        assert queues.ready() == [1], "the other one has not ended"
        queues.accumulator.end_flush()
        assert queues.ready() == []

    def test_all_batches_are_ready_when_the_producer_closes(self) -> None:
        queues = Queues(linger_ms=50)
        queues.append(b"x")
        queues.accumulator.close(ClientClosed("closed"))
        assert queues.ready() == [1]
        with pytest.raises(ClientClosed):
            queues.append(b"y")

    def test_only_leaders_are_ready(self) -> None:
        queues = Queues(leaders=(1, 2, -1))
        for partition in range(3):
            queues.append(b"x", partition)
        check = queues.accumulator.ready(queues.clock.now_ms)
        assert list(check.ready_nodes) == [1, 2]
        assert list(check.unknown_leader_topics) == ["t"]

    def test_a_muted_partition_is_not_ready(self) -> None:
        queues = Queues()
        queues.append(b"x")
        queues.accumulator.mute(TopicPartition("t", 0), True)
        assert queues.ready() == []
        assert queues.drain() == []
        queues.accumulator.mute(TopicPartition("t", 0), False)
        assert queues.ready() == [1]

    def test_a_failed_batch_is_ready_only_after_its_back_off(self) -> None:
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

    def test_the_next_check_is_independent_of_other_ready_partitions(self) -> None:
        """A ready batch may not be drained, and then nothing else wakes the sender."""
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

    def test_a_failed_batch_is_ready_at_once_for_a_new_leader(self) -> None:
        queues = Queues()
        queues.append(b"x")
        [batch] = queues.drain()
        queues.accumulator.reenqueue(batch, queues.clock.now_ms)
        queues.lead(2, epoch=1)
        assert queues.ready() == [2]
        assert queues.drain(2) == [batch]
