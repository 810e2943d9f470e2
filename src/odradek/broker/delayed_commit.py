"""DelayedCommit: an answer that is true once metadata records are committed."""

from __future__ import annotations

from collections.abc import Callable

from odradek.timing import DelayedOperation

METADATA = "metadata"
"""The key these operations watch: checked whenever the committed offset moved."""


class DelayedCommit(DelayedOperation):
    """Responds when the committed offset has passed `offset`; at its deadline, that it has not."""

    def __init__(
        self,
        delay_ms: int,
        is_committed: Callable[[], bool],
        committed: Callable[[], None],
        timed_out: Callable[[], None],
    ) -> None:
        super().__init__(max(1, delay_ms))
        self.is_committed = is_committed
        self.committed = committed
        self.timed_out = timed_out

    def try_complete(self) -> bool:
        return self.is_committed() and self.force_complete()

    def on_complete(self) -> None:
        if self.is_committed():
            self.committed()
        else:
            self.timed_out()

    def on_expiration(self) -> None:
        """`on_complete` has said it."""
