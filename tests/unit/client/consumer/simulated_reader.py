"""A poll loop in simulated time, where sleeping lets the time pass.

A sleep that nothing ends fails the test, so a test that reads with a `Reader` also shows that no
wake-up was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.client.consumer.application.poll_loop import PollLoop, run_now
from odradek.client.consumer.record import Record
from odradek.client.waiter import Waiter
from odradek.testing.scheduler import MS
from odradek.testing.scripted import ScriptedCluster
from odradek.testing.scripted_logs import ScriptedLogs
from unit.client.consumer.application import Application

T = TypeVar("T")

FOREVER_MS = 10_000_000
IN_VAIN_MS = 120_000
"""Longer than any wait that succeeds."""


class SimulatedDriver:
    """The `PollDriver` of an application whose thread runs while the time stands still."""

    def __init__(self, application: Application) -> None:
        self.interruption: BaseException | None = None
        """Raised by the next sleep."""
        self._application = application
        self._seen = 0

    @property
    def running(self) -> bool:
        return not self._application.consumer.engine.closed

    def time(self) -> float:
        return self._application.cluster.now_ms / 1000

    def signal(self) -> None:
        self._application.woken += 1

    def clear(self) -> None:
        self._seen = self._application.woken

    @property
    def is_signalled(self) -> bool:
        return self._application.woken > self._seen

    async def sleep(self, timeout_s: float | None) -> None:
        cluster = self._application.cluster
        interruption, self.interruption = self.interruption, None
        if interruption is not None:
            raise interruption
        if timeout_s is None:
            cluster.until(lambda: self.is_signalled, IN_VAIN_MS)
        elif not self.is_signalled:
            end_ns = cluster.scheduler.now_ns + round(timeout_s * 1000) * MS
            cluster.scheduler.run(end_ns, lambda: self.is_signalled)

    async def call(self, action: Callable[[], T]) -> T:
        return self._application.side.do(action)

    async def wait(self, make: Callable[[], Waiter[T]]) -> T:
        waiter = self._application.side.do(make)
        self._application.cluster.until(lambda: waiter.done, IN_VAIN_MS)
        return waiter.result()

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        callback(*arguments)


class Reader:
    """A cluster with one topic, and a consumer with its poll loop."""

    def __init__(self, leaders: tuple[int, ...] = (1,), brokers: int = 1, **settings: Any) -> None:
        self.cluster = ScriptedCluster(brokers=brokers)
        self.cluster.create("orders", leaders=leaders)
        self.logs = ScriptedLogs(self.cluster)
        self.application = Application(self.cluster, **settings)
        self.consumer = self.application.consumer
        self.driver = SimulatedDriver(self.application)
        self.poll_loop = PollLoop(self, self.driver, self.consumer)

    def poll(self, timeout_s: float | None = None) -> Record[Any, Any] | None:
        return run_now(self.poll_loop.poll(timeout_s))

    def all(self) -> list[tuple[int, int]]:
        """Partition and offset of all records of a bounded read."""
        return [(record.partition, record.offset) for record in iter(self.poll, None)]

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Run an action in the consumer's process after a delay, whether the application waits or
        not.
        """
        side = self.application.side

        def act() -> None:
            side.do(action)

        self.cluster.scheduler.after(delay_ms * MS, "test", "later", act)
