"""Callbacks of a partition come in the order of its records, however they end."""

from __future__ import annotations

from typing import Any

from odradek.client.errors import ClientClosed, DeliveryTimeout, KafkaError
from odradek.client.producer.futures import Delivery
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
        def told(error: KafkaError | None, delivery: Delivery) -> None:
            self.order.append(value)
            self.errors.append(error)

        self.producing.send(value, partition=0, callback=told)


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
