"""DescribeWaiting as slices: the requests, timers, groups and logs that wait in a broker.

`describe_waiting` looks at one part after the other, some hundred things at a time, and yields in
between so that other requests are served. It only reads: nothing is completed, moved, opened or
kept. Its result has copies. Requests come and go while it looks. So the result is not of one
instant, and a request that moves between two pages may be on both or on none.

A waiting request is an `Exchange` without an answer that the dispatcher has marked: it has a
delayed operation, or a callback of the group coordinator. Requests are listed by connection, those
of clients before those of other nodes, the oldest connection first, and in the order in which they
arrived.

The answer is written in one piece, so it has at most `MOST_ROWS` rows of all lists together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from odradek.broker.context import DelayedCallback, DelayedResponse
from odradek.coordinator.group.transitions import shortened
from odradek.protocol.api.describe_waiting import (
    DescribeWaitingRequest,
    DescribeWaitingResponse,
    GroupTransition,
    KindCount,
    PartitionEnds,
    SegmentOfLog,
    WaitingOperation,
    WheelBucket,
    WheelLevel,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.coordinator.group.coordinator import GroupCoordinator
    from odradek.coordinator.group.transitions import GroupTransitions
    from odradek.replication.partition import Partition
    from odradek.timing import DelayedOperationPurgatory, SystemTimer
    from odradek.timing.timing_wheel import TimingWheel

MOST_ROWS: Final = 500
"""Rows of one answer: writing them takes one or two milliseconds."""
LOOKED_AT_ONCE: Final = 400
"""Connections, requests, partitions or segments that are looked at before others have a turn."""
ROW_WORK: Final = 10
"""The work of describing a request, compared with looking at one."""
MOST_KEYS: Final = 4
LONGEST_NAME: Final = 250
OTHER_TIMERS: Final = "other"
UNKNOWN_OFFSET: Final = -1
NO_DEADLINE: Final = -1


class WaitingExchange(Protocol):
    """The part of `network.connection.Exchange` that is read here."""

    waiting: object

    @property
    def peer(self) -> tuple[str, int]: ...


class ServedConnection(Protocol):
    """The part of `network.connection.Connection` that is read here."""

    def waiting(self) -> Sequence[WaitingExchange]: ...


Described = Generator[None, None, DescribeWaitingResponse]


def describe_waiting(
    broker: Broker,
    connections: Sequence[ServedConnection],
    request: DescribeWaitingRequest,
    own: object = None,
) -> Described:
    """Return what waits, in slices: see the module. `own` is the exchange of the request itself."""
    response = DescribeWaitingResponse(error_code=0)
    rows = PageRows()
    limit = rows.take(request.operations_limit)
    page = OperationPage(broker, request.kinds, request.operations_offset, limit, own)
    yield from list_operations(page, connections)
    response.operations_total, response.operations = page.matching, page.rows
    response.waiting = kind_counts(page.counts)
    response.levels = wheel_levels(broker.timer)
    response.timers = timer_kinds(broker.timer, broker.purgatories())
    limit = rows.take(request.transitions_limit)
    list_transitions(broker.groups.transitions, request.transitions_before, limit, response)
    partitions = requested_partitions(broker, request.topics)
    limit = rows.take(request.segments_limit)
    if limit:
        yield from list_segments(partitions, request.segments_offset, limit, response)
    limit = rows.take(request.durable_ends_limit)
    if limit:
        yield from list_durable_ends(partitions, request.durable_ends_offset, limit, response)
    return response


class PageRows:
    """The rows that an answer may still have."""

    def __init__(self) -> None:
        self.left = MOST_ROWS

    def take(self, limit: int) -> int:
        """Return how many rows a list gets that wants `limit`."""
        taken = max(0, min(limit, self.left))
        self.left -= taken
        return taken


# -- requests --------------------------------------------------------------------------------------


class OperationPage:
    """Counts the requests that wait, by kind, and keeps a page of those of the wanted kinds."""

    def __init__(
        self, broker: Broker, wanted: Sequence[str], first: int, limit: int, own: object
    ) -> None:
        self.rows: list[WaitingOperation] = []
        self.counts: Counter[str] = Counter()
        self.matching = 0
        self._broker = broker
        self._wanted = frozenset(wanted)
        self._first = max(0, first)
        self._limit = limit
        self._own = own

    def look_at(self, connection: ServedConnection) -> int:
        """Look at the requests of one connection; return how much work that was."""
        waiting, rows = connection.waiting(), len(self.rows)
        for exchange in waiting:
            entry = exchange.waiting
            if exchange is not self._own and isinstance(entry, (DelayedResponse, DelayedCallback)):
                self._look_at_one(entry, exchange.peer)
        return len(waiting) + ROW_WORK * (len(self.rows) - rows)

    def _look_at_one(self, entry: DelayedResponse | DelayedCallback, peer: tuple[str, int]) -> None:
        context = entry.context
        assert context is not None
        kind = context.route.api.name
        self.counts[kind] += 1
        if self._wanted and kind not in self._wanted:
            return
        if self._first <= self.matching < self._first + self._limit:
            broker = self._broker
            row = operation_row(broker.groups, broker.timer.now_ms, kind, peer, entry)
            self.rows.append(row)
        self.matching += 1


def list_operations(page: OperationPage, connections: Iterable[ServedConnection]) -> Iterator[None]:
    """Look at the requests of all connections. Between two slices none of them is referred to."""
    looked_at = 0
    for connection in connections:
        looked_at += 1 + page.look_at(connection)
        if looked_at >= LOOKED_AT_ONCE:
            looked_at = 0
            yield


def operation_row(
    groups: GroupCoordinator,
    now_ms: int,
    kind: str,
    peer: tuple[str, int],
    entry: DelayedResponse | DelayedCallback,
) -> WaitingOperation:
    """Describe one request that waits."""
    context = entry.context
    assert context is not None
    if isinstance(entry, DelayedResponse):
        operation = entry.operation
        keys, key_count = [str(key) for key in entry.keys[:MOST_KEYS]], len(entry.keys)
        waited_ms = now_ms + operation.delay_ms - operation.expiration_ms
        left_ms: int | None = operation.expiration_ms - now_ms
    else:
        keys = [] if entry.group_id is None else [entry.group_id]
        key_count = len(keys)
        waited_ms = now_ms - entry.since_ms
        left_ms = callback_left_ms(groups, kind, entry.group_id)
    client_id = context.client_id
    return WaitingOperation(
        kind=kind,
        client_id=None if client_id is None else shortened(client_id, LONGEST_NAME),
        host=peer[0],
        port=peer[1],
        keys=[shortened(key, LONGEST_NAME) for key in keys],
        key_count=key_count,
        waited_ms=max(0, waited_ms),
        left_ms=NO_DEADLINE if left_ms is None else max(0, left_ms),
    )


def callback_left_ms(groups: GroupCoordinator, kind: str, group_id: str | None) -> int | None:
    """Return how long a request to a group can still wait. One that waits for the disk can wait for
    as long as that takes."""
    if group_id is None:
        return None
    if kind == "JoinGroup":
        return groups.join_left_ms(group_id)
    return groups.sync_left_ms(group_id) if kind == "SyncGroup" else None


def kind_counts(counts: Counter[str]) -> list[KindCount]:
    return [KindCount(kind=kind, count=count) for kind, count in sorted(counts.items())]


# -- timers ----------------------------------------------------------------------------------------


def wheel_levels(timer: SystemTimer) -> list[WheelLevel]:
    """Return the levels of the timing wheel. There are few: each ticks 20 times as slowly."""
    levels = []
    wheel: TimingWheel | None = timer.timing_wheel
    while wheel is not None:
        buckets = [
            WheelBucket(expires_in_ms=bucket.expiration_ms - timer.now_ms, count=bucket.count)
            for bucket in sorted(wheel.buckets, key=lambda each: each.expiration_ms)
            if not bucket.is_empty
        ]
        levels.append(WheelLevel(tick_ms=wheel.tick_ms, size=wheel.wheel_size, buckets=buckets))
        wheel = wheel.overflow_wheel
    return levels


def timer_kinds(
    timer: SystemTimer, purgatories: Iterable[DelayedOperationPurgatory]
) -> list[KindCount]:
    """Return the timers by kind: a purgatory's name, a kind that their owner named, or other."""
    counts = Counter({each.name: each.num_delayed for each in purgatories})
    counts.update({kind: counter.count for kind, counter in timer.counters.items()})
    counts[OTHER_TIMERS] = max(0, timer.size - counts.total())
    return kind_counts(counts)


# -- groups ----------------------------------------------------------------------------------------


def list_transitions(
    noted: GroupTransitions, before: int, limit: int, response: DescribeWaitingResponse
) -> None:
    """List the newest changes of state of groups before a number; -1: of all."""
    response.transitions_total = noted.total
    end = noted.total if before < 0 else before
    response.transitions = [
        GroupTransition(**each._asdict()) for each in noted.newest_before(end, limit)
    ]


# -- logs ------------------------------------------------------------------------------------------


def requested_partitions(broker: Broker, topics: Sequence[str] | None) -> list[Partition]:
    """Return a copy of the list of partitions, those of `topics` only if it is given."""
    if topics is None:
        return list(broker.replicas)
    wanted = set(topics)
    return [each for each in broker.replicas if each.topic_partition.topic in wanted]


def list_segments(
    partitions: Sequence[Partition], first: int, limit: int, response: DescribeWaitingResponse
) -> Iterator[None]:
    """Count the segments of these partitions and list a page of them."""
    looked_at = total = 0
    for partition in partitions:
        if not partition.failure:
            segments = partition.log.segments
            begin = max(0, first - total)
            missing = limit - len(response.segments)
            for segment in segments.items[begin : begin + missing]:
                response.segments.append(
                    SegmentOfLog(
                        topic=partition.topic_partition.topic,
                        partition=partition.topic_partition.partition,
                        base_offset=segment.base_offset,
                        size=segment.size,
                        active=segment is segments.active,
                    )
                )
                looked_at += 1
            total += len(segments)
        looked_at += 1
        if looked_at >= LOOKED_AT_ONCE:
            looked_at = 0
            yield
    response.segments_total = total


def list_durable_ends(
    partitions: Sequence[Partition], first: int, limit: int, response: DescribeWaitingResponse
) -> Iterator[None]:
    """List a page of these partitions with the offsets up to which their logs are what."""
    response.durable_ends_total = len(partitions)
    for number, partition in enumerate(partitions[max(0, first) : max(0, first) + limit], 1):
        response.durable_ends.append(partition_ends(partition))
        if number % LOOKED_AT_ONCE == 0:
            yield


def partition_ends(partition: Partition) -> PartitionEnds:
    topic, index = partition.topic_partition
    error = partition.failure
    if error:
        return PartitionEnds(
            topic=topic,
            partition=index,
            segments=0,
            log_start=UNKNOWN_OFFSET,
            durable_end=UNKNOWN_OFFSET,
            recovery_point=UNKNOWN_OFFSET,
            high_watermark=UNKNOWN_OFFSET,
            log_end=UNKNOWN_OFFSET,
            error_code=error,
        )
    log = partition.log
    return PartitionEnds(
        topic=topic,
        partition=index,
        segments=len(log.segments),
        log_start=log.log_start_offset,
        durable_end=log.flushed_offset,
        recovery_point=log.recovery_point,
        high_watermark=partition.high_watermark,
        log_end=log.log_end_offset,
        error_code=error,
    )
