"""The futures of single records, and `Deliveries` of many."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import pytest
from librt.threading import Lock

from odradek.client.errors import DeliveryTimeout, InvalidRecord, KafkaError, RecordTooLarge
from odradek.client.producer.futures import (
    CoroutineWait,
    DeliveredRange,
    Deliveries,
    Delivery,
    FutureRecordMetadata,
    ProduceRequestResult,
)
from odradek.client.waiter import spawn
from odradek.model.errors import ErrorCode
from unit.client.producer.producing import Producing


class Impatient:
    """A wait strategy that always times out."""

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        return False

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        raise NotImplementedError


class Doing:
    """A wait strategy that completes the batch it waits for."""

    def __init__(self) -> None:
        self.add_queued: list[float | None] = []

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        self.add_queued.append(timeout_s)
        written(result, 0)
        return True

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        raise NotImplementedError


def batch(partition: int = 0, wait_strategy: Any = None) -> ProduceRequestResult:
    """Return the result of a batch without an outcome."""
    return ProduceRequestResult("t", partition, wait_strategy or CoroutineWait(), Lock())


def written(result: ProduceRequestResult, base_offset: int, append_ms: int = -1) -> None:
    result.complete(base_offset, append_ms)
    result.finish()


def failed(
    result: ProduceRequestResult, error: KafkaError, others: dict[int, KafkaError] | None = None
) -> None:
    result.fail(error, others)
    result.finish()


def split(result: ProduceRequestResult, *first: int) -> list[ProduceRequestResult]:
    """Split a batch into parts that begin with these records."""
    parts = [batch(result.partition, result.wait_strategy) for _ in first]
    result.split(list(zip(first, parts, strict=True)))
    return parts


LATE = DeliveryTimeout("late")
LARGE = RecordTooLarge("large")


class TestFutures:
    def test_the_offset_of_a_record_is_that_of_its_batch_plus_its_index(self) -> None:
        result = batch(partition=3)
        futures = [FutureRecordMetadata(result, index, 70 + index) for index in range(3)]
        assert not any(future.done() for future in futures)
        assert all(future.running() for future in futures)
        written(result, 100)
        assert [future.result(0) for future in futures] == [
            Delivery("t", 3, 100 + index, 70 + index) for index in range(3)
        ]
        assert all(future.done() and future.exception() is None for future in futures)

    def test_the_brokers_timestamp_counts_if_there_is_one(self) -> None:
        result = batch()
        written(result, 0, append_ms=99)
        assert FutureRecordMetadata(result, 0, 1).result(0).timestamp_ms == 99

    def test_without_acks_the_offset_is_unknown(self) -> None:
        result = batch()
        written(result, -1)
        assert FutureRecordMetadata(result, 5, 1).result(0).offset == -1

    def test_all_records_of_a_failed_batch_fail(self) -> None:
        result = batch()
        failed(result, LATE)
        future = FutureRecordMetadata(result, 5, 1)
        assert future.exception(0) is LATE
        with pytest.raises(DeliveryTimeout):
            future.result(0)

    def test_records_of_a_failed_batch_may_have_their_own_errors(self) -> None:
        result = batch()
        beside, own = InvalidRecord("beside"), InvalidRecord("own")
        failed(result, beside, {1: own})
        found = [FutureRecordMetadata(result, index, 1).exception(0) for index in range(3)]
        assert found == [beside, own, beside]

    def test_an_error_that_many_raise_collects_no_traceback(self) -> None:
        result = batch()
        error = DeliveryTimeout("late")
        failed(result, error)
        for _ in range(3):
            with pytest.raises(DeliveryTimeout) as caught:
                FutureRecordMetadata(result, 0, 1).result(0)
            depth = 0
            traceback: TracebackType | None = caught.tb
            while traceback is not None:
                depth, traceback = depth + 1, traceback.tb_next
            assert depth <= 2

    def test_a_future_waits_as_its_wait_strategy_does(self) -> None:
        wait_strategy = Doing()
        result = batch(wait_strategy=wait_strategy)
        assert FutureRecordMetadata(result, 0, 1).result(2.5).offset == 0
        assert FutureRecordMetadata(result, 0, 1).result(2.5).offset == 0
        assert wait_strategy.add_queued == [2.5], "not when it is done"

    def test_result_raises_timeout_error_before_the_outcome_is_known(self) -> None:
        future = FutureRecordMetadata(batch(wait_strategy=Impatient()), 0, 1)
        for ask in (future.result, future.exception):
            with pytest.raises(TimeoutError, match=r"t-0 is not known after 1 s"):
                ask(1)

    def test_a_future_can_be_awaited(self) -> None:
        result = batch()

        async def both() -> list[int]:
            futures = [FutureRecordMetadata(result, index, 1) for index in range(2)]
            return [(await future).offset for future in futures]

        waiter = spawn(both())
        assert not waiter.done
        written(result, 7)
        assert waiter.result() == [7, 8]

    def test_a_future_cannot_be_cancelled(self) -> None:
        future = FutureRecordMetadata(batch(), 0, 1)
        assert not future.cancel()
        assert not future.cancelled()

    def test_the_repr_of_a_future_shows_its_outcome(self) -> None:
        result = batch()
        future = FutureRecordMetadata(result, 0, 1)
        assert repr(future) == "<FutureRecordMetadata pending>"
        failed(result, LATE)
        assert "DeliveryTimeout" in repr(future)


class TestCallbacks:
    def test_callbacks_are_called_once_in_the_order_added(self) -> None:
        result = batch()
        told: list[object] = []
        futures = [FutureRecordMetadata(result, index, 1) for index in range(2)]
        for future in futures:
            future.add_done_callback(told.append)
        assert told == []
        written(result, 0)
        assert told == futures

    def test_callbacks_are_called_at_once_on_a_done_future(self) -> None:
        result = batch()
        written(result, 0)
        told: list[object] = []
        future = FutureRecordMetadata(result, 0, 1)
        future.add_done_callback(told.append)
        assert told == [future]

    def test_callbacks_find_the_future_done(self) -> None:
        result = batch()
        told: list[int] = []
        future = FutureRecordMetadata(result, 4, 1)
        future.add_done_callback(lambda found: told.append(found.result(0).offset))
        written(result, 10)
        assert told == [14]

    def test_callbacks_that_raise_do_not_stop_others(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        result = batch()
        told: list[object] = []
        future = FutureRecordMetadata(result, 0, 1)
        future.add_done_callback(lambda _: [].pop())
        future.add_done_callback(told.append)
        written(result, 0)
        assert told == [future]
        assert "IndexError" in caplog.text


class TestSplitBatches:
    def test_a_record_of_a_split_batch_has_the_outcome_of_its_part(self) -> None:
        result = batch()
        futures = [FutureRecordMetadata(result, index, 1) for index in range(5)]
        first, second = split(result, 0, 2)
        written(second, 50)
        assert not result.done, "a part is open"
        written(first, 10)
        assert result.done and result.succeeded
        assert [future.result(0).offset for future in futures] == [10, 11, 50, 51, 52]

    def test_parts_may_be_split_again(self) -> None:
        result = batch()
        first, second = split(result, 0, 2)
        inner = split(second, 0, 1)
        for number, part in enumerate((first, *inner)):
            written(part, 100 * number)
        found = [FutureRecordMetadata(result, index, 1).result(0).offset for index in range(4)]
        assert found == [0, 1, 100, 200]

    def test_a_part_may_fail_alone(self) -> None:
        result = batch()
        first, second = split(result, 0, 1)
        written(first, 10)
        failed(second, LARGE)
        assert result.done and not result.succeeded
        errors = [FutureRecordMetadata(result, index, 1).exception(0) for index in range(3)]
        assert errors == [None, LARGE, LARGE]


class TestMany:
    def sent(self, *runs: tuple[ProduceRequestResult, list[int]]) -> Deliveries:
        """Return deliveries of records with these indices in these batches."""
        deliveries = Deliveries()
        for result, indexes in runs:
            for index in indexes:
                deliveries.add(result, index)
        return deliveries

    def test_no_records_are_done_at_once(self) -> None:
        deliveries = Deliveries()
        assert deliveries.done() and len(deliveries) == 0
        assert deliveries.result(0) == [] and deliveries.errors() == []

    def test_consecutive_records_are_one_range(self) -> None:
        one, other = batch(0), batch(1)
        deliveries = self.sent((one, [0, 1]), (other, [0]), (one, [2]), (other, [1]))
        assert len(deliveries) == 5 and not deliveries.done()
        written(one, 10)
        assert not deliveries.done()
        written(other, 70)
        assert deliveries.done()
        assert deliveries.result(0) == [
            DeliveredRange("t", 0, 3, 10, 12),
            DeliveredRange("t", 1, 2, 70, 71),
        ]

    def test_records_of_others_split_the_range(self) -> None:
        one = batch()
        deliveries = self.sent((one, [0, 2, 3]))
        written(one, 10)
        assert deliveries.result(0) == [
            DeliveredRange("t", 0, 1, 10, 10),
            DeliveredRange("t", 0, 2, 12, 13),
        ]

    def test_a_record_that_had_to_wait_is_included(self) -> None:
        one = batch()
        deliveries = Deliveries()
        deliveries.add_future(FutureRecordMetadata(one, 0, 1))
        deliveries.add(one, 1)
        written(one, 5)
        assert deliveries.result(0) == [DeliveredRange("t", 0, 2, 5, 6)]

    def test_ranges_without_acks_have_no_offsets(self) -> None:
        one = batch()
        deliveries = self.sent((one, [0, 1]))
        written(one, -1)
        assert deliveries.result(0) == [DeliveredRange("t", 0, 2, -1, -1)]

    def test_errors_are_counted_and_the_first_is_raised(self) -> None:
        good, bad, worse = batch(0), batch(1), batch(2)
        own = InvalidRecord("own")
        deliveries = self.sent((good, [0]), (bad, [0, 1, 2]), (worse, [4, 5, 6]))
        failed(bad, LATE)
        assert deliveries.errors() == [(LATE, 3)], "so far"
        written(good, 0)
        failed(worse, LARGE, {5: own})
        assert deliveries.errors() == [(LATE, 3), (LARGE, 2), (own, 1)]
        with pytest.raises(DeliveryTimeout):
            deliveries.result(0)

    def test_wait_raises_timeout_error(self) -> None:
        deliveries = self.sent((batch(wait_strategy=Impatient()), [0, 1]))
        with pytest.raises(TimeoutError, match=r"2 records is not known after 3 s"):
            deliveries.result(3)

    def test_wait_waits_once_for_each_batch(self) -> None:
        wait_strategy = Doing()
        deliveries = self.sent((batch(0, wait_strategy), [0, 1]), (batch(1, wait_strategy), [0]))
        assert len(deliveries.result(9)) == 2
        assert wait_strategy.add_queued == [9, 9]

    def test_deliveries_can_be_awaited(self) -> None:
        one, other = batch(0), batch(1)
        deliveries = self.sent((one, [0]), (other, [0]))

        async def all_of_them() -> int:
            return len(await deliveries)

        waiter = spawn(all_of_them())
        written(other, 0)
        assert not waiter.done
        written(one, 0)
        assert waiter.result() == 2

    def test_the_repr_of_deliveries_shows_the_progress(self) -> None:
        one, other = batch(0), batch(1)
        deliveries = self.sent((one, [0]), (other, [0]))
        written(one, 0)
        assert repr(deliveries) == "<Deliveries of 2 records, 1 of 2 runs open>"


def test_a_delivery_is_a_value() -> None:
    assert Delivery("t", 1, 2, 3, 4, 5) != Delivery("t", 1, 2, 3, 4, -1)
    one = Delivery("t", 1, 2, 1_700_000_000_123)
    assert one == Delivery("t", 1, 2, 1_700_000_000_123)
    assert hash(one) == hash(Delivery("t", 1, 2, 1_700_000_000_123))
    assert one != Delivery("t", 1, 3, 1_700_000_000_123)
    assert one.__eq__("t-1") is NotImplemented
    assert one.timestamp == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert "offset=2" in repr(one)


def test_a_delivery_has_the_serialized_sizes_by_future_and_by_callback() -> None:
    p = Producing(linger_ms=5)
    p.send(b"the first one waits for metadata")
    sizes = [(None, b""), (b"", None), (b"key", b"x" * 300), (b"k" * 200, b"v")]
    futures = [p.send(value, key=key) for key, value in sizes]
    p.flush()
    expected = [(-1, 32), (-1, 0), (0, -1), (3, 300), (200, 1)]
    by_callback = [(d.serialized_key_size, d.serialized_value_size) for _, d in p.told]
    found = [future.result(0) for future in futures]
    assert by_callback == expected
    assert [(d.serialized_key_size, d.serialized_value_size) for d in found] == expected[1:]
    assert "serialized_value_size=300" in repr(futures[2])


def test_a_failed_delivery_has_the_sizes_too() -> None:
    p = Producing()
    p.brokers.fail_next("t", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    p.send(b"value", key=b"k")
    p.flush()
    assert p.told[0][1] == Delivery("t", 0, -1, 1_000, 1, 5)
