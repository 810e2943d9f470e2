"""The outcome of records: one future per record, or one object for many records.

    ProducerBatch ── ProduceRequestResult            one per batch: base offset, or error
                          ▲ ▲ ▲
                          │ │ └ FutureRecordMetadata     one per record: the result, and the index
                          │ └── FutureRecordMetadata     of the record in the batch
                          └──── Deliveries               one per `send_many`: which records of which
                                                         batches

A record's future is a few numbers and a reference. Completing a batch sets one flag, however many
records it has; offsets are calculated when the application asks for them. Only callbacks cost
something per record. `Deliveries` costs a few hundred small objects for a million records.

A batch that is too large for the broker is split. Its result then has `parts`: the results of the
smaller batches, with the index of the first record of each. It is done when all parts are done, and
a future finds its own part.

How to wait depends on the client, blocking or awaited: see `WaitStrategy`.

The outcome is reported exactly once and on the owner thread: first to the callbacks given with the
records, in the order of the records, then to the callbacks added to futures, in the order in which
they were added.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, final

from librt.threading import Lock
from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.waiter import Waiter

log = logging.getLogger(__name__)

NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_SIZE: Final[i64] = -1
"""The serialized size of a key or value that is null."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ResultCallback = Callable[[], object]


class WaitStrategy(Protocol):
    """The way an application waits for a batch: blocking or awaiting, depending on the client."""

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        """Block until the batch is done; False after `timeout_s` seconds."""
        ...

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        """Return the generator of an awaitable that is done with the batch."""
        ...


@final
class Delivery:
    """The place of a written record: partition and offset.

    `offset` is -1 if the broker does not return it (acks=0), or the record was not written.
    `timestamp_ms` is the record's own, or the broker's if the topic's timestamps are append times.
    The sizes are bytes before compression; -1 if the key or value is null.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        serialized_key_size: i64 = NO_SIZE,
        serialized_value_size: i64 = NO_SIZE,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self._serialized_key_size = serialized_key_size
        self._serialized_value_size = serialized_value_size

    @property
    def serialized_key_size(self) -> int:
        """Bytes of the key; -1 if the record has none, or was not serialized."""
        return self._serialized_key_size

    @property
    def serialized_value_size(self) -> int:
        """Bytes of the value; -1 if it is null, or was not serialized."""
        return self._serialized_value_size

    @property
    def timestamp(self) -> datetime:
        """`timestamp_ms` as a time in UTC."""
        return EPOCH + timedelta(milliseconds=self.timestamp_ms)

    def __repr__(self) -> str:
        return (
            f"Delivery(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms}, serialized_key_size={self.serialized_key_size}, "
            f"serialized_value_size={self.serialized_value_size})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Delivery):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def _fields(self) -> tuple[str, int, int, int, int, int]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self._serialized_key_size,
            self._serialized_value_size,
        )


@final
class ProduceRequestResult:
    """The outcome of a batch, once `done`."""

    def __init__(self, topic: str, partition: int, wait_strategy: WaitStrategy, lock: Lock) -> None:
        self.topic = topic
        self.partition = partition
        self.wait_strategy = wait_strategy
        self.done = False
        self.base_offset: i64 = NO_OFFSET
        self.log_append_time_ms: i64 = NO_TIMESTAMP
        self.error: KafkaError | None = None
        """The error of all records that have no error of their own."""
        self.record_errors: Mapping[int, KafkaError] | None = None
        self.parts: list[tuple[int, ProduceRequestResult]] = []
        """If the batch was split: index of the first record, and result, of each part."""
        self.lock = lock
        self._callbacks: list[ResultCallback] | None = None

    def complete(self, base_offset: i64, log_append_time_ms: i64) -> None:
        """Set the offset of the written records."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None) -> None:
        """Set the error of records that were not written, or may not be."""
        self.error = error
        self.record_errors = record_errors

    def finish(self) -> None:
        """Set `done` and run the callbacks."""
        with self.lock:
            self.done = True
            callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                run_callback(callback)

    def add_callback(self, callback: ResultCallback) -> None:
        """Call it when this is done; at once, on this thread, if it is done already."""
        with self.lock:
            done = self.done
            if not done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
        if done:
            run_callback(callback)

    def split(self, parts: list[tuple[int, ProduceRequestResult]]) -> None:
        """Take the outcome from these parts, which are sent instead of the batch."""
        self.parts = parts
        for _, part in parts:
            part.add_callback(self._part_done)

    def _part_done(self) -> None:
        if all(part.done for _, part in self.parts):
            self.finish()

    def part_of(self, index: i64) -> tuple[ProduceRequestResult, i64]:
        """Return the result that holds a record's outcome, and the record's index in it."""
        found, first = self, 0
        for start, part in self.parts:
            if start > index:
                break
            found, first = part, start
        if found is self:
            return self, index
        return found.part_of(index - first)

    @property
    def succeeded(self) -> bool:
        """True if done, and all records were written."""
        if self.parts:
            return all(part.succeeded for _, part in self.parts)
        return self.done and self.error is None and not self.record_errors

    def error_of(self, index: i64) -> KafkaError | None:
        """Return the error of a record, or None."""
        found, index = self.part_of(index)
        errors = found.record_errors
        return found.error if errors is None else errors.get(index, found.error)

    def delivery(
        self, index: i64, timestamp_ms: i64, key_size: i64 = NO_SIZE, value_size: i64 = NO_SIZE
    ) -> Delivery:
        """Return where a record was written."""
        found, index = self.part_of(index)
        offset: i64 = found.base_offset
        if offset >= 0:
            offset += index
        if found.log_append_time_ms >= 0:
            timestamp_ms = found.log_append_time_ms
        return Delivery(self.topic, self.partition, offset, timestamp_ms, key_size, value_size)

    def remove_callbacks(self, same: RecordCallback) -> int:
        """Remove all callbacks equal to this one; return how many there were."""
        with self.lock:
            callbacks = self._callbacks
            if callbacks is None:
                return 0
            kept = [each for each in callbacks if each != same]
            self._callbacks = kept
            return len(callbacks) - len(kept)


@final
class RecordCallback:
    """A function called with a record's future. Equal if future and function are the same."""

    def __init__(
        self, future: FutureRecordMetadata, function: Callable[[FutureRecordMetadata], object]
    ) -> None:
        self.future = future
        self.function = function

    def __call__(self) -> object:
        return self.function(self.future)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordCallback):
            return NotImplemented
        return self.future is other.future and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


def run_callback(callback: ResultCallback) -> None:
    """Run an application's callback. Its exceptions are logged, because there is no caller to raise
    them to; so is SystemExit, which would end the sending thread rather than the process."""
    try:
        callback()
    except (Exception, SystemExit):
        log.exception("a delivery callback raised")


@final
class FutureRecordMetadata:
    """The future of one record.

    `result()` blocks in the blocking producer; in both producers the future may be awaited. It
    cannot be cancelled: a record that was queued is sent. In `odradek.aio`, `asyncio.wait` accepts
    it like other futures. `concurrent.futures.wait` and `as_completed` accept only their own
    futures: to wait for many, call `flush`, or `result` of one after the other.
    """

    def __init__(
        self,
        request: ProduceRequestResult,
        index: i64,
        timestamp_ms: i64,
        key_size: i64 = NO_SIZE,
        value_size: i64 = NO_SIZE,
    ) -> None:
        self.request = request
        self.index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size

    def done(self) -> bool:
        """True if the outcome is known."""
        return self.request.done

    def result(self, timeout: float | None = None) -> Delivery:
        """Return where the record was written, waiting up to `timeout` seconds for it.

        Raises the `KafkaError` it failed with, and `TimeoutError` if the outcome is not known in
        time; the record may still be written then.
        """
        error = self.exception(timeout)
        if error is not None:
            # Many futures share one error: it must not collect the tracebacks of all of them.
            raise error.with_traceback(None)
        return self._delivery()

    def _delivery(self) -> Delivery:
        return self.request.delivery(
            self.index, self._timestamp_ms, self._key_size, self._value_size
        )

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Return the error of the record, or None; waits like `result`, and raises
        `TimeoutError`."""
        request = self.request
        if not request.done and not request.wait_strategy.wait(request, timeout):
            raise TimeoutError(
                f"the outcome of a record for {request.topic}-{request.partition} is not known "
                f"after {timeout} s; it may still be written: wait longer, or see its callback"
            )
        return request.error_of(self.index)

    def add_done_callback(self, callback: Callable[[FutureRecordMetadata], object]) -> None:
        """Call it with this future on the producer's thread when the outcome is known; at once, on
        this thread, if it is known already. Its exceptions are logged."""
        self.request.add_callback(RecordCallback(self, callback))

    def remove_done_callback(self, callback: Callable[[FutureRecordMetadata], object]) -> int:
        """Remove a callback; return how often it had been added."""
        return self.request.remove_callbacks(RecordCallback(self, callback))

    def cancel(self) -> bool:
        """Return False: a queued record cannot be cancelled."""
        return False

    def cancelled(self) -> bool:
        return False

    def running(self) -> bool:
        return not self.done()

    def __await__(self) -> Generator[Any, None, Delivery]:
        request = self.request
        if not request.done:
            yield from request.wait_strategy.until_done(request)
        return self.result(0)

    def __repr__(self) -> str:
        request = self.request
        if not request.done:
            return "<FutureRecordMetadata pending>"
        error = request.error_of(self.index)
        found = self._delivery()
        return f"<FutureRecordMetadata {found if error is None else repr(error)}>"


def serialized_size(data: bytes | None) -> i64:
    """Return the size of a serialized key or value; `NO_SIZE` for null."""
    return NO_SIZE if data is None else len(data)


class CoroutineWait:
    """For coroutines that `waiter.spawn` runs: in simulations there is no other thread."""

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        raise RuntimeError("a future cannot block in a coroutine of the engine: await it")

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        waiter: Waiter[None] = Waiter()
        result.add_callback(lambda: waiter.complete(None))
        return waiter.__await__()


class DeliveredRange(NamedTuple):
    """Records of one partition with consecutive offsets, `last_offset` included.

    A range has no sizes: those of its records are not kept.
    Offsets are -1 if the broker does not return them (acks=0)."""

    topic: str
    partition: int
    records: int
    first_offset: int
    last_offset: int


@final
class BatchRun:
    """Consecutive records of one batch."""

    def __init__(self, result: ProduceRequestResult, first: i64) -> None:
        self.result = result
        self.first = first
        self.count: i64 = 1


@final
class Deliveries:
    """The outcome of many records, by the batches they are in.

    Await it, or call `result`."""

    def __init__(self) -> None:
        self.count: i64 = 0
        """The number of records queued so far."""
        self._runs: list[BatchRun] = []
        self._last: dict[ProduceRequestResult, BatchRun] = {}
        self._current: BatchRun | None = None

    def add(self, result: ProduceRequestResult, index: i64, count: i64 = 1) -> None:
        """Add queued records by their batch and the index of the first of them in it."""
        self.count += count
        run = self._current
        if run is None or run.result is not result:
            run = self._last.get(result)
        if run is not None and run.first + run.count == index:
            run.count += count
        else:
            run = BatchRun(result, index)
            run.count = count
            self._runs.append(run)
            self._last[result] = run
        self._current = run

    def add_future(self, future: FutureRecordMetadata) -> None:
        """Add a record that had to wait."""
        self.add(future.request, future.index)

    def __len__(self) -> int:
        return self.count

    def done(self) -> bool:
        """True if the outcome of all records is known."""
        return all(result.done for result in self._last)

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call it on the owner thread when the outcome of all records queued so far is known; at
        once, on this thread, if it is known already. Its exceptions are logged."""
        results = list(self._last)
        left = len(results)
        if not left:
            run_callback(callback)
            return

        def one_done() -> None:
            nonlocal left
            with results[0].lock:
                left -= 1
                last = left == 0
            if last:
                callback()

        for result in results:
            result.add_callback(one_done)

    def wait(self, timeout: float | None = None) -> None:
        """Block until the outcome of all records is known. Raises `TimeoutError` if a batch takes
        longer than `timeout` seconds from now on."""
        for result in self._last:
            if not result.done and not result.wait_strategy.wait(result, timeout):
                raise TimeoutError(
                    f"the outcome of {self.count} records is not known after {timeout} s; they may "
                    "still be written: wait longer"
                )

    def result(self, timeout: float | None = None) -> list[DeliveredRange]:
        """Return where the records were written, waiting as `wait` does.

        Raises the first `KafkaError` if some records failed; `errors` returns all errors.
        """
        self.wait(timeout)
        for error, _ in self.errors():
            raise error.with_traceback(None)
        return [range_of(run) for run in self._runs]

    def errors(self) -> list[tuple[KafkaError, int]]:
        """Return the errors so far, each with the number of records that failed with it."""
        found: dict[KafkaError, int] = {}
        for run in self._runs:
            if run.result.done and not run.result.succeeded:
                for error in errors_of(run):
                    found[error] = found.get(error, 0) + 1
        return list(found.items())

    def __await__(self) -> Generator[Any, None, list[DeliveredRange]]:
        for result in list(self._last):
            if not result.done:
                yield from result.wait_strategy.until_done(result)
        return self.result(0)

    def __repr__(self) -> str:
        open_runs = sum(not run.result.done for run in self._runs)
        return f"<Deliveries of {self.count} records, {open_runs} of {len(self._runs)} runs open>"


def errors_of(run: BatchRun) -> Iterator[KafkaError]:
    """Yield the error of each record that failed."""
    for index in range(run.first, run.first + run.count):
        error = run.result.error_of(index)
        if error is not None:
            yield error


def range_of(run: BatchRun) -> DeliveredRange:
    first = run.result.delivery(run.first, -1)
    last = run.result.delivery(run.first + run.count - 1, -1)
    return DeliveredRange(first.topic, first.partition, run.count, first.offset, last.offset)
