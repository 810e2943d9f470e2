"""A thread of a simulated process that blocks: code written for `client.blocking`, between events.

    scheduler   ──event──► resumes the thread                  waits for it ──► goes on
    thread                 runs up to its next call that blocks ──┘

The code runs on a Python thread of its own, and one of the two waits whenever the other runs, so
a run stays the same for its seed. What it waits for is a coroutine of `SimApplication`, on the
engine's side. A thread that is killed gets `Killed` out of the call in which it waits, and out of
every later one: no `finally` of its code can do anything any more.

`ThreadAdmin` and `ThreadProducer` are the blocking clients of such a thread: the methods of the
real ones, over engines in simulated time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from odradek.client.api_methods import Steps
from odradek.client.blocking.transactions import TransactionalProducer
from odradek.client.engine import Engine
from odradek.client.errors import KafkaError
from odradek.client.producer.futures import FutureRecordMetadata
from odradek.client.waiter import Waiter, spawn
from odradek.config.client import AdminConfig
from odradek.protocol.api.metadata import MetadataResponseTopic
from odradek.spark.exactly_once.reading import LogAdmin, LogCalls
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.application import SimApplication
from odradek.testing.engines.engine_producer import EngineProducer
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, SECOND
from odradek.testing.scripted import raise_bug

T = TypeVar("T")


class Killed(BaseException):
    """The process of the thread was killed."""


class BlockingThread:
    """One thread of a process, which runs one piece of work after another."""

    def __init__(self, side: ClientProcess, chance: SplitMix64, step_ns: tuple[int, int]) -> None:
        self.side = side
        self.chance = chance
        self.killed = False
        self.running = False
        """True from the start of a piece of work to its end."""
        self._has_thread = False
        """True while its thread exists, and waits for this one."""
        self._application = SimApplication(side, chance, step_ns)
        self._wanted: Callable[[], Coroutine[Any, Any, Any]] | None = None
        self._answer: Waiter[Any] = Waiter()
        self._bug: BaseException | None = None
        self._resumed = threading.Semaphore(0)
        self._handed_over = threading.Semaphore(0)

    def run(self, work: Callable[[], None]) -> None:
        """Start a piece of work. An exception of it is a bug, and ends the run."""
        assert not self.running
        self.running = True
        self.side.process.run(lambda: spawn(self._serve(work)).add_callback(Waiter.result))

    def kill(self) -> None:
        """Kill the process, as kill -9 does. Not within its own work."""
        self.killed = True
        self.side.kill()
        if self._has_thread:
            self._resume()
        self.running = False

    # The engine's side.

    async def _serve(self, work: Callable[[], None]) -> None:
        self._has_thread = True
        name = self.side.name
        threading.Thread(target=self._main, args=(work,), name=name, daemon=True).start()
        self._handed_over.acquire()
        while self._wanted is not None:
            wanted, self._wanted = self._wanted, None
            self._answer = Waiter()
            try:
                self._answer.complete(await wanted())
            except Exception as error:
                self._answer.fail(error)
            self._resume()
        if self._bug is not None:
            raise self._bug

    def _resume(self) -> None:
        self._resumed.release()
        self._handed_over.acquire()

    # The thread.

    def _main(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Killed:
            pass
        except BaseException as error:
            self._bug = error
        self._has_thread = self.running = False
        self._wanted = None
        self._handed_over.release()

    def block(self, wanted: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the engine's side; return its result, or raise its error."""
        if self.killed:
            raise Killed
        self._wanted = wanted
        self._handed_over.release()
        self._resumed.acquire()
        if self.killed:
            raise Killed
        found: T = self._answer.result()
        return found

    def call(self, action: Callable[[], T]) -> T:
        return self.block(lambda: self._application.call(action))

    def wait(self, make: Callable[[], Waiter[T]]) -> T:
        """Make a waiter in the engine's loop, and block until it is done."""
        return self.block(lambda: self._application.wait(make))

    def engine_producer(self, settings: Mapping[str, Any]) -> EngineProducer:
        return EngineProducer(self.side, self._application, settings)

    # `ThreadClock`.

    def monotonic(self) -> float:
        return self.side.process.scheduler.now_ns / SECOND

    def sleep(self, seconds: float, /) -> None:
        self.block(lambda: self._application.pause(max(1, round(seconds * SECOND) // MS)))


Topics = dict[str, MetadataResponseTopic]


class ThreadAdmin:
    """`LogAdmin` of a thread. `make_calls`: its calls over an engine."""

    def __init__(
        self,
        thread: BlockingThread,
        settings: Mapping[str, Any],
        make_calls: Callable[[Engine, int, Topics], LogCalls] = LogCalls,
    ) -> None:
        self.config = config = AdminConfig.load(settings)
        self._thread = thread
        side = thread.side
        self._engine = thread.call(lambda: Engine(side.env, side.timer, config, on_bug=raise_bug))
        self._make_calls = make_calls
        self._topics: Topics = {}
        thread.call(self._engine.start)

    def _run_call(self, make: Callable[[LogCalls], Steps[T]]) -> T:
        timeout_ms = self.config.default_api_timeout_ms
        calls = self._make_calls(self._engine, timeout_ms, self._topics)
        return self._thread.wait(lambda: calls.with_time_limit(make(calls)))

    def close(self) -> None:
        self._thread.call(self._engine.close)

    read_ledger = LogAdmin.read_ledger
    end_many = LogAdmin.end_many
    has_committed = LogAdmin.has_committed
    fence_losers = LogAdmin.fence_losers
    deleted_topics = LogAdmin.deleted_topics
    outcomes = LogAdmin.outcomes
    records_of_transaction = LogAdmin.records_of_transaction
    list_transactions = LogAdmin.list_transactions


class ThreadProducer:
    """The transactional `Producer` of a thread."""

    def __init__(self, thread: BlockingThread, settings: Mapping[str, Any]) -> None:
        self._thread = thread
        self._made = thread.call(lambda: thread.engine_producer(settings))
        self._core = self._made.core
        thread.call(self._made.start)

    def _wait(self, make: Callable[[], Waiter[T]]) -> T:
        return self._thread.wait(make)

    transaction = TransactionalProducer.transaction
    init_transactions = TransactionalProducer.init_transactions
    begin_transaction = TransactionalProducer.begin_transaction
    abort_transaction = TransactionalProducer.abort_transaction
    detach_transaction = TransactionalProducer.detach_transaction

    def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> FutureRecordMetadata:
        """Queue a record, as `Producer.send` does."""
        try:
            return self._thread.block(
                lambda: self._made.send(
                    topic,
                    value,
                    key=key,
                    headers=tuple(headers),
                    partition=partition,
                    timestamp_ms=timestamp,
                )
            )
        except KafkaError as error:
            if self._core.breaks_transaction(error):
                record_refused = self._core.transactions_or_error.record_refused
                self._thread.call(partial(record_refused, error))
            raise

    def close(self, timeout_s: float = 0) -> None:
        self._thread.wait(lambda: self._core.close(round(timeout_s * 1000)))
