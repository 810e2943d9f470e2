"""Finding the group's coordinator, and waiting while there is none.

    any node ◄── FindCoordinator ──┬─ a node: `found`
                                   ├─ retriable error, no connection: again after a back-off
                                   └─ not allowed, or another fatal error: `failed`

It looks only when asked to: a consumer that never commits and has no group needs no coordinator.
Who asks is told through `listeners`, once, how one look came out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.alarm import NEVER_MS
from odradek.client.consumer.group_effects import CoordinatorNode, GroupCall
from odradek.client.consumer.group_member import GroupMember
from odradek.client.consumer.group_requests import coordinator_answer, find_coordinator
from odradek.client.errors.answers import error_for
from odradek.client.errors.base import KafkaError

Outcome = Callable[[KafkaError | None], None]


class CoordinatorLookup:
    """One look at a time. `found` is called with each coordinator that is found."""

    def __init__(self, member: GroupMember, found: Callable[[], None]) -> None:
        self.member = member
        self.retry_ms = NEVER_MS
        """When to look again after a look in vain."""
        self._found = found
        self._call: GroupCall | None = None
        self._listeners: list[Outcome] = []
        self._attempts = 0

    @property
    def next_ms(self) -> int:
        return self.retry_ms

    def start(self, listener: Outcome | None = None) -> None:
        """Look now, if nobody does and no back-off is under way. `listener` learns how the look
        under way, or the next one, came out: None, or the error."""
        if listener is not None:
            self._listeners.append(listener)
        if self._call is None and self.retry_ms == NEVER_MS:
            self._look()

    def ticked(self) -> None:
        """Time went by."""
        if self.retry_ms <= self.member.now_ms:
            self.retry_ms = NEVER_MS
            if self.member.coordinator is None and self._call is None:
                self._look()

    def _look(self) -> None:
        builder = find_coordinator(self.member.config.group_id)
        self._call = self.member.send(None, builder, self._answered)

    def _answered(self, call: GroupCall, response: Any, error: KafkaError | None) -> None:
        self._call = None
        if error is None:
            found, code, said = coordinator_answer(response)
            if found is not None:
                self._succeed(found)
                return
            what = f"finding the coordinator of group {self.member.config.group_id}"
            error = error_for(code, what, said)
        if error.retriable:
            self.retry_ms = self.member.now_ms + self.member.backoff.backoff_ms(self._attempts)
            self._attempts += 1
        self._tell(error)

    def _succeed(self, node: CoordinatorNode) -> None:
        self._attempts = 0
        self.member.coordinator = node
        self._found()
        self._tell(None)

    def _tell(self, error: KafkaError | None) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(error)
