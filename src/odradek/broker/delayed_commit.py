"""DelayedCommit: an answer that is true once metadata records are committed and acted on."""

from __future__ import annotations

from collections.abc import Callable

from odradek.timing import DelayedOperation

METADATA = "metadata"
"""The key these operations watch: checked when the committed offset moved, or a topic is open."""


class DelayedCommit(DelayedOperation):
    """Calls `committed` when `is_done`; at its deadline `timed_out`."""

    def __init__(
        self,
        delay_ms: int,
        is_done: Callable[[], bool],
        committed: Callable[[], None],
        timed_out: Callable[[], None],
    ) -> None:
        super().__init__(max(1, delay_ms))
        self.is_done = is_done
        self.committed = committed
        self.timed_out = timed_out

    def try_complete(self) -> bool:
        return self.is_done() and self.force_complete()

    def on_complete(self) -> None:
        if self.is_done():
            self.committed()
        else:
            self.timed_out()

    def on_expiration(self) -> None:
        """`on_complete` has said it."""
