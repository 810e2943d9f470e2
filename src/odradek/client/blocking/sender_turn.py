"""How the blocking producer's threads get along: the user's, and the one that sends.

Python runs one thread at a time, and switches every five milliseconds unless the running one waits
for something. A thread that does nothing but send records waits for nothing, so the sender would
get one turn in five milliseconds: far too few for its batches. And after each system call of its
own it would wait that long again. `SenderTurn` hands over instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from odradek.client.blocking.engine_thread import EngineThread, Waiting
from odradek.client.errors import ClientClosed
from odradek.client.producer.delivery import ProduceRequestResult

TURN_BYTES = 131_072
"""Batches queued between two turns of the sender, about."""
TURN_TIMEOUT_S = 0.005


class SenderTurn:
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
        self._waiting: deque[Waiting[None]] = deque()

    def wake(self) -> None:
        """Any thread. Raises `ClientClosed` in a forked process."""
        if not self._woken or not self._thread.running:
            self._woken = True
            self._thread.post(self._turn)
        self._queued += 1
        if self._queued >= self._every and not self._thread.is_current:
            waiting: Waiting[None] = Waiting()
            self._waiting.append(waiting)
            waiting.block(TURN_TIMEOUT_S)

    def _turn(self) -> None:
        self._woken = False
        self._queued = 0
        self.run()
        while self._waiting:
            self._waiting.popleft().wake()


class BlockingFace:
    """How futures wait: on a signal; awaited, in the loop that runs then."""

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        if self._thread.is_current:
            raise RuntimeError("a callback cannot wait for a record: its thread sends them")
        if not self._thread.running:
            raise ClientClosed("the producer belongs to another process, or has ended")
        waiting: Waiting[None] = Waiting()
        result.add_callback(waiting.wake)
        return waiting.block(None if timeout_s is not None and timeout_s < 0 else timeout_s)

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        from odradek.client.aio.awaiting import until_done  # asyncio only where it is used.

        return until_done(result)
