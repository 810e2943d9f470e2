"""The consumer that is awaited.

    async with Consumer("orders", group="billing", brokers="localhost:9092") as consumer:
        async for record in consumer:
            await handle(record)

It has the methods of the blocking consumer, with the same behaviour: see
`client.blocking.consumer`. It starts when it is entered (or by `start`), in the running loop.
Rebalance callbacks may be functions or coroutine functions. A consumer is for one task at a time.

The loop's thread is also the engine's, so nothing is handed over between threads. While the loop is
blocked, no heartbeat is sent; beyond `session.timeout.ms` the group gives the partitions to others,
and commits of what was read fail. Run blocking work in a thread (asyncio.to_thread). All calls of
the engine go through the `EngineLoop`, which schedules the reactor's next turn.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from odradek.client.aio.client import Client
from odradek.client.aio.engine_loop import EngineLoop
from odradek.client.api_methods import AwaitedMethod
from odradek.client.arguments import limit_s
from odradek.client.consumer.application.calls import ConsumerCalls
from odradek.client.consumer.application.dead_letters import dead_letters
from odradek.client.consumer.application.poll_loop import (
    MAX_ARROW_BYTES,
    ColumnBuffer,
    PollBuffer,
    PollLoop,
    RecordBuffer,
    limit_of,
)
from odradek.client.consumer.arguments import (
    Committable,
    ConsumerOptions,
    Offsets,
    consumer_arguments,
)
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.consumer.batch import Batch
from odradek.client.consumer.consumer_core import ConsumerCore
from odradek.client.consumer.group.rebalance import RebalanceCallback, RebalanceListener
from odradek.client.consumer.interception import interceptors_of
from odradek.client.consumer.record import Record
from odradek.client.deserializers import DeserializerLike, DeserializerName
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed
from odradek.client.metrics.consumer_table import consumer_metrics
from odradek.client.metrics.metric import Metrics
from odradek.client.waiter import Waiter, spawn

if TYPE_CHECKING:
    from odradek.client.arrow_types import ArrowBatch, Decode

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
Topics = str | Mapping[str, Any]

CLOSE_TIMEOUT_S = 30.0


class AwaitedApplication:
    """The application's task, as the `PollDriver` of its `PollLoop`. One task at a time."""

    def __init__(self, loop: EngineLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()
        self.signal = self._event.set
        self.clear = self._event.clear
        self.time = time.monotonic

    @property
    def running(self) -> bool:
        return self._loop.running

    async def sleep(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return

    async def call(self, action: Callable[[], T]) -> T:
        return self._loop.run(action)

    async def wait(self, make: Callable[[], Waiter[T]]) -> T:
        return await self._loop.wait(make)

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        found = callback(*arguments)
        if inspect.isawaitable(found):
            await found


YIELD_MASK = 0xFF
"""After so many records (plus one) without a wait, a poll yields to other tasks, heartbeats
included. It does so before it takes a record, which would be lost if the call is cancelled then."""


class Consumer(Client, Generic[K, V]):
    """Reads topics, as a member of `group` or alone. The arguments are those of the blocking
    consumer."""

    @overload
    def __init__(
        self: Consumer[bytes, bytes], *topics: Topics, **settings: Unpack[ConsumerOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes, V],
        *topics: Topics,
        value: DeserializerLike[V],
        **settings: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, bytes],
        *topics: Topics,
        key: DeserializerLike[K],
        **settings: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, V],
        *topics: Topics,
        key: DeserializerLike[K],
        value: DeserializerLike[V],
        **settings: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Any, Any],
        *topics: Topics,
        key: DeserializerLike[Any] | DeserializerName | None = None,
        value: DeserializerLike[Any] | DeserializerName | None = None,
        key_deserializer: DeserializerLike[Any] | DeserializerName | None = None,
        value_deserializer: DeserializerLike[Any] | DeserializerName | None = None,
        **settings: Unpack[ConsumerOptions],
    ) -> None: ...
    def __init__(
        self, *topics: Topics, key: Any = None, value: Any = None, **settings: Any
    ) -> None:
        made = consumer_arguments(topics, key, value, settings)
        self.config = made.config
        self._made = made
        self._started_core: ConsumerCore | None = None
        super().__init__("odradek-consumer", self._make_engine)

    def _make_engine(self, loop: EngineLoop) -> Engine:
        environment = loop.environment
        engine = Engine(
            environment.env,
            environment.timer,
            self.config,
            allow_auto_topic_creation=self.config.allow_auto_create_topics,
        )
        application = AwaitedApplication(loop)
        core = self._started_core = ConsumerCore(
            engine,
            self.config,
            self._made.deserializers,
            loop.post,
            application.signal,
            self._made.assignors,
            interceptors_of(self._made.interceptors, environment.env.clock),
        )
        self._poll_loop = PollLoop(self, application, core, dead_letters(self._made, engine))
        self._collector = core.collector
        self._next_record: Callable[[], Record[K, V] | None] = self._collector.next_record
        self._calls = ConsumerCalls(core)
        return engine

    async def start(self) -> Self:
        """Start, and subscribe to the topics given to the constructor."""
        await super().start()
        core = self._core
        assert self._loop is not None
        self._loop.run(core.start)
        if self._made.topics:
            await self.subscribe(self._made.topics)
        return self

    @property
    def _core(self) -> ConsumerCore:
        if self._started_core is None:
            raise ClientClosed("the consumer was not started: use `async with`, or await start()")
        return self._started_core

    async def _run_call(
        self, make: Callable[[ConsumerCalls], Coroutine[Waiter[Any], None, T]]
    ) -> T:
        core = self._core
        found = await self._wait(lambda _: spawn(make(self._calls)))
        core.collector.refresh()
        return found

    # Subscription, assignment and positions.

    async def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *,
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Subscribe to topics by name, or to all whose whole name matches a pattern. The callbacks
        get the consumer and the partitions, and run inside polls: see `RebalanceListener`."""
        listener = RebalanceListener(on_assign, on_revoke, on_lost)
        await self._run_call(lambda calls: calls.subscribe(topics))
        self._poll_loop.listener = listener

    async def unsubscribe(self) -> None:
        """Leave the group, and end the subscription or assignment."""
        await self._poll_loop.run_with_callbacks(self._core.unsubscribe)

    subscription = AwaitedMethod(ConsumerCalls.subscription)
    assign = AwaitedMethod(ConsumerCalls.assign)
    assignment = AwaitedMethod(ConsumerCalls.assignment)
    partitions_for = AwaitedMethod(ConsumerCalls.partitions_for)

    seek = AwaitedMethod(ConsumerCalls.seek)
    pause = AwaitedMethod(ConsumerCalls.pause)
    resume = AwaitedMethod(ConsumerCalls.resume)
    paused = AwaitedMethod(ConsumerCalls.paused)

    position = AwaitedMethod(ConsumerCalls.position)
    watermarks = AwaitedMethod(ConsumerCalls.watermarks)
    lag = AwaitedMethod(ConsumerCalls.lag)
    offsets_for_times = AwaitedMethod(ConsumerCalls.offsets_for_times)
    beginning_offsets = AwaitedMethod(ConsumerCalls.beginning_offsets)
    end_offsets = AwaitedMethod(ConsumerCalls.end_offsets)
    committed = AwaitedMethod(ConsumerCalls.committed)
    consumer_group_metadata = AwaitedMethod(ConsumerCalls.consumer_group_metadata)

    async def offsets_for_transaction(
        self, what: Committable = None
    ) -> tuple[Offsets, ConsumerGroupMetadata]:
        """Return the two arguments of a producer's `send_offsets_to_transaction`: the offsets that
        `commit` would commit, and the consumer's place in its group. Raises `IllegalState` if
        commits are automatic, and the errors of `consumer_group_metadata`."""
        if what is None:
            self._collector.mark_consumed()
        return await self._run_call(lambda calls: calls.for_transaction(what))

    async def commit(
        self, what: Committable = None, *, asynchronous: bool = False, timeout: float | None = None
    ) -> Offsets | None:
        """Commit a record (and all before it), a batch, an Arrow batch, offsets by partition, or by
        default the positions of all records returned so far. Returns the committed offsets; None
        if `asynchronous`."""
        if what is None:
            self._core.collector.mark_consumed()
        try:
            offsets = await self._run_call(lambda calls: calls.commit(what, timeout, asynchronous))
        finally:
            self._poll_loop.tell_commits()
        return None if asynchronous else offsets

    # Records.

    async def poll(self, timeout: float = 0.0) -> Record[K, V] | None:
        """Return the next record; None if there is none within `timeout` seconds (negative: wait
        for ever). Raises errors of fetching. Rebalance callbacks run in here."""
        collector = self._core.collector
        if not collector.polls & YIELD_MASK:
            collector.polls += 1
            await asyncio.sleep(0)
        record = collector.next_record() or await self._poll_loop.poll(timeout)
        if record is None:
            await asyncio.sleep(0)  # `poll` may not have waited, and may be called again at once.
        return record

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        collector = self._core.collector
        next_record = self._next_record
        while True:
            if not collector.polls & YIELD_MASK:
                collector.polls += 1
                await asyncio.sleep(0)
            record = next_record() or await self._poll_loop.poll(None)
            if record is None:
                return
            yield record

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Record[K, V]]:
        """Return up to `num_messages` records: fewer after `timeout` seconds, or if a rebalance or
        an error comes first."""
        limit = limit_of("num_messages", num_messages, least=0)
        buffer = RecordBuffer(self._core.collector, limit)
        await self._fill(buffer, timeout)
        return buffer.records

    async def _fill(self, buffer: PollBuffer, timeout: float) -> bool:
        more = await self._poll_loop.fill(buffer, timeout)
        if buffer.is_empty:
            await asyncio.sleep(0)  # As in `poll`.
        return more

    async def batches(
        self, max_records: int | None = None, max_wait: float = 0.5
    ) -> AsyncIterator[Batch[K, V]]:
        """Iterate over batches of up to `max_records` (default: `max.poll.records`), or of the
        records that came within `max_wait` seconds. `commit` takes a batch."""
        limit, more = self.config.max_poll_records, True
        if max_records is not None:
            limit = limit_of("max_records", max_records)
        while more:
            buffer = RecordBuffer(self._core.collector, limit)
            more = await self._fill(buffer, max_wait)
            if not buffer.is_empty:
                yield buffer.batch()

    async def arrow(
        self,
        max_rows: int = 65_536,
        max_wait: float = 0.5,
        decode: Decode | None = None,
        max_bytes: int = MAX_ARROW_BYTES,
    ) -> AsyncIterator[ArrowBatch]:
        """Iterate over Arrow record batches of up to `max_rows`, or of the records that came within
        `max_wait` seconds, without an object per record. The row whose keys, values and headers
        make a batch exceed `max_bytes` is its last. `commit` takes a batch. `decode` makes a
        column of structs of JSON values: "json", or an Arrow schema of their fields. Needs pyarrow
        (`odradek[arrow]`)."""
        from odradek.client.arrow.json_values import JsonValues  # Heavy, and optional.
        from odradek.client.arrow.record_batches import record_batch

        limit_of("max_rows", max_rows)
        limit_of("max_bytes", max_bytes)
        core, more = self._core, True
        values = None if decode is None else JsonValues(decode, self._poll_loop.on_decode_error)
        while more:
            buffer = ColumnBuffer(core.collector, max_rows, max_bytes)
            more = await self._fill(buffer, max_wait)
            if buffer.is_empty:
                continue
            batch = await self._poll_loop.convert(partial(record_batch, buffer, values))
            if batch is not None:
                yield batch
            else:
                more = True

    # Metrics.

    def metrics(self) -> Metrics:
        """Return the metrics by the names of Kafka's consumer: see `client.metrics`. Any thread."""
        self._check_running()
        return consumer_metrics(self._core)

    # Closing.

    async def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Commit the positions if commits are automatic, leave the group, and close all
        connections, within `timeout` seconds (None: for ever). A second call does nothing."""
        if self._started_core is not None:
            self._started_core.collector.mark_consumed()
        await self._close(limit_s(timeout))

    async def _close(self, timeout: float) -> None:
        if self._started_core is not None and not self._poll_loop.closed:
            try:
                await self._poll_loop.close(timeout)
            finally:
                await super().close()
        elif self._loop is not None and not self._loop.running:
            # Wait for resources still being released, if an earlier call was cancelled.
            await super().close()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None and self._started_core is not None:
            self._started_core.collector.mark_consumed()
        await self._close(CLOSE_TIMEOUT_S)
