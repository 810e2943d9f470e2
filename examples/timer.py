"""A timer that cancels in O(1), in real time: `python examples/timer.py`.

First with a loop, as in a server that waits for its sockets in between; then with `ThreadedTimer`,
for any program with threads.
"""

import threading
import time

from odradek.timing import SystemTimer
from odradek.timing.threaded import ThreadedTimer


def clock_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def with_a_loop() -> None:
    timer = SystemTimer(clock_ms())
    timer.call_later(20, lambda: print("20 ms: first"))
    timer.call_later(40, lambda: print("40 ms: second"))

    # Most timeouts are cancelled because the answer comes in time. Here are a hundred thousand.
    timeouts = [timer.call_later(30_000, lambda: print("never seen")) for _ in range(100_000)]
    for timeout in timeouts:
        timeout.cancel()

    while (deadline_ms := timer.next_deadline_ms()) is not None:
        time.sleep(max(0, deadline_ms - clock_ms()) / 1000)  # or: selector.select(timeout)
        timer.advance_clock(clock_ms())
    print("nothing is pending")


def with_a_reaper_thread() -> None:
    rang = threading.Event()
    with ThreadedTimer("example") as timer:
        late = timer.call_later(60_000, lambda: print("never seen"))
        timer.call_later(20, rang.set)
        rang.wait()
        print("rang; the other timer was still pending and is cancelled:", late.cancel())


if __name__ == "__main__":
    with_a_loop()
    with_a_reaper_thread()
