"""Driver: what the two faces of a consumer differ in, for what is written once for both.

Its methods are coroutines. The blocking face's never suspend: they block. The asyncio one's are
awaited.

Gathering: what a call wants to have together before it returns.

    while not gathering.is_full and there is time:
        gathering.add()             what is there now
        wait for more               this is what faces differ in

One for records, one for columns. If the wait is broken off (Ctrl-C, a cancelled task) the face
has the positions moved back to where they were: `FetchCollector.undo`.

The application's thread only.

Reading: the application at its consumer. It takes records, waits for them, sees to the rest.

    poll, gather ─► attention? ─► raise an error, or the group's turn: callbacks ─┐
         ▲              │ no                                                      │
         │              ▼                                                         │
         │          take what is there ─► enough ─► return                        │
         │              │ not enough                                              │
         └── woken ◄── sleep until the engine has something, or time is over ◄────┘

Written once for both faces, as coroutines over a `PollDriver`. The blocking one's never suspend: its
methods block, so a coroutine runs to its end in one go (`run_now`). The asyncio one's are awaited.

`close` may come from anywhere: from another thread or task, or from inside a listener, or a handler
of a signal that comes while one is called. Whoever closes makes the listener's last calls, and the
call that was under way ends with `ClientClosed`.

What is shared with the engine: the collector's queue, the deques of errors and of what the group
has for the application, and the driver's signal.

The application's thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from odradek.client.consumer.application.dead_letters import DeadLetters
from odradek.client.consumer.batch import Batch, OffsetAndMetadata
from odradek.client.consumer.consumer import ConsumerCore
from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.consumer.fetch.completed_fetch import ColumnRun
from odradek.client.consumer.group.member import CallListener
from odradek.client.consumer.group.rebalance import RebalanceListener
from odradek.client.consumer.record import Record
from odradek.client.errors import ClientClosed, DeadLetterFailed, DecodeError
from odradek.client.waiter import Waiter
from odradek.model.topics import TopicPartition
from odradek.protocol.record_columns import RecordColumns

T = TypeVar("T")


class PollDriver(Protocol):
    """What the faces differ in."""

    @property
    def running(self) -> bool:
        """Whether the engine is still there."""
        ...

    def time(self) -> float:
        """Seconds of a monotonic clock."""
        ...

    def signal(self) -> None:
        """Wake the application. From any thread."""
        ...

    def clear(self) -> None:
        """Forget signals given before."""
        ...

    async def sleep(self, timeout_s: float | None) -> None:
        """Until there is a signal, or time is over."""
        ...

    async def call(self, action: Callable[[], T]) -> T:
        """Do something on the engine's thread."""
        ...

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call a function of the application's."""
        ...


MAX_ARROW_BYTES = 256 * 1024 * 1024
"""Of data in one Arrow batch: far below the 2 GiB that its offsets can say."""


def limit_of(name: str, given: int, least: int = 1) -> int:
    """How much is to be gathered at most. Raises `ValueError`: fewer than `least` would be waited
    for in vain, or would not be waited for at all, again and again.
    """
    if given < least:
        raise ValueError(f"{name} cannot be {given}. What to do: give {least} or more")
    return given


class PollBuffer(Protocol):
    """What faces need of one."""

    def add(self) -> None:
        """Take what is there. Raises what fetches raise, when there is nothing before it."""
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
    def is_full(self) -> bool:
        return len(self.records) >= self._limit

    @property
    def is_empty(self) -> bool:
        return not self.records

    def batch(self) -> Batch[Any, Any]:
        """What was gathered."""
        return Batch(self.records, self._collector.consumed_offsets())


class ColumnBuffer:
    """Up to `limit` rows."""

    def __init__(self, collector: FetchCollector, limit: int, with_headers: bool = True) -> None:
        self.columns = RecordColumns(with_headers)
        self.runs: list[ColumnRun] = []
        self._collector = collector
        self._limit = limit

    def add(self) -> None:
        self._collector.take_columns(self.columns, self.runs, self._limit, MAX_ARROW_BYTES)

    @property
    def is_full(self) -> bool:
        return self.columns.count >= self._limit or self.columns.data_bytes > MAX_ARROW_BYTES

    @property
    def is_empty(self) -> bool:
        return self.columns.count == 0

    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit for the rows."""
        return self._collector.consumed_offsets()


CURRENT_CALL: ContextVar[CallListener | None] = ContextVar("odradek_listener_call", default=None)
"""Inside which call of a listener this is: the thread's, or the task's and those it has made."""


class PollLoop:
    """One consumer's. `who` is what callbacks are given as the consumer."""

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
        self._driver = driver
        self._core = core

    def _deadline(self, timeout: float | None) -> float | None:
        """When so many seconds are over; never, if they are negative or None."""
        return None if timeout is None or timeout < 0 else self._driver.time() + timeout

    def _left(self, deadline: float | None) -> float | None:
        """How many seconds there are until then."""
        return None if deadline is None else max(0.0, deadline - self._driver.time())

    # Records.

    async def poll(self, timeout: float | None) -> Record[Any, Any] | None:
        """The next record, within so many seconds; None also when there will never be one."""
        deadline = self._deadline(timeout)
        self.collector.mark_consumed()
        while True:
            self._clear()
            await self._handle_attention()
            record = self.collector.next_record()
            if record is not None:
                return record
            if self.collector.set_aside:
                if not await self._publish(self.collector.set_aside, deadline):
                    return None
            elif not self.collector.attention and not await self._sleep(deadline):
                return None

    async def fill(self, buffer: PollBuffer, timeout: float | None) -> bool:
        """Gather until there is enough, or time is over, or something else is to be seen to; False
        if there will never be more.
        """
        deadline = self._deadline(timeout)
        self.collector.mark_consumed()
        try:
            while True:
                self._clear()
                if buffer.is_empty:
                    await self._handle_attention()
                buffer.add()
                if buffer.is_full:
                    return True
                if self.collector.set_aside:
                    try:
                        if not await self._publish(self.collector.set_aside, deadline):
                            return True
                    except DeadLetterFailed:
                        if buffer.is_empty:
                            raise
                        return True  # What is before them counts; the next call tries again.
                elif self.collector.attention or self.closed:
                    if not buffer.is_empty:
                        return True
                elif not await self._sleep(deadline):
                    return not self._core.is_exhausted
        except BaseException:
            await self._rewind()
            raise

    async def convert(self, use: Callable[[], T]) -> T:
        """Make something of what was gathered, which counts as handed out only if it can be."""
        letters = self.dead_letters
        try:
            made = use()
            if letters is not None:
                await letters.publish(letters.column_letters)
            return made
        except BaseException:
            if letters is not None:
                letters.column_letters.clear()  # They come again, with the rows they are from.
            await self._rewind()
            raise

    async def _publish(self, letters: list[DecodeError], deadline: float | None) -> bool:
        """See to what was set aside; False if that takes longer. Raises `DeadLetterFailed`."""
        assert self.dead_letters is not None
        self._core.group.set_waiting(True)
        try:
            return await self.dead_letters.publish(letters, lambda: self._left(deadline))
        finally:
            self._core.group.set_waiting(False)

    @property
    def on_decode_error(self) -> Callable[[DecodeError], object] | None:
        """What who decodes columns tells of each value that cannot be decoded; None: it raises."""
        if self.dead_letters is not None:
            return self.dead_letters.column_letters.append
        return self.collector.deserializers.on_error

    async def _rewind(self) -> None:
        """What was gathered does not count: the wait was broken off, or it cannot be decoded."""
        places = self.collector.undo()
        if places and self._driver.running:
            await self._driver.call(lambda: self._core.move_back(places))
            self.collector.refresh()

    def _clear(self) -> None:
        """Forget signals given before; but who closes may be waiting for one too."""
        self._driver.clear()
        if self.closed:
            self._driver.signal()

    async def _sleep(self, deadline: float | None) -> bool:
        """Until something may be there; False if time is over, or nothing will ever be there."""
        if self._core.is_exhausted:
            return False
        left = self._left(deadline)
        if left == 0:
            return False
        if not self._driver.running:
            raise ClientClosed("the consumer is closed")
        self._core.group.set_waiting(True)
        try:
            await self._driver.sleep(left)
        finally:
            self._core.group.set_waiting(False)
        return True

    # All else.

    async def _handle_attention(self) -> None:
        """See to what there is for the application but records. Raises what is to be raised."""
        collector = self.collector
        if self.closed:
            raise ClientClosed("the consumer is closed")
        if not collector.attention:
            return
        errors = self._core.errors
        if errors:
            raise errors.popleft()
        collector.attention = False
        if errors:  # One came just now.
            collector.attention = True
        await self._driver.call(self._core.group.poll)
        collector.refresh()  # What is about to be given up is not handed out any more.
        await self._run_callbacks()

    async def _run_callbacks(self, *, closing: bool = False) -> None:
        """What the group has for the application. When it closes, that is for who does so."""
        group = self._core.group
        while closing or not self.closed:
            try:
                effect = group.for_application.popleft()
            except IndexError:  # Also if who closes, in another thread, has just taken the last.
                return
            if not isinstance(effect, CallListener):
                raise effect.error
            raised = await self._call_back(effect)
            if raised is not None and not isinstance(raised, Exception):
                raise raised

    async def _call_back(self, effect: CallListener) -> BaseException | None:
        """Call the listener, and let the group know; what it raised."""
        raised: BaseException | None = None
        self.collector.refresh()
        callback = self.listener.callback(effect.event)
        token = CURRENT_CALL.set(effect)
        try:
            if callback is not None:
                await self._driver.call_back(callback, self._consumer, list(effect.partitions))
        except BaseException as error:
            raised = error
        try:
            if self._closing_call is effect or not self._driver.running:
                if raised is not None:  # The group is not there any more to tell of it.
                    raise raised
                return None
            # Ctrl-C and the like are raised here, once, and are no outcome for the group to tell.
            outcome = raised if isinstance(raised, Exception) else None
            await self._driver.call(lambda: self._core.group.callback_returned(outcome))
        finally:
            CURRENT_CALL.reset(token)
        self.collector.refresh()
        return raised

    async def run_with_callbacks(
        self, make: Callable[[], Waiter[None]], *, closing: bool = False
    ) -> None:
        """Begin something on the engine's thread in which callbacks may run, and see it to its end;
        what else there is to raise is raised then. To have closed is as good an end as any.
        """

        def begin() -> Waiter[None]:
            waiter = make()
            waiter.add_callback(lambda _: self._driver.signal())
            return waiter

        waiter = await self._driver.call(begin)
        failure: Exception | None = None
        while not waiter.done:
            self._driver.clear()
            try:
                await self._run_callbacks(closing=closing)
            except Exception as error:
                failure = failure or error
                continue  # There may be more behind it.
            if self.closed and not closing:
                self._driver.signal()  # It may have been meant for who closes.
                break
            if not waiter.done:
                if not self._driver.running:
                    raise failure or ClientClosed("the consumer is closed")
                await self._driver.sleep(None)
        self.collector.refresh()
        if waiter.error is not None:
            raise waiter.error
        if failure is not None:
            raise failure

    async def close(self, timeout: float) -> None:
        """Take leave of the group within so many seconds, and end the engine's part. Whoever waits
        in a poll meanwhile is told at once.
        """
        deadline = self._deadline(max(0.0, timeout))
        inside = self._closing_call = (
            CURRENT_CALL.get()
        )  # That is told to the group by nobody else.
        self.closed = True
        self.collector.attention = True
        self._driver.signal()
        try:
            if self._driver.running:
                ms = round(timeout * 1000)
                await self.run_with_callbacks(
                    lambda: self._core.group.close(ms, inside=inside), closing=True
                )
        finally:
            self.collector.attention = True
            if self._driver.running:
                await self._driver.call(self._core.close)
            self._driver.signal()
            if self.dead_letters is not None:
                await self.dead_letters.close(self._left(deadline))


def run_now(coroutine: Coroutine[Any, None, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    coroutine.close()
    raise RuntimeError("a coroutine of the blocking face suspended")
