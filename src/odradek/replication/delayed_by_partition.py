"""What produces and trims have in common while they wait: partitions that are settled one by
one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from odradek.timing import DelayedOperation


class Pending(Protocol):
    """One partition of a request: whether it still waits."""

    pending: bool


S = TypeVar("S", bound=Pending)


def answered(statuses: object) -> None:
    """In the place of `respond` when it has been called."""


class DelayedByPartition(DelayedOperation, Generic[S]):
    """Completes when no partition is pending; `respond` is called once with all statuses.

    Those still pending at the deadline say REQUEST_TIMED_OUT from the start, so expiry has no work.
    """

    def __init__(
        self, delay_ms: int, statuses: Sequence[S], respond: Callable[[Sequence[S]], None]
    ) -> None:
        super().__init__(delay_ms)
        self.statuses = statuses
        self.respond = respond

    @abstractmethod
    def settle(self, status: S) -> None:
        """Decide a pending partition, if it can be decided now."""

    def try_complete(self) -> bool:
        waits = False
        for status in self.statuses:
            if status.pending:
                self.settle(status)
                waits = waits or status.pending
        return not waits and self.force_complete()

    def on_complete(self) -> None:
        statuses, respond = self.statuses, self.respond
        # The lists of other keys hold this until they are purged, but not the request with it.
        self.statuses, self.respond = (), answered
        respond(statuses)

    def on_expiration(self) -> None:
        """The statuses say it."""
