"""The producer that blocks.

    with Producer(brokers="localhost:9092", value="json") as producer:
        producer.send("orders", {"id": 7}, key="7")

`send` queues a record and returns its future; a background thread sends the batches. It blocks
only while the topic is not known yet, or the buffer is full (`max.block.ms`, `on_full`). Leaving
the `with` block delivers the records sent so far. `produce`, `produce_batch`, `poll` and `flush`
have confluent-kafka's arguments and results: see `confluent_api`.

Callbacks run on the background thread, once for each record that `send` queued, for each partition
in the order of its records. A callback may send; it must not wait.

A producer is for any number of threads. After a few batches `send` yields to the background thread:
Python runs one thread at a time, and switches every five milliseconds unless the running one waits
for something. A thread that does nothing but send records waits for nothing, so the sender would
run once in five milliseconds, far too rarely for its batches, and would wait that long again after
each of its system calls. `SenderYield` hands over to it instead.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from librt.threading import Lock

from odradek.client.arguments import milliseconds_of
from odradek.client.blocking.confluent_api import ConfluentProducerApi
from odradek.client.blocking.engine_thread import BlockedThread, EngineThread, at_exit
from odradek.client.blocking.transactions import TransactionalProducer
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed, KafkaError
from odradek.client.metrics.metric import Metrics
from odradek.client.metrics.producer_table import producer_metrics
from odradek.client.producer.arguments import ProducerOptions, producer_arguments
from odradek.client.producer.futures import Deliveries, FutureRecordMetadata, ProduceRequestResult
from odradek.client.producer.intercepted_send import record_refused
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import BulkSend, Headers, SerializedRecord
from odradek.client.serializers import AnySerializer, SerializerLike

if TYPE_CHECKING:
    from odradek.client.arrow.arrow_input import ArrowData

K = TypeVar("K")
V = TypeVar("V")


YIELD_BYTES = 131_072
"""About how many bytes of batches are queued between two runs of the sender."""
YIELD_TIMEOUT_S = 0.005


class SenderYield:
    """Wakes the sender, and yields the interpreter to it when much is queued.

    `run` runs the sender. `wake` is called for every new batch. If the sender did not run for
    `every` batches, the caller waits for a run, but not longer than the interpreter's switch
    interval: the sender's thread may be busy with an application's callback.
    """

    def __init__(self, thread: EngineThread, every: int) -> None:
        self.run: Callable[[], None] = lambda: None
        self._thread = thread
        self._every = max(1, every)
        self._woken = False
        self._queued = 0
        self._waiting: deque[BlockedThread[None]] = deque()

    def wake(self) -> None:
        """Any thread. Raises `ClientClosed` in a forked process."""
        self._queued += 1
        waiting: BlockedThread[None] | None = None
        if self._queued >= self._every and not self._thread.is_current:
            waiting = BlockedThread()
            self._waiting.append(waiting)
        # After that: a run that is under way now may end without waking this thread.
        if not self._woken or not self._thread.running:
            self._woken = True
            try:
                self._thread.post(self._run_sender)
            except ClientClosed:
                if waiting is not None:
                    with contextlib.suppress(ValueError):  # The last run has taken it out.
                        self._waiting.remove(waiting)
                    waiting.block(0)  # Returns its signal.
                raise
        if waiting is not None:
            waiting.block(YIELD_TIMEOUT_S)

    def _run_sender(self) -> None:
        self._woken = False
        self._queued = 0
        self.run()
        # A thread that waits anew meanwhile waits for the next run: `wake` lets it run first.
        for _ in range(len(self._waiting)):
            self._waiting.popleft().wake()


LOCK_LOOKS = 200
"""How often a lock must be found locked to be taken for one that this thread holds."""
LOOK_PAUSE_S = 0.001


def stays_locked(lock: Lock) -> bool:
    """Return True if the lock is held by this thread: by a call that a signal handler interrupted
    and that goes on only when the handler returns. All other holders release it soon."""
    for _ in range(LOCK_LOOKS):
        if not lock.locked():
            return False
        time.sleep(LOOK_PAUSE_S)
    return True


class BlockingWait:
    """Futures block on a signal; when awaited, they wait in the running loop."""

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        if self._thread.is_current:
            raise RuntimeError(
                "a callback cannot wait for a record: it runs on the thread that sends records"
            )
        if not self._thread.running:
            raise ClientClosed("the producer belongs to another process, or has ended")
        waiting: BlockedThread[None] = BlockedThread()
        result.add_callback(waiting.wake)
        return waiting.block(None if timeout_s is not None and timeout_s < 0 else timeout_s)

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        from odradek.client.aio.engine_loop import until_done  # asyncio is imported when used.

        return until_done(result)


END_TIMEOUT_S = 30.0
"""How long the end of the process, or an exception in a `with` block, waits for deliveries."""


class Producer(ConfluentProducerApi[K, V], TransactionalProducer, Generic[K, V]):
    """Sends records to the cluster at `brokers` (or `bootstrap.servers`).

    Settings may be given by any of their names: see `ProducerConfig`. `key` and `value` are
    serializers: see `client.serializers`. `on_full`: block while `buffer.memory` is used up, or
    raise `BufferFull`. `partitioner` may be a function of topic, key and value in bytes, and the
    number of partitions; it returns a partition, or None for the default choice. `interceptors`
    are objects of classes derived from `ProducerInterceptor`. Raises `ConfigError`.
    """

    @overload
    def __init__(
        self: Producer[bytes | str, bytes | str],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        brokers: str | Sequence[str] | None = None,
        on_full: Literal["block", "raise"] = "block",
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
        on_full: Literal["block", "raise"] = "block",
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
        on_full: Literal["block", "raise"] = "block",
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
        on_full: Literal["block", "raise"] = "block",
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
        on_full: Literal["block", "raise"] = "block",
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
        on_full: Literal["block", "raise"] = "block",
        **settings: Any,
    ) -> None:
        made = producer_arguments(config, brokers, key, value, on_full, settings)
        self.config = made.config
        self._blocks = made.blocks

        def make_engine(thread: EngineThread) -> Engine:
            engine = made.engine(thread.environment.env, thread.environment.timer)
            self._core = ProducerCore(engine, made.settings, BlockingWait(thread))
            return engine

        super().__init__("odradek-producer", make_engine)
        core, thread = self._core, self._thread
        sender_yield = SenderYield(thread, YIELD_BYTES // made.settings.accumulator.batch_bytes)
        sender_yield.run = core.sender.run
        thread.post(lambda: core.start(sender_yield.wake))
        clock = thread.environment.env.clock
        interceptors = made.chain(clock)
        self._send_path = made.send_path(core.router, interceptors, clock)

        def end() -> None:
            thread.close(core.abandon)
            if interceptors is not None:
                interceptors.close()

        self._end.detach()
        self._end = weakref.finalize(self, end)
        self._finish_at_exit = at_exit(self._finish)

    # Sending.

    def send(
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
        """Queue a record and return the future of its delivery.

        `partition` None: by the key, or the sticky partition if there is none. `timestamp` is
        a datetime, or milliseconds since 1970; by default now. `on_delivery` is called with an
        error or None, and the `Delivery`.

        If this raises, nothing was queued: `SerializationError`, `RecordTooLarge`, `BufferFull`,
        `MaxBlockTimeout`, `UnknownTopicOrPartition`, `ClientClosed` … An open transaction has
        failed then, unless it was `BufferFull`.
        """
        try:
            taken = self._send_path.send(
                topic, value, key, headers, partition, timestamp, on_delivery
            )
            return taken if type(taken) is FutureRecordMetadata else self._send_later(taken)
        except KafkaError as error:
            self._refused(error)
            raise

    def _refused(self, error: KafkaError) -> None:
        """Fail the open transaction because of a record that was not queued."""
        if self._core.breaks_transaction(error):
            transactions = self._core.transactions_or_error
            with contextlib.suppress(ClientClosed):
                self._thread.post(partial(transactions.record_refused, error))

    def _send_later(self, record: FutureRecordMetadata | SerializedRecord) -> FutureRecordMetadata:
        assert isinstance(record, SerializedRecord)
        try:
            if not self._blocks and self._core.router.knows_topic(record):
                raise self._core.router.buffer_full_error(record)
            return self._wait_for_room(record)
        except BaseException as error:
            record_refused(record, error)
            raise

    def send_many(
        self,
        topic: str,
        values: Sequence[V | None],
        *,
        keys: Sequence[K | None] | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> Deliveries:
        """Queue many records, waiting for room as often as it takes: faster than one by one.

        There are as many `keys` as values; headers, partition and timestamp are those of every
        record. If this raises, the records before the one at fault were queued, and an open
        transaction has failed.
        """
        return self._send_all(
            lambda: self._send_path.send_many(topic, values, keys, headers, partition, timestamp)
        )

    def send_arrow(
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
        pandas, duckdb …), waiting for room as often as it takes.

        The other arguments name columns: `key` and `value` (default "value") of binary or text,
        `headers` of `list<struct<key: text, value: binary>>`, `partition` of integers, `timestamp`
        of timestamps or ms; the last two may be one value for all rows. `value="json"`, if there is
        no such column, makes a JSON object of each row's other columns. No serializer is called. If
        this raises, the rows before the one at fault were queued, and an open transaction has
        failed. Needs pyarrow (`odradek[arrow]`).
        """
        from odradek.client.arrow.arrow_input import record_inputs  # Heavy, and optional.

        return self._send_all(
            lambda: self._send_path.send_arrow(
                record_inputs, topic, data, key, value, headers, partition, timestamp
            )
        )

    def _send_all(self, make: Callable[[], BulkSend]) -> Deliveries:
        try:
            many = make()
            try:
                while (record := many.step()) is not None:
                    many.add_queued(self._wait_for_room(record))
            except BaseException as error:
                many.end(error)
                raise
        except KafkaError as error:
            self._refused(error)
            raise
        many.end(None)
        return many.deliveries

    def _wait_for_room(self, record: SerializedRecord) -> FutureRecordMetadata:
        return self._wait(lambda: self._core.send_later(record).waiter)

    def flush(self, timeout: float | None = None) -> int:
        """Send the queued records without lingering, and wait until all are delivered or failed, up
        to `timeout` seconds. Returns the number of records without an outcome."""
        return self._wait(lambda: self._core.flush(milliseconds_of(timeout)))

    def __len__(self) -> int:
        """Return the number of records without an outcome."""
        return self._core.accumulator.incomplete_records

    def __bool__(self) -> bool:
        return True

    # Metadata and metrics.

    def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic. Raises as `send` does."""
        return self._wait(lambda: self._core.partitions_for(topic))

    def metrics(self) -> Metrics:
        """Return the metrics by the names of Kafka's producer: see `client.metrics`. Any thread."""
        self._check_open()
        return producer_metrics(self._core)

    # Closing.

    def close(self, timeout: float | None = None) -> None:
        """Deliver the queued records and close; after `timeout` seconds, fail the rest.

        Every record is delivered or fails within `delivery.timeout.ms`, so closing takes no longer.
        A second call does nothing.

        A signal handler may call it, too. If it interrupted a call of this producer that holds a
        lock, this returns at once, and the background thread closes the producer when that call
        has gone on; a later `close`, or the end of the process, waits for it."""
        timeout_ms = milliseconds_of(timeout)
        if self._is_interrupted_with_a_lock:
            with contextlib.suppress(ClientClosed):
                self._thread.post(partial(close_from_owner, self._core, self._thread, timeout_ms))
            return
        self._finish_at_exit()
        if self._end.alive and self._thread.running:
            with contextlib.suppress(ClientClosed):  # Another thread closed it.
                self._wait(lambda: self._core.close(timeout_ms))
        super().close()

    @property
    def _is_interrupted_with_a_lock(self) -> bool:
        """True in a signal handler that interrupted a call of this producer that holds a lock.
        Python runs signal handlers on the main thread only."""
        return threading.current_thread() is threading.main_thread() and (
            stays_locked(self._core.accumulator_lock) or stays_locked(self._core.pool_lock)
        )

    def _finish(self) -> None:
        self.close(END_TIMEOUT_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(None if error is None else END_TIMEOUT_S)


def close_from_owner(core: ProducerCore, thread: EngineThread, timeout_ms: int | None) -> None:
    """Begin to close a producer, on its owner thread."""
    core.close(timeout_ms).add_callback(lambda _: thread.close(core.abandon))
