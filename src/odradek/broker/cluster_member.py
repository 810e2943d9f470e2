"""ClusterMember: what a node has because it is one of several.

    ClusterNetwork   connections to the other nodes, those of the quorum among them. Made first: the
                     metadata log is opened over them
    ClusterMember    the CLUSTER listener, the requests to the active controller and the service of
                     one, the replicas at work with those of other nodes, the entry in the quorum

    made ─► start ─► caught up: `open_logs` ─► `ready` ─► shut_down ─► stop ─► disconnect
              │                                  └─► the data directory failed: leaves its cluster
              └─► `refused`: it cannot join

A node that is alone has none, and does not import this module. The member follows the leader of
the quorum and the committed metadata, and tells its parts; each part does its work alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from odradek.broker.broker import Broker
from odradek.broker.controller_lifecycle import ControllerLifecycle
from odradek.broker.controller_service import ControllerService
from odradek.broker.dispatch import Dispatcher
from odradek.broker.lifecycle import BrokerLifecycle, LifecycleConfig
from odradek.broker.lifecycle_manager import BrokerLifecycleManager
from odradek.broker.quorum_membership import QuorumMembership
from odradek.broker.replication_service import ReplicationService
from odradek.config.addresses import CLUSTER, Listener
from odradek.config.broker import BrokerConfig
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import Endpoint, MetadataImage
from odradek.controller.quorum_controller import ActiveController
from odradek.log.fence import LogDirFailure
from odradek.model.env import Env
from odradek.model.node import Node
from odradek.model.topics import new_uuid
from odradek.network.server import BugHook, SocketServer
from odradek.network_client.backoff import ExponentialBackoff
from odradek.network_client.broker_connections import BrokerConnections, Purpose
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    RegistrationFeature,
    RegistrationListener,
)
from odradek.raft.raft_network import RaftNetwork
from odradek.raft.replicas import QuorumEndpoint
from odradek.raft.roles import Follower
from odradek.timing import SystemTimer

log = logging.getLogger(__name__)

REGISTRATION_BACKOFF_MS: Final = 50
LATE_MS: Final = 1_000
"""An id counts as taken so long after the end that a session before would have had."""
LEAVE_MS: Final = 500
"""From the failure of the data directory until this node closes its connections: the controller
moves its leaderships, and clients are told."""


class ClusterNetwork:
    """The connections of a node to the others."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        config: BrokerConfig,
        listener: Listener,
        cluster_id: str,
        on_bug: BugHook | None,
    ) -> None:
        """`listener`: where they reach this one."""
        self.listener = listener
        self.connections = BrokerConnections(env, timer, config, cluster_id, on_bug)
        self.quorum = RaftNetwork(self.connections.client(Purpose.QUORUM), cluster_id)
        """Sends the requests of the quorum."""


class ClusterMember:
    """The cluster's side of a node: see the module. Owner thread."""

    def __init__(
        self,
        broker: Broker,
        network: ClusterNetwork,
        clients: SocketServer,
        endpoint: Endpoint,
        *,
        id_was_free: bool,
        open_logs: Callable[[Callable[[], None]], None],
        ready: Callable[[], None],
        refused: Callable[[str, bool], None],
    ) -> None:
        """Listens for other nodes; raises `OSError`. `clients`: serves at `endpoint`.
        `id_was_free`: no process before had this node's id; one that has it now is another node.

        `open_logs`: called once, when the metadata is caught up; calls its argument when they are
        open. `ready`: called when clients may come, again after the broker was fenced. `refused`:
        called with the reason if this node cannot join, and if that is since its id is taken.
        """
        config, listener = broker.config, network.listener
        self._broker = broker
        self._clients = clients
        self.connections = network.connections
        self._open_logs = open_logs
        self._ready = ready
        self._refused = refused
        self._start_ended = False
        self._stopped = False
        self._last_controller_id: int | None = None
        self._service = broker.controller_service = ControllerService(broker)
        self.sockets = self._server(clients)
        """Serves the CLUSTER listener."""
        self.address = self.sockets.listen(listener.host, listener.port).address
        """The address of the CLUSTER listener."""
        advertised = config.advertised_cluster_listener() or listener
        port = advertised.port or self.address[1]
        self.registration: BrokerRegistrationRequest | None = None
        """The request by which this node registers with the controller; None for one that is a
        controller alone."""
        self._lifecycle = (
            self._broker_lifecycle(
                endpoint,
                Endpoint(CLUSTER, advertised.host, port, endpoint.security_protocol),
                id_was_free,
            )
            if config.has_broker_role
            else ControllerLifecycle(broker, caught_up=self._caught_up, ready=self._may_serve)
        )
        controllers, forwarding = broker.join_cluster(self.connections, self._active_controller)
        self._replication = ReplicationService(
            broker, self.connections, controllers, self._lifecycle.session_ended
        )
        self._quorum_membership = QuorumMembership(
            broker,
            forwarding.channel,
            (QuorumEndpoint(CLUSTER, advertised.host, port),),
            joins=config.controller_quorum_auto_join_enable and config.has_controller_role,
        )
        self._follow(network)

    def _server(self, clients: SocketServer) -> SocketServer:
        """Return what serves other nodes, with the limits of clients."""
        broker = self._broker
        dispatcher = Dispatcher(broker, between_nodes=True)
        dispatcher.connection_closed = self._connection_closed
        return SocketServer(
            broker.env.network,
            broker.env.call_soon,
            broker.timer,
            dispatcher,
            clients.limits,
            clients.on_bug,
        )

    def _broker_lifecycle(
        self, endpoint: Endpoint, cluster_endpoint: Endpoint, id_was_free: bool
    ) -> BrokerLifecycleManager:
        broker, config = self._broker, self._broker.config
        taken_after_ms = None
        if broker.directory.is_new:
            taken_after_ms = 0 if id_was_free else config.broker_session_timeout_ms + LATE_MS
        self.registration = self._registration(endpoint, cluster_endpoint)
        return BrokerLifecycleManager(
            broker,
            self.connections.client(Purpose.CONTROLLER),
            BrokerLifecycle(
                self.registration,
                LifecycleConfig(
                    config.broker_heartbeat_interval_ms,
                    config.broker_session_timeout_ms,
                    config.initial_broker_registration_timeout_ms,
                    taken_after_ms=taken_after_ms,
                ),
                ExponentialBackoff(
                    REGISTRATION_BACKOFF_MS, REGISTRATION_BACKOFF_MS, broker.env.random
                ),
            ),
            registered=self._registered,
            caught_up=self._caught_up,
            ready=self._may_serve,
            refused=self._cannot_join,
        )

    def _registration(self, *endpoints: Endpoint) -> BrokerRegistrationRequest:
        broker = self._broker
        meta = broker.directory.meta
        return BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=meta.cluster_id,
            incarnation_id=new_uuid(broker.random),
            listeners=[
                RegistrationListener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in endpoints
            ],
            features=[
                RegistrationFeature(
                    name=name, min_supported_version=least, max_supported_version=most
                )
                for name, (least, most) in broker.supported_features.items()
            ],
            rack=broker.config.broker_rack,
            log_dirs=[meta.directory_id],
            previous_broker_epoch=broker.directory.previous_broker_epoch,
        )

    def _follow(self, network: ClusterNetwork) -> None:
        """Be told what happens in the cluster and to the data directory."""
        metadata = self._broker.metadata
        network.quorum.disconnected = self._disconnected
        network.quorum.other_cluster = self._found_other_cluster
        metadata.subscribers.append(self._metadata_committed)
        metadata.on_leader_change.append(self._leader_changed)
        metadata.controller.on_change.append(self._broker.controller_changed)
        self._broker.replicas.on_directory_failed = self._directory_failed

    @property
    def epoch(self) -> int:
        """The epoch of this node's registration; -1 before it."""
        return self._lifecycle.epoch

    def start(self) -> None:
        """Begin to join the cluster, which goes on in the loop."""
        self._lifecycle.start()

    def configure(self, config: BrokerConfig) -> None:
        """Take new dynamic settings."""
        self._replication.configure(config)
        self._lifecycle.directory_cordoned(config.directory_is_cordoned)

    # -- joining -----------------------------------------------------------------------------------

    def _registered(self, epoch: int) -> None:
        """Note the epoch for the next registration, if this life only counts what is durable."""
        broker = self._broker
        is_durable = broker.replicas.durability.fsync
        directory = broker.directory
        work = directory.keep_epoch(epoch) if is_durable else directory.forget_epoch()

        def failed(error: BaseException) -> None:
            log.warning(
                "after an unclean stop this broker will count as one that lost records: its epoch "
                "could not be written: %s",
                error,
            )
            if isinstance(error, LogDirFailure):
                broker.replicas.fail_directory(error)

        broker.env.offload.submit(work, lambda _: None, failed)

    def _caught_up(self) -> None:
        self._open_logs(self._lifecycle.logs_opened)

    def _may_serve(self) -> None:
        self._start_ended = True
        self._ready()

    def _cannot_join(self, message: str, id_is_taken: bool) -> None:
        self._start_ended = True
        log.critical("this node cannot join its cluster: %s", message)
        self._refused(message, id_is_taken)

    def _found_other_cluster(self, address: str) -> None:
        """A node that the settings name is of another cluster: a start ends with that."""
        known = self._broker.metadata.raft.core.leader_id is not None
        if not (known or self._start_ended):
            cluster_id = self._broker.directory.meta.cluster_id
            self._cannot_join(
                f"the node at {address} belongs to another cluster than this data directory, which "
                f"is of cluster {cluster_id}. What to do: give the addresses of its own cluster "
                "(controller.quorum.bootstrap.servers, controller.quorum.voters), or start it "
                "with an empty data directory",
                id_is_taken=False,
            )

    # -- the cluster -------------------------------------------------------------------------------

    def _active_controller(self) -> ActiveController | None:
        """The active controller, as far as this node knows."""
        metadata = self._broker.metadata
        core, leader_id = metadata.raft.core, metadata.raft.core.leader_id
        if leader_id is None or (leader_id == core.me.id and not metadata.controller.is_active):
            return None
        return ActiveController(leader_id, core.epoch)

    def _leader_changed(self) -> None:
        """Send what waits for the controller to the leader that is known now."""
        core = self._broker.metadata.raft.core
        known = {voter.key.id: voter.endpoints for voter in core.log.voters}
        if isinstance(core.role, Follower) and core.role.endpoints:
            known[core.role.leader_id] = core.role.endpoints
        self.connections.update_controllers(
            {
                node_id: Node(node_id, endpoints[0].host, endpoints[0].port)
                for node_id, endpoints in known.items()
                if endpoints
            }
        )
        if core.leader_id is not None and core.leader_id != self._last_controller_id:
            if self._last_controller_id is not None:
                self.connections.leave_controller(self._last_controller_id)
            self._last_controller_id = core.leader_id
        self._broker.controller_changed()
        self._lifecycle.controller_changed()
        self._quorum_membership.look()

    def _metadata_committed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """There may be answers to send, or news for the controller."""
        self._replication.brokers_changed(delta, image)
        self._service.metadata_committed(delta, image)
        self._lifecycle.metadata_committed()
        self._quorum_membership.look()

    def _disconnected(self, node_id: int) -> None:
        """The quorum's connection to a node was lost."""
        self._broker.metadata.raft.disconnected(node_id)
        self._service.unreachable(node_id)

    def _connection_closed(self, connection: object) -> None:
        """A connection of another node was closed."""
        self._service.connection_closed(connection)
        self._replication.follower_fetches.connection_closed(connection)

    # -- the end -----------------------------------------------------------------------------------

    def _directory_failed(self) -> None:
        """Give up all leaderships, that of the quorum too, and leave the cluster a moment later:
        this node can neither serve its partitions nor follow the metadata.
        """
        broker = self._broker
        failure = broker.directory.fence.failure
        if failure is not None:
            broker.metadata.raft.fail(failure)
        broker.env.offload.submit(
            broker.directory.forget_epoch(),
            lambda _: None,
            lambda error: log.error("removing the broker's epoch failed: %s", error),
        )
        self._lifecycle.directory_failed()
        broker.timer.call_later(LEAVE_MS, self._leave)

    def _leave(self) -> None:
        """Close all connections: so other nodes and clients know at once that this node is gone."""
        if not self._stopped:
            log.critical("this node leaves its cluster until it is restarted: its disk failed")
            self._lifecycle.stop()
            self._clients.close("the data directory failed")
            self.sockets.close("the data directory failed")
            self.connections.close()

    def shut_down(self, may_stop: Callable[[], None]) -> None:
        """Let others lead the partitions of this node; then call `may_stop`."""
        self._stopped = True
        self._lifecycle.shut_down(may_stop)

    def stop(self) -> None:
        """Serve no other node, and ask for nothing more; `disconnect` when the logs are closed."""
        self._stopped = True
        self._lifecycle.stop()
        self._quorum_membership.close()
        self._broker.leave_cluster()
        self._replication.stop()
        self._broker.metadata.raft.resign()
        self.sockets.close()

    def disconnect(self) -> None:
        """Close the connections to other nodes."""
        self.connections.close()

    def vanish(self, reason: str) -> None:
        """Close all connections at once, as the end of the process does."""
        self._stopped = True
        self._lifecycle.stop()
        self.sockets.close(reason)
        self.connections.close()
