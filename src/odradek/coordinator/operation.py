"""What one operation on a shard brings about, as values: records, answers, timers.

    operation(turn)     looks at the state, changes what is volatile, says what shall be
    records             appended as one batch, or refused as a whole
    replay              of each record: the only writer of what is kept
    then                what follows from the new state; only after records that were appended
    timers              set and cancelled in the order they were named
    answers             leave when all that was appended before them is committed

What rests on records is left to `after_append`. So if the records are refused it has not happened, and the
requests that would have been answered are told why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from odradek.coordinator.records import CoordinatorRecord
from odradek.model.errors import ErrorCode

R = TypeVar("R")
Operation = Callable[["OperationResult"], None]
TimerKey = tuple[str, ...]
CANCELLED = -1
MAX_REQUESTS_PER_REPLY = 16
"""How many requests wait for one answer. Connections that a client gave up may be among them."""


class Reply(Generic[R]):
    """The way back to one request: exactly one of `send` and `refuse`, once.

    A client that asks again before it was answered, on this connection or another, is answered as
    often as it asked, each time the same.
    """

    __slots__ = ("_refusal", "_responds")

    def __init__(self, respond: Callable[[R], None], refusal: Callable[[ErrorCode], R]) -> None:
        """`refusal` makes the response that says nothing but an error."""
        self._responds = [respond]
        self._refusal = refusal

    def send(self, response: R) -> None:
        """Answer."""
        for respond in self._responds:
            respond(response)

    def refuse(self, error: ErrorCode) -> None:
        """Answer that it could not be done."""
        self.send(self._refusal(error))

    def merge(self, again: Reply[R], error: ErrorCode) -> Self:
        """The same was asked again: answer that alike. Of more than `MAX_REQUESTS_PER_REPLY` requests the
        oldest is refused with `error`.
        """
        self._responds += again._responds
        while len(self._responds) > MAX_REQUESTS_PER_REPLY:
            self._responds.pop(0)(self._refusal(error))
        return self


class OperationResult:
    """See the module. Times are in ms since the epoch."""

    __slots__ = ("answers", "deferred_replies", "now_ms", "records", "steps", "timers")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.answers: list[tuple[Reply[Any], Any]] = []
        self.steps: list[Callable[[], None]] = []
        self.deferred_replies: list[Reply[Any]] = []
        self.timers: list[tuple[TimerKey, int]] = []

    def write(self, record: CoordinatorRecord) -> None:
        """Append this record."""
        self.records.append(record)

    def after_append(self, step: Callable[[], None], owed: Reply[Any] | None = None) -> None:
        """Do this once the records are appended and replayed; `deferred_replies` is a request that it will see
        to, and that is refused if the records are.
        """
        self.steps.append(step)
        if owed is not None:
            self.deferred_replies.append(owed)

    def answer(self, reply: Reply[R], response: R) -> None:
        """Answer a request when all that was appended up to now is committed."""
        self.answers.append((reply, response))

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Fire this key in `delay_ms`, whenever it was scheduled for before."""
        self.timers.append((key, delay_ms))

    def cancel(self, key: TimerKey) -> None:
        """Do not fire this key."""
        self.timers.append((key, CANCELLED))
