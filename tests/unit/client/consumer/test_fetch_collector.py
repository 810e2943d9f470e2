"""The order in which fetched records are returned, and the positions they leave."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.consumer.fetch.completed_fetch import ColumnRun, CompletedFetch, Records
from odradek.client.consumer.position.position import NO_OFFSET, Position
from odradek.client.consumer.record import Record
from odradek.client.deserializers import Deserializers, deserializer
from odradek.client.errors import InvalidRecord, KafkaError, OffsetOutOfRange
from odradek.model.topics import TopicPartition
from odradek.protocol.record_batch import stamp
from odradek.protocol.record_batch_builder import build
from odradek.protocol.record_columns import RecordColumns
from unit.client.metadata_responses import Clock

BYTES = Deserializers(deserializer(bytes), deserializer(bytes))
NOTHING = None


class Collecting:
    """A collector with its queue; counts how often bytes were freed."""

    def __init__(self, deserializers: Deserializers = BYTES) -> None:
        self.incoming: deque[CompletedFetch] = deque()
        self.released = 0
        self.clock = Clock()
        self.collector = FetchCollector(self.incoming, deserializers, self._release, self.clock)

    def _release(self) -> None:
        self.released += 1

    def position(self, partition: int = 0, offset: int = 0) -> Position:
        position = Position(TopicPartition("orders", partition))
        position.move(offset, -1)
        return position

    def fetch(
        self, position: Position, first: int, count: int, epoch: int = 0, *, damaged: bool = False
    ) -> CompletedFetch:
        """A fetch of one batch whose values are the offsets."""
        data = build([(None, b"%d" % (first + i), (), 0) for i in range(count)])
        data = stamp(data, 0, first, epoch) + data[16:]
        if damaged:
            data = data[:-1] + b"\x01"
        fetch = CompletedFetch(position, data, 0, len(data), first + count, None, True)
        self.incoming.append(fetch)
        return fetch

    def fail(self, position: Position, offset: int, error: KafkaError | None) -> list[str]:
        """Queue a failure; the list records when it is reached."""
        turns: list[str] = []
        fetch = CompletedFetch(position, b"", 0, 0, offset, None, True)

        def failure() -> KafkaError | None:
            turns.append("turn")
            return error

        fetch.failure = failure
        self.incoming.append(fetch)
        return turns

    def next(self) -> tuple[int, int] | None:
        record = self.collector.next_record()
        return None if record is None else (record.partition, record.offset)

    def all(self) -> list[tuple[int, int] | None]:
        return list(iter(self.next, None))


class TestNextRecord:
    def test_the_position_follows_returned_records(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        assert collecting.next() is None
        collecting.fetch(position, 0, 2, epoch=7)
        assert collecting.next() == (0, 0)
        assert (position.offset, position.leader_epoch) == (1, 7)
        assert collecting.next() == (0, 1)
        assert position.offset == 2
        assert collecting.next() is None

    def test_a_record_is_consumed_when_the_application_polls_again(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        collecting.fetch(position, 0, 2)
        seen = []
        for _ in range(4):
            collecting.next()
            seen.append(position.consumed)
        assert seen == [0, 1, 2, 2]

    def test_the_consumed_epoch_is_never_older_than_the_consumed_offset(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        collecting.fetch(position, 0, 1, epoch=1)
        collecting.fetch(position, 1, 1, epoch=2)
        epochs = []
        for _ in range(3):
            collecting.next()
            epochs.append((position.consumed, position.consumed_epoch))
        assert epochs == [(0, 1), (1, 2), (2, 2)]

    def test_the_position_passes_offsets_without_records(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        fetch = collecting.fetch(position, 0, 1)
        fetch.next_offset = 5  # behind a marker, say
        collecting.next()
        assert position.offset == 1
        assert collecting.next() is None
        assert position.offset == 5

    def test_bytes_are_freed_when_a_whole_fetch_was_returned(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        fetch = collecting.fetch(position, 0, 2)
        collecting.next()
        collecting.next()
        assert (collecting.released, position.released_bytes) == (0, 0)
        collecting.next()
        assert (collecting.released, position.released_bytes) == (1, fetch.size)

    def test_no_record_is_returned_while_attention_is_set(self) -> None:
        collecting = Collecting()
        collecting.fetch(collecting.position(), 0, 2)
        collecting.next()
        collecting.collector.attention = True
        assert collecting.next() is None
        collecting.collector.attention = False
        assert collecting.next() == (0, 1)


class TestOrder:
    def test_partitions_are_served_round_robin_by_fetch(self) -> None:
        collecting = Collecting()
        busy, calm = collecting.position(0), collecting.position(1)
        for first in (0, 2, 4):
            collecting.fetch(busy, first, 2)
        collecting.fetch(calm, 0, 1)
        assert collecting.all() == [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (0, 4), (0, 5)]

    def test_a_failure_is_raised_behind_earlier_records(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        collecting.fetch(position, 0, 1)
        turns = collecting.fail(position, 1, OffsetOutOfRange("gone"))
        assert collecting.next() == (0, 0)
        assert turns == []
        with pytest.raises(OffsetOutOfRange):
            collecting.next()
        assert turns == ["turn"]
        assert collecting.next() is None

    def test_a_failure_without_an_error_raises_nothing(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        turns = collecting.fail(position, 0, NOTHING)
        collecting.fetch(collecting.position(1), 0, 1)
        assert collecting.next() == (1, 0)
        assert turns == ["turn"]

    def test_a_failure_of_an_older_generation_is_dropped(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        turns = collecting.fail(position, 0, OffsetOutOfRange("gone"))
        position.move(10, -1)
        assert collecting.next() is None
        assert turns == []


class TestGenerations:
    def test_records_of_an_older_generation_are_dropped(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        old = collecting.fetch(position, 0, 3)
        assert collecting.next() == (0, 0)
        position.move(7, -1)
        collecting.collector.refresh()
        collecting.fetch(position, 7, 1)
        assert collecting.all() == [(0, 7)]
        assert position.released_bytes > old.size

    def test_records_of_a_lost_partition_are_dropped(self) -> None:
        collecting = Collecting()
        lost, kept = collecting.position(0), collecting.position(1)
        collecting.fetch(lost, 0, 2)
        collecting.fetch(kept, 0, 1)
        assert collecting.next() == (0, 0)
        lost.generation += 1
        collecting.collector.refresh()
        assert collecting.all() == [(1, 0)]
        assert (lost.offset, lost.consumed) == (1, 1)

    def test_records_are_dropped_if_the_position_is_unknown(self) -> None:
        position = Collecting().position()
        position.move(NO_OFFSET, -1)
        assert (position.offset, position.consumed) == (NO_OFFSET, NO_OFFSET)


class TestPausing:
    def test_a_paused_partition_keeps_its_records_until_resumed(self) -> None:
        collecting = Collecting()
        paused, other = collecting.position(0), collecting.position(1)
        collecting.fetch(paused, 0, 2)
        collecting.fetch(other, 0, 1)
        assert collecting.next() == (0, 0)
        paused.paused = True
        collecting.collector.refresh()
        collecting.fetch(paused, 2, 1)
        assert collecting.all() == [(1, 0)]
        paused.paused = False
        collecting.collector.refresh()
        assert collecting.all() == [(0, 1), (0, 2)]

    def test_a_partition_pending_revocation_returns_nothing_though_resumed(self) -> None:
        collecting = Collecting()
        revoked = collecting.position()
        collecting.fetch(revoked, 0, 2)
        assert collecting.next() == (0, 0)
        revoked.pending_revocation = True
        collecting.collector.refresh()
        assert collecting.next() is None
        revoked.paused = False
        collecting.fetch(revoked, 2, 1)
        collecting.collector.refresh()
        assert collecting.next() is None
        assert revoked.offset == 1


class TestTake:
    def test_take_returns_up_to_its_limit_from_several_fetches(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        for first in (0, 3):
            collecting.fetch(position, first, 3)
        into: list[Record[Any, Any]] = []
        collecting.collector.take(into, 4)
        assert [record.offset for record in into] == [0, 1, 2, 3]
        assert (position.offset, position.consumed) == (4, 0)
        collecting.collector.mark_consumed()
        assert position.consumed == 4
        collecting.collector.take(into, 100)
        assert [record.offset for record in into] == [0, 1, 2, 3, 4, 5]

    def test_take_mixes_with_next_record(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        collecting.fetch(position, 0, 3)
        assert collecting.next() == (0, 0)
        into: list[Record[Any, Any]] = []
        collecting.collector.take(into, 1)
        assert [record.offset for record in into] == [1]
        assert collecting.next() == (0, 2)

    def test_an_error_behind_records_is_raised_by_the_next_take(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        collecting.fetch(position, 0, 1)
        collecting.fail(position, 1, OffsetOutOfRange("gone"))
        into: list[Record[Any, Any]] = []
        collecting.collector.take(into, 10)
        assert len(into) == 1
        with pytest.raises(OffsetOutOfRange):
            collecting.collector.take([], 10)

    def test_undo_returns_the_positions_before_the_records(self) -> None:
        collecting = Collecting()
        one, two = collecting.position(0), collecting.position(1, offset=5)
        collecting.fetch(one, 0, 2, epoch=1)
        collecting.fetch(two, 5, 1, epoch=1)
        into: list[Record[Any, Any]] = []
        collecting.collector.take(into, 10)
        assert len(into) == 3
        assert collecting.collector.undo() == [(one, 0, -1), (two, 5, -1)]
        assert (one.consumed, two.consumed) == (0, 5)


class TestTakeColumns:
    def test_take_columns_serves_partitions_round_robin(self) -> None:
        collecting = Collecting()
        one, two = collecting.position(0), collecting.position(1)
        collecting.fetch(one, 0, 2)
        collecting.fetch(two, 0, 1)
        columns, runs = RecordColumns(), list[ColumnRun]()
        collecting.collector.take_columns(columns, runs, 100, 1 << 30)
        assert [(run.batch.partition, run.count) for run in runs] == [(0, 2), (1, 1)]
        assert (one.offset, one.consumed) == (2, 0)
        collecting.collector.mark_consumed()
        assert (one.consumed, two.consumed) == (2, 1)

    def test_take_columns_mixes_with_next_record(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        collecting.fetch(position, 0, 4)
        assert collecting.next() == (0, 0)
        columns = RecordColumns()
        collecting.collector.take_columns(columns, [], 2, 1 << 30)
        assert (columns.value.finish().data, position.offset) == (b"12", 3)
        assert collecting.all() == [(0, 3)]

    def test_an_error_behind_rows_is_raised_by_the_next_take_columns(self) -> None:
        collecting = Collecting()
        position = collecting.position()
        collecting.fetch(position, 0, 1)
        collecting.fetch(position, 1, 1, damaged=True)
        columns = RecordColumns()
        collecting.collector.take_columns(columns, [], 100, 1 << 30)
        assert columns.count == 1
        with pytest.raises(InvalidRecord):
            collecting.collector.take_columns(RecordColumns(), [], 100, 1 << 30)


def not_nine(data: bytes) -> bytes:
    if data == b"9":
        raise ValueError("a nine")
    return data


class TestSetAside:
    """A record that cannot be decoded blocks the others until it was handled."""

    def collecting(self) -> Collecting:
        return Collecting(
            Deserializers(deserializer(bytes), deserializer(not_nine), set_aside=True)
        )

    def test_a_record_set_aside_blocks_the_records_behind_it(self) -> None:
        collecting = self.collecting()
        position, other = collecting.position(), collecting.position(1)
        collecting.fetch(position, 8, 3)
        collecting.fetch(other, 0, 1)
        assert collecting.next() == (0, 8)
        before = collecting.collector.set_aside
        for _ in range(2):
            assert collecting.next() is None
            set_aside = collecting.collector.set_aside
            assert set_aside is not None and len(set_aside) == 1
        assert before is None
        collecting.collector.mark_consumed()
        assert position.offset == position.consumed == 9
        assert set_aside is not None
        set_aside.clear()
        assert collecting.all() == [(0, 10), (1, 0)]
        assert collecting.collector.set_aside is None

    def test_a_record_set_aside_at_the_end_of_a_fetch_blocks_the_next(self) -> None:
        collecting = self.collecting()
        position = collecting.position(offset=9)
        collecting.fetch(position, 9, 1)
        assert collecting.next() is None
        collecting.collector.mark_consumed()
        assert position.consumed == 9
        assert collecting.collector.set_aside is not None
        collecting.collector.set_aside.clear()
        assert collecting.next() is None
        collecting.collector.mark_consumed()
        assert position.consumed == 10

    def test_a_seek_drops_a_record_set_aside(self) -> None:
        collecting = self.collecting()
        position = collecting.position(offset=9)
        collecting.fetch(position, 9, 1)
        assert collecting.next() is None
        position.move(20, -1)
        collecting.collector.refresh()
        assert collecting.collector.set_aside is None
        assert collecting.next() is None
        assert collecting.collector.set_aside is None


class TestIntercept:
    def test_records_are_intercepted_once_as_they_were_decoded_together(self) -> None:
        given: list[list[int]] = []

        def intercept(records: Records) -> Records:
            given.append([record.offset for record in records])
            return records

        c = Collecting()
        c.collector.intercept = intercept
        c.fetch(c.position(), 0, 3)
        assert c.next() == (0, 0)
        c.collector.refresh()
        assert c.all() == [(0, 1), (0, 2)]
        assert given == [[0, 1, 2]]

    def test_take_and_next_record_intercept_each_record_once(self) -> None:
        given: list[int] = []

        def intercept(records: Records) -> Records:
            given.extend(record.offset for record in records)
            return records

        c = Collecting()
        c.collector.intercept = intercept
        c.fetch(c.position(), 0, 6)
        taken: Records = []
        c.collector.take(taken, 2)
        assert c.next() == (0, 2)
        c.collector.take(taken, 9)
        assert [record.offset for record in taken] == [0, 1, 3, 4, 5]
        assert given == list(range(6))

    def test_the_position_passes_records_that_are_left_out(self) -> None:
        c = Collecting()
        c.collector.intercept = lambda records: [r for r in records if r.offset == 1]
        at = c.position()
        c.fetch(at, 0, 4)
        assert c.next() == (0, 1)
        assert at.offset == 2
        assert c.next() is None
        c.collector.mark_consumed()
        assert (at.offset, at.consumed) == (4, 4)

    def test_records_left_out_are_read_again_after_an_undo(self) -> None:
        c = Collecting()
        c.collector.intercept = lambda records: []
        at = c.position()
        c.fetch(at, 0, 4)
        assert c.next() is None
        assert [(position, offset) for position, offset, _ in c.collector.undo()] == [(at, 0)]

    def test_records_behind_an_undecodable_one_are_intercepted_after_it_was_handled(self) -> None:
        given: list[list[int]] = []

        def intercept(records: Records) -> Records:
            given.append([record.offset for record in records])
            return records

        def failing(value: bytes) -> bytes:
            if value == b"1":
                raise ValueError(value)
            return value

        values = deserializer(failing)
        c = Collecting(Deserializers(deserializer(None), values, None, set_aside=True))
        c.collector.intercept = intercept
        at = c.position()
        c.fetch(at, 0, 3)
        assert c.next() == (0, 0)
        assert c.next() is None
        assert given == [[0]]
        assert c.collector.set_aside is not None
        c.collector.set_aside.clear()
        assert c.next() == (0, 2)
        assert given == [[0], [2]]
