"""SlicedAnswers: answers that are computed in slices on the owner thread, at most some a second.

    begin ─► too many in this second? ── yes ─► refused, with the time until the next is possible
                     │ no
                     ▼
    a slice ─► call_soon ─► a slice ─► ... ─► the response

Between two slices the loop serves everybody else, so an answer may look at 100,000 things. The
refusal is that of Kafka's controller quotas (KIP-599): THROTTLING_QUOTA_EXCEEDED at once, with
`throttle_time_ms`. It costs next to nothing, also if the client does not obey it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from odradek.model.env import Clock

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext

SECOND_MS: Final = 1_000
ANSWERS_PER_SECOND: Final = 5

Slices = Generator[None, None, Any]
"""Yields after each slice and returns the response."""


class SlicedAnswers:
    """The answers of one API to all clients."""

    def __init__(
        self,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], None],
        per_second: int = ANSWERS_PER_SECOND,
    ) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._begun: deque[int] = deque([-SECOND_MS] * per_second, maxlen=per_second)

    def wait_ms(self) -> int:
        """Return the time until the next answer may begin; 0: now."""
        return max(0, self._begun[0] + SECOND_MS - self._clock.monotonic_ms())

    def begin(self, context: RequestContext, slices: Slices) -> None:
        """Compute an answer and send it. If the client disconnects before, the rest is dropped."""
        self._begun.append(self._clock.monotonic_ms())
        dropped = False

        def drop() -> None:
            nonlocal dropped
            dropped = True
            slices.close()

        def run_slice() -> None:
            if dropped:
                return
            try:
                next(slices)
            except StopIteration as end:
                context.respond(end.value)
            except BaseException:
                context.exchange.close_connection("a bug in the handler")
                raise
            else:
                self._call_soon(run_slice)

        context.exchange.abandoned = drop
        run_slice()
