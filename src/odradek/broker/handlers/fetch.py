"""Fetch: v4-18.

Reads at most `max_bytes` over all partitions, in the order of the session, and returns the first
batch even if it is larger (KIP-74). The records are slices of files, which the network sends with
`sendfile`. If less than `min_bytes` is available, the request waits as a `DelayedFetch`. A fetch of
more than `AT_ONCE` partitions is a `LongFetch`: planned, read and answered in slices of the loop.

Versions: 7 has incremental sessions (KIP-227); 9 the check of the leader epoch; 12 the diverging
epoch; 13 topic ids (KIP-516): an unknown id is UNKNOWN_TOPIC_ID; 16 names the present leader to a
client that has another one (KIP-951).

Followers fetch from version 15 on, which has the epoch of their broker (`replication.
follower_fetch`); one that the metadata knows to be older is STALE_BROKER_EPOCH. They fetch over the
listener of nodes: on one of clients, NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from odradek.broker.context import CALLBACK_RESPONSE, DelayedResponse
from odradek.broker.fetch_sessions import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    CachedPartition,
    FetchPlan,
    Key,
    add_requested,
)
from odradek.broker.leader_hints import CUT_OFF, LeaderHints, error_if_missing, is_cut_off
from odradek.model.env import do_nothing
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.fetch import EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint
from odradek.protocol.codec import sliced_reader, sliced_writer
from odradek.protocol.hot_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.replication.fetch import (
    NO_EPOCH,
    DelayedFetch,
    FetchOutcome,
    FetchParams,
    FetchResult,
    FetchTarget,
    count_sent,
    read_more,
    read_targets,
)
from odradek.replication.follower_fetch import (
    DelayedFollowerFetch,
    FollowerFetches,
    FollowerResponse,
)
from odradek.replication.partition import COMMITTED, UNCOMMITTED, Isolation, isolation_of

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FETCH_KEY: Final = 1
AT_ONCE: Final = 2000
"""Some microseconds a partition."""
SLICE: Final = 500
"""The partitions of a long fetch that are looked at in one turn of the loop."""
FIRST_VERSION_WITH_LEADERS: Final = 16
LEADER_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
NONE: Final = ErrorCode.NONE
NOT_HERE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(broker: Broker, context: RequestContext, request: FetchRequest) -> Any:
    if context.from_node:
        # Imported here, so that a node that is alone does without the quorum's messages.
        from odradek.broker.handlers import quorum_requests
        from odradek.raft.wire import is_metadata_fetch

        if is_metadata_fetch(request):
            return quorum_requests.handle(broker, context, request)
    followers = broker.follower_fetches
    if context.from_node and followers is not None and request.replica_state is not None:
        return serve_follower(broker, context, request, followers)
    isolation = isolation_of(request.isolation_level)  # before the session changes
    plan = broker.fetch_sessions.plan(request, context.version, broker.clock.monotonic_ms())
    if not isinstance(plan, FetchPlan):
        context.metrics.error(plan)
        return FetchResponse(error_code=plan, session_id=0, responses=[])
    if len(plan.partitions) > AT_ONCE:
        broker.long_requests.begin(LongFetch(broker, context, 0, request, plan))
        return CALLBACK_RESPONSE
    by_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    targets = [target_of(broker, cached, request, by_id) for cached in plan.partitions]
    params = params_of(broker, request, isolation)
    outcome = read_targets(targets, params)
    if request.max_wait_ms <= 0 or not targets or outcome.at_once:
        count_sent(targets, outcome)
        endpoints = not is_follower_fetch(request)
        return response(broker, context, plan, params, outcome, endpoints)
    outcome.release()
    return delayed_response(broker, context, request, plan, targets, params)


def params_of(broker: Broker, request: FetchRequest, isolation: Isolation) -> FetchParams:
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    return FetchParams(
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation=isolation,
    )


def delayed_response(
    broker: Broker,
    context: RequestContext,
    request: FetchRequest,
    plan: FetchPlan,
    targets: list[FetchTarget],
    params: FetchParams,
) -> DelayedResponse:
    """Let the request wait until there is enough to read."""
    endpoints = not is_follower_fetch(request)
    operation = DelayedFetch(
        request.max_wait_ms,
        targets,
        params,
        lambda read: context.respond(response(broker, context, plan, params, read, endpoints)),
    )
    keys = [target.partition.topic_partition for target in targets if target.partition is not None]
    return DelayedResponse(broker.replicas.fetch_purgatory, operation, keys)


def serve_follower(
    broker: Broker, context: RequestContext, request: FetchRequest, followers: FollowerFetches
) -> FetchResponse | DelayedResponse:
    """Serve the fetch of a follower, or let it wait for what is new."""
    follower = request.replica_state
    registered = broker.image.brokers.get(follower.replica_id)
    if registered is None or follower.replica_epoch < registered.epoch:
        context.metrics.error(ErrorCode.STALE_BROKER_EPOCH)
        return FetchResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, session_id=0, responses=[])
    found = followers.fetch(
        follower.replica_id,
        follower.replica_epoch,
        request,
        request.max_bytes,
        lambda read: context.respond(follower_response(broker, read)),
        context.exchange.connection,
    )
    if isinstance(found, DelayedFollowerFetch):
        return DelayedResponse(followers.purgatory, found, [found.session.watch_key])
    return follower_response(broker, found)


def follower_response(broker: Broker, read: FollowerResponse) -> FetchResponse:
    """The partitions by topic; a follower learns of leaders from the metadata."""
    metrics = broker.request_metrics.fetch_follower
    if read.error is not NONE:
        metrics.error(read.error)
    topics: dict[UUID, FetchableTopicResponse] = {}
    for position, result in read.results:
        topic_id, number = position.key
        if result.error is not NONE:
            metrics.error(result.error)
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = topic_response(topic_id)
        topic.partitions.append(partition_data(number, result, UNCOMMITTED))
    return FetchResponse(
        error_code=read.error, session_id=read.session_id, responses=list(topics.values())
    )


def target_of(
    broker: Broker, cached: CachedPartition, request: FetchRequest, by_id: bool
) -> FetchTarget:
    """The partition to read, or the error if there is none."""
    error, topic = NOT_HERE, cached.topic
    if isinstance(topic, str):
        partition = broker.replicas.by_name.get((topic, cached.partition))
    else:
        partition = broker.replicas.by_id.get((topic, cached.partition))
        error = error_by_id(broker, cached, topic)
    if partition is None and error is NOT_HERE:
        error = error_if_missing(broker, topic, cached.partition)
    elif partition is not None and is_follower_fetch(request):
        error = partition.check_epoch(cached.current_leader_epoch)
        error = error or ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = None
    return FetchTarget(
        partition,
        error,
        cached.fetch_offset,
        cached.max_bytes,
        max(NO_EPOCH, cached.current_leader_epoch),
        max(NO_EPOCH, cached.last_fetched_epoch),
    )


def error_by_id(broker: Broker, cached: CachedPartition, topic_id: UUID) -> ErrorCode:
    """The error for a partition of this topic id, if it is not here."""
    topic = broker.image.topic_by_id(topic_id)
    if topic is not None:
        cached.name = topic.name
    elif not cached.name:
        return ErrorCode.UNKNOWN_TOPIC_ID
    elif broker.image.topic(cached.name) is not None:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    return NOT_HERE


def is_follower_fetch(request: FetchRequest) -> bool:
    replica_id = request.replica_id
    if request.replica_state is not None:
        replica_id = request.replica_state.replica_id
    return replica_id >= 0


def response(
    broker: Broker,
    context: RequestContext,
    plan: FetchPlan,
    params: FetchParams,
    outcome: FetchOutcome,
    names_endpoints: bool,
) -> FetchResponse:
    """The partitions that the response lists, by topic, in the order they were read.

    `names_endpoints`: with the addresses of new leaders, which followers know, as in Kafka.
    """
    listed = ListedPartitions(broker, context, plan, params.isolation)
    listed.add(outcome, len(plan.partitions))
    return listed.response(names_endpoints)


class ListedPartitions:
    """The partitions of a response by topic, while they are added."""

    def __init__(
        self, broker: Broker, context: RequestContext, plan: FetchPlan, isolation: Isolation
    ) -> None:
        self._broker = broker
        self._context = context
        self._cut_off = False
        self._plan = plan
        self._isolation = isolation
        self._looked_at = 0
        self._last: str | UUID | None = None
        self._hints: LeaderHints | None = None
        self.topics: list[FetchableTopicResponse] = []

    def add(self, outcome: FetchOutcome, end: int) -> None:
        """Add the next partitions of the plan, those before `end`, that the response lists."""
        broker, plan, topics = self._broker, self._plan, self.topics
        for number in range(self._looked_at, end):
            cached, result = plan.partitions[number], outcome.results[number]
            if not plan.update_and_list(
                cached, result.error, result.size, result.high_watermark, result.log_start_offset
            ):
                continue
            if not topics or cached.topic != self._last:
                self._last = cached.topic
                topics.append(topic_response(cached.topic))
            answer = partition_data(cached.partition, result, self._isolation)
            if result.error is not NONE:
                broker.request_metrics.by_key[FETCH_KEY].error(result.error)
            moved = result.error is not NONE and result.error in LEADER_MOVED
            if moved and is_cut_off(broker, cached.topic, cached.partition):
                self._cut_off = True
            elif moved and self._context.version >= FIRST_VERSION_WITH_LEADERS:
                hints = LeaderHints(broker) if self._hints is None else self._hints
                self._hints = hints
                leader = hints.leader(cached.topic, cached.partition)
                if leader is not None:
                    answer.current_leader = LeaderIdAndEpoch(
                        leader_id=leader[0], leader_epoch=leader[1]
                    )
            topics[-1].partitions.append(answer)
        self._looked_at = end

    def response(self, names_endpoints: bool) -> FetchResponse:
        hints = self._hints
        if self._cut_off:
            self._context.exchange.end_connection(CUT_OFF)
        endpoints = hints.endpoints(NodeEndpoint) if hints is not None and names_endpoints else None
        return FetchResponse(
            error_code=0,
            session_id=self._plan.session_id,
            responses=self.topics,
            node_endpoints=endpoints,
        )


def topic_response(topic: str | UUID) -> FetchableTopicResponse:
    if isinstance(topic, str):
        return FetchableTopicResponse(topic=topic, topic_id=ZERO_UUID, partitions=[])
    return FetchableTopicResponse(topic="", topic_id=topic, partitions=[])


def partition_data(index: int, result: FetchResult, isolation: Isolation) -> PartitionData:
    """The response for one partition.

    Aborted transactions are null for read_uncommitted, and where nothing was read; but if the
    partition is unknown, as in Kafka, there are none.
    """
    listed = isolation is COMMITTED
    if result.error is not NONE:
        listed = result.error in UNKNOWN
    diverging = None
    if result.diverging is not None:
        listed = False
        diverging = EpochEndOffset(epoch=result.diverging[0], end_offset=result.diverging[1])
    return PartitionData(
        partition_index=index,
        error_code=result.error,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=(result.aborted or []) if listed else None,
        records=b"" if result.read is None else result.read.slices or b"",
    )


class LongFetch:
    """A fetch of many partitions, in slices: see `long_requests`, whose `SlicedRequest` it is.

    It is decoded in slices too, unless `request` and `plan` are given. What it has read is pinned
    until it is sent, or the client disconnects.
    """

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        position: int,
        request: FetchRequest | None = None,
        plan: FetchPlan | None = None,
    ) -> None:
        self.context = context
        self.resume: Callable[[], None] = do_nothing
        self._broker = broker
        self.is_abandoned = False
        self.slices: Generator[None, None, None]
        self._outcome: FetchOutcome | None = None
        self._waiting: DelayedLongFetch | None = None
        if request is None or plan is None:
            self.slices = self._begin(context.exchange.frame, position)
        else:
            self.slices = self._read(request, plan)

    def abandon(self) -> None:
        """Stop, because the connection closed."""
        self.is_abandoned = True
        if self._waiting is not None:
            self._waiting.expire()
        self._release()

    def _release(self) -> None:
        outcome, self._outcome = self._outcome, None
        if outcome is not None:
            outcome.release()

    def _begin(self, frame: bytes, position: int) -> Generator[None, None, None]:
        """Decode the request and plan it."""
        broker, context = self._broker, self.context
        read = sliced_reader(FetchRequest, context.version)
        request = yield from read(frame, position)
        context.exchange.frame = b""
        by_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
        listed: OrderedDict[Key, CachedPartition] = OrderedDict()
        for topic in request.topics:
            asked = topic.partitions
            for start in range(0, len(asked), SLICE):
                name = topic.topic_id if by_id else topic.topic
                add_requested(listed, name, asked[start : start + SLICE])
                yield
        isolation_of(request.isolation_level)  # before the session changes
        sessions = broker.fetch_sessions
        plan = sessions.plan(request, context.version, broker.clock.monotonic_ms(), listed)
        while request.topics:  # To free all at once would hold the loop.
            topic = request.topics[-1]
            del topic.partitions[-SLICE:]
            if not topic.partitions:
                request.topics.pop()
            yield
        if isinstance(plan, ErrorCode):
            context.metrics.error(plan)
            context.exchange.release()
            context.respond(FetchResponse(error_code=plan, session_id=0, responses=[]))
        else:
            yield from self._read(request, plan)

    def _read(self, request: FetchRequest, plan: FetchPlan) -> Generator[None, None, None]:
        """Read, and answer or wait."""
        broker = self._broker
        by_id = self.context.version >= FIRST_VERSION_WITH_TOPIC_IDS
        partitions, targets = plan.partitions, list[FetchTarget]()
        for start in range(0, len(partitions), SLICE):
            for cached in partitions[start : start + SLICE]:
                targets.append(target_of(broker, cached, request, by_id))
            yield
        params = params_of(broker, request, isolation_of(request.isolation_level))
        outcome = self._outcome = FetchOutcome([], 0, False)
        yield from read_in_slices(outcome, targets, params)
        self.context.exchange.release()
        names_endpoints = not is_follower_fetch(request)
        if request.max_wait_ms > 0 and targets and not outcome.at_once:
            self._release()
            self._wait(request.max_wait_ms, plan, targets, params, names_endpoints)
        else:
            yield from self._answer(plan, targets, params, names_endpoints)

    def _wait(
        self,
        max_wait_ms: int,
        plan: FetchPlan,
        targets: list[FetchTarget],
        params: FetchParams,
        names_endpoints: bool,
    ) -> None:
        def read_again() -> None:
            self._waiting = None
            if not self.is_abandoned:
                self.slices = self._again(plan, targets, params, names_endpoints)
                self.resume()

        operation = DelayedLongFetch(max_wait_ms, targets, params, read_again)
        keys = [each.partition.topic_partition for each in targets if each.partition is not None]
        purgatory = self._broker.replicas.fetch_purgatory
        self._waiting = operation
        if not purgatory.try_complete_else_watch(operation, keys):
            waiting = DelayedResponse(purgatory, operation, keys)
            waiting.context = self.context
            self.context.exchange.waiting = waiting

    def _again(
        self,
        plan: FetchPlan,
        targets: list[FetchTarget],
        params: FetchParams,
        names_endpoints: bool,
    ) -> Generator[None, None, None]:
        """Read what there is after the wait, and answer."""
        outcome = self._outcome = FetchOutcome([], 0, False)
        yield from read_in_slices(outcome, targets, params)
        yield from self._answer(plan, targets, params, names_endpoints)

    def _answer(
        self,
        plan: FetchPlan,
        targets: list[FetchTarget],
        params: FetchParams,
        names_endpoints: bool,
    ) -> Generator[None, None, None]:
        context, outcome = self.context, self._outcome
        assert outcome is not None, "it was read"
        count_sent(targets, outcome)
        listed = ListedPartitions(self._broker, context, plan, params.isolation)
        for end in ends_of_slices(len(plan.partitions)):
            listed.add(outcome, end)
            yield
        write = sliced_writer(FetchResponse, context.version)
        body = yield from write(listed.response(names_endpoints))
        self._outcome = None
        context.send(body)
        while outcome.results:  # To free all at once would hold the loop.
            del outcome.results[-SLICE:]
            del targets[-SLICE:]
            yield
        while listed.topics:
            topic = listed.topics[-1]
            del topic.partitions[-SLICE:]
            if not topic.partitions:
                listed.topics.pop()
            yield


def ends_of_slices(count: int) -> list[int]:
    """Return the end of each slice."""
    return [*range(SLICE, count, SLICE), count]


def read_in_slices(
    outcome: FetchOutcome, targets: list[FetchTarget], params: FetchParams
) -> Generator[None, None, None]:
    for end in ends_of_slices(len(targets)):
        read_more(outcome, targets, end, params)
        yield


class DelayedLongFetch(DelayedFetch):
    """A long fetch that waits. `read_again` is called once; it reads in slices."""

    def __init__(
        self,
        delay_ms: int,
        targets: list[FetchTarget],
        params: FetchParams,
        read_again: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms, targets, params, lambda outcome: None)
        self._read_again = read_again

    def on_complete(self) -> None:
        self.targets, read_again = [], self._read_again
        self._read_again = do_nothing
        read_again()
