"""PollLoop: the application's loop in a poll, which returns records, waits, and runs callbacks.

    poll, fill ─► attention? ─► raise an error, or run the group's callbacks ─────┐
         ▲              │ no                                                      │
         │              ▼                                                         │
         │          take available records ─► enough ─► return                    │
         │              │ not enough                                              │
         └── woken ◄── sleep until the engine has something, or time is over ◄────┘

The blocking and the asyncio API share this code. It is written as coroutines over a `PollDriver`,
which each API implements. The methods of the blocking driver block instead of suspending, so its
coroutines run to their end in one go (`run_now`). asyncio awaits them.

`close` may be called from anywhere: another thread or task, a listener, or a signal handler that
runs during a listener call. The caller of `close` makes the listener's last calls, and the poll
that was under way raises `ClientClosed`.

Shared with the engine: the collector's queue, the deques of errors and of the group's requests to
the application, and the driver's signal. Everything else belongs to the application's thread.

A `PollBuffer` collects what one call returns together: records, or columns. When the call is
interrupted (Ctrl-C, a cancelled task), `FetchCollector.undo` returns the positions to go back to.

`PollTracker` tells the group that the application polls. A poll that finds a record does not enter
the engine and reads no clock; it only increments `FetchCollector.polls`. The tracker, on the
engine's thread, compares this count at intervals. So the end of max.poll.interval.ms may be noticed
a twentieth of it late, and never early.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from odradek.client.consumer.batch import Batch, OffsetAndMetadata
from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.consumer.fetch.completed_fetch import ColumnRun
from odradek.client.consumer.group.member import CallListener
from odradek.client.consumer.group.rebalance import RebalanceListener
from odradek.client.consumer.record import Record
from odradek.client.errors import ClientClosed, DeadLetterFailed, DecodeError
from odradek.client.waiter import Waiter
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import Alarm
from odradek.protocol.record_columns import RecordColumns
from odradek.timing.timer import SystemTimer

if TYPE_CHECKING:
    from odradek.client.consumer.application.dead_letters import DeadLetters
    from odradek.client.consumer.consumer_core import ConsumerCore

T = TypeVar("T")


NOTHING: Mapping[TopicPartition, OffsetAndMetadata] = MappingProxyType({})


class PollDriver(Protocol):
    """The operations that the blocking and the asyncio API implement differently."""

    @property
    def running(self) -> bool:
        """True while the engine runs."""
        ...

    def time(self) -> float:
        """Return the seconds of a monotonic clock."""
        ...

    def signal(self) -> None:
        """Wake the application. Any thread."""
        ...

    def clear(self) -> None:
        """Forget the signals given before."""
        ...

    async def sleep(self, timeout_s: float | None) -> None:
        """Sleep until a signal, or until the timeout; None: no timeout."""
        ...

    async def call(self, action: Callable[[], T]) -> T:
        """Run a function on the engine's thread and return its result."""
        ...

    async def wait(self, make: Callable[[], Waiter[T]]) -> T:
        """Make a waiter on the engine's thread, and return its result when it is done."""
        ...

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call a function of the application."""
        ...


MAX_ARROW_BYTES = 256 * 1024 * 1024
"""Largest limit of the data in one Arrow batch. Its 32-bit offsets can address 2 GiB."""


def limit_of(name: str, given: int, least: int = 1) -> int:
    """Return `given` if it is at least `least`; else raise `ValueError`."""
    if given < least:
        raise ValueError(f"{name} cannot be {given}. What to do: give {least} or more")
    return given


class PollBuffer(Protocol):
    """The records that one call collects before it returns."""

    def add(self) -> None:
        """Add available records. Raises the error of a failed fetch if the buffer is empty."""
        ...

    @property
    def is_full(self) -> bool: ...

    @property
    def is_empty(self) -> bool: ...


class RecordBuffer:
    """Up to `limit` records."""

    def __init__(self, collector: FetchCollector, limit: int) -> None:
        self.records: list[Record[Any, Any]] = []
        self._collector = collector
        self._limit = limit

    def add(self) -> None:
        self._collector.take(self.records, self._limit)

    @property
    def count(self) -> int:
        return len(self.records)

    @property
    def is_full(self) -> bool:
        return len(self.records) >= self._limit

    @property
    def is_empty(self) -> bool:
        return not self.records

    def batch(self) -> Batch[Any, Any]:
        """Return the collected records as a batch."""
        return Batch(self.records, self._collector.consumed_offsets())


class ColumnBuffer:
    """Up to `limit` rows as columns; the row that makes the data exceed `max_bytes` is the last."""

    def __init__(
        self, collector: FetchCollector, limit: int, max_bytes: int = MAX_ARROW_BYTES
    ) -> None:
        self.columns = RecordColumns()
        self.runs: list[ColumnRun] = []
        self._collector = collector
        self._limit = limit
        self._max_bytes = min(max_bytes, MAX_ARROW_BYTES)

    def add(self) -> None:
        self._collector.take_columns(self.columns, self.runs, self._limit, self._max_bytes)

    @property
    def count(self) -> int:
        return self.columns.count

    @property
    def is_full(self) -> bool:
        return self.columns.count >= self._limit or self.columns.data_bytes > self._max_bytes

    @property
    def is_empty(self) -> bool:
        return self.columns.count == 0

    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit for the rows."""
        return self._collector.consumed_offsets()


CURRENT_CALL: ContextVar[CallListener | None] = ContextVar("odradek_listener_call", default=None)
"""The listener call in which the present thread or task runs; tasks that it starts inherit it."""


class PollLoop:
    """The poll loop of one consumer.

    Callbacks receive `consumer`, the API object.
    """

    def __init__(
        self,
        consumer: Any,
        driver: PollDriver,
        core: ConsumerCore,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self.collector = core.collector
        self.dead_letters = dead_letters
        self.listener = RebalanceListener()
        self.closed = False
        self._closing_call: CallListener | None = None
        self._consumer = consumer
        self.driver = driver
        self._core = core
        self._interceptors = core.interceptors

    @property
    def max_poll_interval_ms(self) -> int:
        """How long the application may take until it polls again; then the group goes on without
        this consumer."""
        return self._core.config.max_poll_interval_ms

    def _deadline(self, timeout: float | None) -> float | None:
        """Return the time `timeout` seconds from now; None (no deadline) if it is
        negative or None.
        """
        return None if timeout is None or timeout < 0 else self.driver.time() + timeout

    def _left(self, deadline: float | None) -> float | None:
        """Return the seconds left until the deadline."""
        return None if deadline is None else max(0.0, deadline - self.driver.time())

    # Records.

    async def poll(self, timeout: float | None) -> Record[Any, Any] | None:
        """Return the next record; None after `timeout` seconds, or if everything assigned was read
        to its end.
        """
        deadline = self._deadline(timeout)
        self.collector.mark_consumed()
        while True:
            self._clear()
            await self._handle_attention()
            record = self.collector.next_record()
            if record is not None:
                return record
            letters = self.collector.set_aside
            if letters and await self._publish(letters):
                continue
            if not self.collector.attention and not await self._sleep(deadline):
                return None

    async def fill(self, buffer: PollBuffer, timeout: float | None) -> bool:
        """Fill the buffer until it is full, the timeout is over, or something else needs attention.
        False if no more records will come.
        """
        deadline = self._deadline(timeout)
        self.collector.mark_consumed()
        try:
            while True:
                self._clear()
                if buffer.is_empty:
                    await self._handle_attention()
                    self.collector.keep_consumed(self._core.owns)
                buffer.add()
                if buffer.is_full:
                    return True
                letters = self.collector.set_aside
                if letters:
                    try:
                        if await self._publish(letters):
                            continue
                    except DeadLetterFailed:
                        if buffer.is_empty:
                            raise
                        # The records before them are returned; the next call tries again.
                        return True
                if self.collector.attention or self.closed:
                    if not buffer.is_empty:
                        return True
                elif not await self._sleep(deadline):
                    return not self._core.is_exhausted
        except BaseException:
            await self.rewind()
            raise

    async def convert(self, use: Callable[[], T]) -> T | None:
        """Return `use()`, which makes an Arrow batch of the collected records, when the dead
        letters that it makes are acknowledged. If it raises, the records do not count as returned.
        None: something else needs attention first, and the records will be collected again.
        """
        try:
            result = use()
            letters = self.dead_letters
            while letters is not None and letters.column_letters:
                self._clear()
                if await self._publish(letters.column_letters):
                    continue
                if self.collector.attention and self.collector.can_undo:
                    letters.column_letters.clear()
                    await self.rewind()
                    return None
                await self._sleep_until_woken(None)
            if self._interceptors is not None:
                result = self._interceptors.on_consume_arrow(result)
            return result
        except BaseException:
            if self.dead_letters is not None:
                self.dead_letters.column_letters.clear()  # They come again with their rows.
            await self.rewind()
            raise

    async def _publish(self, letters: list[DecodeError]) -> bool:
        """Begin to write undecodable records as dead letters, and remove the written ones from the
        list; True if there were any. Each outcome wakes the application. Raises `DeadLetterFailed`.
        """
        dead_letters = self.dead_letters
        assert dead_letters is not None
        unsent = dead_letters.unsent(letters)
        if unsent:
            await self.driver.call(lambda: dead_letters.send(unsent, self.driver.signal))
        return dead_letters.remove_acknowledged(letters)

    @property
    def on_decode_error(self) -> Callable[[DecodeError], object] | None:
        """Called for each column value that cannot be decoded; None: the decoder raises."""
        if self.dead_letters is not None:
            return self.dead_letters.column_letters.append
        return self.collector.deserializers.on_error

    async def rewind(self, kept: Mapping[TopicPartition, OffsetAndMetadata] = NOTHING) -> None:
        """Move the positions back: the records that the last call collected do not count as
        returned, and come again; of the partitions in `kept` only those from there on."""
        positions = []
        for position, offset, epoch in self.collector.undo():
            to = kept.get(position.topic_partition)
            if to is not None:
                offset, epoch = to.offset, to.leader_epoch
            positions.append((position, offset, epoch))
        if positions and self.driver.running:
            await self.driver.call(lambda: self._core.move_back(positions))
            self.collector.refresh()

    def _clear(self) -> None:
        """Forget old signals, except that a closed loop stays signalled for the caller of
        `close`.
        """
        self.driver.clear()
        if self.closed:
            self.driver.signal()

    async def _sleep(self, deadline: float | None) -> bool:
        """Wait until something may be available; False if the time is over, or nothing can come."""
        if self._core.is_exhausted:
            return False
        left = self._left(deadline)
        if left == 0:
            return False
        await self._sleep_until_woken(left)
        return True

    async def _sleep_until_woken(self, timeout_s: float | None) -> None:
        """Wait for a signal; the group knows meanwhile that the application is there."""
        if not self.driver.running:
            raise ClientClosed("the consumer is closed")
        clock, poll_idle = self._core.engine.env.clock, self._core.calls.poll_idle
        began_ms = clock.monotonic_ms()
        self._core.group.set_waiting(True)
        try:
            await self.driver.sleep(timeout_s)
        finally:
            self._core.group.set_waiting(False)
            now_ms = clock.monotonic_ms()
            poll_idle.record(now_ms - began_ms, now_ms)

    # Errors and callbacks.

    async def _handle_attention(self) -> None:
        """Raise pending errors and run the group's callbacks, if there are any."""
        collector = self.collector
        if self.closed:
            raise ClientClosed("the consumer is closed")
        if not collector.attention:
            return
        self.tell_commits()
        errors = self._core.errors
        if errors:
            raise errors.popleft()
        collector.attention = False
        if errors:  # An error arrived in between.
            collector.attention = True
        await self.driver.call(self._core.group.poll)
        collector.refresh()  # Partitions about to be revoked return no records.
        await self._run_callbacks()

    def tell_commits(self) -> None:
        """Tell the interceptors of the commits that succeeded lately."""
        if self._interceptors is not None:
            self._interceptors.tell_commits()

    async def _run_callbacks(self, *, closing: bool = False) -> None:
        """Run the group's requests to the application. While it closes, only the caller of `close`
        does.
        """
        group = self._core.group
        while closing or not self.closed:
            try:
                effect = group.for_application.popleft()
            except IndexError:  # Another thread, which closes, may have taken the last.
                return
            if not isinstance(effect, CallListener):
                raise effect.error
            raised = await self._call_back(effect)
            if raised is not None and not isinstance(raised, Exception):
                raise raised

    async def _call_back(self, effect: CallListener) -> BaseException | None:
        """Call the listener and report the outcome to the group; return what it raised."""
        raised: BaseException | None = None
        self.collector.refresh()
        callback = self.listener.callback(effect.event)
        clock = self._core.engine.env.clock
        token = CURRENT_CALL.set(effect)
        try:
            if callback is not None:
                began_ms = clock.monotonic_ms()
                try:
                    await self.driver.call_back(callback, self._consumer, list(effect.partitions))
                finally:
                    now_ms = clock.monotonic_ms()
                    self._core.calls.listener_called(effect.event, now_ms - began_ms, now_ms)
        except BaseException as error:
            raised = error
        try:
            if self._closing_call is effect or not self.driver.running:
                if raised is not None:  # The group no longer runs: nobody to report to.
                    raise raised
                return None
            # KeyboardInterrupt and the like are raised here, once; the group must not repeat it.
            outcome = raised if isinstance(raised, Exception) else None
            await self.driver.call(lambda: self._core.group.callback_returned(outcome))
        finally:
            CURRENT_CALL.reset(token)
        self.collector.refresh()
        return raised

    async def run_with_callbacks(
        self, make: Callable[[], Waiter[None]], *, closing: bool = False
    ) -> None:
        """Start an operation on the engine's thread that may call the listener, and run it to its
        end.

        Errors of the group's requests are raised at the end. Ends early, without an error, if the
        consumer is closed meanwhile.
        """

        def begin() -> Waiter[None]:
            waiter = make()
            waiter.add_callback(lambda _: self.driver.signal())
            return waiter

        waiter = await self.driver.call(begin)
        failure: Exception | None = None
        while not waiter.done:
            self.driver.clear()
            try:
                await self._run_callbacks(closing=closing)
            except Exception as error:
                failure = failure or error
                continue  # More requests may follow.
            if self.closed and not closing:
                self.driver.signal()  # The signal may be for the caller of close.
                break
            if not waiter.done:
                if not self.driver.running:
                    raise failure or ClientClosed("the consumer is closed")
                await self.driver.sleep(None)
        self.collector.refresh()
        if waiter.error is not None:
            raise waiter.error
        if failure is not None:
            raise failure

    async def close(self, timeout: float) -> None:
        """Leave the group within `timeout` seconds and stop the engine. A poll that is waiting
        raises `ClientClosed` at once.
        """
        deadline = self._deadline(max(0.0, timeout))
        # The group must not wait for this call: nobody reports its return.
        inside = self._closing_call = CURRENT_CALL.get()
        self.closed = True
        self.collector.attention = True
        self.driver.signal()
        try:
            if self.driver.running:
                ms = round(timeout * 1000)
                await self.run_with_callbacks(
                    lambda: self._core.group.close(ms, inside=inside), closing=True
                )
        finally:
            self.collector.attention = True
            try:
                await self._close_dead_letters(deadline)
            finally:
                if self.driver.running:
                    await self.driver.call(self._core.close)
                self.driver.signal()
                self.tell_commits()
                if self._interceptors is not None:
                    self._interceptors.close()

    async def _close_dead_letters(self, deadline: float | None) -> None:
        """Give the dead letters in flight the time that is left. Those without an outcome are
        behind the position: the consumer that goes on there sends them again.
        """
        if self.dead_letters is not None and self.driver.running:
            producer = self.dead_letters.producer
            left_ms = round((self._left(deadline) or 0) * 1000)
            await self.driver.wait(lambda: producer.close(left_ms))


def run_now(coroutine: Coroutine[Any, None, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    coroutine.close()
    raise RuntimeError("a coroutine of the blocking API suspended")


CHECKS_PER_INTERVAL = 20
"""Number of checks in one max.poll.interval.ms."""


class PollTracker:
    """Calls `on_poll` if the application has polled since the last check."""

    def __init__(
        self,
        timer: SystemTimer,
        collector: FetchCollector,
        max_poll_interval_ms: int,
        on_poll: Callable[[], object],
    ) -> None:
        self._timer = timer
        self._collector = collector
        self._every_ms = max(1, max_poll_interval_ms // CHECKS_PER_INTERVAL)
        self._on_poll = on_poll
        self._polls = 0
        self._alarm = Alarm(timer, self._check)

    def start(self) -> None:
        self._alarm.set_for(self._timer.now_ms + self._every_ms)

    def close(self) -> None:
        self._alarm.cancel()

    def _check(self) -> None:
        polls = self._collector.polls
        if polls != self._polls:
            self._polls = polls
            self._on_poll()
        self.start()
