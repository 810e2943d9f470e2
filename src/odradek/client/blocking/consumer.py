"""The consumer that blocks.

    with Consumer("orders", group="billing", brokers="localhost:9092") as consumer:
        for record in consumer:
            print(record.key, record.value)

Records come one by one (`poll`, iteration), many at a time (`consume`, `batches`), or as Arrow
(`arrow`). A background thread fetches ahead; a poll that finds records costs no more than decoding
them. Rebalances happen inside polls, and polls raise the errors.

Positions are committed automatically in the background (`enable.auto.commit`), up to the records
that the application has finished with, or by `commit`.

A consumer is for one thread at a time. `close`, or leaving the `with` block, commits and leaves the
group; after an exception the last record that was returned does not count as processed.
"""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from odradek.client.api_methods import BlockingMethod
from odradek.client.arguments import limit_s
from odradek.client.blocking.client import Client
from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.blocking.wake_signal import WakeSignal
from odradek.client.consumer.application.calls import ConsumerCalls
from odradek.client.consumer.application.dead_letters import dead_letters
from odradek.client.consumer.application.poll_loop import (
    MAX_ARROW_BYTES,
    ColumnBuffer,
    PollLoop,
    RecordBuffer,
    limit_of,
    run_now,
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
from odradek.client.metrics.consumer_table import consumer_metrics
from odradek.client.metrics.metric import Metrics
from odradek.client.waiter import Waiter, spawn

if TYPE_CHECKING:
    from odradek.client.arrow.record_batches import ArrowBatches
    from odradek.client.arrow_types import Decode

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
Topics = str | Mapping[str, Any]

CLOSE_TIMEOUT_S = 30.0


class BlockingApplication:
    """The application's thread, as the `PollDriver` of its `PollLoop`. Its coroutines never
    suspend: they block."""

    def __init__(self, thread: EngineThread, signal: WakeSignal) -> None:
        self._thread = thread
        self.signal = signal.set
        self.clear = signal.clear
        self._signal = signal
        self.time = time.monotonic

    @property
    def running(self) -> bool:
        return self._thread.running

    async def sleep(self, timeout_s: float | None) -> None:
        self._signal.wait(timeout_s)

    async def call(self, action: Callable[[], T]) -> T:
        return self._thread.call(action)

    async def wait(self, make: Callable[[], Waiter[T]]) -> T:
        return self._thread.wait(make)

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        callback(*arguments)


class Consumer(Client, Generic[K, V]):
    """Reads topics, as a member of `group` or alone.

    The arguments are names of topics to subscribe to, or one mapping of settings as for
    confluent-kafka. Settings may be given as keywords by any of their names: see `ConsumerConfig`.
    `key` and `value` are deserializers: see `client.deserializers`. `interceptors` are objects of
    classes derived from `ConsumerInterceptor`. Raises `ConfigError`.

    `for record in consumer` waits for the next record for ever, and so do `batches` and `arrow`:
    leave it with `break`. It ends by itself only if `assign` gave every partition an end. To read
    only the present records: `odradek.read`, or `poll` until it returns None.
    """

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
        signal = WakeSignal()

        def make_engine(thread: EngineThread) -> Engine:
            environment = thread.environment
            engine = Engine(
                environment.env,
                environment.timer,
                made.config,
                allow_auto_topic_creation=made.config.allow_auto_create_topics,
            )
            self._core = ConsumerCore(
                engine,
                made.config,
                made.deserializers,
                thread.post,
                signal.set,
                made.assignors,
                interceptors_of(made.interceptors, environment.env.clock),
            )
            return engine

        super().__init__("odradek-consumer", make_engine)
        engine, thread, interceptors = self._engine, self._thread, self._core.interceptors
        if interceptors is not None:

            def end() -> None:
                thread.close(engine.close)
                interceptors.close()

            self._end.detach()
            self._end = weakref.finalize(self, end)
        application = BlockingApplication(self._thread, signal)
        self._poll_loop = PollLoop(
            self, application, self._core, dead_letters(made, self._core.engine)
        )
        self._collector = self._core.collector
        self._next_record: Callable[[], Record[K, V] | None] = self._collector.next_record
        self._calls = ConsumerCalls(self._core)
        self._thread.call(self._core.start)
        if made.topics:
            self.subscribe(made.topics)

    def _run_call(self, make: Callable[[ConsumerCalls], Coroutine[Waiter[Any], None, T]]) -> T:
        """Run a coroutine on the engine's thread, and block until it is done."""
        found = self._wait(lambda: spawn(make(self._calls)))
        self._collector.refresh()
        return found

    # Subscription, assignment and positions.

    def subscribe(
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
        self._run_call(lambda calls: calls.subscribe(topics))
        self._poll_loop.listener = listener

    def unsubscribe(self) -> None:
        """Leave the group, and end the subscription or assignment."""
        run_now(self._poll_loop.run_with_callbacks(self._core.unsubscribe))

    subscription = BlockingMethod(ConsumerCalls.subscription)
    assign = BlockingMethod(ConsumerCalls.assign)
    assignment = BlockingMethod(ConsumerCalls.assignment)
    partitions_for = BlockingMethod(ConsumerCalls.partitions_for)

    seek = BlockingMethod(ConsumerCalls.seek)
    pause = BlockingMethod(ConsumerCalls.pause)
    resume = BlockingMethod(ConsumerCalls.resume)
    paused = BlockingMethod(ConsumerCalls.paused)

    position = BlockingMethod(ConsumerCalls.position)
    watermarks = BlockingMethod(ConsumerCalls.watermarks)
    lag = BlockingMethod(ConsumerCalls.lag)
    offsets_for_times = BlockingMethod(ConsumerCalls.offsets_for_times)
    beginning_offsets = BlockingMethod(ConsumerCalls.beginning_offsets)
    end_offsets = BlockingMethod(ConsumerCalls.end_offsets)
    committed = BlockingMethod(ConsumerCalls.committed)
    consumer_group_metadata = BlockingMethod(ConsumerCalls.consumer_group_metadata)

    def offsets_for_transaction(
        self, what: Committable = None
    ) -> tuple[Offsets, ConsumerGroupMetadata]:
        """Return the two arguments of a producer's `send_offsets_to_transaction`: the offsets that
        `commit` would commit, and the consumer's place in its group. Raises `IllegalState` if
        commits are automatic, and the errors of `consumer_group_metadata`."""
        if what is None:
            self._collector.mark_consumed()
        return self._run_call(lambda calls: calls.for_transaction(what))

    def commit(
        self, what: Committable = None, *, asynchronous: bool = False, timeout: float | None = None
    ) -> Offsets | None:
        """Commit a record (and all before it), a batch, an Arrow batch, offsets by partition, or by
        default the positions of all records returned so far. Returns the committed offsets; None
        if `asynchronous`."""
        if what is None:
            self._collector.mark_consumed()
        try:
            offsets = self._run_call(lambda calls: calls.commit(what, timeout, asynchronous))
        finally:
            self._poll_loop.tell_commits()
        return None if asynchronous else offsets

    # Records.

    def poll(self, timeout: float = 0.0) -> Record[K, V] | None:
        """Return the next record; None if there is none within `timeout` seconds (negative: wait
        for ever). Raises errors of fetching. Rebalance callbacks run in here."""
        record = self._next_record()
        return record if record is not None else run_now(self._poll_loop.poll(timeout))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record[K, V]:
        record = self._next_record()
        if record is None:
            record = run_now(self._poll_loop.poll(None))
            if record is None:
                raise StopIteration
        return record

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Record[K, V]]:
        """Return up to `num_messages` records: fewer after `timeout` seconds, or if a rebalance or
        an error comes first. Raises `ValueError` for a negative number."""
        limit = limit_of("num_messages", num_messages, least=0)
        buffer = RecordBuffer(self._collector, limit)
        run_now(self._poll_loop.fill(buffer, timeout))
        return buffer.records

    def batches(
        self, max_records: int | None = None, max_wait: float = 0.5
    ) -> Iterator[Batch[K, V]]:
        """Iterate over batches of up to `max_records` (default: `max.poll.records`), or of the
        records that came within `max_wait` seconds. `commit` takes a batch. Raises `ValueError` for
        less than one."""
        limit = self.config.max_poll_records
        if max_records is not None:
            limit = limit_of("max_records", max_records)
        more = True
        while more:
            buffer = RecordBuffer(self._collector, limit)
            more = run_now(self._poll_loop.fill(buffer, max_wait))
            if not buffer.is_empty:
                yield buffer.batch()

    def arrow(
        self,
        max_rows: int = 65_536,
        max_wait: float = 0.5,
        decode: Decode | None = None,
        max_bytes: int = MAX_ARROW_BYTES,
    ) -> ArrowBatches:
        """Return Arrow record batches of up to `max_rows`, or of the records that came within
        `max_wait` seconds, without an object per record. The row whose keys, values and headers
        make a batch exceed `max_bytes` is its last. The result can be iterated over, or given
        to anything that takes an Arrow stream; `commit` takes a batch. `decode` makes a column of
        structs of JSON values: "json", or an Arrow schema of their fields. Needs pyarrow
        (`odradek[arrow]`)."""
        from odradek.client.arrow.json_values import JsonValues  # Heavy, and optional.
        from odradek.client.arrow.record_batches import ArrowBatches

        limit_of("max_rows", max_rows)
        limit_of("max_bytes", max_bytes)

        def take() -> tuple[ColumnBuffer, bool]:
            buffer = ColumnBuffer(self._collector, max_rows, max_bytes)
            return buffer, run_now(self._poll_loop.fill(buffer, max_wait))

        values = None if decode is None else JsonValues(decode, self._poll_loop.on_decode_error)
        return ArrowBatches(take, lambda make: run_now(self._poll_loop.convert(make)), values)

    # Metrics.

    def metrics(self) -> Metrics:
        """Return the metrics by the names of Kafka's consumer: see `client.metrics`. Any thread."""
        self._check_open()
        return consumer_metrics(self._core)

    # Closing.

    def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Commit the positions if commits are automatic, leave the group, and close all
        connections, within `timeout` seconds (None: for ever). A second call does nothing."""
        self._collector.mark_consumed()
        self._close(limit_s(timeout))

    def _close(self, timeout: float) -> None:
        if not self._poll_loop.closed:
            try:
                run_now(self._poll_loop.close(timeout))
            finally:
                super().close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._collector.mark_consumed()
        self._close(CLOSE_TIMEOUT_S)
