"""Clients that a test brings along into a world: it starts them, and waits for what they do.

    start ─► work, with all faults ─► calm_down ─► work_is_done ─► start_final ─► judge

For applications that this package must not import, as it is below them: `tests/sim` has some.
"""

from __future__ import annotations


class FurtherClients:
    """Clients beside those of the world's plan, whose topics they create themselves: none here."""

    def start(self) -> None:
        """Start them, when the machines boot."""

    def calm_down(self) -> None:
        """Let nothing more be disturbed."""

    def work_is_done(self) -> bool:
        """True if nobody writes any more."""
        return True

    def pending_work(self) -> list[str]:
        """Return what is unfinished, for a report."""
        return []

    def progress(self) -> int:
        """Return how much is done: the world waits as long as it grows."""
        return 0

    def start_final(self) -> None:
        """Start to read what is there at the end."""

    def final_pending(self) -> list[str]:
        """Return what is not read yet."""
        return []

    def judge(self) -> list[str]:
        """Return the violations."""
        return []

    def kill(self) -> None:
        """End all processes, however the run ended."""


def no_further_clients(_: object) -> FurtherClients:
    """Return the further clients of a world that has none."""
    return FurtherClients()
