"""The purgatory load of `bench_timing`, one contender in a process of its own.

    python bench/timing_load.py CONTENDER REQUESTS P50_MS P75_MS PER_SECOND

One JSON object on stdout. The load: requests that each watch 3 of 100 keys for at most
200 ms and complete after a log-normal time, if that is shorter. Entered flat out in real time, or
at a fixed rate of simulated time, which gives every contender the same number pending.

    ours       a DelayedOperation in a purgatory, its class interpreted, as a user writes it
    asyncio    `call_later` for the timeout, cancelled at completion; a dictionary for each key
    wait_for   asyncio as most write it: a task for each request, `wait_for` on a future
    nothing    the load alone: what the others cost besides what they are measured for
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from odradek import leaves
from odradek.timing import DelayedOperation, DelayedOperationPurgatory, SystemTimer

TIMEOUT_MS = 200
KEYS = [("topic", number) for number in range(100)]
POOL = 1 << 16
CHUNK = 64
Request = tuple[int, tuple[tuple[str, int], ...]]


def pool(p50: float, p75: float) -> list[Request]:
    """(milliseconds until it completes, its three keys), to be used round and round."""
    chance = random.Random(7)
    mu = math.log(p50)
    sigma = (math.log(p75) - mu) / 0.6745
    return [
        (
            max(1, round(math.exp(mu + sigma * chance.gauss(0, 1)))),
            tuple(chance.choice(KEYS) for _ in range(3)),
        )
        for _ in range(POOL)
    ]


def real_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Load:
    """The requests, in chunks with the time at which they come; `now_ms` is that of the chunk."""

    def __init__(self, requests: int, p50: float, p75: float, per_second: int) -> None:
        self.requests, self.per_second = requests, per_second
        self.pool = pool(p50, p75)
        self.now_ms = self.start_ms = 1_000_000 if per_second else real_ms()
        self.done = 0
        self.entering_s = 0.0
        self.longest_stall_s = 0.0
        self.completing: dict[int, list] = {}

    def rounds(self) -> Iterator[tuple[int, list[Request]]]:
        """(time, requests to enter) until all are done; the caller handles the time first."""
        start = time.perf_counter()
        for begin in range(0, self.requests, CHUNK):
            now_ms = real_ms()
            if self.per_second:
                now_ms = self.start_ms + begin * 1000 // self.per_second
            at = begin & (POOL - 1)
            yield now_ms, self.pool[at : min(at + CHUNK, at + self.requests - begin)]
        self.entering_s = time.perf_counter() - start
        while self.done < self.requests:
            if not self.per_second:
                time.sleep(0.0005)
            yield (self.now_ms + 1 if self.per_second else real_ms()), []

    def due(self, now_ms: int) -> Iterator[list]:
        """What completes by now, millisecond by millisecond; sets the time."""
        last_ms, self.now_ms = self.now_ms, now_ms
        for ms in range(last_ms + 1, now_ms + 1):
            yield self.completing.pop(ms, [])

    def complete_later(self, operation: object, after_ms: int) -> None:
        if after_ms < TIMEOUT_MS:
            self.completing.setdefault(self.now_ms + after_ms, []).append(operation)

    def stall(self, since: float) -> None:
        self.longest_stall_s = max(self.longest_stall_s, time.thread_time() - since)


class Operation(DelayedOperation):
    """A request of ours."""

    __slots__ = ("completes_at_ms", "load")
    completes_at_ms: int
    load: Load

    def try_complete(self) -> bool:
        return self.load.now_ms >= self.completes_at_ms and self.force_complete()

    def on_complete(self) -> None:
        self.load.done += 1

    def on_expiration(self) -> None:
        """Nobody is told."""


def ours(load: Load) -> None:
    timer = SystemTimer(load.now_ms)
    purgatory = DelayedOperationPurgatory("bench", timer)
    enter = purgatory.try_complete_else_watch
    for now_ms, requests in load.rounds():
        if now_ms != load.now_ms:
            since = time.thread_time()
            for operations in load.due(now_ms):
                for operation in operations:
                    operation.force_complete()
            timer.advance_clock(now_ms)
            load.stall(since)
        for after_ms, keys in requests:
            operation = Operation(TIMEOUT_MS)
            operation.load = load
            operation.completes_at_ms = now_ms + after_ms
            enter(operation, keys)
            load.complete_later(operation, after_ms)


class Plain:
    """A request of asyncio's, or of nobody's."""

    __slots__ = ("completes_at_ms", "handle", "is_completed", "keys", "load")
    completes_at_ms: int
    handle: Any
    is_completed: bool
    keys: tuple[tuple[str, int], ...]
    load: Load

    def try_complete(self) -> bool:
        return self.load.now_ms >= self.completes_at_ms and self.complete()

    def complete(self) -> bool:
        if self.is_completed:
            return False
        self.is_completed = True
        self.load.done += 1
        if self.handle is not None:
            self.handle.cancel()
            for key in self.keys:
                WATCHED[key].pop(self, None)
        return True


WATCHED: dict[tuple[str, int], dict[object, object]] = {key: {} for key in KEYS}


def plain(load: Load, after_ms: int, keys: tuple[tuple[str, int], ...]) -> Plain:
    operation = Plain()
    operation.load, operation.keys = load, keys
    operation.handle = None
    operation.is_completed = False
    operation.completes_at_ms = load.now_ms + after_ms
    return operation


def nothing(load: Load) -> None:
    expiring: dict[int, list[Plain]] = {}
    for now_ms, requests in load.rounds():
        if now_ms != load.now_ms:
            for operations in load.due(now_ms):
                for operation in operations:
                    operation.complete()
            for ms in [ms for ms in expiring if ms <= now_ms]:
                for operation in expiring.pop(ms):
                    operation.complete()
        for after_ms, keys in requests:
            operation = plain(load, after_ms, keys)
            load.complete_later(operation, after_ms)
            if after_ms >= TIMEOUT_MS:
                expiring.setdefault(now_ms + TIMEOUT_MS, []).append(operation)


async def in_asyncio(load: Load, enter: Callable[[int, tuple], object], complete: Callable) -> None:
    loop = asyncio.get_running_loop()
    if load.per_second:
        loop.time = lambda: load.now_ms / 1000  # type: ignore[method-assign]
    for now_ms, requests in load.rounds():
        if now_ms != load.now_ms:
            since = time.thread_time()
            for operations in load.due(now_ms):
                for operation in operations:
                    complete(operation)
            await asyncio.sleep(0)
            load.stall(since)
        for after_ms, keys in requests:
            load.complete_later(enter(after_ms, keys), after_ms)


async def call_later(load: Load) -> None:
    loop = asyncio.get_running_loop()

    def enter(after_ms: int, keys: tuple[tuple[str, int], ...]) -> Plain:
        operation = plain(load, after_ms, keys)
        if not operation.try_complete():
            for key in keys:
                WATCHED[key][operation] = None
            if not operation.try_complete():
                operation.handle = loop.call_later(TIMEOUT_MS / 1000, operation.complete)
        return operation

    await in_asyncio(load, enter, Plain.complete)


async def wait_for(load: Load) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def request(future: asyncio.Future[None], keys: tuple[tuple[str, int], ...]) -> None:
        for key in keys:
            WATCHED[key][future] = None
        try:
            await asyncio.wait_for(future, TIMEOUT_MS / 1000)
        except TimeoutError:
            pass
        finally:
            load.done += 1
            for key in keys:
                WATCHED[key].pop(future, None)

    def enter(after_ms: int, keys: tuple[tuple[str, int], ...]) -> asyncio.Future[None]:
        future = loop.create_future()
        task = loop.create_task(request(future, keys))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return future

    def complete(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)

    await in_asyncio(load, enter, complete)


PURGATORIES: dict[str, Callable[[Load], None] | Callable[[Load], Awaitable[None]]] = {
    "ours": ours,
    "nothing": nothing,
    "asyncio": call_later,
    "wait_for": wait_for,
}


def purgatory(name: str, requests: int, p50: float, p75: float, per_second: int) -> dict:
    """CPU microseconds per request, requests entered per second, and the longest stall."""
    load = Load(requests, p50, p75, per_second)
    gc.collect()
    gc.freeze()
    cpu = time.process_time()
    run = PURGATORIES[name]
    if asyncio.iscoroutinefunction(run):
        asyncio.run(run(load))
    else:
        run(load)
    cpu = time.process_time() - cpu
    return {
        "cpu_us": cpu / requests * 1e6,
        "per_second": requests / load.entering_s,
        "longest_stall_ms": load.longest_stall_s * 1e3,
    }


if __name__ == "__main__":
    contender, count, median, quartile, rate = sys.argv[1:]
    result = purgatory(contender, int(count), float(median), float(quartile), int(rate))
    json.dump({**result, "leaves": leaves.mode()}, sys.stdout)
