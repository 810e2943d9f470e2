"""DelayedOperationPurgatory: delayed operations, found by the keys whose events may complete them.

    try_complete_else_watch(operation, keys)      check_and_complete(key)    the timer
        try -> done                                        |                   |
        watch under every key --> WatcherList              v                   v
        try again -> done           key -> Watchers --> safe_try_complete   force_complete
        start the timer

The second try closes the gap between the first try and the watch: an event in between has either
found the operation in the watch lists, or happened early enough for the second try to see it. So no
event is lost: checks by key and the deadline are enough to complete every operation.

An operation that completes leaves its timer at once, but stays in the watch lists of its keys:
removing it from the middle of each list would cost more than all the rest. Those entries are
removed

- for one key, whenever `check_and_complete` finds them;
- for all keys, by a purge, when more than `purge_interval` operations have completed since the
  last purge (the number watched since then, less those that wait on the timer).

A purge of up to `PURGE_AT_ONCE` entries runs immediately. A larger one waits until half of the
operations have completed, which bounds its work per completed operation, and then runs in pieces,
so that no caller waits long. The lists therefore never hold much more than twice the waiting
operations, plus `purge_interval`.

Checks may be nested: `try_complete` and `on_complete` may check any key, the same one included, or
watch new operations. Each call counts the operations that it completed itself. A list only grows
while it is walked; completed entries are removed by replacing the list, so a walk in progress is
not disturbed. A key whose last operation leaves is removed too.

If `try_complete` or `on_complete` raises, `check_and_complete` still tries the rest of the list,
then raises that error (an `ExceptionGroup` for several). If it raises in the second try of
`try_complete_else_watch`, the timer is started nevertheless: an operation in the watch lists always
has a deadline or is completed.

`shards`, `new_lock` and the locks here are for `threaded`; an owner loop has one shard and no lock.
A lock guards the dictionary and the lists, never a call of an operation, so it orders below every
operation's own lock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from typing import Final

from mypy_extensions import i64, mypyc_attr

from odradek.timing.delayed_operation import DelayedOperation, safe_try_complete
from odradek.timing.timer import ClockListener, SystemTimer
from odradek.timing.timer_task import TaskCounter, cancel


class Watchers:
    """The operations watching one key, in order of arrival."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.operations: list[DelayedOperation] = []
        self.has_completed = False

    def try_complete_watched(self, errors: list[Exception]) -> i64:
        """Try all operations; return how many this call completed. Sets `has_completed`."""
        operations = self.operations
        completed: i64 = 0
        # Operations that are added meanwhile were tried by `try_complete_else_watch`.
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
        """Remove completed operations; return how many."""
        self.has_completed = False
        before = self.operations
        waiting = [operation for operation in before if not operation.is_completed]
        if len(waiting) < len(before):
            self.operations = waiting
        return len(before) - len(waiting)


class WatcherList:
    """The watch lists of one shard of the keys."""

    def __init__(self, lock: AbstractContextManager[object] | None) -> None:
        self.lock = lock
        self.watchers_by_key: dict[Hashable, Watchers] = {}
        self.watched: i64 = 0

    def watch(self, key: Hashable, operation: DelayedOperation) -> None:
        """Add the operation under the key."""
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
        """Remove completed operations under one key, and the key if none is left."""
        if self.lock is None:
            self._purge(watchers)
        else:
            with self.lock:
                self._purge(watchers)

    def _purge(self, watchers: Watchers) -> None:
        if self.watchers_by_key.get(watchers.key) is not watchers:
            return  # Removed meanwhile, by cancel_for_key or another purge.
        self.watched -= watchers.purge_completed()
        if not watchers.operations:
            del self.watchers_by_key[watchers.key]

    def remove(self, key: Hashable) -> Watchers | None:
        """Remove the key with all its operations."""
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


PURGE_AT_ONCE: Final = 4096
"""Watch-list entries that one call may check: they take some tens of microseconds."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperationPurgatory(ClockListener):
    """Holds delayed operations of one kind. Any number of purgatories may share one timer."""

    def __init__(
        self,
        name: str,
        timer: SystemTimer,
        purge_interval: int = 1000,
        shards: int = 1,
        new_lock: Callable[[], AbstractContextManager[object]] | None = None,
    ) -> None:
        self.name = name
        self.timer = timer
        self.purge_interval: i64 = purge_interval
        self.is_shut_down = False
        self._pending = TaskCounter()
        self._estimated_total_operations: i64 = 0
        self._delayed: i64 = 0
        self._watcher_lists = [
            WatcherList(None if new_lock is None else new_lock()) for _ in range(shards)
        ]
        self._lock = None if new_lock is None else new_lock()
        self._purge_round: list[tuple[WatcherList, Watchers]] = []
        timer.listen(self)

    @property
    def watched(self) -> int:
        """The number of entries in the watch lists, completed ones included until purged."""
        total: i64 = 0
        for shard in self._watcher_lists:
            total += shard.watched
        return total

    @property
    def num_delayed(self) -> int:
        """The number of operations waiting on the timer."""
        return self._pending.count

    @property
    def expired(self) -> int:
        """The number of operations whose deadline completed them so far."""
        return self._pending.expired

    @property
    def completed(self) -> int:
        """The number of operations that waited and were completed before their deadline so far."""
        return self._delayed - self._pending.count - self._pending.expired

    @property
    def watched_keys(self) -> int:
        """The number of keys that operations watch."""
        return sum(len(shard.watchers_by_key) for shard in self._watcher_lists)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """Complete the operation now, or watch its keys until its delay has passed.

        True if this call completed it. An operation is added to a purgatory once, with at least
        one key (`ValueError` otherwise). After `shutdown` an operation that would have to wait
        raises `RuntimeError`.
        """
        if operation.lock is None:
            done = self._try_else_watch(operation, keys)
        else:
            with operation.lock:
                done = self._try_else_watch(operation, keys)
        if not done and not operation.is_completed:
            self._start(operation)
        self._purge_if_due()
        return done

    def _try_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        if safe_try_complete(operation):
            return True
        if self.is_shut_down:
            raise RuntimeError(f"purgatory {self.name} is shut down")
        shards = self._watcher_lists
        one = len(shards) == 1
        watched = False
        for key in keys:
            if operation.is_completed:
                break
            (shards[0] if one else shards[hash(key) % len(shards)]).watch(key, operation)
            watched = True
        if not watched:
            if operation.is_completed:
                return False
            raise ValueError("an operation must watch at least one key")
        self._add_estimated()
        try:
            return safe_try_complete(operation)
        except BaseException:
            if not operation.is_completed:
                self._start(operation)
            raise

    def _add_estimated(self) -> None:
        if self._lock is None:
            self._estimated_total_operations += 1
        else:
            with self._lock:
                self._estimated_total_operations += 1

    def _start(self, operation: DelayedOperation) -> None:
        operation.task_counter = self._pending
        self._delayed += 1
        self.timer.add(operation)
        if operation.is_completed:
            # Another thread completed it between the check and the add and could not cancel its
            # timer yet.
            cancel(operation)

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches `key`, after an event of it.

        Return how many operations this call completed.
        """
        shards = self._watcher_lists
        shard = shards[0] if len(shards) == 1 else shards[hash(key) % len(shards)]
        watchers = shard.find(key)
        if watchers is None:  # As for most appends.
            self._purge_if_due()
            return 0
        errors: list[Exception] = []
        completed: i64 = watchers.try_complete_watched(errors)
        if watchers.has_completed:
            shard.purge(watchers)
        self._purge_if_due()
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"operations of {self.name} watching {key!r}", errors)
        return completed

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Remove the key; return its waiting operations, cancelled and not completed.

        The caller completes or discards them.
        """
        shards = self._watcher_lists
        shard = shards[0] if len(shards) == 1 else shards[hash(key) % len(shards)]
        watchers = shard.remove(key)
        if watchers is None:
            return []
        waiting = [operation for operation in watchers.operations if not operation.is_completed]
        for operation in waiting:
            cancel(operation)
        return waiting

    def clock_advanced(self) -> None:
        """Purge if due: operations may have expired."""
        self._purge_if_due()

    def _purge_if_due(self) -> None:
        if self._lock is None:
            self._purge_some()
        else:
            with self._lock:
                self._purge_some()

    def _purge_some(self) -> None:
        if not self._purge_round and not self._begin_purge():
            return
        looked_at: i64 = 0
        while self._purge_round and looked_at < PURGE_AT_ONCE:
            shard, watchers = self._purge_round.pop()
            looked_at += len(watchers.operations) + 1
            shard.purge(watchers)

    def _begin_purge(self) -> bool:
        completed: i64 = self._estimated_total_operations - self._pending.count
        if completed <= self.purge_interval:
            return False
        if completed * 2 < self._estimated_total_operations and self.watched > PURGE_AT_ONCE:
            return False
        self._estimated_total_operations = self._pending.count
        for shard in self._watcher_lists:
            for watchers in shard.all_watchers():
                self._purge_round.append((shard, watchers))
        return True

    def shutdown(self) -> list[DelayedOperation]:
        """Remove all operations; return the waiting ones, cancelled, not completed, each once."""
        self.is_shut_down = True
        self.timer.unlisten(self)
        waiting: dict[int, DelayedOperation] = {}
        for shard in self._watcher_lists:
            for watchers in shard.all_watchers():
                for operation in self.cancel_for_key(watchers.key):
                    waiting[id(operation)] = operation
        return list(waiting.values())
