"""Serving the fetches of followers: what a leader's broker has that is new for each of them.

Followers fetch in incremental sessions as consumers do (KIP-227), but the cost of a fetch follows
the news, not the number of partitions: an append, a new high watermark or log start, a lost
leadership marks the partition as *due* in the session of each follower, and only due partitions are
read. A parked fetch watches one key, its session's.

    request ─► listed partitions: position, durable end ─► due partitions ─► content? ─► response
                                                                               └ no ─► parked
    append, error, ...  ─► due ─► [end of event] the parked fetch is tried ─► response

- Content is records, an error or a diverging epoch. A high watermark or log start alone does not
  end a wait, but goes with the next response.
- After content was sent a partition *awaits* the follower's answer: it is read again when the
  follower lists it with another position. So a newer fetch, which only tells durable ends, gets
  nothing twice. A follower that wants the same again forgets the partition and lists it, both in
  one request if it likes.
- A follower's newer fetch answers its older one at once. So the news of a flush, which comes with
  a newer fetch, never waits behind a parked one.

A follower's position counts (`ReplicaManager.follower_fetched`) when it is in range and its last
epoch does not diverge. OFFSET_OUT_OF_RANGE comes with what a follower asks next: the log start, and
the latest epoch and the log end in place of a diverging epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

from odradek.model.errors import ErrorCode
from odradek.protocol.hot_fetch import FetchPartition, FetchRequest
from odradek.replication.fetch import NO_EPOCH, FetchResult
from odradek.replication.partition import LOG_END, Partition, PartitionWatcher
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import DelayedOperation, DelayedOperationPurgatory

NONE: Final = ErrorCode.NONE
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_SESSION_EPOCH: Final = 2**31 - 1
RESULTS_MAX: Final = 1000
"""The most partitions in a response to an incremental request."""
FIRST_RECORDS_MAX: Final = 50
"""The most partitions of which it has the first records: the follower makes their files."""
SESSIONS_OF_A_FOLLOWER: Final = 4
"""A follower has one session for each of its fetchers; an older one is left over from a restart."""

Key = tuple[UUID, int]


class FollowerFetchPosition(PartitionWatcher):
    """A partition of a follower's session: where it is, and what was sent last."""

    __slots__ = (
        "awaits",
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
    )

    def __init__(self, session: FollowerSession, key: Key) -> None:
        self.session = session
        self.key = key
        self.partition: Partition | None = None
        self.fetch_offset = -1
        self.current_leader_epoch = NO_EPOCH
        self.last_fetched_epoch = NO_EPOCH
        self.max_bytes = 0
        self.awaits = False
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def list(self, asked: FetchPartition) -> None:
        """Take what a request says; another position than before is read again."""
        if (
            asked.fetch_offset != self.fetch_offset
            or asked.current_leader_epoch != self.current_leader_epoch
            or asked.last_fetched_epoch != self.last_fetched_epoch
        ):
            self.awaits = False
        self.fetch_offset = asked.fetch_offset
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.max_bytes = asked.partition_max_bytes

    def changed(self, partition: Partition) -> None:
        """The partition has more records, or does not serve the follower any more."""
        if not self.awaits:
            self.session.due[self] = None
            self.session.wake()

    def offsets_moved(self, partition: Partition) -> None:
        """The high watermark or the log start moved."""
        self.session.moved[self] = None


class FollowerSession:
    """The partitions that one fetcher of a follower fetches.

    `due` were not looked at since their last change; `moved` may have other offsets than were sent.
    """

    def __init__(
        self, session_id: int, broker_id: int, wake: Callable[[FollowerSession], None]
    ) -> None:
        self.id = session_id
        self.broker_id = broker_id
        self.epoch = 1
        self.positions: dict[Key, FollowerFetchPosition] = {}
        self.due: dict[FollowerFetchPosition, None] = {}
        self.moved: dict[FollowerFetchPosition, None] = {}
        self.parked: DelayedFollowerFetch | None = None
        self.connection: object = None
        """The one over which its last request came."""
        self._wake = wake

    @property
    def watch_key(self) -> tuple[str, int]:
        """The key of its parked fetch in the purgatory."""
        return "follower", self.id

    def wake(self) -> None:
        """Have the parked fetch tried at the end of the event."""
        if self.parked is not None:
            self._wake(self)

    def forget(self, key: Key) -> None:
        position = self.positions.pop(key, None)
        if position is not None:
            self.due.pop(position, None)
            self.moved.pop(position, None)
            if position.partition is not None:
                position.partition.watchers.remove(position)

    def close(self) -> None:
        """Stop watching."""
        for key in list(self.positions):
            self.forget(key)


class Throttle(Protocol):
    """The quota of a leader's replication traffic (KIP-73)."""

    def is_exceeded_for(self, partition: Partition, broker_id: int) -> bool:
        """True if nothing may be sent of this partition to this follower now."""
        ...

    def record(self, partition: Partition, broker_id: int, size: int) -> None:
        """Count the bytes that are sent."""
        ...


class FollowerResponse:
    """The partitions of a response, with their results in order; `error` is that of the session."""

    def __init__(
        self,
        session_id: int,
        results: list[tuple[FollowerFetchPosition, FetchResult]],
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.session_id = session_id
        self.results = results
        self.error = error


class FollowerFetches:
    """The sessions of all followers of this broker's partitions. Owner thread."""

    def __init__(self, replicas: ReplicaManager, throttle: Throttle | None = None) -> None:
        self._replicas = replicas
        self._throttle = throttle
        self._woken: dict[FollowerSession, None] = {}
        self.sessions: dict[int, FollowerSession] = {}
        of_consumers = replicas.fetch_purgatory
        self.purgatory = DelayedOperationPurgatory(
            "FetchFollower", of_consumers.timer, of_consumers.purge_interval
        )
        """Holds the fetches of followers that wait."""

    def fetch(
        self,
        broker_id: int,
        broker_epoch: int,
        request: FetchRequest,
        max_bytes: int,
        respond: Callable[[FollowerResponse], None],
        connection: object = None,
    ) -> FollowerResponse | DelayedFollowerFetch:
        """Serve a request with topic ids. The response, or the operation that waits; `respond` is
        called with its response. The caller gives it to the purgatory, with the session's key.
        The session ends with its `connection`: see `connection_closed`.
        """
        self._replicas.heard_ms[broker_id] = self._replicas.env.clock.monotonic_ms()
        session = self._session(broker_id, request)
        if isinstance(session, ErrorCode):
            return FollowerResponse(0, [], session)
        session.connection = connection
        if session.parked is not None:  # before anything is taken: it is of the positions up to it
            session.parked.force_complete()
        full = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.forget((forgotten.topic_id, number))
        for topic in request.topics:
            for asked in topic.partitions:
                self._take(session, broker_epoch, (topic.topic_id, asked.partition), asked)
        if full or request.max_wait_ms <= 0 or self.has_content(session):
            response = self.read(session, max_bytes, full)
            if request.session_epoch == FINAL_EPOCH:
                self._close(session)
                response.session_id = 0
            return response
        session.parked = DelayedFollowerFetch(
            request.max_wait_ms, self, session, max_bytes, respond
        )
        return session.parked

    def connection_closed(self, connection: object) -> None:
        """Close the sessions of a connection that has ended."""
        for session in list(self.sessions.values()):
            if session.connection == connection:
                self._close(session)

    def _close(self, session: FollowerSession) -> None:
        self.sessions.pop(session.id, None)
        session.close()
        if session.parked is not None:
            session.parked.force_complete()

    def _session(self, broker_id: int, request: FetchRequest) -> FollowerSession | ErrorCode:
        known = self.sessions.get(request.session_id)
        if known is not None and known.broker_id != broker_id:
            known = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if known is not None:
                self._close(known)
            return self._new_session(broker_id)
        if known is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        known.epoch = 1 if known.epoch == MAX_SESSION_EPOCH else known.epoch + 1
        return known

    def _new_session(self, broker_id: int) -> FollowerSession:
        older = [each for each in self.sessions.values() if each.broker_id == broker_id]
        if len(older) >= SESSIONS_OF_A_FOLLOWER:
            self._close(older[0])
        random = self._replicas.env.random
        while (new_id := random.getrandbits(31)) == 0 or new_id in self.sessions:
            pass
        session = self.sessions[new_id] = FollowerSession(new_id, broker_id, self._wake)
        return session

    def _wake(self, session: FollowerSession) -> None:
        if not self._woken:
            self._replicas.env.call_soon(self._try_woken)
        self._woken[session] = None

    def _try_woken(self) -> None:
        woken, self._woken = self._woken, {}
        for session in woken:
            self.purgatory.check_and_complete(session.watch_key)

    # -- one partition ---------------------------------------------------------------------------

    def _take(
        self, session: FollowerSession, broker_epoch: int, key: Key, asked: FetchPartition
    ) -> None:
        """Take the position and the durable end that a request tells of a partition."""
        position = session.positions.get(key)
        if position is None:
            position = session.positions[key] = FollowerFetchPosition(session, key)
        position.list(asked)
        if not position.awaits:
            session.due[position] = None
        partition = self._find(position)
        if partition is None or self._refusal(position, partition) is not None:
            return
        error = self._replicas.follower_fetched(
            partition,
            session.broker_id,
            broker_epoch,
            asked.fetch_offset,
            asked.durable_end,
            asked.log_start_offset,
        )
        if error is not NONE:
            position.awaits = False
            session.due[position] = None

    def _find(self, position: FollowerFetchPosition) -> Partition | None:
        """Return the partition of a position, and watch it."""
        partition = self._replicas.by_id.get(position.key)
        if partition is not position.partition:
            if position.partition is not None:
                position.partition.watchers.remove(position)
            if partition is not None:
                partition.watchers.append(position)
            position.partition = partition
        return partition

    def _refusal(self, position: FollowerFetchPosition, partition: Partition) -> FetchResult | None:
        """The result for a position at which nothing can be read; None if it can."""
        error = partition.availability() or partition.check_epoch(position.current_leader_epoch)
        if error is NONE:
            leadership = partition.leadership
            if leadership is None or position.session.broker_id not in leadership.replicas:
                error = ErrorCode.UNKNOWN_LEADER_EPOCH  # it may know a newer assignment
        if error is not NONE:
            return FetchResult(error)
        asked, offset = position.last_fetched_epoch, position.fetch_offset
        if asked != NO_EPOCH:
            epoch, end_offset = partition.end_offset_for_epoch(asked)
            if NO_EPOCH in (epoch, end_offset):
                return out_of_range(partition)
            if epoch < asked or end_offset < offset:
                result = offsets_of(partition)
                result.diverging = epoch, end_offset
                return result
        opened = partition.log
        if not opened.log_start_offset <= offset <= opened.log_end_offset:
            return out_of_range(partition)
        return None

    # -- reading ---------------------------------------------------------------------------------

    def has_content(self, session: FollowerSession) -> bool:
        """True if a due partition has something that ends a wait; those without are not due."""
        throttled = []
        found = False
        while session.due and not found:
            position = next(iter(session.due))
            partition = self._find(position)
            found = (
                partition is None
                or self._refusal(position, partition) is not None
                or position.fetch_offset < partition.log.log_end_offset
            )
            if found and partition is not None and self._is_throttled(position, partition):
                found = False
                throttled.append(position)
            if not found:
                del session.due[position]
                session.moved[position] = None
        for position in throttled:  # looked at again when the wait of the fetch is over
            session.due[position] = None
        return found

    def _is_throttled(self, position: FollowerFetchPosition, partition: Partition) -> bool:
        return self._throttle is not None and self._throttle.is_exceeded_for(
            partition, position.session.broker_id
        )

    def read(self, session: FollowerSession, max_bytes: int, full: bool) -> FollowerResponse:
        """Read the due partitions, up to `max_bytes` and at least one batch.

        Of more than `RESULTS_MAX` partitions, or `FIRST_RECORDS_MAX` new ones, the others go with
        the next responses.
        """
        results: list[tuple[FollowerFetchPosition, FetchResult]] = []
        left = max_bytes
        first_records = 0
        due, session.due = session.due, {}
        for position in due:
            new = position.fetch_offset == 0
            enough = new and first_records >= FIRST_RECORDS_MAX
            if not full and (left <= 0 or len(results) >= RESULTS_MAX or enough):
                session.due[position] = None
                continue
            result = self._read(position, left, min_one=left == max_bytes)
            left -= result.size
            if new and result.size:
                first_records += 1
            if result.size or result.error is not NONE or result.diverging is not None:
                position.awaits = True
            elif result.read is not None and result.read.first_entry_incomplete:
                session.due[position] = None  # with more room
            if full or position.awaits or not was_sent(position, result):
                results.append((position, note_sent(position, result)))
            session.moved.pop(position, None)
        moved, session.moved = session.moved, {}
        for position in moved:
            if len(results) >= RESULTS_MAX:
                session.moved[position] = None
                continue
            partition = position.partition
            if partition is not None and partition.availability() is NONE:
                result = offsets_of(partition)
                if not was_sent(position, result):
                    results.append((position, note_sent(position, result)))
        return FollowerResponse(session.id, results)

    def _read(self, position: FollowerFetchPosition, budget: int, min_one: bool) -> FetchResult:
        partition = self._find(position)
        if partition is None:
            return FetchResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        refusal = self._refusal(position, partition)
        if refusal is not None:
            return refusal
        result = offsets_of(partition)
        if position.awaits or self._is_throttled(position, partition):
            return result
        max_bytes = max(0, min(position.max_bytes, budget))
        read = partition.read(position.fetch_offset, max_bytes, LOG_END, min_one)
        if read.error is not NONE:
            return FetchResult(read.error)
        result.read = read
        partition.bytes_to_followers += read.size
        if read.size > max_bytes // 2:
            read.read_ahead()  # It lags, and asks for the next bytes when it has these.
        if self._throttle is not None and read.size:
            self._throttle.record(partition, position.session.broker_id, read.size)
        return result


def offsets_of(partition: Partition) -> FetchResult:
    """A result with the offsets of a partition and no records."""
    return FetchResult(
        NONE,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
    )


def out_of_range(partition: Partition) -> FetchResult:
    """The result for a position that is not in the log, with the range that is."""
    result = offsets_of(partition)
    result.error = ErrorCode.OFFSET_OUT_OF_RANGE
    result.diverging = partition.leader_epoch, partition.log.log_end_offset
    return result


def was_sent(position: FollowerFetchPosition, result: FetchResult) -> bool:
    """True if the follower knows the offsets of this result."""
    return (
        result.high_watermark == position.sent_high_watermark
        and result.log_start_offset == position.sent_log_start_offset
    )


def note_sent(position: FollowerFetchPosition, result: FetchResult) -> FetchResult:
    """Note the offsets that the follower gets with this result."""
    position.sent_high_watermark = result.high_watermark
    position.sent_log_start_offset = result.log_start_offset
    return result


class DelayedFollowerFetch(DelayedOperation):
    """A follower's fetch that waits for content, a newer fetch, or its deadline."""

    def __init__(
        self,
        delay_ms: int,
        fetches: FollowerFetches,
        session: FollowerSession,
        max_bytes: int,
        respond: Callable[[FollowerResponse], None],
    ) -> None:
        super().__init__(delay_ms)
        self._fetches = fetches
        self._max_bytes = max_bytes
        self._respond = respond
        self.session = session

    def try_complete(self) -> bool:
        return self._fetches.has_content(self.session) and self.force_complete()

    def on_complete(self) -> None:
        if self.session.parked is self:
            self.session.parked = None
        self._respond(self._fetches.read(self.session, self._max_bytes, full=False))

    def on_expiration(self) -> None:
        """Nothing to do: `on_complete` reads what is there by now."""
