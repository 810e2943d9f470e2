"""IdsByChange: the transactional ids of a shard in the order of their last change.

Ids expire by the time of their last change, which is wall time. It follows the order of changes, so
those that expire are at the front, until the wall clock is set back, or a coordinator with a clock
that is behind takes over. Then a second order begins:

    changed at   10:00  10:05  18:07 │ 10:08  10:09 ...
                        ahead ─┘       the clock is corrected

Each of these runs is in the order of time, and has its own front. An id leaves its run when it is
changed again, and a run ends with its last id, so there is one of them, or there are few. An id
that was changed while the clock was ahead expires by that time, and holds no other one back.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from odradek.coordinator.transaction.transaction_metadata import TransactionMetadata

LEAST_STEP_MS: Final = 60_000
"""Clocks that are set back by less begin no run: a look goes on for so long past its time."""


class ChangeRun:
    """Ids that were changed one after the other while the wall clock was not set back."""

    __slots__ = ("by_id", "newest_ms")

    def __init__(self) -> None:
        self.by_id: dict[str, TransactionMetadata] = {}
        self.newest_ms = 0
        """The newest change of an id that is or was in the run."""

    def changed_until(self, until_ms: int) -> Iterator[TransactionMetadata]:
        """The ids whose last change is not after `until_ms`."""
        for metadata in self.by_id.values():
            if metadata.last_update_ms - LEAST_STEP_MS > until_ms:
                return
            if metadata.last_update_ms <= until_ms:
                yield metadata


class IdsByChange:
    """The ids of a shard: see the module."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[ChangeRun] = []

    def __iter__(self) -> Iterator[TransactionMetadata]:
        """All ids, those that changed last at the end."""
        return chain.from_iterable(run.by_id.values() for run in self._runs)

    def __len__(self) -> int:
        return sum(len(run.by_id) for run in self._runs)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """The state of an id; None if there is none."""
        for run in self._runs:
            found = run.by_id.get(transactional_id)
            if found is not None:
                return found
        return None

    def put(self, metadata: TransactionMetadata) -> None:
        """Add an id that is not here, and has changed."""
        at_ms = metadata.last_update_ms
        if not self._runs or at_ms < self._runs[-1].newest_ms - LEAST_STEP_MS:
            self._runs.append(ChangeRun())
        run = self._runs[-1]
        run.newest_ms = max(run.newest_ms, at_ms)
        run.by_id[metadata.transactional_id] = metadata

    def remove(self, transactional_id: str) -> TransactionMetadata | None:
        """Take an id out; return what its state was, None if it was not here."""
        for run in self._runs:
            found = run.by_id.pop(transactional_id, None)
            if found is not None:
                if not run.by_id:
                    self._runs.remove(run)
                return found
        return None

    def changed_until(self, until_ms: int) -> Iterator[TransactionMetadata]:
        """The ids whose last change is not after `until_ms`, without a look at all others."""
        return chain.from_iterable(run.changed_until(until_ms) for run in self._runs)
