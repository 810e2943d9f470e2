"""The result of one operation on a shard: records, responses and timers, as values.

    operation(result)   reads the state, changes what is volatile, and fills in the result
    records             appended as one batch, or refused as a whole
    replay              of each record: the only code that changes the persistent state
    after_append        steps that rest on the new state; they run only if the append succeeded
    timers              set and cancelled in the order of the calls
    answers             sent when everything appended before them is committed
    committed steps     run then too, after the answers, with no limit of time

State that rests on records changes in `after_append` only. So if the append is refused nothing has
happened, and the requests that a step would have answered get the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Self, TypeVar

from odradek.coordinator.records import CoordinatorRecord
from odradek.log.verification import VerificationGuard
from odradek.model.errors import ErrorCode

R = TypeVar("R")
T = TypeVar("T")
Operation = Callable[["OperationResult"], None]
TimerKey = tuple[str, ...]
CANCELLED = -1
MAX_REQUESTS_PER_REPLY = 16
"""Requests that wait for one response. Some may be of connections that a client gave up."""


class Reply(Generic[R]):
    """The way back to one request: exactly one call of `send` or `refuse`.

    A client may repeat a request before the first one is answered, on this connection or on
    another; then each of them gets the same response (see `merge`).
    """

    __slots__ = ("_refusal", "_responds")

    def __init__(self, respond: Callable[[R], None], refusal: Callable[[ErrorCode], R]) -> None:
        """`refusal` makes the response that carries only an error."""
        self._responds = [respond]
        self._refusal = refusal

    def send(self, response: R) -> None:
        """Send the response."""
        for respond in self._responds:
            respond(response)

    def refuse(self, error: ErrorCode) -> None:
        """Send the response that carries only this error."""
        self.send(self._refusal(error))

    def merge(self, again: Reply[R], error: ErrorCode) -> Self:
        """Answer a repeated request together with this one. Beyond `MAX_REQUESTS_PER_REPLY`
        requests the oldest is refused with `error`.
        """
        self._responds += again._responds
        while len(self._responds) > MAX_REQUESTS_PER_REPLY:
            self._responds.pop(0)(self._refusal(error))
        return self


class TransactionalWrite(NamedTuple):
    """The transaction that an operation's records belong to. `guard` shows that its coordinator
    knows of it; None if it is open in the log already.
    """

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None


class OperationResult:
    """The result of an operation: see the module. `now_ms` is in ms since the epoch.

    In an operation of a timer `retention_now_ms` is the time of a `RetentionClock`, with which the
    timestamps of what expires are compared; in others it is the same as `now_ms`.
    """

    __slots__ = (
        "answers",
        "committed_steps",
        "deferred_replies",
        "now_ms",
        "records",
        "retention_now_ms",
        "steps",
        "timers",
        "transaction",
    )

    def __init__(self, now_ms: int) -> None:
        self.now_ms = self.retention_now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.answers: list[tuple[Reply[Any], Any]] = []
        self.steps: list[Callable[[], None]] = []
        self.committed_steps: list[Callable[[], None]] = []
        self.deferred_replies: list[Reply[Any]] = []
        self.timers: list[tuple[TimerKey, int]] = []
        self.transaction: TransactionalWrite | None = None
        """Set if the records are pending until the end of a transaction."""

    def write(self, record: CoordinatorRecord) -> None:
        """Add a record to append."""
        self.records.append(record)

    def after_append(self, step: Callable[[], None], reply: Reply[Any] | None = None) -> None:
        """Run `step` when the records are appended and replayed.

        `reply` belongs to a request that the step answers or keeps. It is refused if the append is.
        """
        self.steps.append(step)
        if reply is not None:
            self.deferred_replies.append(reply)

    def when_committed(self, step: Callable[[], None]) -> None:
        """Run `step` when the records are committed, however long that takes; never if the append
        is refused or the shard is unloaded before.
        """
        self.committed_steps.append(step)

    def answer(self, reply: Reply[R], response: R) -> None:
        """Send a response when everything appended up to now is committed."""
        self.answers.append((reply, response))

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Schedule the timer of a key, in place of an earlier schedule."""
        self.timers.append((key, delay_ms))

    def cancel(self, key: TimerKey) -> None:
        """Cancel the timer of a key."""
        self.timers.append((key, CANCELLED))


class CombinedReply(Generic[T]):
    """Combines the responses of several shards: calls `respond_all` once, with all in order."""

    def __init__(self, count: int, respond_all: Callable[[list[T]], None]) -> None:
        self._responses: list[T | None] = [None] * count
        self._missing = count
        self._respond = respond_all
        if count == 0:
            respond_all([])

    def reply(self, index: int, refusal: Callable[[ErrorCode], T]) -> Reply[T]:
        """The reply for the response at `index`."""
        return Reply(self.respond(index), refusal)

    def respond(self, index: int) -> Callable[[T], None]:
        """The way to give the response at `index`."""
        return lambda response: self._arrived(index, response)

    def _arrived(self, index: int, response: T) -> None:
        self._responses[index] = response
        self._missing -= 1
        if self._missing == 0:
            self._respond([each for each in self._responses if each is not None])
