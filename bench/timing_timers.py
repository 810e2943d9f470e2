"""The timer figures of `bench_timing`, one contender in a process of its own.

    python bench/timing_timers.py ours|asyncio PENDING

Among PENDING timers with deadlines one to sixty seconds away: nanoseconds to start one and cancel
it again, in batches of a thousand with a turn of the loop after each; then the longest turn of
the loop while a hundred thousand are started and cancelled. One JSON object on stdout.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from odradek import leaves
from odradek.timing import SystemTimer

BATCH = 1000
STARTED = 100_000


def nobody() -> None:
    """What the timers would call."""


def delays_ms(count: int) -> list[int]:
    chance = random.Random(5)
    return [chance.randrange(1_000, 60_000) for _ in range(count)]


async def measure(start: Callable[[int], Any], turn: Callable, pending: int) -> dict:
    """`start` a timer by its delay; `turn` the loop once. Both sides pay the same await."""
    kept = [start(delay_ms) for delay_ms in delays_ms(pending)]
    batches = [delays_ms(BATCH) for _ in range(STARTED // BATCH)]
    gc.collect()
    gc.freeze()
    best_s = total_s = float("inf")
    for _ in range(3):
        total_s = 0.0
        for batch in batches:
            since = time.thread_time()
            for timer in [start(delay_ms) for delay_ms in batch]:
                timer.cancel()
            await turn()
            total_s += time.thread_time() - since
        best_s = min(best_s, total_s)
    cancelled = [start(delay_ms) for delay_ms in delays_ms(STARTED)]
    gc.collect()
    longest_s = 0.0
    for first in range(0, STARTED, BATCH):
        for timer in cancelled[first : first + BATCH]:
            timer.cancel()
        since = time.thread_time()
        await turn()
        longest_s = max(longest_s, time.thread_time() - since)
    assert len(kept) == pending
    return {"start_cancel_ns": best_s / STARTED * 1e9, "longest_stall_ms": longest_s * 1e3}


async def ours(pending: int) -> dict:
    timer = SystemTimer(time.monotonic_ns() // 1_000_000)

    async def turn() -> None:
        timer.next_deadline_ms()
        timer.advance_clock(time.monotonic_ns() // 1_000_000)
        await asyncio.sleep(0)

    return await measure(lambda delay_ms: timer.call_later(delay_ms, nobody), turn, pending)


async def theirs(pending: int) -> dict:
    loop = asyncio.get_running_loop()
    return await measure(
        lambda delay_ms: loop.call_later(delay_ms / 1000, nobody),
        lambda: asyncio.sleep(0),
        pending,
    )


if __name__ == "__main__":
    contender, count = sys.argv[1], int(sys.argv[2])
    result = asyncio.run((ours if contender == "ours" else theirs)(count))
    json.dump({**result, "leaves": leaves.mode()}, sys.stdout)
