"""The broker as its handlers see it: settings, metadata, partitions, groups, sessions.

It holds the parts that `node` has wired, and adds what several handlers need: responses that wait
for a commit of metadata (`DelayedCommit`), automatic creation of topics, and producer ids, which
are taken from blocks that committed records grant, so that none is given twice.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.broker.context import DelayedResponse, RequestContext
from odradek.broker.fetch_sessions import FetchSessionCache
from odradek.broker.offsets_topic import creatable_topic
from odradek.broker.request_metrics import RequestMetrics
from odradek.broker.sliced_answers import SlicedAnswers
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfigs
from odradek.controller.brokers import allocate_producer_ids
from odradek.controller.decision import Decision
from odradek.controller.features import SUPPORTED_FEATURES
from odradek.controller.image import MetadataImage
from odradek.controller.metadata_log import MetadataLog
from odradek.controller.quorum_controller import (
    NotController,
    QuorumController,
    RecordsTooLarge,
)
from odradek.controller.topics import create_topics
from odradek.coordinator.group.coordinator import GroupCoordinator
from odradek.log.log_directory import LogDirectory
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.metadata_records import PartitionRecord
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import DelayedOperation, DelayedOperationPurgatory, SystemTimer

if TYPE_CHECKING:
    from odradek.broker.node import Node

log = logging.getLogger(__name__)
T = TypeVar("T")


class Broker:
    """The parts of one broker. All methods run on the owner thread."""

    node: Node
    """The wiring, which sets this: what a broker shows of itself is read from all of its parts."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Env,
        timer: SystemTimer,
        directory: LogDirectory,
        metadata: MetadataLog,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        request_metrics: RequestMetrics,
    ) -> None:
        self.env = env
        self.request_metrics = request_metrics
        self.timer = timer
        self.clock = env.clock
        self.random = env.random
        self.directory = directory
        self.metadata = metadata
        self.replicas = replicas
        self.groups = groups
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, env.random
        )
        self.producer_id_manager = ProducerIdManager(metadata, config.node_id)
        self.opening: dict[UUID, int] = {}
        """Committed topics with partitions still to be opened, and the number of those."""
        self.commit_purgatory = DelayedOperationPurgatory("Commit", timer)
        self.waiting_answers = SlicedAnswers(env.clock, env.call_soon)
        self.metrics_answers = SlicedAnswers(env.clock, env.call_soon)
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Take new dynamic settings."""
        self.config = config
        self.topic_configs = TopicConfigs(config)

    supported_features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def controller(self) -> QuorumController:
        """The decisions about metadata, while this node leads the quorum."""
        return self.metadata.controller

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.metadata.committed

    def alive_brokers(self) -> list[tuple[int, str, int, str | None]]:
        """(id, host, port, rack) of the brokers that clients may use."""
        return [
            (broker.id, broker.endpoints[0].host, broker.endpoints[0].port, broker.rack)
            for broker in self.image.brokers.values()
            if not broker.fenced
        ]

    # -- metadata ----------------------------------------------------------------------------------

    def respond_when_committed(
        self,
        context: RequestContext,
        decide: Callable[[MetadataImage], Decision[T]],
        timeout_ms: int,
        failed: Callable[[ErrorCode], T],
    ) -> T | DelayedResponse:
        """Decide on the pending image, submit the records, and respond when they are committed and
        new partitions open.

        `failed` makes the response if this node is not the controller, or no longer when the
        records would be committed, or if they cannot be written.
        """
        try:
            decision = decide(self.controller.pending)
            offset = self.controller.submit(decision.records)
        except NotController:
            return failed(ErrorCode.NOT_CONTROLLER)
        except RecordsTooLarge:
            return failed(ErrorCode.POLICY_VIOLATION)
        except OSError as error:
            log.error("writing metadata records failed: %s", error)
            return failed(ErrorCode.KAFKA_STORAGE_ERROR)
        if offset <= self.metadata.committed_offset:
            return decision.response
        return self.after_commit(
            offset,
            timeout_ms,
            lambda: context.respond(decision.response),
            lambda: context.respond(failed(ErrorCode.REQUEST_TIMED_OUT)),
            {each.topic_id for each in decision.records if isinstance(each, PartitionRecord)},
            lambda: context.respond(failed(ErrorCode.NOT_CONTROLLER)),
        )

    def after_commit(
        self,
        offset: int,
        timeout_ms: int,
        committed: Callable[[], None],
        timed_out: Callable[[], None],
        topics: Collection[UUID] = (),
        dropped: Callable[[], None] | None = None,
    ) -> DelayedResponse:
        """Call `committed` once metadata is committed up to `offset` and the partitions of `topics`
        are open, or `timed_out` after the timeout; or `dropped` (by default `timed_out`) if this
        node loses the decisions before that.
        """
        epoch = self.controller.epoch

        def is_done() -> bool:
            if self.metadata.committed_offset < offset:
                return False
            return not self.opening or self.opening.keys().isdisjoint(topics)

        def is_dropped() -> bool:
            controller = self.controller
            leads = controller.is_active and controller.epoch == epoch
            return not leads and self.metadata.committed_offset < offset

        operation = DelayedCommit(
            timeout_ms, is_done, is_dropped, committed, timed_out, dropped or timed_out
        )
        return DelayedResponse(self.commit_purgatory, operation, (METADATA,))

    def commit_advanced(self) -> None:
        """The committed offset moved, or a topic is open: check the responses that wait."""
        self.commit_purgatory.check_and_complete(METADATA)

    def auto_create_topics(self, names: Sequence[str]) -> int | None:
        """Create topics that a request named, unless they are being created already.

        Return the offset whose commit creates them; None if the records could not be written, or
        this node is not the controller.
        """
        if not self.controller.is_active:
            return None
        pending = self.controller.pending
        brokers = len(pending.brokers)
        request = CreateTopicsRequest(
            topics=[creatable_topic(name, self.config, brokers) for name in names]
        )
        decision = create_topics(pending, request, self.config, self.random)
        known = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        refused = [each for each in decision.response.topics if each.error_code not in known]
        if refused:
            first = refused[0]
            log.warning(
                "%d topics were not created; the first, %s: %s",
                len(refused),
                first.name,
                first.error_message,
            )
        try:
            return self.controller.submit(decision.records)
        except (OSError, RecordsTooLarge, NotController) as error:
            log.error("creating %d topics, the first %s, failed: %s", len(names), names[0], error)
            return None

    # -- the data directory ------------------------------------------------------------------------

    @property
    def log_directory_path(self) -> str:
        return self.directory.path

    def log_directory_error(self) -> ErrorCode:
        """KAFKA_STORAGE_ERROR once the directory is fenced."""
        return ErrorCode.KAFKA_STORAGE_ERROR if self.directory.fence.failure else ErrorCode.NONE

    def disk_space(self) -> tuple[int, int]:
        """(usable, total) bytes of the data directory's volume; -1 if that is unknown."""
        try:
            return self.env.disk.free_bytes(self.directory.path)
        except OSError as error:
            log.error("reading the size of the data volume failed: %s", error)
            return -1, -1


METADATA = "metadata"
"""The key of these operations: checked when the committed offset moved, or a topic is open."""


class DelayedCommit(DelayedOperation):
    """A response that waits for a commit of metadata: calls `committed`, `timed_out`, or `dropped`
    once the records cannot be committed any more for this node.
    """

    def __init__(
        self,
        delay_ms: int,
        is_done: Callable[[], bool],
        is_dropped: Callable[[], bool],
        committed: Callable[[], None],
        timed_out: Callable[[], None],
        dropped: Callable[[], None],
    ) -> None:
        super().__init__(max(1, delay_ms))
        self.is_done = is_done
        self.is_dropped = is_dropped
        self.committed = committed
        self.timed_out = timed_out
        self.dropped = dropped

    def try_complete(self) -> bool:
        return (self.is_done() or self.is_dropped()) and self.force_complete()

    def on_complete(self) -> None:
        if self.is_done():
            self.committed()
        elif self.is_dropped():
            self.dropped()
        else:
            self.timed_out()

    def on_expiration(self) -> None:
        """Nothing to do: `on_complete` calls `timed_out`."""


class ProducerIdManager:
    """The producer ids of this broker. A block is used only once its record is committed."""

    def __init__(self, metadata: MetadataLog, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._granted: deque[int] = deque()
        self._pending: deque[tuple[int, range]] = deque()

    def next_id(self) -> int | None:
        """The next id; None if there is none until a block is committed: see `request_block`."""
        while self._pending and self._pending[0][0] <= self._metadata.committed_offset:
            self._granted.extend(self._pending.popleft()[1])
        return self._granted.popleft() if self._granted else None

    def request_block(self) -> int:
        """Submit a record for a block unless one is pending. Return the offset of its commit.

        Raises `OSError` and `NotController`.
        """
        if not self._pending:
            controller = self._metadata.controller
            decision = allocate_producer_ids(controller.pending, self._node_id)
            block = decision.response
            offset = controller.submit(decision.records)
            self._pending.append((offset, range(block.first, block.first + block.size)))
        return self._pending[-1][0]
