"""The producer that is awaited.

    async with Producer(brokers="localhost:9092", value="json") as producer:
        delivery = await producer.send("orders", {"id": 7}, key="7")
        future = await producer.enqueue("orders", {"id": 8})     # many of these make full batches
        await future

    send                     awaits room in the buffer, and the acknowledgement
    enqueue                  awaits room in the buffer; the application may await the future
    send_nowait              awaits nothing: queues the record now, or raises
    send_many, send_arrow    await room, as often as it takes

It runs the same engine as the blocking producer, in the running loop: there is no thread, and no
lock that is ever contended. Callbacks run in the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from odradek.client.aio.engine_loop import AsyncioWait, EngineLoop
from odradek.client.aio.transactions import TransactionalProducer
from odradek.client.arguments import milliseconds_of
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed, KafkaError
from odradek.client.metrics.metric import Metrics
from odradek.client.metrics.producer_table import producer_metrics
from odradek.client.producer.arguments import ProducerOptions, producer_arguments
from odradek.client.producer.futures import Deliveries, Delivery, FutureRecordMetadata
from odradek.client.producer.intercepted_send import (
    InterceptedSendPath,
    ProducerInterceptors,
    record_refused,
)
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import BulkSend, Headers, SendPath, SerializedRecord
from odradek.client.serializers import AnySerializer, SerializerLike

if TYPE_CHECKING:
    from odradek.client.arrow.arrow_input import ArrowData


K = TypeVar("K")
V = TypeVar("V")


END_TIMEOUT_S = 30.0
"""How long an exception in an `async with` block waits for deliveries."""


class Producer(TransactionalProducer, Generic[K, V]):
    """Sends records to the cluster at `brokers` (or `bootstrap.servers`).

    It takes the arguments of the blocking `Producer`, except `on_full`: the application chooses
    between `enqueue` and `send_nowait` instead. Raises `ConfigError`.
    """

    _core: ProducerCore
    _send_path: SendPath | InterceptedSendPath | None
    """None before the start; from then on there is a `_core` too."""

    @overload
    def __init__(
        self: Producer[bytes | str, bytes | str],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[bytes | str, V],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        value: SerializerLike[V],
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, bytes | str],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: SerializerLike[K],
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, V],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: SerializerLike[K],
        value: SerializerLike[V],
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, Any],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: AnySerializer | None = None,
        value: AnySerializer | None = None,
        key_serializer: AnySerializer | None = None,
        value_serializer: AnySerializer | None = None,
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerOptions],
    ) -> None: ...
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: Any = None,
        value: Any = None,
        brokers: str | Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        made = producer_arguments(config, brokers, key, value, None, settings)
        self.config = made.config
        self._send_path = None
        self._interceptors: ProducerInterceptors | None = None
        self._woken = False

        def make_engine(loop: EngineLoop) -> Engine:
            engine = made.engine(loop.environment.env, loop.environment.timer)
            self._core = ProducerCore(engine, made.settings, AsyncioWait())
            clock = engine.env.clock
            self._interceptors = made.chain(clock)
            self._send_path = made.send_path(self._core.router, self._interceptors, clock)
            return engine

        super().__init__("odradek-producer", make_engine)

    async def start(self) -> Self:
        """Start in the running loop; `async with` does it."""
        await super().start()
        self._call_soon = asyncio.get_running_loop().call_soon
        loop = self._loop
        assert loop is not None
        loop.run(lambda: self._core.start(self._wake))
        return self

    def _wake(self) -> None:
        """Run the sender as soon as the running task yields."""
        if not self._woken:
            self._woken = True
            self._call_soon(self._run_sender)

    def _run_sender(self) -> None:
        self._woken = False
        if self._loop is not None and self._loop.running:
            self._loop.run(self._core.sender.run)

    # Sending.

    def _not_started(self) -> SendPath | InterceptedSendPath:
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
        """Send a record, await its acknowledgement, and return where it was written.

        See the blocking `Producer.send` for the arguments, and for the errors if it could not be
        queued; beyond that this raises the error of the delivery. Cancelling does not take back a
        record that was queued.
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
        """Queue a record, awaiting room for it; return its future, to be awaited or not. If this
        raises, an open transaction has failed."""
        send_path = self._send_path or self._not_started()
        try:
            taken = send_path.send(topic, value, key, headers, partition, timestamp, on_delivery)
            if isinstance(taken, FutureRecordMetadata):
                return taken
            try:
                return await self._wait_for_room(taken)
            except BaseException as error:
                record_refused(taken, error)
                raise
        except KafkaError as error:
            self._refused(error)
            raise

    def _refused(self, error: KafkaError) -> None:
        """Fail the open transaction because of a record that was not queued."""
        if self._core.breaks_transaction(error):
            self._core.transactions_or_error.record_refused(error)

    async def _wait_for_room(self, record: SerializedRecord) -> FutureRecordMetadata:
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
        """Queue a record now. Raises `BufferFull` if there is no room, or if the topic is not known
        yet (`await partitions_for(topic)` once). After any other error an open transaction has
        failed."""
        send_path = self._send_path or self._not_started()
        try:
            taken = send_path.send(topic, value, key, headers, partition, timestamp, on_delivery)
        except KafkaError as error:
            self._refused(error)
            raise
        if isinstance(taken, FutureRecordMetadata):
            return taken
        full = self._core.router.buffer_full_error(taken)
        record_refused(taken, full)
        raise full

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

        There are as many `keys` as values; headers, partition and timestamp are those of every
        record. If this raises, the records before the one at fault were queued, and an open
        transaction has failed.
        """
        send_path = self._send_path or self._not_started()
        return await self._send_all(
            lambda: send_path.send_many(topic, values, keys, headers, partition, timestamp)
        )

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

        The other arguments name columns: `key` and `value` (default "value") of binary or text,
        `headers` of `list<struct<key: text, value: binary>>`, `partition` of integers, `timestamp`
        of timestamps or ms; the last two may be one value for all rows. `value="json"`, if there is
        no such column, makes a JSON object of each row's other columns. No serializer is called. If
        this raises, the rows before the one at fault were queued, and an open transaction has
        failed. Needs pyarrow (`odradek[arrow]`).
        """
        from odradek.client.arrow.arrow_input import record_inputs  # Heavy, and optional.

        send_path = self._send_path or self._not_started()
        return await self._send_all(
            lambda: send_path.send_arrow(
                record_inputs, topic, data, key, value, headers, partition, timestamp
            )
        )

    async def _send_all(self, make: Callable[[], BulkSend]) -> Deliveries:
        try:
            many = make()
            try:
                while (record := many.step()) is not None:
                    many.add_queued(await self._wait_for_room(record))
            except BaseException as error:
                many.end(error)
                raise
        except KafkaError as error:
            self._refused(error)
            raise
        many.end(None)
        return many.deliveries

    async def flush(self, timeout: float | None = None) -> int:
        """Send the queued records without lingering, and wait until all are delivered or failed, up
        to `timeout` seconds. Returns the number of records without an outcome."""
        return await self._wait(lambda _: self._core.flush(milliseconds_of(timeout)))

    def __len__(self) -> int:
        """Return the number of records without an outcome."""
        return 0 if self._send_path is None else self._core.accumulator.incomplete_records

    def __bool__(self) -> bool:
        return True

    # Metadata and metrics.

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic. Raises as `send` does."""
        return await self._wait(lambda _: self._core.partitions_for(topic))

    def metrics(self) -> Metrics:
        """Return the metrics by the names of Kafka's producer: see `client.metrics`. Any thread."""
        self._check_running()
        return producer_metrics(self._core)

    # Closing.

    async def close(self, timeout: float | None = None) -> None:
        """Deliver the queued records and close; after `timeout` seconds, or when this is cancelled,
        fail the rest. A second call does nothing."""
        try:
            if self._loop is not None and self._loop.running:
                with contextlib.suppress(ClientClosed):
                    await self._wait(lambda _: self._core.close(milliseconds_of(timeout)))
        finally:
            try:
                await super().close()
            finally:
                if self._interceptors is not None:
                    self._interceptors.close()

    def _end(self) -> None:
        self._core.break_off()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(None if error is None else END_TIMEOUT_S)
