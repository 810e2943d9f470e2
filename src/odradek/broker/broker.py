"""The broker as its handlers see it: settings, metadata, partitions, groups, sessions.

It holds the parts that `node` has wired, and adds what several handlers need: responses that wait
for a commit of metadata (`DelayedCommit`), automatic creation of topics, and the way to the active
controller, which is this broker itself unless it is one of several (`join_cluster`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.broker.context import DelayedResponse, RequestContext
from odradek.broker.decision_in_parts import DecisionInParts
from odradek.broker.fetch_sessions import FetchSessionCache
from odradek.broker.hanging_transactions import HangingTransactions
from odradek.broker.long_requests import LongRequests
from odradek.broker.producer_ids import ProducerIdManager
from odradek.broker.request_metrics import RequestMetrics
from odradek.broker.sliced_answers import SlicedAnswers
from odradek.config.addresses import CLUSTER
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfigs
from odradek.controller.decision import ControllerResult, Parts
from odradek.controller.features import SUPPORTED_FEATURES
from odradek.controller.image import MetadataImage
from odradek.controller.metadata_log import MetadataLog
from odradek.controller.quorum_controller import (
    ActiveController,
    FindController,
    NotController,
    QuorumController,
    RecordsTooLarge,
)
from odradek.coordinator.group.coordinator import GroupCoordinator
from odradek.log.log_directory import LogDirectory
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.model.topics import TRANSACTION_STATE
from odradek.protocol.metadata_records import PartitionRecord
from odradek.replication.follower_fetch import FollowerFetches
from odradek.replication.partition import Partition, PartitionListener
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import DelayedOperation, DelayedOperationPurgatory, SystemTimer

if TYPE_CHECKING:
    from odradek.broker.controller_channel import ControllerChannel
    from odradek.broker.controller_service import ControllerService
    from odradek.broker.forwarding import Forwarding
    from odradek.broker.leader_ends import LeaderEnds
    from odradek.broker.node import Node
    from odradek.broker.transaction_verification import TransactionVerification
    from odradek.coordinator.transaction.coordinator import TransactionCoordinator
    from odradek.network_client.broker_connections import BrokerChannel, BrokerConnections
    from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse

log = logging.getLogger(__name__)
T = TypeVar("T")


class Broker:
    """The parts of one broker. All methods run on the owner thread."""

    node: Node
    """The wiring, which sets this: what a broker shows of itself is read from all of its parts."""
    controller_service: ControllerService
    """The requests of other nodes to the active controller; only with a CLUSTER listener."""

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
        self.follower_fetches: FollowerFetches | None = None
        """Serves followers; None while no partition has any."""
        self.producer_id_manager = ProducerIdManager(
            metadata, config.node_id, timer, self.commit_advanced
        )
        self.forwarding: Forwarding | None = None
        """Sends on what only the active controller answers; None while that is always this node."""
        self.broker_channel: BrokerChannel | None = None
        """Asks coordinators on other brokers what is in a transaction; None on a node alone."""
        self.marker_channel: BrokerChannel | None = None
        """Sends the ends of transactions to other brokers."""
        self.leader_ends: LeaderEnds | None = None
        """Asks other leaders for the ends of their partitions; None on a node alone."""
        self._transactions: TransactionCoordinator | None = None
        self.hanging_transactions = HangingTransactions(self)
        replicas.listeners[TRANSACTION_STATE] = TransactionsAtFirstUse(self)
        self._controllers: ControllerChannel | None = None
        self._find_controller: FindController = self._controller_here
        self._creating: set[str] = set()
        """Topics that the active controller was asked to create."""
        self.opening: dict[UUID, int] = {}
        """Committed topics with partitions still to be opened, and the number of those."""
        self.commit_purgatory = DelayedOperationPurgatory("Commit", timer)
        self.waiting_answers = SlicedAnswers(env.clock, env.call_soon)
        self.metrics_answers = SlicedAnswers(env.clock, env.call_soon)
        self.long_requests = LongRequests(env.call_soon)
        self._verification: TransactionVerification | None = None
        self.configure(config)

    @property
    def transaction_verification(self) -> TransactionVerification:
        """Asks coordinators about transactional batches; made for the first one."""
        if self._verification is None:
            # Imported here, so that a start does without it.
            from odradek.broker.transaction_verification import TransactionVerification

            self._verification = TransactionVerification(self)
        return self._verification

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

    @property
    def controller_id(self) -> int:
        """The broker that decides about metadata, as far as known; else this one."""
        leader_id = self.metadata.raft.core.leader_id
        known = leader_id is not None and leader_id in self.image.brokers
        return leader_id if known and leader_id is not None else self.node_id

    def alive_brokers(self) -> list[tuple[int, str, int, str | None]]:
        """(id, host, port, rack) of the brokers that clients may use."""
        brokers = self.image.brokers
        return [each for each in self.registered_brokers() if not brokers[each[0]].fenced]

    def registered_brokers(self) -> list[tuple[int, str, int, str | None]]:
        """(id, host, port, rack) of all brokers, running or not."""
        return [
            (broker.id, endpoint.host, endpoint.port, broker.rack)
            for broker in self.image.brokers.values()
            for endpoint in broker.endpoints
            if endpoint.name != CLUSTER
        ]

    def purgatories(self) -> list[DelayedOperationPurgatory]:
        """All purgatories in use."""
        replicas, coordinator = self.replicas, self._transactions
        found = [] if coordinator is None else [coordinator.purgatory]
        found += [replicas.produce_purgatory, replicas.fetch_purgatory]
        if self.follower_fetches is not None:
            found.append(self.follower_fetches.purgatory)
        found += [replicas.delete_records_purgatory, replicas.list_offsets_purgatory]
        return [*found, self.commit_purgatory]

    # -- transactions ------------------------------------------------------------------------------

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, which is made at its first use."""
        if self._transactions is None:
            # Imported here, so that a broker without transactions starts without them.
            from odradek.broker.transaction_service import transaction_coordinator

            self._transactions = transaction_coordinator(self)
        return self._transactions

    @property
    def transactions_in_use(self) -> TransactionCoordinator | None:
        """The same, if it was ever used; else None."""
        return self._transactions

    # -- the active controller ---------------------------------------------------------------------

    def join_cluster(
        self, connections: BrokerConnections, active: FindController
    ) -> tuple[ControllerChannel, Forwarding]:
        """Follow an active controller that may be another node, which `active` finds: this node
        only while its own controller `is_active`. Return the way to it for requests of this broker,
        and that for requests of clients.

        Whoever learns of another controller or epoch calls `controller_changed`.
        """
        # Imported here, so that a node that is alone starts without the connections to others.
        from odradek.broker.controller_channel import ControllerChannel
        from odradek.broker.forwarding import Forwarding
        from odradek.broker.leader_ends import LeaderEnds
        from odradek.network_client.broker_connections import BrokerChannel, Purpose

        self._find_controller = active
        own_id = self.node_id
        controllers = self._controllers = ControllerChannel(
            self.timer, connections.client(Purpose.CONTROLLER), active, own_id
        )
        forwarded = ControllerChannel(
            self.timer, connections.client(Purpose.FORWARDING), active, own_id
        )
        forwarding = self.forwarding = Forwarding(forwarded, self.is_active_controller)
        self.broker_channel = BrokerChannel(connections.client(Purpose.VERIFICATION))
        self.marker_channel = BrokerChannel(connections.client(Purpose.MARKERS))
        self.leader_ends = LeaderEnds(
            self.env.call_soon,
            self.timer,
            BrokerChannel(connections.client(Purpose.ENDS)),
            self._other_leader,
            lambda: self.node.is_stopping,
        )
        self.producer_id_manager.ask_controller(
            controllers, self.is_active_controller, self.broker_epoch
        )
        return controllers, forwarding

    def controller_changed(self) -> None:
        """Send what waits for a controller to the new one."""
        self.producer_id_manager.controller_changed()
        if self._controllers is not None:
            self._controllers.controller_changed()
        if self.forwarding is not None:
            self.forwarding.channel.controller_changed()

    def _other_leader(self, partition: tuple[str, int]) -> int:
        """The other broker that leads a partition; -1 if there is none."""
        topic = self.image.topic(partition[0])
        registration = None if topic is None else topic.partitions.get(partition[1])
        if registration is None or registration.leader == self.node_id:
            return -1
        return registration.leader

    def leave_cluster(self) -> None:
        """End what waits for the controller: the broker stops."""
        if self._controllers is not None:
            self._controllers.close()
        if self.forwarding is not None:
            self.forwarding.channel.close()

    def active_controller(self) -> ActiveController | None:
        """The active controller, as far as this broker knows; None if it knows none."""
        return self._find_controller()

    def _controller_here(self) -> ActiveController | None:
        controller = self.controller
        return ActiveController(self.node_id, controller.epoch) if controller.is_active else None

    def is_active_controller(self) -> bool:
        controller = self._find_controller()
        return controller is not None and controller.node_id == self.config.node_id

    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 while there is none."""
        registration = self.image.brokers.get(self.node_id)
        return -1 if registration is None else registration.epoch

    # -- metadata ----------------------------------------------------------------------------------

    def respond_when_committed(
        self,
        context: RequestContext,
        decide: Callable[[MetadataImage], ControllerResult[T]],
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

    def respond_in_parts(
        self,
        context: RequestContext,
        decide: Callable[[MetadataImage], Parts[T]],
        timeout_ms: int,
        failed: Callable[[ErrorCode, str | None], T],
    ) -> None:
        """Decide on the pending image part by part, a turn of the loop each, and respond when the
        records of all parts are committed. `failed` as for `respond_when_committed`.
        """
        controller = self.controller

        def fail(error: ErrorCode, message: str | None = None) -> None:
            context.respond(failed(error, message))

        def decided(response: T) -> None:
            waits = self.after_commit(
                self.metadata.end_offset,
                timeout_ms,
                lambda: context.respond(response),
                lambda: fail(ErrorCode.REQUEST_TIMED_OUT),
                dropped=lambda: fail(ErrorCode.NOT_CONTROLLER),
            )
            waits.purgatory.try_complete_else_watch(waits.operation, waits.keys)

        if controller.is_active:
            parts = decide(controller.pending)
            DecisionInParts(controller, self.env.call_soon, parts, decided, fail).go_on()
        else:
            fail(ErrorCode.NOT_CONTROLLER)

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

    def after_grant(
        self, timeout_ms: int, granted: Callable[[], None], timed_out: Callable[[], None]
    ) -> DelayedResponse:
        """Call `granted` once there are producer ids, or `timed_out` after the timeout."""
        operation = DelayedCommit(
            timeout_ms,
            self.producer_id_manager.has_ids,
            lambda: False,
            granted,
            timed_out,
            timed_out,
        )
        return DelayedResponse(self.commit_purgatory, operation, (METADATA,))

    def commit_advanced(self) -> None:
        """The committed offset moved, or a topic is open: check the responses that wait."""
        self.commit_purgatory.check_and_complete(METADATA)

    def auto_create_topics(self, names: Sequence[str]) -> int | None:
        """Create topics that a request named, unless they are being created already.

        Return the offset whose commit creates them; None if the records could not be written, or
        if another node was asked to create them, or no node decides now.
        """
        if self.forwarding is not None and not self.is_active_controller():
            self._ask_for_topics(self.forwarding, names)
            return None
        if not self.controller.is_active:
            return None
        # Imported here, so that a start does without the decisions on topics.
        from odradek.controller.topics import create_topics

        pending = self.controller.pending
        request = self._creation(names, len(pending.brokers))
        decision = create_topics(pending, request, self.config, self.random)
        log_refused(decision.response)
        try:
            return self.controller.submit(decision.records)
        except (OSError, RecordsTooLarge, NotController) as error:
            log.error("creating %d topics, the first %s, failed: %s", len(names), names[0], error)
            return None

    def _creation(self, names: Sequence[str], brokers: int) -> CreateTopicsRequest:
        from odradek.broker.coordinator_topics import creatable_topic
        from odradek.protocol.api.create_topics import CreateTopicsRequest

        topics = [creatable_topic(name, self.config, brokers) for name in names]
        return CreateTopicsRequest(topics=topics, timeout_ms=CREATION_TIMEOUT_MS)

    def _ask_for_topics(self, forwarding: Forwarding, names: Sequence[str]) -> None:
        """Let the active controller create topics, unless it was asked to and has not answered."""
        new = [name for name in names if name not in self._creating]
        if not new or len(self._creating) + len(new) > CREATING_MAX:
            return
        self._creating.update(new)
        from odradek.protocol.api.create_topics import CreateTopicsResponse

        def ended(response: CreateTopicsResponse | None) -> None:
            self._creating.difference_update(new)
            if response is not None:
                log_refused(response)

        brokers = len(self.image.brokers)
        forwarding.call(self._creation(new, brokers), CreateTopicsResponse, ended)

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


class TransactionsAtFirstUse(PartitionListener):
    """Makes the transaction coordinator when this broker leads a partition of its topic."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def opened(self, partition: Partition) -> None:
        """Let the coordinator, which takes this one's place, open it."""
        self._broker.transactions.runtime.opened(partition)

    def updated(self, partition: Partition) -> None:
        """Nothing to do: the coordinator of no partition is here."""

    def ended(self, partition: Partition) -> None:
        """Nothing to do, likewise."""


CREATION_TIMEOUT_MS = 30_000
CREATING_MAX = 10_000
"""Topics that the controller is being asked for at one time."""


def log_refused(response: CreateTopicsResponse) -> None:
    """Log that topics were not created which a request named in passing."""
    known = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    refused = [each for each in response.topics if each.error_code not in known]
    if refused:
        log.warning(
            "%d topics were not created; the first, %s: %s",
            len(refused),
            refused[0].name,
            refused[0].error_message,
        )


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
