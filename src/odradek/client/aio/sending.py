"""Sending, for coroutines: what an awaited producer does with records.

send           room in the buffer, and the acknowledgement
enqueue        room in the buffer; the record's future is awaited or not
send_nowait    nothing is awaited: queued now, or refused
send_many, send_arrow    room, as often as it takes
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.client.aio.client import Client
from odradek.client.errors import ClientClosed
from odradek.client.producer.deliveries import Deliveries
from odradek.client.producer.delivery import Delivery, FutureRecordMetadata
from odradek.client.producer.intake import Headers, Intake, ManySend
from odradek.client.producer.producer import ProducerCore
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_record import ProducerRecord

if TYPE_CHECKING:
    from odradek.client.arrow.record_input import ArrowData

K = TypeVar("K")
V = TypeVar("V")


class Sending(Client, Generic[K, V]):
    """The sends of a producer."""

    _core: ProducerCore
    _intake: Intake | None
    """None before it has started; from then on there is a `_core` as well."""

    def _not_started(self) -> Intake:
        raise ClientClosed(f"{self._name} was not started: use `async with`, or await start()")

    async def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Send a record and await its acknowledgement: where it was written.

        See the blocking `Producer.send` for the arguments, and for what is raised if it could not
        be queued; beyond that it raises what the record failed with. Cancelling does not take a
        record back that was queued.
        """
        future = await self.enqueue(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            on_delivery=on_delivery,
        )
        return await future

    async def enqueue(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """Queue a record, awaiting room for it; its future, to be awaited or not."""
        intake = self._intake or self._not_started()
        taken = intake.send(topic, value, key, headers, partition, timestamp, on_delivery)
        if isinstance(taken, FutureRecordMetadata):
            return taken
        return await self._wait_for_room(taken)

    async def _wait_for_room(self, record: ProducerRecord) -> FutureRecordMetadata:
        return await self._wait(lambda _: self._core.send_later(record).waiter)

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """Queue a record now, or raise `BufferFull`: there is no room, or its topic is not known
        yet (`await partitions_for(topic)` once)."""
        intake = self._intake or self._not_started()
        taken = intake.send(topic, value, key, headers, partition, timestamp, on_delivery)
        if isinstance(taken, FutureRecordMetadata):
            return taken
        raise self._core.routing.cannot_take(taken)

    async def send_many(
        self,
        topic: str,
        values: Sequence[V | None],
        *,
        keys: Sequence[K | None] | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> Deliveries:
        """Queue many records, awaiting room as often as it takes: faster than one by one.

        `keys` are as many as values; headers, partition and timestamp are those of every record.
        If it raises, the records before the one at fault were queued.
        """
        intake = self._intake or self._not_started()
        source = intake.source(topic, values, keys, headers)
        return await self._send_all(intake.many(topic, [source], partition, timestamp))

    async def send_arrow(
        self,
        topic: str,
        data: ArrowData,
        *,
        key: str | None = None,
        value: str = "value",
        headers: str | None = None,
        partition: int | str | None = None,
        timestamp: datetime | int | str | None = None,
    ) -> Deliveries:
        """Queue the rows of anything that exports Arrow data (tables and frames of pyarrow, polars,
        pandas, duckdb …), awaiting room as often as it takes.

        The other arguments name columns: `key` and `value` (the one called "value" unless you say
        otherwise) of binary or text, `headers` of `list<struct<key: text, value: binary>>`,
        `partition` of integers, `timestamp` of timestamps or ms; the last two may be one for all.
        `value="json"`, if no column is called so, makes a JSON object of each row's other columns.
        No serializer is called. If it raises, the rows before the one at fault were queued. Needs
        pyarrow (`odradek[arrow]`).
        """
        from odradek.client.arrow.record_input import sources  # Heavy, and optional.

        intake = self._intake or self._not_started()
        rows = sources(data, key, value, headers, partition, timestamp)
        return await self._send_all(intake.many(topic, rows, partition, timestamp))

    async def _send_all(self, many: ManySend) -> Deliveries:
        while (record := many.step()) is not None:
            many.waited(await self._wait_for_room(record))
        return many.deliveries
