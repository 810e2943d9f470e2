"""Fetcher: keeps one fetch per node under way, and what they bring on its way to the application.

    pump ─► per leader with room: FetchSession ─► Fetch ─► FetchAnswers ─► pump again ─┐
     ▲                                                                                 │
     └── positions, a node is ready, room was made, a back-off is over                 ▼
                                                CompletedFetches ─► incoming ─► the application

The next fetch leaves while the application wakes up to what the last one brought, so broker and
network work while it decodes. What is kept for the application is bounded: each node that leads
partitions has a share of `prefetch.max.bytes`, and is not asked for more while less than a fetch
fits it. The bound is overshot by one batch per node at most. What was fetched takes room until it
is handed out, also of a partition that is fetched no more; only one that nobody reads (paused)
takes none, and keeps what was fetched for it before.

Room is made on the application's thread, at any moment of this one. No room that is made may be
overlooked, or nobody would ever fetch again. So each side first says and then looks:

    engine's thread      starved = True       then counts what is held
    application's        holds less           then looks whether starved, and has `pump` called

Whichever comes first, one of the two sees the other.

The engine's thread only, but `incoming`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from odradek.client.alarm import NEVER_MS, Alarm
from odradek.client.api_versions import RequestBuilder
from odradek.client.connection_listener import ConnectionListener
from odradek.client.consumer.completed_fetch import CompletedFetch
from odradek.client.consumer.fetch_answers import FetchAnswers
from odradek.client.consumer.fetch_sessions import LAST_VERSION_BY_NAME, FetchSession, Wanted
from odradek.client.consumer.held_decisions import HeldDecisions
from odradek.client.consumer.metrics import FetchMetrics
from odradek.client.consumer.partition_state import PartitionState
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.engine import Engine
from odradek.client.errors import Disconnected, KafkaError, KafkaTimeout
from odradek.client.in_flight_requests import ClientRequest
from odradek.config.consumer import ConsumerConfig
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.fetch import FetchRequest, FetchResponse

log = logging.getLogger(__name__)

Asked = dict[TopicPartition, Wanted]


class NodeFetches:
    """One node: the session with it, and the fetch under way."""

    __slots__ = ("asked", "failures", "retry_ms", "session")

    def __init__(self, node_id: int) -> None:
        self.session = FetchSession(node_id)
        self.asked: Asked | None = None
        """What is under way, if anything is."""
        self.failures = 0
        self.retry_ms = 0
        """Not to be asked before."""


class Fetcher(ConnectionListener):
    """Fetches what is assigned, as far as positions are known. `arrived` is called when `incoming`
    has something for the application.
    """

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        held: HeldDecisions,
        incoming: deque[CompletedFetch],
        arrived: Callable[[], object],
    ) -> None:
        self.starved = False
        """There was no room for some fetch, or it is being looked for: `pump` when some was made.
        Set here, before looking; taken back by who makes room, and here when there was enough."""
        self._engine = engine
        self._subscriptions = subscriptions
        self._config = config
        self._held = held
        self._incoming = incoming
        self._arrived = arrived
        self.metrics = FetchMetrics()
        self._answers = FetchAnswers(
            engine.metadata, subscriptions, config, incoming, held, self.metrics
        )
        self._nodes: dict[int, NodeFetches] = {}
        self._alarm = Alarm(engine.timer, self.pump)
        self._closed = False
        engine.client.listen(self)

    def node_ready(self, node_id: int) -> None:
        self.pump()

    # Asking.

    def pump(self) -> None:
        """Begin every fetch that there is a position, a leader and room for."""
        if self._closed:
            return
        self.starved = True
        leaders, kept, wake_ms = self._by_leader()
        enough = True
        share = max(1, self._config.prefetch_max_bytes // max(1, len(leaders | kept)))
        now_ms = self._engine.now_ms
        for node_id, states in leaders.items():
            node = self._nodes.get(node_id)
            if node is None:
                node = self._nodes[node_id] = NodeFetches(node_id)
            if node.asked is not None:
                continue
            if node.retry_ms > now_ms:
                wake_ms = min(wake_ms, node.retry_ms)
            elif not self._ask(node, states, share, kept.get(node_id, 0)):
                enough = False
        if enough:
            self.starved = False
        if wake_ms != NEVER_MS:
            self._alarm.set_for(wake_ms)

    def _by_leader(self) -> tuple[dict[int, list[PartitionState]], dict[int, int], int]:
        """What can be fetched, and how many bytes are kept for the application, by the node to ask;
        and when there may be more to fetch.
        """
        metadata = self._engine.metadata
        now_ms = self._engine.now_ms
        nodes = metadata.image.nodes
        leaders: dict[int, list[PartitionState]] = {}
        kept: dict[int, int] = {}
        wake_ms = NEVER_MS
        lost = False
        for state in self._subscriptions.states:
            node_id = state.leader.node_id
            if state.buffered_bytes > 0 and not state.position.withheld:
                kept[node_id] = kept.get(node_id, 0) + state.buffered_bytes
            if not state.is_fetchable:
                continue
            if state.next_retry_ms > now_ms:
                wake_ms = min(wake_ms, state.next_retry_ms)
            elif node_id in nodes:
                leaders.setdefault(node_id, []).append(state)
            else:
                lost = True
        if lost and not metadata.update_requested:
            metadata.request_update()
        return leaders, kept, wake_ms

    def _ask(
        self, node: NodeFetches, states: list[PartitionState], share: int, kept_bytes: int
    ) -> bool:
        """Begin a fetch, if the node is ready; False if there is no room for one."""
        config = self._config
        room = share - kept_bytes
        if room < min(config.max_partition_fetch_bytes, share // 2):
            return False
        if not self._engine.client.ready(node.session.node_id):
            return True
        image = self._engine.metadata.image
        wanted: Asked = {}
        for state in states:
            topic = image.topics.get(state.topic_partition.topic)
            wanted[state.topic_partition] = Wanted(
                ZERO_UUID if topic is None else topic.topic_id,
                state.fetch.offset,
                config.max_partition_fetch_bytes,
                state.leader.epoch,
                state.fetch.offset_epoch,
            )
        unnamed = any(one.topic_id == ZERO_UUID for one in wanted.values())
        max_bytes = min(config.fetch_max_bytes, room)
        session = node.session
        node.asked = wanted
        self._engine.client.send(
            session.node_id,
            RequestBuilder(
                FetchRequest,
                lambda version: self._request(session, wanted, max_bytes, version),
                max_version=LAST_VERSION_BY_NAME if unnamed else 32767,
            ),
            lambda call: self._ended(node, wanted, call),
        )
        return True

    def _request(
        self, session: FetchSession, wanted: Asked, max_bytes: int, version: int
    ) -> FetchRequest:
        config = self._config
        topics, forgotten = session.next_request(wanted, version)
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

    # Answers.

    def _ended(self, node: NodeFetches, asked: Asked, call: ClientRequest) -> None:
        node.asked = None
        if self._closed:
            return
        if call.error is not None:
            node.session.failed()
            self._failed(node, asked, call.error)
        else:
            self._answered(node, asked, call.response)
        if self._incoming:
            # The application's thread wakes while the next fetch is being sent.
            self._arrived()
        if call.error is None:
            now_ms = self._engine.now_ms
            throttle_ms = call.response.throttle_time_ms
            self.metrics.answered(now_ms - call.sent_ms, throttle_ms, now_ms)
        self.pump()

    def _answered(self, node: NodeFetches, asked: Asked, response: FetchResponse) -> None:
        answered = self._answers.partitions(node.session, response)
        problem = node.session.answered(response, answered)
        if problem is None:
            node.failures = 0
            self._answers.take(asked, answered, response)
        else:
            log.debug("broker %d: %s; fetching anew", node.session.node_id, problem)
            self._back_off(node)

    def _failed(self, node: NodeFetches, asked: Asked, error: KafkaError) -> None:
        """No answer came. A lost connection is made again, and metadata asked for, by others."""
        self._back_off(node)
        if isinstance(error, Disconnected | KafkaTimeout):
            log.debug("fetching from broker %d failed: %s", node.session.node_id, error)
            return
        for partition in asked:
            state = self._subscriptions.get(partition)
            if state is not None and not state.held:
                self._held.failed(state, error)

    def _back_off(self, node: NodeFetches) -> None:
        """The first failure costs no time: sessions end, connections break."""
        wait_ms = self._engine.backoff.backoff_ms(node.failures - 1) if node.failures else 0
        node.failures += 1
        node.retry_ms = self._engine.now_ms + wait_ms

    # The end.

    def close(self) -> None:
        """Fetch no more, and tell the nodes that their sessions are over; nothing is waited for."""
        self._closed = True
        self._alarm.cancel()
        for node in self._nodes.values():
            request = node.session.closing_request()
            if request is not None and self._engine.client.is_ready(node.session.node_id):
                self._engine.client.send(node.session.node_id, request, lambda _: None)
