"""LeaderEnds: the ends of partitions that other brokers lead, for the lag of groups in the metrics.

A group's coordinator knows the committed offsets of all partitions, but the ends only of those that
it leads. While somebody reads the lag, it asks the leaders of the others:

    end_of(partition) ──► wanted for WANTED_MS ──► every REFRESH_MS: ListOffsets to each leader
          ▲                                                 │
          └──────── known for KNOWN_MS ◄────────────────────┘

`end_of` answers at once with the last end that was told, so the first reading has none yet. Without
readings nothing is asked. Bounds: `MOST_WANTED` partitions, the others have no end; one request of
at most `PARTITIONS_AT_ONCE` in flight to each leader, on a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from odradek.network_client.broker_connections import BrokerChannel
    from odradek.timing import SystemTimer

Key = tuple[str, int]

WANTED_MS: Final = 150_000
"""An end that nobody has read for so long is not asked for again: two scrapes a minute apart."""
REFRESH_MS: Final = 5_000
KNOWN_MS: Final = 20_000
"""A leader that does not answer for so long: its ends are unknown."""
FIRST_MS: Final = 10
"""From the first reading until the first requests: so many readings share them."""
TIMEOUT_MS: Final = 5_000
PARTITIONS_AT_ONCE: Final = 500
MOST_WANTED: Final = 20_000
LATEST: Final = -1
CONSUMER: Final = -1


class LeaderEnds:
    """Owner thread."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        timer: SystemTimer,
        channel: BrokerChannel,
        leader_of: Callable[[Key], int],
        is_stopping: Callable[[], bool],
    ) -> None:
        """`leader_of`: the other broker that leads a partition; -1 if there is none."""
        self._call_soon = call_soon
        self._timer = timer
        self._channel = channel
        self._leader_of = leader_of
        self._is_stopping = is_stopping
        self._wanted: dict[Key, int] = {}
        """When each end was read last."""
        self._known: dict[Key, tuple[int, int]] = {}
        """Each end that was told, and when."""
        self._to_ask: dict[int, dict[Key, None]] = {}
        """The partitions to ask each leader for."""
        self._asking: set[int] = set()
        """The leaders that have a request to answer."""
        self._runs = False

    def end_of(self, key: Key) -> int | None:
        """Return the end for consumers as its leader has told it lately; None if it has not. It is
        asked for from now on.
        """
        now_ms = self._timer.now_ms
        if key in self._wanted or len(self._wanted) < MOST_WANTED:
            self._wanted[key] = now_ms
            if not self._runs:
                self._runs = True
                self._timer.call_later(FIRST_MS, self._refresh)
        told = self._known.get(key)
        return None if told is None or now_ms - told[1] >= KNOWN_MS else told[0]

    def _refresh(self) -> None:
        """Ask for all that is still wanted, and again later."""
        if self._is_stopping():
            return
        self._runs = bool(self._wanted)
        if self._runs:
            self._look_at(list(self._wanted))
            self._timer.call_later(REFRESH_MS, self._refresh)

    def _look_at(self, keys: list[Key]) -> None:
        """Ask for the last of these partitions, and in the next turn of the loop for the others."""
        oldest_ms = self._timer.now_ms - WANTED_MS
        for key in keys[-PARTITIONS_AT_ONCE:]:
            read_ms = self._wanted.get(key)
            if read_ms is None:
                continue  # A later refresh has dropped it.
            if read_ms <= oldest_ms:
                del self._wanted[key]
                self._known.pop(key, None)
            elif (leader := self._leader_of(key)) >= 0:
                self._to_ask.setdefault(leader, {})[key] = None
        del keys[-PARTITIONS_AT_ONCE:]
        for leader in list(self._to_ask):
            self._ask(leader)
        if keys:
            self._call_soon(lambda: self._look_at(keys))

    def _ask(self, leader: int) -> None:
        """Ask a leader for some of its ends, unless it has a request to answer."""
        waiting = self._to_ask[leader]
        if leader in self._asking or not waiting:
            return
        topics: dict[str, ListOffsetsTopic] = {}
        for name, number in list(islice(waiting, PARTITIONS_AT_ONCE)):
            del waiting[name, number]
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(partition_index=number, timestamp=LATEST))

        def answered(response: Any) -> None:
            self._asking.discard(leader)
            if response is None or self._is_stopping():
                self._to_ask[leader].clear()  # until the next time
            else:
                self._take(response)
                self._ask(leader)

        self._asking.add(leader)
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=list(topics.values()))
        self._channel.send(leader, request, answered, TIMEOUT_MS)

    def _take(self, response: Any) -> None:
        """Note the ends of an answer. An error leaves the last end, until that is too old."""
        now_ms = self._timer.now_ms
        for topic in response.topics:
            for each in topic.partitions:
                key = topic.name, each.partition_index
                if not each.error_code and key in self._wanted:
                    self._known[key] = each.offset, now_ms
