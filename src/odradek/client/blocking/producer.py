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
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from odradek.client.arguments import milliseconds_of
from odradek.client.blocking.client import Client
from odradek.client.blocking.confluent_api import ConfluentProducerApi
from odradek.client.blocking.engine_thread import BlockedThread, EngineThread, at_exit
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed
from odradek.client.producer.arguments import producer_arguments
from odradek.client.producer.futures import Deliveries, FutureRecordMetadata, ProduceRequestResult
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import BulkSend, Headers, SendPath, SerializedRecord
from odradek.client.serializers import AnySerializer, SerializerLike
from odradek.config.keywords import ProducerKeywords

if TYPE_CHECKING:
    from odradek.client.arrow.arrow_input import ArrowData


YIELD_BYTES = 131_072
"""Batches queued between two turns of the sender, about."""
YIELD_TIMEOUT_S = 0.005


class SenderYield:
    """Wakes the sender, and lets it have the interpreter when much was queued for it.

    `run` is what the sender does in a turn. Who queues calls `wake` for every new batch; when the
    sender had no turn for `every` of those, the caller waits for one. Not for longer than the
    interpreter would make the sender wait: its thread may be busy with a user's callback.
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
        if not self._woken or not self._thread.running:
            self._woken = True
            self._thread.post(self._turn)
        self._queued += 1
        if self._queued >= self._every and not self._thread.is_current:
            waiting: BlockedThread[None] = BlockedThread()
            self._waiting.append(waiting)
            waiting.block(YIELD_TIMEOUT_S)

    def _turn(self) -> None:
        self._woken = False
        self._queued = 0
        self.run()
        while self._waiting:
            self._waiting.popleft().wake()


class BlockingWait:
    """How futures wait: on a signal; awaited, in the loop that runs then."""

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        if self._thread.is_current:
            raise RuntimeError("a callback cannot wait for a record: its thread sends them")
        if not self._thread.running:
            raise ClientClosed("the producer belongs to another process, or has ended")
        waiting: BlockedThread[None] = BlockedThread()
        result.add_callback(waiting.wake)
        return waiting.block(None if timeout_s is not None and timeout_s < 0 else timeout_s)

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        from odradek.client.aio.engine_loop import until_done  # asyncio only where it is used.

        return until_done(result)


K = TypeVar("K")
V = TypeVar("V")

END_TIMEOUT_S = 30.0
"""How long the end of the process, or of a `with` block by an exception, waits for deliveries."""


class Producer(ConfluentProducerApi[K, V], Client, Generic[K, V]):
    """Sends records to the cluster at `brokers` (or `bootstrap.servers`).

    Settings by any of their names, see `ProducerConfig`. `key` and `value` say how objects become
    bytes: see `client.serializers`. `on_full`: block when `buffer.memory` is used up, or raise
    `BufferFull`. `partitioner` may be a function of topic, key and value in bytes, and the number
    of partitions; it gives one of them, or None for the usual choice. Raises `ConfigError`.
    """

    @overload
    def __init__(
        self: Producer[bytes | str, bytes | str],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        brokers: str | Sequence[str] | None = None,
        on_full: Literal["block", "raise"] = "block",
        **settings: Unpack[ProducerKeywords],
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
        **settings: Unpack[ProducerKeywords],
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
        **settings: Unpack[ProducerKeywords],
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
        **settings: Unpack[ProducerKeywords],
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
        **settings: Unpack[ProducerKeywords],
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
        turn = SenderYield(thread, YIELD_BYTES // made.settings.accumulator.batch_bytes)
        turn.run = core.sender.run
        thread.post(lambda: core.start(turn.wake))
        self._send_path = SendPath(core.router, made.key, made.value, thread.environment.env.clock)
        self._end.detach()
        self._end = weakref.finalize(self, thread.close, core.abandon)
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
        """Queue a record, and give the future of its delivery.

        `partition` None leaves the choice to the key, or to chance if there is none. `timestamp` is
        a datetime, or milliseconds since 1970; by default now. `on_delivery` is called with an
        error or None, and the `Delivery`.

        If it raises, nothing was queued: `SerializationError`, `RecordTooLarge`, `BufferFull`,
        `MaxBlockTimeout`, `UnknownTopicOrPartition`, `ClientClosed` …
        """
        taken = self._send_path.send(topic, value, key, headers, partition, timestamp, on_delivery)
        return taken if type(taken) is FutureRecordMetadata else self._send_later(taken)

    def _send_later(self, record: FutureRecordMetadata | SerializedRecord) -> FutureRecordMetadata:
        assert isinstance(record, SerializedRecord)
        if not self._blocks and self._core.router.knows_topic(record):
            raise self._core.router.buffer_full_error(record)
        return self._wait_for_room(record)

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

        `keys` are as many as values; headers, partition and timestamp are those of every record.
        If it raises, the records before the one at fault were queued.
        """
        source = self._send_path.source(topic, values, keys, headers)
        return self._send_all(self._send_path.bulk(topic, [source], partition, timestamp))

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

        The other arguments name columns: `key` and `value` (the one called "value" unless you say
        otherwise) of binary or text, `headers` of `list<struct<key: text, value: binary>>`,
        `partition` of integers, `timestamp` of timestamps or ms; the last two may be one for all.
        `value="json"`, if no column is called so, makes a JSON object of each row's other columns.
        No serializer is called. If it raises, the rows before the one at fault were queued. Needs
        pyarrow (`odradek[arrow]`).
        """
        from odradek.client.arrow.arrow_input import record_inputs  # Heavy, and optional.

        rows = record_inputs(data, key, value, headers, partition, timestamp)
        return self._send_all(self._send_path.bulk(topic, rows, partition, timestamp))

    def _send_all(self, many: BulkSend) -> Deliveries:
        while (record := many.step()) is not None:
            many.add_queued(self._wait_for_room(record))
        return many.deliveries

    def _wait_for_room(self, record: SerializedRecord) -> FutureRecordMetadata:
        return self._wait(lambda: self._core.send_later(record).waiter)

    def flush(self, timeout: float | None = None) -> int:
        """Send what is queued without lingering, and wait until all of it is delivered or failed,
        up to `timeout` seconds; how many records are not yet.
        """
        return self._wait(lambda: self._core.flush(milliseconds_of(timeout)))

    def __len__(self) -> int:
        """Records whose outcome is open."""
        return self._core.accumulator.incomplete_records

    def __bool__(self) -> bool:
        return True

    # Looking.

    def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises as `send` does."""
        return self._wait(lambda: self._core.partitions_for(topic))

    def metrics(self) -> dict[str, float]:
        """What there is to watch, by the names of Kafka's producer."""
        return self._thread.call(self._core.snapshot)

    # The end.

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent and end; after `timeout` seconds, give up the rest.

        Every record is delivered or fails within `delivery.timeout.ms`, and closing takes no
        longer. More than once does no harm.
        """
        self._finish_at_exit()
        if self._end.alive and self._thread.running:
            with contextlib.suppress(ClientClosed):  # Another thread was faster.
                self._wait(lambda: self._core.close(milliseconds_of(timeout)))
        super().close()

    def _finish(self) -> None:
        self.close(END_TIMEOUT_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(None if error is None else END_TIMEOUT_S)
