"""The watch lists of a purgatory: which operations wait for events of which key.

    WatcherList (a shard of the keys)     key -> Watchers     the operations, in order of arrival

Lists only grow while they are walked; finished entries leave by putting a new list in the place of
the old one, so a walk that is under way is not disturbed. A key whose last operation leaves goes
too. When entries leave is `purgatory`'s decision.

A shard's lock, if it has one (see `threaded`), guards the dictionary and the lists, never a call of
an operation, so it orders below every operation's own lock.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from mypy_extensions import i64

from odradek.timing.delayed_operation import DelayedOperation, safe_try_complete


class Watchers:
    """The operations watching one key, in order of arrival."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.operations: list[DelayedOperation] = []
        self.has_completed = False

    def try_complete_watched(self, errors: list[Exception]) -> i64:
        """Try them all; how many this call completed. Notes whether there is something to purge."""
        operations = self.operations
        completed: i64 = 0
        # Operations that are added while this runs have been tried by whoever added them.
        for index in range(len(operations)):
            operation = operations[index]
            if not operation.is_completed:
                try:
                    if safe_try_complete(operation):
                        completed += 1
                except Exception as error:
                    errors.append(error)
            if operation.is_completed:
                self.has_completed = True
        return completed

    def purge_completed(self) -> int:
        """Let go of the completed ones; how many."""
        self.has_completed = False
        before = self.operations
        waiting = [operation for operation in before if not operation.is_completed]
        if len(waiting) < len(before):
            self.operations = waiting
        return len(before) - len(waiting)


class WatcherList:
    """One shard of the keys."""

    def __init__(self, lock: AbstractContextManager[object] | None) -> None:
        self.lock = lock
        self.watchers_by_key: dict[Hashable, Watchers] = {}
        self.watched: i64 = 0

    def watch(self, key: Hashable, operation: DelayedOperation) -> None:
        """Enter the operation under the key."""
        if self.lock is None:
            self._watch(key, operation)
        else:
            with self.lock:
                self._watch(key, operation)

    def _watch(self, key: Hashable, operation: DelayedOperation) -> None:
        watchers = self.watchers_by_key.get(key)
        if watchers is None:
            watchers = Watchers(key)
            self.watchers_by_key[key] = watchers
        watchers.operations.append(operation)
        self.watched += 1

    def find(self, key: Hashable) -> Watchers | None:
        if self.lock is None:
            return self.watchers_by_key.get(key) if self.watched else None
        with self.lock:
            return self.watchers_by_key.get(key)

    def purge(self, watchers: Watchers) -> None:
        """Let go of what completed under one key, and of the key if nothing is left."""
        if self.lock is None:
            self._purge(watchers)
        else:
            with self.lock:
                self._purge(watchers)

    def _purge(self, watchers: Watchers) -> None:
        if self.watchers_by_key.get(watchers.key) is not watchers:
            return  # taken out meanwhile, by cancel_for_key or by another purge
        self.watched -= watchers.purge_completed()
        if not watchers.operations:
            del self.watchers_by_key[watchers.key]

    def remove(self, key: Hashable) -> Watchers | None:
        """Take the key out with all its operations."""
        if self.lock is None:
            return self._remove(key)
        with self.lock:
            return self._remove(key)

    def _remove(self, key: Hashable) -> Watchers | None:
        watchers = self.watchers_by_key.pop(key, None)
        if watchers is not None:
            self.watched -= len(watchers.operations)
        return watchers

    def all_watchers(self) -> list[Watchers]:
        if self.lock is None:
            return list(self.watchers_by_key.values())
        with self.lock:
            return list(self.watchers_by_key.values())
