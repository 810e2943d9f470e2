"""Requests to the coordinator that are worth trying again: commits, and asking what was committed.

    start ─► coordinator known? ─► sent ─┬─ read: a value ──────────────────────────► over
                  │ no: look for it      ├─ retriable error, and there is a deadline: again
                  └──────────────────────┤   after a back-off
                                         └─ another error, or no deadline ──────────► over

A request without a deadline is tried once. Each is over exactly once, and its waiter is done then.
One may have to wait for others (`waits_for`), and what it asks for may come about without it
(`is_settled`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from odradek.client.alarm import NEVER_MS
from odradek.client.api_versions import RequestBuilder
from odradek.client.consumer.coordinator_lookup import CoordinatorLookup
from odradek.client.consumer.group_effects import GroupCall, Resolve
from odradek.client.consumer.group_member import GroupMember
from odradek.client.errors.base import ADVICE, KafkaError
from odradek.client.waiter import Waiter


class CoordinatorRequest(ABC):
    """One request, through all its attempts."""

    def __init__(self, deadline_ms: int | None) -> None:
        self.deadline_ms = deadline_ms
        """Until when to try; None: once."""
        self.waiter: Waiter[Any] = Waiter()
        self.attempts = 0
        self.retry_ms = NEVER_MS
        """When to send it again; never, while it is under way."""
        self.last_error: KafkaError | None = None
        """What the last attempt failed with."""

    @abstractmethod
    def build(self) -> RequestBuilder | KafkaError:
        """The request as it is now; or why it cannot be made."""

    @abstractmethod
    def read(self, call: GroupCall, response: Any) -> Any:
        """What the answer says: a value, or a `KafkaError`."""

    @abstractmethod
    def late(self) -> KafkaError:
        """What to say when the deadline has passed."""

    def why_late(self, advice: str) -> str:
        """For the end of what `late` says: what was in the way, and what to do about that; `advice`
        if nothing is known to have been."""
        why = "" if self.last_error is None else f"; last: {self.last_error}"
        return why if ADVICE in why else f"{why}{ADVICE}{advice}"

    def waits_for(self, other: CoordinatorRequest) -> bool:
        """Whether it must not be sent while that one is under way."""
        return False

    @property
    def is_settled(self) -> bool:
        """Whether what it asks for has come about without it."""
        return False

    def ended(self, error: KafkaError | None) -> None:
        """It is over."""
        return


class CoordinatorRequests:
    """Those under way, in the order in which they were started."""

    def __init__(self, member: GroupMember, lookup: CoordinatorLookup) -> None:
        self.member = member
        self.lookup = lookup
        self._open: dict[CoordinatorRequest, None] = {}

    def __contains__(self, request: CoordinatorRequest) -> bool:
        """Whether it is not over yet."""
        return request in self._open

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[CoordinatorRequest]:
        return iter(self._open)

    def start(self, request: CoordinatorRequest) -> None:
        """Send it as soon as may be."""
        self._open[request] = None
        self._send(request)

    def _send(self, request: CoordinatorRequest) -> None:
        """Send it, or look for the coordinator first."""
        request.retry_ms = NEVER_MS
        if request.is_settled:
            self.end(request)
            return
        if any(request.waits_for(other) for other in self._open):
            request.retry_ms = self.member.now_ms + self.member.backoff.backoff_ms(0)
            return
        if self.member.coordinator is None:
            self.lookup.start(lambda error: self._looked(request, error))
            return
        builder = request.build()
        if isinstance(builder, KafkaError):
            self.end(request, error=builder)
            return

        def answered(call: GroupCall, response: Any, error: KafkaError | None) -> None:
            self._answered(request, call, response, error)

        self.member.send(self.member.coordinator, builder, answered)

    def _looked(self, request: CoordinatorRequest, error: KafkaError | None) -> None:
        """The coordinator was found, or was not."""
        if request in self._open:
            if error is None:
                self._send(request)
            else:
                self._failed(request, error)

    def _answered(
        self, request: CoordinatorRequest, call: GroupCall, response: Any, error: KafkaError | None
    ) -> None:
        if error is None:
            value = request.read(call, response)
        else:
            value = error
            if error.retriable:
                self.member.lose_coordinator(str(error), call.node)
        if request not in self._open:
            return
        if isinstance(value, KafkaError):
            self._failed(request, value)
        else:
            self.end(request, value)

    def _failed(self, request: CoordinatorRequest, error: KafkaError) -> None:
        """Try again if there is time, and it may help."""
        if request.deadline_ms is None or not error.retriable:
            self.end(request, error=error)
            return
        request.last_error = error
        backoff_ms = self.member.backoff.backoff_ms(request.attempts)
        request.retry_ms = self.member.now_ms + backoff_ms
        request.attempts += 1

    def end(
        self, request: CoordinatorRequest, value: Any = None, error: KafkaError | None = None
    ) -> None:
        """It is over."""
        self._open.pop(request, None)
        self.member.effects.append(Resolve(request.waiter, value, error))
        request.ended(error)

    def abandon(self, error: KafkaError) -> None:
        """End all: there is nobody to wait for them any more."""
        for request in list(self._open):
            self.end(request, error=error)

    @property
    def next_ms(self) -> int:
        """When something is due."""
        due_ms = NEVER_MS
        for request in self._open:
            due_ms = min(due_ms, request.retry_ms)
            if request.deadline_ms is not None:
                due_ms = min(due_ms, request.deadline_ms)
        return due_ms

    def ticked(self) -> None:
        """Time went by."""
        now_ms = self.member.now_ms
        for request in list(self._open):
            if request.deadline_ms is not None and request.deadline_ms <= now_ms:
                self.end(request, error=request.late())
            elif request.retry_ms <= now_ms:
                self._send(request)
