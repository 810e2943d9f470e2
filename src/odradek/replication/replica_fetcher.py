"""A follower's side of replication: fetches the partitions that one leader has for this broker.

    add ─► fetching ──records──► append ─► [flush] ─► the durable end is told ─► fetching
              │ diverging epoch, out of range
              ├──────────────────────────────► truncating (on a worker) ──► fetching
              │ error
              ├──────────────────────────────► backing off ──► fetching
              └ FENCED_LEADER_EPOCH ─────────► out, until the metadata names another epoch

It decides; sending, appending, truncating, the high watermark and the log start are those of its
arguments, `FetcherEnvironment` and the partitions. Time and answers are given to it.

**Sessions.** Requests are incremental (KIP-227): a partition is listed when its position or durable
end is another than the leader was told. At most two requests are in flight, so that the news of a
flush is told while the leader holds the older one back for records (see `follower_fetch`); a
request that makes a session is alone. An answer is of the positions that were listed up to its
request. So what it has of a partition that was forgotten and listed again later is ignored.

A request lists `LISTED_MAX` partitions at most.

**Truncation** is by leader epochs only (KIP-101, KIP-279, KIP-595). The leader answers the largest
epoch of its log that is not above the follower's, and where it ends there. The follower truncates
to where that epoch ends in either log; if it does not know the epoch, to the end of the one before
it, and the leader answers again.

**Out of range.** The leader's log ends before the follower's: an unclean leader, whose end the
follower truncates to. The leader's log starts behind the follower's end: the follower has been away
too long, or is new, and starts again there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol
from uuid import UUID

from odradek.log.leader_epochs import EpochEndOffset
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol.hot_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

logger = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
UNKNOWN: Final = -1
MAX_SESSION_EPOCH: Final = 2**31 - 1
IN_FLIGHT_MAX: Final = 2
FIRST_BACKOFF_MS: Final = 20
"""The wait after a first failure; it doubles with each, up to replica.fetch.backoff.ms."""
LISTED_MAX: Final = 500
"""The most partitions that a request lists. The rest follows with the next one: neither side is
held by a fetcher that begins with 10,000 partitions."""
SESSION_LOST: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

UNTOLD: Final = (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
"""Stands for the position that the leader was told, so that it is told again: equals none."""

Key = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """Kafka's settings of replica fetchers, by their names without `replica.fetch.`."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1000


class Followed(Protocol):
    """A partition that this broker follows, with its log."""

    @property
    def key(self) -> Key: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def durable_end(self) -> int: ...

    @property
    def durable_log_start(self) -> int:
        """The log start that the leader is told."""
        ...

    @property
    def latest_epoch(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """The largest epoch of the log that is not above `epoch`, and its end."""
        ...

    def append(self, records: ByteRange) -> ErrorCode:
        """Append what the leader sent, and have it flushed; `ReplicaFetcher.flushed` follows."""
        ...

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Take the leader's high watermark and log start."""
        ...

    def truncate(self, offset: int, restart: bool, done: Callable[[], None]) -> None:
        """Remove what is at `offset` and behind it, or everything. `done` is called later, unless
        the partition went offline or was removed.
        """
        ...


class Quota(Protocol):
    """The throttle of a follower (KIP-73)."""

    def is_exceeded_for(self, key: Key) -> bool:
        """True if this partition must not be fetched now."""
        ...

    def record(self, key: Key, size: int) -> None:
        """Count fetched bytes."""
        ...


class FetcherEnvironment(Protocol):
    """What a fetcher does outside."""

    def send(self, request: FetchRequest, answered: Callable[[FetchResponse | None], None]) -> None:
        """Send a request to the leader; requests of one connection are answered in order.

        `answered` is called once, later; None: there was no answer, and there is none for any
        request before it that is still in flight.
        """
        ...

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after some time."""
        ...


class ReplicaFetchState(Enum):
    """Where a partition is between fetches."""

    FETCHING = auto()
    TRUNCATING = auto()
    BACKING_OFF = auto()
    THROTTLED = auto()
    FENCED = auto()


class PartitionFetchState:
    """A partition of a fetcher. `told`: what the leader's session knows of it; None: nothing.
    `since`: the number of the request that listed it first, after nothing was known. `failures`:
    in a row. `resume_at`: the offset to ask for if the log ends before it: see `_append`.
    """

    __slots__ = ("failures", "followed", "leader_epoch", "resume_at", "since", "state", "told")

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.leader_epoch = followed.leader_epoch
        self.state = ReplicaFetchState.FETCHING
        self.failures = self.resume_at = 0
        self.told: tuple[int, int, int, int, int] | None = None
        self.since = 0

    def position(self) -> tuple[int, int, int, int, int]:
        """What the leader is to be told."""
        followed = self.followed
        return (
            self.leader_epoch,
            max(followed.log_end_offset, self.resume_at),
            followed.latest_epoch,
            followed.durable_log_start,
            followed.durable_end,
        )


class ReplicaFetcher:
    """The partitions that are fetched from one leader over one connection. Owner thread."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        environment: FetcherEnvironment,
        settings: FetcherSettings,
        quota: Quota | None = None,
    ) -> None:
        """With a `quota` it waits whenever the quota of a partition is exceeded."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._environment = environment
        self._settings = settings
        self._quota = quota
        self.partitions: dict[Key, PartitionFetchState] = {}
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._connection = 0  # a number for each session; answers of older ones are ignored
        self._in_flight = 0
        self._number = 0  # of the last request
        self._unended: dict[int, None] = {}  # the requests without an answer, ignored ones too
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._paused = False
        self._failures = 0  # requests in a row without an answer
        self._stopped = False

    def stop(self) -> None:
        """Send nothing more; answers that arrive are ignored."""
        self._stopped = True
        self._connection += 1

    # -- partitions ------------------------------------------------------------------------------

    def add(self, followed: Followed) -> None:
        """Fetch a partition from now on, in the leader epoch that it has."""
        known = self.partitions.get(followed.key)
        if known is not None and known.followed is followed:
            if known.leader_epoch == followed.leader_epoch:
                return
            truncating = known.state is ReplicaFetchState.TRUNCATING
            known.leader_epoch = followed.leader_epoch
            known.failures = known.resume_at = 0
            self._forget(followed.key, known)
            if not truncating:
                known.state = ReplicaFetchState.FETCHING
            self._mark(followed.key)
        else:
            if known is not None:
                self.remove(followed.key)
            self.partitions[followed.key] = PartitionFetchState(followed)
            self._mark(followed.key)
        self.fetch()

    def remove(self, key: Key) -> None:
        """Do not fetch a partition any more."""
        known = self.partitions.pop(key, None)
        if known is not None:
            self._changed.pop(key, None)
            self._forget(key, known)

    def flushed(self, key: Key) -> None:
        """Tell the leader the new durable end, or durable log start, of a partition."""
        if key in self.partitions:
            self._mark(key)
            self.fetch()

    def tell_again(self, key: Key) -> None:
        """Tell the leader the position of a partition, though it was told before."""
        known = self.partitions.get(key)
        if known is not None and known.told is not None:
            known.told = UNTOLD
            self._mark(key)
            self.fetch()

    def when_ended(self, function: Callable[[], None]) -> None:
        """Call a function when all requests that were sent up to now have ended; at once if all
        have. It is called after `stop`, too.
        """
        if self._unended:
            self._waiting.append((self._number, function))
        else:
            function()

    def _ended(self, number: int) -> None:
        del self._unended[number]
        first = next(iter(self._unended), self._number + 1)
        while self._waiting and self._waiting[0][0] < first:
            self._waiting.pop(0)[1]()

    def _mark(self, key: Key) -> None:
        self._changed[key] = None

    def _forget(self, key: Key, known: PartitionFetchState) -> None:
        """Have a partition removed from the leader's session."""
        if known.told is not None:
            self._forgotten[key] = None
            known.told = None

    # -- requests --------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Send what there is to tell, or the request that waits for records."""
        if self._stopped or self._paused or not self.partitions:
            return
        if self._session_id == 0:
            if self._in_flight == 0:
                self._send_full()
            return
        while self._in_flight < IN_FLIGHT_MAX:
            self._send_incremental()
            if not self._changed:
                break

    def _send_full(self) -> None:
        self._forgotten.clear()
        self._changed.clear()
        listed: list[Key] = []
        for key, known in self.partitions.items():
            known.told = None
            if len(listed) == LISTED_MAX:
                self._mark(key)
            elif self._may_fetch(key, known):
                listed.append(key)
        if listed:
            self._connection += 1
            self._session_epoch = 0
            self._send(listed, [])

    def _send_incremental(self) -> None:
        listed: list[Key] = []
        changed, self._changed = self._changed, {}
        for key in changed:
            known = self.partitions[key]
            if len(listed) == LISTED_MAX:
                self._mark(key)
            elif self._may_fetch(key, known) and known.told != known.position():
                listed.append(key)
        if listed or self._forgotten or self._in_flight == 0:
            forgotten = list(self._forgotten)
            self._forgotten.clear()
            self._send(listed, forgotten)

    def _may_fetch(self, key: Key, known: PartitionFetchState) -> bool:
        if known.state is not ReplicaFetchState.FETCHING:
            return False
        if self._quota is not None and self._quota.is_exceeded_for(key):
            known.state = ReplicaFetchState.THROTTLED
            self._forget(key, known)
            self._later(key, known, self._settings.wait_max_ms)
            return False
        return True

    def _send(self, listed: list[Key], forgotten: list[Key]) -> None:
        self._number += 1
        topics: dict[UUID, FetchTopic] = {}
        for topic_id, number in listed:
            known = self.partitions[topic_id, number]
            if known.told is None:
                known.since = self._number
            known.told = epoch, end, last_epoch, start, durable = known.position()
            topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[]))
            topic.partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=epoch,
                    fetch_offset=end,
                    last_fetched_epoch=last_epoch,
                    log_start_offset=start,
                    partition_max_bytes=self._settings.max_bytes,
                    durable_end=durable,
                )
            )
        gone: dict[UUID, ForgottenTopic] = {}
        for topic_id, number in forgotten:
            forget = gone.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[]))
            forget.partitions.append(number)
        settings = self._settings
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._node_id, replica_epoch=self._broker_epoch()
            ),
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )
        if self._session_epoch > 0:
            at_end = self._session_epoch == MAX_SESSION_EPOCH
            self._session_epoch = 1 if at_end else self._session_epoch + 1
        self._in_flight += 1
        connection, number = self._connection, self._number
        self._unended[number] = None

        def answered(answer: FetchResponse | None) -> None:
            self._answered(connection, number, answer)
            self._ended(number)

        self._environment.send(request, answered)

    # -- answers ---------------------------------------------------------------------------------

    def _answered(self, connection: int, number: int, response: FetchResponse | None) -> None:
        if connection != self._connection:
            return
        self._in_flight -= 1
        if response is None:
            self._lose_session()
            self._pause()
            return
        error = ErrorCode(response.error_code)
        if error is not NONE:
            logger.info("the fetch session with the leader ended: %s", error.name)
            self._lose_session()
            if error not in SESSION_LOST:
                self._pause()
                return
        else:
            self._failures = 0
            if self._session_epoch == 0:
                self._session_id, self._session_epoch = response.session_id, 1
            for topic in response.responses:
                for data in topic.partitions:
                    self._take((topic.topic_id, data.partition_index), number, data)
        self.fetch()

    def _lose_session(self) -> None:
        """Begin with a full request again. What is still in flight is ignored."""
        self._connection += 1
        self._session_id = self._session_epoch = self._in_flight = 0

    def _pause(self) -> None:
        """Send nothing for a while: the leader could not be reached, or refused the request."""
        self._paused = True
        self._failures += 1

        def resume() -> None:
            self._paused = False
            self.fetch()

        self._environment.call_later(self._wait_ms(self._failures), resume)

    def _wait_ms(self, failures: int) -> int:
        """The wait after so many failures in a row: a leader often is one some milliseconds after
        its followers know it.
        """
        return min(self._settings.backoff_ms, FIRST_BACKOFF_MS << min(failures - 1, 30))

    def _take(self, key: Key, number: int, data: PartitionData) -> None:
        """Handle the data of one partition, in the answer to a request."""
        known = self.partitions.get(key)
        if known is None or known.told is None or known.state is not ReplicaFetchState.FETCHING:
            return  # of a position that is not this one any more
        if number < known.since:
            return
        error = ErrorCode(data.error_code)
        diverging = data.diverging_epoch
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and diverging is not None:
            self._out_of_range(key, known, data.log_start_offset, diverging.end_offset)
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            known.state = ReplicaFetchState.FENCED
            self._forget(key, known)
        elif error is not NONE:
            logger.info("fetching %s: %s", key, error.name)
            self._back_off(key, known)
        elif diverging is not None:
            offset = truncation_offset(known.followed, diverging.epoch, diverging.end_offset)
            self._truncate(key, known, offset, restart=False)
        else:
            self._append(key, known, data)

    def _append(self, key: Key, known: PartitionFetchState, data: PartitionData) -> None:
        followed, records = known.followed, data.records
        if isinstance(records, ByteRange) and len(records):
            if self._quota is not None:
                self._quota.record(key, len(records))
            before = followed.log_end_offset
            first = int.from_bytes(records.data[records.start : records.start + 8], "big")
            if first < before == followed.log_start_offset:
                # The leader's log starts within this batch (DeleteRecords). An empty log can take
                # it only where the batch begins; the leader is asked from its log start on again.
                resume_at = max(before, known.resume_at)
                self._truncate(key, known, first, restart=True)
                known.resume_at = resume_at
                return
            error = followed.append(records)
            if error is not NONE or followed.log_end_offset == before:
                logger.error("appending what was fetched of %s failed: %s", key, error.name)
                self._back_off(key, known)
                return
            known.resume_at = 0
        known.failures = 0
        followed.follow_offsets(data.high_watermark, data.log_start_offset)
        if known.told != known.position():
            self._mark(key)

    def _out_of_range(
        self, key: Key, known: PartitionFetchState, leader_start: int, leader_end: int
    ) -> None:
        followed = known.followed
        if leader_end < followed.log_end_offset:
            logger.warning(
                "%s ends at %d, its leader at %d: the rest is truncated",
                key,
                followed.log_end_offset,
                leader_end,
            )
            self._truncate(key, known, leader_end, restart=False)
        elif leader_start > followed.log_end_offset:
            logger.info("%s starts again at %d, the leader's log start", key, leader_start)
            self._truncate(key, known, leader_start, restart=True)
        else:
            self._back_off(key, known)

    def _truncate(
        self, key: Key, known: PartitionFetchState, offset: int, *, restart: bool
    ) -> None:
        known.state = ReplicaFetchState.TRUNCATING
        known.resume_at = 0
        self._forget(key, known)

        def done() -> None:
            known.state = ReplicaFetchState.FETCHING
            if self.partitions.get(key) is known:
                self._mark(key)
                self.fetch()

        known.followed.truncate(offset, restart, done)

    def _back_off(self, key: Key, known: PartitionFetchState) -> None:
        known.state = ReplicaFetchState.BACKING_OFF
        known.failures += 1
        self._forget(key, known)
        self._later(key, known, self._wait_ms(known.failures))

    def _later(self, key: Key, known: PartitionFetchState, delay_ms: int) -> None:
        """Fetch a partition again after some time."""
        waits = known.state

        def resume() -> None:
            if known.state is waits and self.partitions.get(key) is known:
                known.state = ReplicaFetchState.FETCHING
                self._mark(key)
                self.fetch()

        self._environment.call_later(delay_ms, resume)


def truncation_offset(followed: Followed, leader_epoch: int, leader_end: int) -> int:
    """Where a follower truncates: the leader's log has `leader_epoch`, its largest that is not
    above the follower's latest, up to `leader_end`.
    """
    end = followed.log_end_offset
    if leader_epoch == UNKNOWN:
        return min(leader_end, end)
    own = followed.end_offset_for_epoch(leader_epoch)
    if own.end_offset == UNKNOWN:
        return min(leader_end, end)
    if own.leader_epoch != leader_epoch:
        return min(own.end_offset, end)  # the leader answers again, of an epoch that both have
    return min(own.end_offset, leader_end, end)
