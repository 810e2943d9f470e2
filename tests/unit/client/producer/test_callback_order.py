"""Callbacks of a partition come in the order of its records, however they end."""

from __future__ import annotations

from typing import Any

from librt.threading import Lock

from odradek.client.errors import ClientClosed, DeliveryTimeout, KafkaError
from odradek.client.producer.futures import CoroutineWait, Delivery, ProduceRequestResult
from odradek.client.producer.producer_batch import CallbackRun
from odradek.model.errors import ErrorCode
from odradek.protocol.api.produce import ProduceRequest
from odradek.testing.scripted import SILENT
from unit.client.producer.producing import Producing


class Told:
    """The records whose callback was called, and their outcome."""

    def __init__(self, producing: Producing) -> None:
        self.producing = producing
        self.order: list[bytes] = []
        self.errors: list[KafkaError | None] = []

    def send(self, value: bytes) -> None:
        def called(error: KafkaError | None, delivery: Delivery) -> None:
            self.order.append(value)
            self.errors.append(error)

        self.producing.send(value, partition=0, callback=called)


def silent(producing: Producing) -> None:
    """Answer no produce request from now on."""
    producing.cluster[1].answers[ProduceRequest] = lambda request, version: SILENT


def one_under_way_and_one_waiting(**settings: Any) -> tuple[Producing, Told]:
    producing = Producing(batch_bytes=1, max_in_flight=1, **settings)
    told = Told(producing)
    told.send(b"first")
    producing.flush()
    silent(producing)
    told.send(b"under way")
    told.send(b"waiting")
    return producing, told


def test_a_batch_in_flight_expires_before_the_ones_waiting_behind_it() -> None:
    producing, told = one_under_way_and_one_waiting(delivery_timeout_ms=3_000)
    producing.cluster.until(lambda: len(told.order) == 3)
    assert told.order == [b"first", b"under way", b"waiting"]
    assert [type(error) for error in told.errors[1:]] == [DeliveryTimeout] * 2


def a_younger_one_under_way(**settings: Any) -> tuple[Producing, Told]:
    """The first batch waits for a retry, the second one gets no response."""
    producing = Producing(
        batch_bytes=1,
        engine={"retry_backoff_ms": 900, "retry_backoff_max_ms": 1_000},
        **settings,
    )
    told = Told(producing)
    told.send(b"known")
    producing.flush()
    producing.brokers.fail_next("t", 0, ErrorCode.NOT_ENOUGH_REPLICAS)
    told.send(b"to be sent again")
    producing.cluster.until(lambda: len(producing.brokers.requests) == 2)
    silent(producing)
    told.send(b"under way")
    producing.cluster.run(100)
    under_way = [batch.base_sequence for batch in producing.core.sender.in_flight]
    assert under_way == [2]
    return producing, told


def test_a_batch_waiting_for_a_retry_expires_before_the_ones_sent_behind_it() -> None:
    producing, told = a_younger_one_under_way()
    producing.side.do(lambda: producing.core.close(0))
    producing.cluster.until(lambda: len(told.order) == 3)
    assert told.order == [b"known", b"to be sent again", b"under way"]
    assert [type(error) for error in told.errors[1:]] == [ClientClosed] * 2


def written(offset: int) -> ProduceRequestResult:
    """The outcome of a batch that was written at an offset."""
    result = ProduceRequestResult("t", 0, CoroutineWait(), Lock())
    result.complete(offset, -1)
    return result


def test_records_with_one_callback_are_told_in_turn_with_their_own_sizes() -> None:
    told: list[tuple[int, int, int, int]] = []

    def note(error: KafkaError | None, delivery: Delivery) -> None:
        assert error is None
        sizes = delivery.serialized_key_size, delivery.serialized_value_size
        told.append((delivery.offset, delivery.timestamp_ms, *sizes))

    run = CallbackRun(note, 4)
    for number in range(3):
        run.add(1000 + number, -1, 10 * number)
    run.run(written(100))
    assert told == [(104, 1000, -1, 0), (105, 1001, -1, 10), (106, 1002, -1, 20)]


def test_a_callback_that_raises_does_not_keep_the_others_from_being_told() -> None:
    offsets: list[int] = []

    def raising(error: KafkaError | None, delivery: Delivery) -> None:
        offsets.append(delivery.offset)
        raise RuntimeError("in the callback")

    run = CallbackRun(raising, 0)
    for _ in range(3):
        run.add(0, -1, 1)
    run.run(written(7))
    assert offsets == [7, 8, 9]


def test_a_run_is_cut_where_its_batch_is_split() -> None:
    offsets: list[int] = []
    run = CallbackRun(lambda _, delivery: offsets.append(delivery.offset), 2)
    for number in range(5):
        run.add(number, -1, 1)
    first = run.cut(4)
    first.move(0)
    second = run.cut(7)
    second.move(4)
    assert run.is_empty
    first.run(written(10))
    second.run(written(50))
    assert offsets == [12, 13, 50, 51, 52]


def test_callbacks_of_several_kinds_are_told_in_the_order_of_the_records() -> None:
    producing = Producing()
    order: list[str] = []
    callbacks = {name: Noted(name, order) for name in "ab"}
    for name in "aabacca":
        producing.send(b"value", partition=0, callback=callbacks.get(name))
    producing.flush()
    assert order == [f"{name}{number}" for number, name in enumerate("aabacca") if name != "c"]


class Noted:
    """A callback that notes its name and the offset."""

    def __init__(self, name: str, order: list[str]) -> None:
        self.name = name
        self.order = order

    def __call__(self, error: KafkaError | None, delivery: Delivery) -> None:
        self.order.append(f"{self.name}{delivery.offset}")
