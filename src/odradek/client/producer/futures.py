"""The outcome of records: one future per record, or one object for many records.

    ProducerBatch ── ProduceRequestResult            one per batch: base offset, or error
                          ▲ ▲ ▲
                          │ │ └ FutureRecordMetadata     one per record: the result, and the index
                          │ └── FutureRecordMetadata     of the record in the batch
                          └──── Deliveries               one per `send_many`: which records of which
                                                         batches

A record's future is two numbers and a reference. Completing a batch sets one flag, however many
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
from typing import Any, NamedTuple, Protocol, final

from librt.threading import Lock
from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.waiter import Waiter

log = logging.getLogger(__name__)

NO_OFFSET = -1
NO_TIMESTAMP = -1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ResultCallback = Callable[[], object]


class WaitStrategy(Protocol):
    """How the user's side of a producer waits for a batch."""

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        """Block until it is done; False if the time is over before."""
        ...

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        """The same, to be awaited."""
        ...


@final
class Delivery:
    """Where a record was written.

    `offset` is -1 where the broker does not tell it (acks=0), or the record was not written.
    `timestamp_ms` is the record's own, or the broker's if the topic's timestamps are append times.
    """

    def __init__(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms

    @property
    def timestamp(self) -> datetime:
        """`timestamp_ms` as a time in UTC."""
        return EPOCH + timedelta(milliseconds=self.timestamp_ms)

    def __repr__(self) -> str:
        return (
            f"Delivery(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Delivery):
            return NotImplemented
        return (self.topic, self.partition, self.offset, self.timestamp_ms) == (
            other.topic,
            other.partition,
            other.offset,
            other.timestamp_ms,
        )

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))


@final
class ProduceRequestResult:
    """What became of a batch, once `done`."""

    def __init__(self, topic: str, partition: int, wait_strategy: WaitStrategy, lock: Lock) -> None:
        self.topic = topic
        self.partition = partition
        self.wait_strategy = wait_strategy
        self.done = False
        self.base_offset: i64 = NO_OFFSET
        self.log_append_time_ms: i64 = NO_TIMESTAMP
        self.error: KafkaError | None = None
        """What all records failed with that have no error of their own."""
        self.record_errors: Mapping[int, KafkaError] | None = None
        self.parts: list[tuple[int, ProduceRequestResult]] = []
        """Once split: index of the first record, and result, of each smaller batch."""
        self.lock = lock
        self._callbacks: list[ResultCallback] | None = None

    def complete(self, base_offset: i64, log_append_time_ms: i64) -> None:
        """The records were written."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None) -> None:
        """They were not, or nobody knows."""
        self.error = error
        self.record_errors = record_errors

    def finish(self) -> None:
        """Set `done`, and tell those who wait."""
        with self.lock:
            self.done = True
            callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                run_callback(callback)

    def add_callback(self, callback: ResultCallback) -> None:
        """Call it when this is done; at once, on this thread, if it is."""
        with self.lock:
            done = self.done
            if not done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
        if done:
            run_callback(callback)

    def split(self, parts: list[tuple[int, ProduceRequestResult]]) -> None:
        """The batch is sent as these instead."""
        self.parts = parts
        for _, part in parts:
            part.add_callback(self._part_done)

    def _part_done(self) -> None:
        if all(part.done for _, part in self.parts):
            self.finish()

    def part_of(self, index: i64) -> tuple[ProduceRequestResult, i64]:
        """The result that counts for a record, and the record's index there."""
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
        """Done, and all records were written."""
        if self.parts:
            return all(part.succeeded for _, part in self.parts)
        return self.done and self.error is None and not self.record_errors

    def error_of(self, index: i64) -> KafkaError | None:
        """What a record failed with."""
        found, index = self.part_of(index)
        errors = found.record_errors
        return found.error if errors is None else errors.get(index, found.error)

    def delivery(self, index: i64, timestamp_ms: i64) -> Delivery:
        """Where a record was written."""
        found, index = self.part_of(index)
        offset: i64 = found.base_offset
        if offset >= 0:
            offset += index
        if found.log_append_time_ms >= 0:
            timestamp_ms = found.log_append_time_ms
        return Delivery(self.topic, self.partition, offset, timestamp_ms)

    def remove_callbacks(self, same: RecordCallback) -> int:
        """Forget all that are like this one; how many there were."""
        with self.lock:
            callbacks = self._callbacks
            if callbacks is None:
                return 0
            kept = [each for each in callbacks if each != same]
            self._callbacks = kept
            return len(callbacks) - len(kept)


@final
class RecordCallback:
    """To be called with the future of one record: equal to another that would be, too."""

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
    """A user's callback: what it raises is logged, since there is nobody to tell. So is an exit,
    which would end no program, but the thread that sends."""
    try:
        callback()
    except (Exception, SystemExit):
        log.exception("a delivery callback raised")


@final
class FutureRecordMetadata:
    """The future of one record.

    `result()` blocks in the synchronous producer and may be awaited in both. It cannot be
    cancelled: a record that was taken is sent. In `odradek.aio`, `asyncio.wait` takes it as it
    takes other futures. `concurrent.futures.wait` and `as_completed` take none but their own: wait
    for many with `flush`, or with `result` for one after the other.
    """

    def __init__(self, request: ProduceRequestResult, index: i64, timestamp_ms: i64) -> None:
        self.request = request
        self.index = index
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.request.done

    def result(self, timeout: float | None = None) -> Delivery:
        """Where the record was written, waiting up to `timeout` seconds for it.

        Raises the `KafkaError` it failed with, and `TimeoutError` if time is over before the
        outcome is known; the record may be written nevertheless.
        """
        error = self.exception(timeout)
        if error is not None:
            # Many futures share one error: it must not collect the tracebacks of them all.
            raise error.with_traceback(None)
        return self.request.delivery(self.index, self._timestamp_ms)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """What the record failed with, or None; waits and raises as `result` does."""
        request = self.request
        if not request.done and not request.wait_strategy.wait(request, timeout):
            raise TimeoutError(
                f"the outcome of a record for {request.topic}-{request.partition} is not known "
                f"after {timeout} s; it may still be written: wait longer, or see its callback"
            )
        return request.error_of(self.index)

    def add_done_callback(self, callback: Callable[[FutureRecordMetadata], object]) -> None:
        """Call it with this future on the producer's thread once the outcome is known; at once, on
        this thread, if it is. What it raises is logged."""
        self.request.add_callback(RecordCallback(self, callback))

    def remove_done_callback(self, callback: Callable[[FutureRecordMetadata], object]) -> int:
        """Call it no more; how often it was to be called."""
        return self.request.remove_callbacks(RecordCallback(self, callback))

    def cancel(self) -> bool:
        """Never possible."""
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
        found = request.delivery(self.index, self._timestamp_ms)
        return f"<FutureRecordMetadata {found if error is None else repr(error)}>"


class CoroutineWait:
    """The face for coroutines that `waiter.spawn` runs: in simulations there is no other thread."""

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        raise RuntimeError("nothing may block here: await it")

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        waiter: Waiter[None] = Waiter()
        result.add_callback(lambda: waiter.complete(None))
        return waiter.__await__()


class DeliveredRange(NamedTuple):
    """Records of one partition that were written one after the other; `last_offset` included.

    Offsets are -1 where brokers do not tell them (acks=0)."""

    topic: str
    partition: int
    records: int
    first_offset: int
    last_offset: int


@final
class BatchRun:
    """Records that stand together in one batch."""

    def __init__(self, result: ProduceRequestResult, first: i64) -> None:
        self.result = result
        self.first = first
        self.count: i64 = 1


@final
class Deliveries:
    """The outcome of many records, in the order of their batches."""

    def __init__(self) -> None:
        self.count: i64 = 0
        """Records taken in so far."""
        self._runs: list[BatchRun] = []
        self._last: dict[ProduceRequestResult, BatchRun] = {}
        self._current: BatchRun | None = None

    def add(self, result: ProduceRequestResult, index: i64) -> None:
        """One more record was taken in."""
        self.count += 1
        run = self._current
        if run is None or run.result is not result:
            run = self._last.get(result)
        if run is not None and run.first + run.count == index:
            run.count += 1
        else:
            run = BatchRun(result, index)
            self._runs.append(run)
            self._last[result] = run
        self._current = run

    def add_future(self, future: FutureRecordMetadata) -> None:
        """`add`, for a record that had to wait."""
        self.add(future.request, future.index)

    def __len__(self) -> int:
        return self.count

    def done(self) -> bool:
        """Whether the outcome of all records is known."""
        return all(result.done for result in self._last)

    def wait(self, timeout: float | None = None) -> None:
        """Block until it is. Raises `TimeoutError` if a batch takes longer than `timeout` seconds
        from now on."""
        for result in self._last:
            if not result.done and not result.wait_strategy.wait(result, timeout):
                raise TimeoutError(
                    f"the outcome of {self.count} records is not known after {timeout} s; they may "
                    "still be written: wait longer"
                )

    def result(self, timeout: float | None = None) -> list[DeliveredRange]:
        """Where the records were written, waiting for it as `wait` does.

        Raises the first `KafkaError` if some were not; `errors` has them all.
        """
        self.wait(timeout)
        for error, _ in self.errors():
            raise error.with_traceback(None)
        return [range_of(run) for run in self._runs]

    def errors(self) -> list[tuple[KafkaError, int]]:
        """What records have failed with so far, and how many."""
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
    """Those of its records, one by one."""
    for index in range(run.first, run.first + run.count):
        error = run.result.error_of(index)
        if error is not None:
            yield error


def range_of(run: BatchRun) -> DeliveredRange:
    first = run.result.delivery(run.first, -1)
    last = run.result.delivery(run.first + run.count - 1, -1)
    return DeliveredRange(first.topic, first.partition, run.count, first.offset, last.offset)
