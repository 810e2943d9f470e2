"""Fetcher: keeps one Fetch request per broker in flight and queues the fetched records.

    pump ─► per leader with room: FetchSession ─► Fetch ─► FetchResponseHandler ─► pump again ─┐
     ▲                                                                                         │
     └── new position, broker ready, room in the buffer, back-off over                         ▼
                                                 CompletedFetch ─► incoming ─► the application

The next fetch leaves while the application wakes up for the last response, so the broker and the
network work while the application decodes.

The buffered bytes are bounded. Each broker that leads partitions has a share of
`prefetch.max.bytes`; the fetcher sends it no further request while less than a whole fetch fits
into that share. Each broker can exceed the bound by one batch. Fetched bytes count until the
application has received the records, also for a partition that is no longer fetched. A paused
partition does not count, and keeps what was fetched for it.

The application's thread frees room in the buffer, at any moment of the engine's thread. No such
moment may be missed, or fetching would stop for ever. Each side therefore writes first and reads
afterwards:

    engine's thread        starved = True       then counts the buffered bytes
    application's thread   frees bytes          then reads `starved` and schedules `pump`

In either order one of the two sees the other.

What becomes of a partition's result (`FetchResponseHandler`):

    records                          a CompletedFetch for the application; fetching goes on behind
    the leader moved or is gone,     request a metadata update (leaders that the response names are
    the topic is being created       used at once, KIP-951); try again after a back-off
    OFFSET_OUT_OF_RANGE, a           decide when the application has reached this offset
    diverging epoch                  (`DeferredErrors`)
    not authorized, corrupt, other   raise when the application has reached this offset; try again
                                     after a back-off

A result for a position that has moved since is dropped.

Everything runs on the engine's thread; only `incoming` is shared. The module is compiled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from odradek.client.consumer.fetch.completed_fetch import CompletedFetch
from odradek.client.consumer.fetch.held_up import HeldUpWatch
from odradek.client.consumer.fetch.session import LAST_VERSION_BY_NAME, FetchSession, PartitionFetch
from odradek.client.consumer.metrics import FetchMetrics
from odradek.client.consumer.position.deferred_errors import DeferredErrors
from odradek.client.consumer.position.subscription_state import (
    FETCHING,
    PartitionState,
    SubscriptionState,
)
from odradek.client.engine import Engine
from odradek.client.errors import Disconnected, KafkaError, KafkaTimeout, error_for
from odradek.client.metadata.metadata import CurrentLeader, Metadata
from odradek.config.consumer import ConsumerConfig
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode, error_code
from odradek.model.node import Node
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.network_client.alarm import NEVER_MS, Alarm
from odradek.network_client.api_versions import RequestBuilder
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import ConnectionListener
from odradek.protocol.api.fetch import FetchRequest, FetchResponse, PartitionData
from odradek.protocol.record_batch import CorruptBatch, batches

log = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
RequestedPartitions = dict[TopicPartition, PartitionFetch]

RETRIED_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that are tried again, beside those that request a metadata update."""


class FetchResponseHandler:
    """Processes fetch responses for a `Fetcher`."""

    def __init__(
        self,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        incoming: deque[CompletedFetch],
        deferred: DeferredErrors,
        metrics: FetchMetrics,
    ) -> None:
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._config = config
        self._incoming = incoming
        self._deferred = deferred
        self._metrics = metrics

    def partitions(
        self, session: FetchSession, response: FetchResponse
    ) -> dict[TopicPartition, PartitionData]:
        """Return the results of a response by partition."""
        return {
            TopicPartition(
                session.name_of(topic.topic, topic.topic_id) or f"? {topic.topic_id}",
                data.partition_index,
            ): data
            for topic in response.responses
            for data in topic.partitions
        }

    def handle(
        self,
        requested: RequestedPartitions,
        answered: dict[TopicPartition, PartitionData],
        response: FetchResponse,
    ) -> None:
        """Process `answered`, the results by partition, of the request `requested`."""
        changes: list[CurrentLeader] = []
        for partition, data in answered.items():
            state = self._subscriptions.get(partition)
            if state is None or not self._is_current(state, requested[partition]):
                continue
            if data.error_code == NONE:
                self._take_data(state, data)
                continue
            code = error_code(data.error_code)
            leader = data.current_leader
            if leader is not None and leader.leader_id >= 0:
                changes.append(CurrentLeader(*partition, leader.leader_id, leader.leader_epoch))
            self._take_error(state, code)
        if changes:
            nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
            self._metadata.update_leaders(changes, nodes)

    @staticmethod
    def _is_current(state: PartitionState, fetch: PartitionFetch) -> bool:
        """True if the result still belongs to the offset that is fetched next."""
        return (
            state.state is FETCHING
            and not state.deferred
            and state.fetch.offset == fetch.fetch_offset
        )

    def _take_data(self, state: PartitionState, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        metrics = state.position.metrics
        metrics.start = data.log_start_offset
        committed = self._config.read_committed
        metrics.end = data.last_stable_offset if committed else data.high_watermark
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            self._deferred.truncated(state, diverging.end_offset, diverging.epoch)
            return
        records = data.records
        if isinstance(records, ByteRange) and len(records):
            self._take_records(state, records, data)

    def _take_records(self, state: PartitionState, records: ByteRange, data: PartitionData) -> None:
        last = None
        count = 0
        corrupt: CorruptBatch | None = None
        try:
            for header in batches(records.data, records.start, records.end):
                last = header
                if not header.is_control:
                    # The first batch may begin before the fetch offset.
                    count += min(header.count, max(0, header.next_offset - state.fetch.offset))
        except CorruptBatch as error:
            corrupt = error
        if last is not None and last.next_offset > state.fetch.offset:
            aborted = data.aborted_transactions or () if self._config.read_committed else None
            fetch = CompletedFetch(
                state.position,
                records.data,
                records.start,
                last.end,
                last.next_offset,
                aborted,
                self._config.check_crcs,
            )
            self._metrics.count_records(state.topic_partition.topic, count, fetch.size)
            state.fetched(last.next_offset, last.partition_leader_epoch, fetch.size)
            self._incoming.append(fetch)
            self._subscriptions.move_to_end(state.topic_partition)
        elif corrupt is None:
            self._deferred.back_off(state)  # Less than a batch: no current broker does that.
        if corrupt is not None:
            where = f"reading {state.topic_partition} at offset {state.fetch.offset}"
            self._deferred.defer_error(
                state, error_for(ErrorCode.CORRUPT_MESSAGE, where, str(corrupt))
            )

    def _take_error(self, state: PartitionState, code: ErrorCode) -> None:
        what = f"reading {state.topic_partition} at offset {state.fetch.offset}"
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._deferred.out_of_range(state)
        elif code.refresh_metadata or code in RETRIED_ERRORS:
            level = logging.DEBUG if code.retriable else logging.WARNING
            log.log(level, "%s: %s, will try again", what, code.name)
            self._deferred.back_off(state)
            if code.refresh_metadata or code == ErrorCode.OFFSET_NOT_AVAILABLE:
                self._metadata.request_update()
        else:
            self._deferred.defer_error(state, error_for(code, what))


class NodeFetches:
    """One broker: its fetch session and the request in flight."""

    __slots__ = ("failures", "requested", "retry_ms", "session")

    def __init__(self, node_id: int) -> None:
        self.session = FetchSession(node_id)
        self.requested: RequestedPartitions | None = None
        """The partitions of the request in flight; None if there is none."""
        self.failures = 0
        self.retry_ms = 0
        """Send no fetch before this time."""


class Fetcher(ConnectionListener):
    """Fetches the assigned partitions whose position is known.

    `arrived` is called when `incoming` has something for the application.
    """

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        deferred: DeferredErrors,
        incoming: deque[CompletedFetch],
        arrived: Callable[[], object],
    ) -> None:
        self.starved = False
        """True while a fetch lacks room, or while `pump` is looking for room: who frees bytes then
        has `pump` called. Set here before counting; cleared by the side that frees room, and here
        if there was enough room.
        """
        self._engine = engine
        self._subscriptions = subscriptions
        self._config = config
        self._deferred = deferred
        self._incoming = incoming
        self._arrived = arrived
        self.metrics = FetchMetrics()
        self._response_handler = FetchResponseHandler(
            engine.metadata, subscriptions, config, incoming, deferred, self.metrics
        )
        self._held_up = HeldUpWatch(engine, subscriptions) if config.read_committed else None
        self._nodes: dict[int, NodeFetches] = {}
        self._alarm = Alarm(engine.timer, self.pump)
        self._closed = False
        engine.client.listen(self)

    def node_ready(self, node_id: int) -> None:
        self.pump()

    # Requests.

    def pump(self) -> None:
        """Send every fetch that has a position, a leader and room."""
        if self._closed:
            return
        self.starved = True
        leaders, buffered, wake_ms = self._by_leader()
        enough = True
        share = max(1, self._config.prefetch_max_bytes // max(1, len(leaders | buffered)))
        now_ms = self._engine.now_ms
        for node_id, states in leaders.items():
            node = self._nodes.get(node_id)
            if node is None:
                node = self._nodes[node_id] = NodeFetches(node_id)
            if node.requested is not None:
                continue
            if node.retry_ms > now_ms:
                wake_ms = min(wake_ms, node.retry_ms)
            elif not self._send_fetch(node, states, share, buffered.get(node_id, 0)):
                enough = False
        if enough:
            self.starved = False
        if wake_ms != NEVER_MS:
            self._alarm.set_for(wake_ms)

    def _by_leader(self) -> tuple[dict[int, list[PartitionState]], dict[int, int], int]:
        """Return the fetchable partitions by leader, the buffered bytes by leader, and the time
        when more partitions become fetchable.
        """
        metadata = self._engine.metadata
        now_ms = self._engine.now_ms
        nodes = metadata.image.nodes
        leaders: dict[int, list[PartitionState]] = {}
        buffered: dict[int, int] = {}
        wake_ms = NEVER_MS
        leader_missing = False
        for state in self._subscriptions.states:
            node_id = state.leader.node_id
            if state.buffered_bytes > 0 and not state.position.withheld:
                buffered[node_id] = buffered.get(node_id, 0) + state.buffered_bytes
            if not state.is_fetchable:
                continue
            if state.next_retry_ms > now_ms:
                wake_ms = min(wake_ms, state.next_retry_ms)
            elif node_id in nodes:
                leaders.setdefault(node_id, []).append(state)
            else:
                leader_missing = True
        if leader_missing and not metadata.update_requested:
            metadata.request_update()
        return leaders, buffered, wake_ms

    def _send_fetch(
        self, node: NodeFetches, states: list[PartitionState], share: int, buffered_bytes: int
    ) -> bool:
        """Send a fetch if the broker is ready; False if there is no room for one."""
        config = self._config
        room = share - buffered_bytes
        if room < min(config.max_partition_fetch_bytes, share // 2):
            return False
        if not self._engine.client.ready(node.session.node_id):
            return True
        image = self._engine.metadata.image
        to_fetch: RequestedPartitions = {}
        for state in states:
            topic = image.topics.get(state.topic_partition.topic)
            to_fetch[state.topic_partition] = PartitionFetch(
                ZERO_UUID if topic is None else topic.topic_id,
                state.fetch.offset,
                config.max_partition_fetch_bytes,
                state.leader.epoch,
                state.fetch.offset_epoch,
            )
        without_id = any(one.topic_id == ZERO_UUID for one in to_fetch.values())
        max_bytes = min(config.fetch_max_bytes, room)
        session = node.session
        node.requested = to_fetch
        self._engine.client.send(
            session.node_id,
            RequestBuilder(
                FetchRequest,
                lambda version: self._request(session, to_fetch, max_bytes, version),
                max_version=LAST_VERSION_BY_NAME if without_id else 32767,
            ),
            lambda call: self._fetch_ended(node, to_fetch, call),
        )
        return True

    def _request(
        self, session: FetchSession, to_fetch: RequestedPartitions, max_bytes: int, version: int
    ) -> FetchRequest:
        config = self._config
        topics, forgotten = session.next_request(to_fetch, version)
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(config.read_committed),
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    # Responses.

    def _fetch_ended(
        self, node: NodeFetches, requested: RequestedPartitions, call: ClientRequest
    ) -> None:
        node.requested = None
        if self._closed:
            return
        if call.error is not None:
            node.session.failed()
            self._failed(node, requested, call.error)
        else:
            self._handle_response(node, requested, call.response)
        if call.error is None:
            # Before the application wakes: it may look at the metrics of what it has received.
            now_ms = self._engine.now_ms
            throttle_ms = call.response.throttle_time_ms
            self.metrics.fetch_completed(now_ms - call.sent_ms, throttle_ms, now_ms)
            node_metrics = self._engine.client.node_metrics(call.node_id)
            if node_metrics is not None:
                node_metrics.request_latency.record(now_ms - call.sent_ms, now_ms)
        if self._incoming:
            # The application's thread wakes while the next fetch is being sent.
            self._arrived()
        if self._held_up is not None:
            self._held_up.look()
        self.pump()

    def _handle_response(
        self, node: NodeFetches, requested: RequestedPartitions, response: FetchResponse
    ) -> None:
        answered = self._response_handler.partitions(node.session, response)
        problem = node.session.handle_response(response, answered)
        if problem is None:
            node.failures = 0
            self._response_handler.handle(requested, answered, response)
        else:
            log.debug("broker %d: %s; beginning a new fetch session", node.session.node_id, problem)
            self._back_off(node)

    def _failed(self, node: NodeFetches, requested: RequestedPartitions, error: KafkaError) -> None:
        """Handle a failed request. The network client reconnects and requests metadata."""
        self._back_off(node)
        if isinstance(error, Disconnected | KafkaTimeout):
            log.debug("fetching from broker %d failed: %s", node.session.node_id, error)
            return
        for partition in requested:
            state = self._subscriptions.get(partition)
            if state is not None and not state.deferred:
                self._deferred.defer_error(state, error)

    def _back_off(self, node: NodeFetches) -> None:
        """Set the time of the next attempt. The first failure costs no time: it is often only a
        session that ended or a connection that was closed.
        """
        wait_ms = self._engine.backoff.backoff_ms(node.failures - 1) if node.failures else 0
        node.failures += 1
        node.retry_ms = self._engine.now_ms + wait_ms

    def close(self) -> None:
        """Stop fetching and end the sessions on the brokers, without waiting for the answers."""
        self._closed = True
        self._alarm.cancel()
        for node in self._nodes.values():
            request = node.session.closing_request()
            if request is not None and self._engine.client.is_ready(node.session.node_id):
                self._engine.client.send(node.session.node_id, request, lambda _: None)
