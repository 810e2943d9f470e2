"""FetchCollector: hands the fetched records to the application and moves its positions.

    engine's thread         incoming.append(fetch)
    application's thread    incoming ─► position.fetches, in order ─► ring of positions ─► records

The positions that have fetches form a ring and are served one fetch each, so a partition with a
long backlog does not starve the others. A position that is paused or about to be revoked leaves the
ring and keeps its fetches. A fetch of an older generation of its position is dropped when the
collector reaches it.

Records that were set aside (`CompletedFetch.undecoded`) block all further records: no position
moves past one before the caller has handled it.

The position moves with each record that is returned. Returned records become `consumed` when the
application comes back (`mark_consumed`, or the next record): see `position`. If a call that
collects several records is interrupted, `undo` returns the positions to go back to.

Only `incoming` is shared with the engine; everything else belongs to the application's thread.

Compiled: `next_record` is called for every record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from mypy_extensions import i64

from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.fetch.completed_fetch import (
    ColumnRun,
    CompletedFetch,
    Intercept,
    Records,
)
from odradek.client.consumer.position.position import Position
from odradek.client.consumer.record import Record
from odradek.client.deserializers import Deserializers
from odradek.client.errors import DecodeError
from odradek.model.env import Clock
from odradek.model.topics import TopicPartition
from odradek.protocol.record_columns import RecordColumns

DECODE_AHEAD: Final[i64] = 500
DECODE_AHEAD_OF_CALLS: Final[i64] = 16
"""How many records are decoded ahead; the smaller number applies when a user's function decodes."""


@final
class FetchCollector:
    """Returns the records of `incoming`. `released` is called when buffered bytes were freed."""

    def __init__(
        self,
        incoming: deque[CompletedFetch],
        deserializers: Deserializers,
        released: Callable[[], object],
        clock: Clock,
    ) -> None:
        self.deserializers = deserializers
        self.attention = False
        """The engine has something for the application besides records: return none until it has
        looked.
        """
        self.set_aside: list[DecodeError] | None = None
        """Records that could not be decoded and block all others. The caller handles them and
        removes them from this list.
        """
        self.intercept: Intercept | None = None
        """The interceptors, if there are any that want to see records."""
        self.polls: i64 = 0
        """How often the application asked for records; `PollTracker` watches it."""
        self._incoming = incoming
        self._released = released
        self._clock = clock
        self._ahead: i64 = DECODE_AHEAD if deserializers.at_once else DECODE_AHEAD_OF_CALLS
        self._ring: deque[Position] = deque()
        self._in_ring: dict[Position, bool] = {}
        """The positions that have fetches, and whether they are in the ring."""
        self._current: CompletedFetch | None = None
        """The fetch whose records are being returned: the first fetch of the first position in the
        ring.
        """
        self._unconsumed: dict[Position, tuple[int, int]] = {}
        """The offset and epoch of each position before the application received records that it has
        not consumed yet.
        """

    # Returning records.

    def next_record(self) -> Record[Any, Any] | None:
        """Return the next record; None if there is none yet. Raises the error of a failed fetch."""
        self.polls += 1
        if self.attention:
            return None
        fetch = self._current
        if fetch is not None:
            index = fetch.index
            if index < fetch.count:
                record = fetch.records[index]
                fetch.index = index + 1
                position = fetch.position
                position.consumed = position.offset
                position.offset = record.offset + 1
                return record
        self.mark_consumed()
        fetch = self._ready_fetch(self._ahead, True)
        if fetch is None:
            return None
        self._current = fetch
        self._note_position(fetch)
        return self.next_record()

    def take(self, into: Records, limit: int) -> None:
        """Append available records to `into` until it has `limit`.

        Raises the error of a failed fetch if `into` is empty; else the next call raises it.
        """
        self.polls += 1
        while len(into) < limit:
            count_left: i64 = limit - len(into)
            fetch = self._current
            if fetch is None or fetch.index >= fetch.count:
                try:
                    fetch = self._ready_fetch(count_left, not into)
                except Exception:
                    if not into:
                        raise
                    return
                if fetch is None:
                    return
                self._current = fetch
            self._note_position(fetch)
            end = min(fetch.index + count_left, fetch.count)
            into.extend(fetch.records[fetch.index : end])
            fetch.index = end
            fetch.position.offset = fetch.records[end - 1].offset + 1

    def take_columns(
        self, columns: RecordColumns, runs: list[ColumnRun], max_count: int, max_data_bytes: int
    ) -> None:
        """Append available records to `columns` up to a number of rows or bytes. Raises as `take`
        does.
        """
        self.polls += 1
        self._current = self.set_aside = None
        while columns.count < max_count and columns.data_bytes <= max_data_bytes:
            fetch = self._front_fetch()
            if fetch is None:
                return
            try:
                if fetch.failure is not None:
                    if columns.count:
                        return
                    self._take_failure(fetch)
                    continue
                self._note_position(fetch)
                more = fetch.fill_columns(columns, runs, max_count, max_data_bytes)
            except Exception:
                if not columns.count:
                    raise
                return
            if not more:
                self._finish(fetch)
            self._record_lag(fetch.position)

    # Between calls of the application.

    def mark_consumed(self) -> None:
        """Mark all returned records as consumed: the application has come back for more."""
        if self._unconsumed:
            for position in self._unconsumed:
                position.mark_consumed()
            self._unconsumed.clear()

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit for the records returned since the last `mark_consumed`."""
        return {
            position.topic_partition: OffsetAndMetadata(position.offset, "", position.leader_epoch)
            for position in self._unconsumed
        }

    def keep_consumed(self, owns: Callable[[Position], bool]) -> None:
        """Forget what is not consumed of positions that this consumer does not own any more, when
        none of their records is with the application: they only moved over records of aborted
        transactions, and committing them would undo a commit of the new owner.
        """
        for position in [each for each in self._unconsumed if not owns(each)]:
            del self._unconsumed[position]

    def undo(self) -> list[tuple[Position, int, int]]:
        """Return the positions, with offset and epoch, to go back to as if no record had been
        returned since the last `mark_consumed`.
        """
        found = [(position, *before) for position, before in self._unconsumed.items()]
        self._unconsumed.clear()
        return found

    @property
    def can_undo(self) -> bool:
        """True if records were returned since the last `mark_consumed`."""
        return len(self._unconsumed) > 0

    def refresh(self) -> None:
        """Sort the fetches again after positions were paused, resumed, revoked, moved or lost."""
        self._current = self.set_aside = None
        self._take_incoming()
        self._ring.clear()
        for position in list(self._in_ring):
            fetches = position.fetches
            while fetches and fetches[0].generation != position.generation:
                self._release(fetches.popleft())
            if not fetches:
                del self._in_ring[position]
            elif position.withheld:
                self._in_ring[position] = False
                for fetch in fetches:
                    fetch.compact()
            else:
                self._in_ring[position] = True
                self._ring.append(position)

    # The ring.

    def _ready_fetch(self, limit: i64, with_failures: bool) -> CompletedFetch | None:
        """Return the next fetch with decoded records.

        None if nothing is available, if records that were set aside block it, or, unless
        `with_failures`, if the next fetch failed.
        """
        returned = self._current
        self._current = self.set_aside = None
        if returned is None:
            return self._find_ready_fetch(limit, with_failures)
        try:
            return self._find_ready_fetch(limit, with_failures)
        finally:
            self._record_lag(returned.position)

    def _find_ready_fetch(self, limit: i64, with_failures: bool) -> CompletedFetch | None:
        while True:
            fetch = self._front_fetch()
            if fetch is None:
                return None
            if fetch.failure is not None:
                if not with_failures:
                    return None
                self._take_failure(fetch)
                continue
            if self.intercept is not None:
                if fetch.intercepted < fetch.count:
                    fetch.intercept(self.intercept)
                if fetch.index >= fetch.count and fetch.passed > fetch.position.offset:
                    self._note_position(fetch)  # The last records were left out.
                    fetch.position.offset = fetch.passed
            if fetch.index < fetch.count:
                return fetch
            if fetch.undecoded:
                self.set_aside = fetch.undecoded
                return None
            if not fetch.resume_after_undecoded() and not fetch.fill(limit, self.deserializers):
                self._finish(fetch)

    def _record_lag(self, position: Position) -> None:
        """Record how far the application is, after it has received what was decoded."""
        position.metrics.record(position.offset, self._clock.monotonic_ms())

    def _front_fetch(self) -> CompletedFetch | None:
        """Return the next fetch, decoded or not."""
        self._take_incoming()
        ring = self._ring
        while ring:
            position = ring[0]
            fetches = position.fetches
            while fetches and fetches[0].generation != position.generation:
                self._release(fetches.popleft())
            if fetches and not position.withheld:
                return fetches[0]
            ring.popleft()
            if fetches:
                self._in_ring[position] = False
            else:
                del self._in_ring[position]
        return None

    def _take_incoming(self) -> None:
        """Move the fetches of `incoming` to their positions."""
        incoming = self._incoming
        while incoming:
            fetch = incoming.popleft()
            position = fetch.position
            position.fetches.append(fetch)
            if position not in self._in_ring:
                self._in_ring[position] = True
                self._ring.append(position)

    def _finish(self, fetch: CompletedFetch) -> None:
        """The fetch is used up: go on with the next position."""
        position = fetch.position
        self._note_position(fetch)
        # Offsets behind the last record may have none: control batches, compacted records.
        position.offset = max(position.offset, min(fetch.next_offset, position.end))
        self._drop(fetch)

    def _take_failure(self, fetch: CompletedFetch) -> None:
        """Drop a failed fetch and raise its error, if it has one."""
        assert fetch.failure is not None
        self._drop(fetch)
        error = fetch.failure()
        if error is not None:
            raise error

    def _drop(self, fetch: CompletedFetch) -> None:
        position = fetch.position
        position.fetches.popleft()
        self._ring.rotate(-1)
        self._release(fetch)

    def _release(self, fetch: CompletedFetch) -> None:
        fetch.position.released_bytes += fetch.size
        self._released()

    def _note_position(self, fetch: CompletedFetch) -> None:
        """Remember where the position was before the application receives records of this fetch."""
        position = fetch.position
        if position not in self._unconsumed:
            self._unconsumed[position] = (position.offset, position.leader_epoch)
        if fetch.count and position.leader_epoch != fetch.leader_epoch:
            position.leader_epoch = position.consumed_epoch = fetch.leader_epoch
