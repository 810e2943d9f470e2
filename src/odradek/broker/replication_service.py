"""ReplicationService: the replicas of this broker at work with those of other brokers.

It makes the parts that `replication/` consists of and connects them with the cluster:

    committed metadata ─► who may join an ISR, who is alive, where the other brokers are
    ISR proposals      ─► AlterPartition to the active controller, which may be this node itself
    followed partition ─► a fetcher of its leader, over FETCHER or CATCH_UP connections
    fetch of a follower ─► `FollowerFetches`, under the leader's throttle

A node without a CLUSTER listener has none: each of its partitions has one replica.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.config.addresses import CLUSTER
from odradek.model.node import Node as NodeAddress
from odradek.network_client.broker_connections import BrokerChannel, Purpose
from odradek.replication.alter_partition_manager import AlterPartitionManager
from odradek.replication.follower_fetch import FollowerFetches
from odradek.replication.quota import FollowerQuota, LeaderQuota
from odradek.replication.replica_fetcher import FetcherSettings
from odradek.replication.replica_fetcher_manager import FetcherKind, ReplicaFetcherManager
from odradek.replication.replica_manager import Replication
from odradek.timing.timer_task import TimerTask

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.controller_channel import ControllerCall, ControllerChannel
    from odradek.config.broker import BrokerConfig
    from odradek.controller.delta import MetadataDelta
    from odradek.controller.image import MetadataImage
    from odradek.network_client.broker_connections import BrokerConnections
    from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from odradek.protocol.hot_fetch import FetchRequest, FetchResponse
    from odradek.timing.timer import SystemTimer

PURPOSES = {FetcherKind.IN_SYNC: Purpose.FETCHER, FetcherKind.CATCH_UP: Purpose.CATCH_UP}


class ReplicationService:
    """Owner thread."""

    def __init__(
        self,
        broker: Broker,
        connections: BrokerConnections,
        controllers: ControllerChannel,
        session_ended: Callable[[], bool],
    ) -> None:
        """From now on the broker's replica manager follows leaders elsewhere. `session_ended()`:
        the controller was not heard for `broker.session.timeout.ms`.
        """
        config, replicas = broker.config, broker.replicas
        self._broker = broker
        self._connections = connections
        self._controllers = controllers
        self._isr_timer: TimerTask | None = None
        self._broker_epochs: dict[int, int] = {}
        """The epochs at the last change: one delta may have a broker's end and its return."""
        self._stopped = False
        now_ms = broker.clock.monotonic_ms
        self.leader_quota = LeaderQuota(config.node_id, now_ms)
        self.follower_quota = FollowerQuota(config.node_id, now_ms)
        self.alter_partition = AlterPartitionManager(
            config.node_id, broker.broker_epoch, self._propose, self._call_later
        )
        self.fetchers = ReplicaFetcherManager(
            replicas,
            broker.broker_epoch,
            self._connect,
            fetcher_settings(config),
            self.follower_quota,
        )
        replicas.replication = Replication(
            self.alter_partition,
            self.fetchers,
            self._may_join,
            self._is_alive,
            config.replica_lag_time_max_ms,
            (self.leader_quota, self.follower_quota),
            session_ended,
            config.broker_session_timeout_ms // 2,
        )
        self.follower_fetches = FollowerFetches(replicas, self.leader_quota)
        broker.follower_fetches = self.follower_fetches
        self.configure(config)
        self._check_isrs_later()

    def configure(self, config: BrokerConfig) -> None:
        """Take new dynamic settings."""
        self.leader_quota.rate = config.leader_replication_throttled_rate
        self.follower_quota.rate = config.follower_replication_throttled_rate

    def stop(self) -> None:
        """Fetch nothing and propose nothing more."""
        self._stopped = True
        self.fetchers.stop()
        if self._isr_timer is not None:
            self._isr_timer.cancel()

    # -- the cluster -------------------------------------------------------------------------------

    def brokers_changed(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Brokers were registered, fenced or unfenced: they may have moved, or may join again.

        Without a `delta` everything may have changed.
        """
        if delta is not None and not delta.brokers:
            return
        nodes = {}
        for broker in image.brokers.values():
            at = broker.endpoint(CLUSTER)
            if at is not None:
                nodes[broker.id] = NodeAddress(broker.id, at.host, at.port)
        self._connections.update_brokers(nodes)
        for broker_id in delta.brokers if delta is not None else ():
            if not self._is_alive(broker_id):
                self._connections.leave_broker(broker_id, "the broker is fenced")
        epochs = {broker.id: broker.epoch for broker in image.brokers.values()}
        for broker_id, epoch in epochs.items():
            if self._broker_epochs.get(broker_id, epoch) != epoch:
                self._connections.leave_broker(broker_id, "the broker has registered again")
        self._broker_epochs = epochs
        self._broker.replicas.check_isrs()

    def _may_join(self, broker_id: int, broker_epoch: int) -> bool:
        registered = self._broker.image.brokers.get(broker_id)
        return registered is not None and registered.active and registered.epoch == broker_epoch

    def _is_alive(self, broker_id: int) -> bool:
        registered = self._broker.image.brokers.get(broker_id)
        return registered is not None and not registered.fenced

    # -- in-sync replicas --------------------------------------------------------------------------

    def _check_isrs_later(self) -> None:
        def check() -> None:
            if not self._stopped:
                self._broker.replicas.check_isrs()
                self._check_isrs_later()

        interval_ms = max(1, self._broker.config.replica_lag_time_max_ms // 2)
        self._isr_timer = self._broker.timer.call_later(interval_ms, check)

    def _call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        if delay_ms <= 0:
            self._broker.env.call_soon(function)
        else:
            self._broker.timer.call_later(delay_ms, function)

    def _propose(
        self,
        request: AlterPartitionRequest,
        answered: Callable[[AlterPartitionResponse | None], None],
    ) -> None:
        """Send proposals to the active controller, or decide them here if this node is it."""
        broker = self._broker

        def ended(call: ControllerCall) -> None:
            if call.is_here:
                broker.controller_service.alter_partition(request, answered)
            else:
                answered(call.response)

        if self._stopped:
            return
        self._controllers.send(request, ended, broker.config.controller_socket_timeout_ms)

    # -- following ---------------------------------------------------------------------------------

    def _connect(self, leader_id: int, kind: FetcherKind) -> LeaderConnection:
        channel = BrokerChannel(self._connections.client(PURPOSES[kind]))
        return LeaderConnection(channel, self._broker.timer, leader_id)


class LeaderConnection:
    """Sends the fetches of one fetcher to one node (`replica_fetcher.FetcherEnvironment`).

    A failed fetch, because of a lost connection, a node that is not known or the request timeout,
    has no response for the fetcher, which then makes a new session.
    """

    def __init__(self, channel: BrokerChannel, timer: SystemTimer, node_id: int) -> None:
        self._channel = channel
        self._timer = timer
        self._node_id = node_id

    def send(self, request: FetchRequest, answered: Callable[[FetchResponse | None], None]) -> None:
        """Send a request; `answered` gets the response, or None."""
        self._channel.send(self._node_id, request, answered)

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after some time."""
        self._timer.call_later(delay_ms, function)


def fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    """The settings of all fetchers of a broker."""
    return FetcherSettings(
        wait_max_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_max_bytes,
        response_max_bytes=config.replica_fetch_response_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
    )
