"""The reads of a Fetch: the first one when the request arrives, and the delayed one.

`read_targets` reads all partitions of a request. If that found too little, `DelayedFetch` waits
until `min_bytes` have arrived, or the deadline, and reads the same targets again: nothing that was
read is kept while it waits. `DelayedFetch.try_complete` completes when

    A/B  a partition is no longer led here
    C    a partition is unknown here
    D    the log directory is offline
    E    the leader epoch in the request is fenced
    F    the fetch offset is beyond the end (the log was truncated), or on an older segment than the
         end (then at least the rest of a segment can be sent, whatever `min_bytes` is)
    G    the bytes between fetch offset and end, over all partitions, reach `min_bytes`
    H    the client's last fetched epoch diverges from the log

where the end is the high watermark, or the last stable offset for read_committed. Equal offsets
skip F and G: a freshly rolled segment would look like an older one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.log.log_reader import LogOffsetMetadata, LogRead
from odradek.log.transaction_index import AbortedTransaction
from odradek.model.errors import ErrorCode
from odradek.replication.partition import COMMITTED, LOG_END, Isolation, Partition
from odradek.timing import DelayedOperation

NO_EPOCH: Final = -1
NONE: Final = ErrorCode.NONE


class FetchTarget:
    """One partition of a fetch; `partition` is None if it is unknown here, for `error`."""

    __slots__ = (
        "current_leader_epoch",
        "error",
        "fetch_offset",
        "last_fetched_epoch",
        "max_bytes",
        "partition",
        "start",
    )

    def __init__(
        self,
        partition: Partition | None,
        error: ErrorCode,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
    ) -> None:
        self.partition = partition
        self.error = error
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.start: LogOffsetMetadata | None = None


class FetchParams:
    """The limits and the isolation level of a fetch."""

    __slots__ = ("isolation", "max_bytes", "min_bytes")

    def __init__(self, min_bytes: int, max_bytes: int, isolation: Isolation) -> None:
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation


class FetchResult:
    """The result for one partition.

    `aborted`: for read_committed, the aborted transactions among the records that were read.
    `diverging` is (epoch, end offset) of the largest epoch that both sides share.
    """

    __slots__ = (
        "aborted",
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "read",
    )

    def __init__(
        self,
        error: ErrorCode,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.read: LogRead | None = None
        self.aborted: list[AbortedTransaction] | None = None
        self.diverging: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return 0 if self.read is None else self.read.size


class FetchOutcome:
    """The results in the order of the targets; with `at_once` the request must not wait."""

    __slots__ = ("at_once", "results", "size")

    def __init__(self, results: list[FetchResult], size: int, at_once: bool) -> None:
        self.results = results
        self.size = size
        self.at_once = at_once

    def release(self) -> None:
        """Unpin the slices that were read, if they are not sent."""
        for result in self.results:
            if result.read is not None:
                result.read.release()


def read_targets(targets: list[FetchTarget], params: FetchParams) -> FetchOutcome:
    """Read all targets, at most `max_bytes` in total; but the first batch is returned even if it is
    larger (KIP-74).
    """
    outcome = FetchOutcome([], 0, False)
    read_more(outcome, targets, len(targets), params)
    return outcome


def read_more(
    outcome: FetchOutcome, targets: list[FetchTarget], end: int, params: FetchParams
) -> None:
    """Add the results of the next targets, those before `end`: a long fetch reads in slices."""
    size, at_once = outcome.size, outcome.at_once
    results = outcome.results
    for index in range(len(results), end):
        result = read_target(targets[index], params, params.max_bytes - size, min_one=size == 0)
        size += result.size
        at_once = at_once or result.error is not NONE or result.diverging is not None
        results.append(result)
    outcome.size = size
    outcome.at_once = at_once or (end == len(targets) and size >= params.min_bytes)


def count_sent(targets: list[FetchTarget], outcome: FetchOutcome) -> None:
    """Count the bytes of an outcome that is about to be sent."""
    if not outcome.size:
        return
    for index in range(len(targets)):
        size = outcome.results[index].size
        partition = targets[index].partition
        if size and partition is not None:
            partition.fetched_bytes += size


def read_target(
    target: FetchTarget, params: FetchParams, budget: int, min_one: bool
) -> FetchResult:
    partition = target.partition
    if partition is None:
        return FetchResult(target.error)
    partition.fetches += 1
    error = partition.availability()
    if error is NONE:
        error = partition.check_epoch(target.current_leader_epoch)
    if error is not NONE:
        partition.failed_fetches += 1
        return FetchResult(error)
    result = FetchResult(
        NONE,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
    )
    if target.last_fetched_epoch != NO_EPOCH:
        result.diverging = diverging_epoch(partition, target)
        if result.diverging is not None:
            unknown = NO_EPOCH in result.diverging
            return FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE) if unknown else result
    max_bytes = max(0, min(target.max_bytes, budget))
    read = partition.read(target.fetch_offset, max_bytes, params.isolation, min_one)
    if read.error is not NONE:
        partition.failed_fetches += 1
        return FetchResult(read.error)
    if (
        params.isolation is not LOG_END
        and target.fetch_offset >= partition.readable_end(params.isolation)
        and partition.is_cut_off
    ):
        # Only another leader has more.
        read.release()
        partition.failed_fetches += 1
        return FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if params.isolation is COMMITTED and partition.log.segments.has_aborted and read.size > 0:
        aborted = partition.aborted_transactions(read)
        if isinstance(aborted, ErrorCode):
            read.release()
            partition.failed_fetches += 1
            return FetchResult(aborted)
        result.aborted = aborted
    target.start = read.start
    result.read = read
    return result


def diverging_epoch(partition: Partition, target: FetchTarget) -> tuple[int, int] | None:
    """(epoch, end offset) where the client's log diverges from ours; None if not (KIP-595).

    -1 in either: our log does not know that epoch.
    """
    epoch, end_offset = partition.end_offset_for_epoch(target.last_fetched_epoch)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return epoch, end_offset
    return None


def already_answered(outcome: object) -> None:
    """Replaces `respond` after its call."""


class DelayedFetch(DelayedOperation):
    """A fetch that waits: see the module. `respond` is called once, with the second read."""

    def __init__(
        self,
        delay_ms: int,
        targets: list[FetchTarget],
        params: FetchParams,
        respond: Callable[[FetchOutcome], None],
    ) -> None:
        super().__init__(delay_ms)
        self.targets = targets
        self.params = params
        self.respond = respond

    def try_complete(self) -> bool:
        available = 0
        for target in self.targets:
            found = available_bytes(target, self.params.isolation)
            if found is None:
                return self.force_complete()
            available += found
        if available >= self.params.min_bytes:
            return self.force_complete()
        return False

    def on_complete(self) -> None:
        targets, respond = self.targets, self.respond
        # The watch lists of other keys hold this operation until they are purged: free the request.
        self.targets, self.respond = [], already_answered
        outcome = read_targets(targets, self.params)
        count_sent(targets, outcome)
        respond(outcome)

    def on_expiration(self) -> None:
        """Nothing to do: `on_complete` reads what is there by now."""


def available_bytes(target: FetchTarget, isolation: Isolation) -> int | None:
    """The bytes that this target could send now; None if the fetch must complete in any case."""
    partition = target.partition
    if partition is None or partition.availability() is not NONE:
        return None
    if partition.check_epoch(target.current_leader_epoch) is not NONE:
        return None
    if target.last_fetched_epoch != NO_EPOCH and diverging_epoch(partition, target) is not None:
        return None
    end_offset = partition.readable_end(isolation)
    if target.fetch_offset == end_offset or target.start is None:
        return 0
    if target.fetch_offset > end_offset:
        return None
    end = partition.offset_metadata(end_offset)
    if end is None or target.start.on_older_segment_than(end):
        return None
    return min(end.bytes_after(target.start), target.max_bytes)
