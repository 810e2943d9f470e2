"""From fetches to the application: whose turn it is, and how far the application has come.

    engine's thread:   incoming.append(fetch)
    application's:     incoming ─► position.fetches, in order ─► the ring of positions ─► records

The positions that have something take turns, one fetch each: a partition with a long backlog does
not starve the others. One that is withheld leaves the ring and keeps what it has; what was fetched
for an older generation of its position is thrown away when it is met.

Records that were set aside (`CompletedFetch.undecoded`) hold up everything: no position passes one
before it was seen to.

Positions move as records are handed out. What the application was handed is `consumed` when it
comes back (`settle`, or the next record): see `position`. If it is interrupted while it waits for
more than one record, `undo` tells where to go back to.

`incoming` alone is shared with the engine; everything else belongs to the application's thread.

A compiled leaf: `next_record` is called for every record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from mypy_extensions import i64

from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.fetch.completed_fetch import ColumnRun, CompletedFetch, Records
from odradek.client.consumer.position.position import Position
from odradek.client.consumer.record import Record
from odradek.client.deserializers import Deserializers
from odradek.client.errors import DecodeError
from odradek.model.topics import TopicPartition
from odradek.protocol.record_columns import RecordColumns

AHEAD: Final[i64] = 500
AHEAD_OF_CALLS: Final[i64] = 16
"""How many records are decoded before they are wanted: fewer where a user's function does it."""


@final
class FetchCollector:
    """Hands out what `incoming` brings. `released` is called when room for more was made."""

    def __init__(
        self,
        incoming: deque[CompletedFetch],
        deserializers: Deserializers,
        released: Callable[[], object],
    ) -> None:
        self.deserializers = deserializers
        self.attention = False
        """The engine has something else for the application: no records until it has looked."""
        self.set_aside: list[DecodeError] | None = None
        """What is in the way of further records, to be seen to and taken out of here: there is
        nothing to be handed out before."""
        self.polls: i64 = 0
        """How often the application asked for records: the engine watches whether it is there."""
        self._incoming = incoming
        self._released = released
        self._ahead: i64 = AHEAD if deserializers.at_once else AHEAD_OF_CALLS
        self._ring: deque[Position] = deque()
        self._holding: dict[Position, bool] = {}
        """The positions that have fetches, and whether they are in the ring."""
        self._current: CompletedFetch | None = None
        """Whose records are handed out: the first of the first position in the ring."""
        self._unsettled: dict[Position, tuple[int, int]] = {}
        """Where positions stood, offset and epoch, before the application was handed more."""

    # Handing out.

    def next_record(self) -> Record[Any, Any] | None:
        """The next record, or None if there is none yet. Raises what fetches raise."""
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
        """Add records that are there already until there are `limit`. Raises what fetches raise
        when `into` is empty; else that waits for the next call.
        """
        self.polls += 1
        while len(into) < limit:
            wanted: i64 = limit - len(into)
            fetch = self._current
            if fetch is None or fetch.index >= fetch.count:
                try:
                    fetch = self._ready_fetch(wanted, not into)
                except Exception:
                    if not into:
                        raise
                    return
                if fetch is None:
                    return
                self._current = fetch
            self._note_position(fetch)
            end = min(fetch.index + wanted, fetch.count)
            into.extend(fetch.records[fetch.index : end])
            fetch.index = end
            fetch.position.offset = fetch.records[end - 1].offset + 1

    def take_columns(
        self, columns: RecordColumns, runs: list[ColumnRun], max_count: int, max_data_bytes: int
    ) -> None:
        """Add what is there already until there are so many rows or bytes. Raises as `take`."""
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

    # Between calls of the application.

    def mark_consumed(self) -> None:
        """The application is back: it is done with what it was handed."""
        if self._unsettled:
            for position in self._unsettled:
                position.mark_consumed()
            self._unsettled.clear()

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where the positions are that the application was handed something of since the last
        `settle`: what it may commit when it is done with that.
        """
        return {
            position.topic_partition: OffsetAndMetadata(position.offset, "", position.leader_epoch)
            for position in self._unsettled
        }

    def undo(self) -> list[tuple[Position, int, int]]:
        """What the application was handed since the last `settle` does not count: where its
        positions, by offset and epoch, have to be moved.
        """
        found = [(position, *before) for position, before in self._unsettled.items()]
        self._unsettled.clear()
        return found

    def refresh(self) -> None:
        """Positions were paused, resumed, revoked, moved, or lost: look anew at what is held."""
        self._current = self.set_aside = None
        self._take_incoming()
        self._ring.clear()
        for position in list(self._holding):
            fetches = position.fetches
            while fetches and fetches[0].generation != position.generation:
                self._release(fetches.popleft())
            if not fetches:
                del self._holding[position]
            elif position.withheld:
                self._holding[position] = False
                for fetch in fetches:
                    fetch.compact()
            else:
                self._holding[position] = True
                self._ring.append(position)

    # The ring.

    def _ready_fetch(self, limit: i64, with_failures: bool) -> CompletedFetch | None:
        """The fetch whose turn it is, with records decoded; None if nothing is there, or what was
        set aside is in the way, or, without them, a failure.
        """
        self._current = self.set_aside = None
        while True:
            fetch = self._front_fetch()
            if fetch is None:
                return None
            if fetch.failure is not None:
                if not with_failures:
                    return None
                self._take_failure(fetch)
                continue
            if fetch.index < fetch.count:
                return fetch
            if fetch.undecoded:
                self.set_aside = fetch.undecoded
                return None
            if not fetch.resume_after_undecoded() and not fetch.fill(limit, self.deserializers):
                self._finish(fetch)

    def _front_fetch(self) -> CompletedFetch | None:
        """The fetch whose turn it is, decoded or not."""
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
                self._holding[position] = False
            else:
                del self._holding[position]
        return None

    def _take_incoming(self) -> None:
        """What the engine brought, to its positions."""
        incoming = self._incoming
        while incoming:
            fetch = incoming.popleft()
            position = fetch.position
            position.fetches.append(fetch)
            if position not in self._holding:
                self._holding[position] = True
                self._ring.append(position)

    def _finish(self, fetch: CompletedFetch) -> None:
        """All of it was handed out: the next position's turn."""
        position = fetch.position
        self._note_position(fetch)
        # Behind the last record there may be offsets without one: markers, compacted records.
        position.offset = max(position.offset, min(fetch.next_offset, position.end))
        self._drop(fetch)

    def _take_failure(self, fetch: CompletedFetch) -> None:
        """The turn of something that went wrong has come."""
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
        """The application is about to get something of this fetch."""
        position = fetch.position
        if position not in self._unsettled:
            self._unsettled[position] = (position.offset, position.leader_epoch)
        if fetch.count and position.leader_epoch != fetch.leader_epoch:
            position.leader_epoch = position.consumed_epoch = fetch.leader_epoch
