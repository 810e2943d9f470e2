"""The wiring of one broker, from an environment and settings. The only place that knows all parts.

    start   lock the data directory, open the quorum's log, wire the parts, bind the ports, join the
            quorum. A node that is alone then registers, opens and recovers its logs at once: when
            it returns, requests are answered as soon as the loop runs
    join    one of several goes on in the loop: registered, metadata caught up, logs opened,
            unfenced, ready (see `cluster_member`). Clients that connect wait for that
    stop    close the connections, wait for workers, flush the logs, write checkpoints and the
            clean-shutdown marker, call `stopped`: see `shutdown`

A node with a CLUSTER listener is one of several: it has a `member`. One without is alone: it has
none, and imports nothing of that.

It runs unchanged over the real environment (`server`) and over the simulated one
(`odradek.testing`).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.broker.apis import APIS
from odradek.broker.background import TrackedOffload
from odradek.broker.broker import Broker
from odradek.broker.coordinator_topics import CoordinatorTopic
from odradek.broker.dispatch import Dispatcher
from odradek.broker.housekeeping import Housekeeping
from odradek.broker.partitions import Partitions
from odradek.broker.request_metrics import RequestMetrics
from odradek.broker.shutdown import CleanShutdown, Progress
from odradek.config.addresses import CLUSTER
from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.controller.brokers import bootstrap, cordon_directories, register_broker
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import Endpoint, MetadataImage, ResourceType
from odradek.controller.metadata_log import MetadataLog, open_metadata_log
from odradek.coordinator.group.coordinator import GroupCoordinator
from odradek.coordinator.group.group_shard import GroupShard
from odradek.coordinator.group.transitions import GroupTransitions
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.log.directory_identity import META_FILE, WrongDirectory
from odradek.log.fence import LogDamaged, LogDirFailure
from odradek.log.log_directory import NO_BROKER_EPOCH, LogDirectory
from odradek.model.env import Env, SocketBuffers
from odradek.model.stopwatch import Stopwatch
from odradek.model.topics import CONSUMER_OFFSETS, new_uuid
from odradek.network.connection import ConnectionLimits
from odradek.network.loop_load import LoopLoad
from odradek.network.process_usage import ProcessUsage
from odradek.network.server import BugHook, SocketServer
from odradek.raft.core import RaftConfig
from odradek.raft.quorum_state import QuorumStateDamaged
from odradek.raft.raft_log import QuorumPlace, WrongQuorum
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.replication.partition import Durability
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import SystemTimer

if TYPE_CHECKING:
    from odradek.broker.cluster_member import ClusterMember, ClusterNetwork
    from odradek.network.http_server import HttpServer

log = logging.getLogger(__name__)

PLAINTEXT = 0
NO_WRITE_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)


class StartFailed(Exception):
    """The broker cannot start; the message has the cause and the next step."""


class IdTaken(StartFailed):
    """Another node of the cluster has the id of this one, which is new; nothing of it is left."""


class Node:
    """One broker. All methods run on the owner thread."""

    # Declared here, because handlers read the node: a type checker meets its users first.
    config: BrokerConfig
    background: TrackedOffload
    is_stopping: bool
    directory: LogDirectory
    metadata: MetadataLog
    replicas: ReplicaManager
    groups: GroupCoordinator
    broker: Broker
    partitions: Partitions
    sockets: SocketServer
    housekeeping: Housekeeping

    def __init__(
        self,
        config: BrokerConfig,
        env: Env,
        timer: SystemTimer,
        on_bug: BugHook | None = None,
        most_connections: int = 2**31 - 1,
        own_host: str = "localhost",
        id_was_free: bool = False,
        stopwatch: Stopwatch | None = None,
        loop_load: LoopLoad | None = None,
        usage: Callable[[], ProcessUsage] | None = None,
    ) -> None:
        """`most_connections`: the limit by the process's descriptors, which settings cannot raise.
        `own_host`: the advertised host of a listener on every interface. `id_was_free`: see
        `ClusterMember`. For metrics: the loop's `stopwatch` and `loop_load`, and what the process
        uses; a simulation has none of them.
        """
        self.config = config
        self.timer = timer
        self.background = TrackedOffload(env.offload)
        self.env = replace(env, offload=self.background)
        self.address = ("", 0)
        """The address of the listener of clients, after `start`; a controller alone has none."""
        self.endpoint = Endpoint("", "", 0, PLAINTEXT)
        """The address that clients are told, after `start`."""
        self.is_stopping = False
        """True from the call of `stop`."""
        self.is_ready = False
        """True when clients are served."""
        self.start_failure: StartFailed | None = None
        """Why this node cannot join its cluster, found after `start`."""
        self.on_start_ended: Callable[[], None] = lambda: None
        """Called when it is ready, or cannot join its cluster."""
        self.on_configured: Callable[[BrokerConfig], None] = lambda config: None
        """Called with the settings that are in force from now on."""
        self.member: ClusterMember | None = None
        """The parts of a node that is one of several; None if it is alone."""
        self._has_opened = False
        self.http: HttpServer | None = None
        """The HTTP server, if there is one: it has counters for the metrics."""
        self.loop_load = loop_load
        self.usage = usage
        self._stopwatch = stopwatch or Stopwatch(env.clock.monotonic_ns)
        self._own_host = own_host
        self._id_was_free = id_was_free
        self._on_bug = on_bug
        self._most_connections = most_connections

    @property
    def cluster_address(self) -> tuple[str, int]:
        """The address of the CLUSTER listener, after `start`; without one its port is 0."""
        return ("", 0) if self.member is None else self.member.address

    @property
    def servers(self) -> list[tuple[str, SocketServer]]:
        """The listeners by name, each with its connections: that of clients, then CLUSTER."""
        clients = [(self.config.main_listener().name, self.sockets)]
        others = [] if self.member is None else [(CLUSTER, self.member.sockets)]
        return clients * self.config.has_broker_role + others

    def start(self, progress: Progress | None = None) -> None:
        """Block until the broker can serve, or until it has begun to join its cluster, which goes
        on in the loop: see `is_ready`. Raises `StartFailed`, and `OSError` for the port.

        While it blocks `progress` is called every second with the number of logs that are open, and
        of all logs.
        """
        self.directory = self._open_directory()
        try:
            self._open(progress)
        except BaseException:
            self.directory.abandon()
            raise

    def _open_directory(self) -> LogDirectory:
        path = self.config.log_dirs[0]
        try:
            return LogDirectory(
                self.env.disk,
                path,
                self.env.random,
                cluster_id=self._cluster_id(),
                node_id=self.config.node_id,
            )
        except BlockingIOError as error:  # The error names the lock file, which does not help.
            raise StartFailed(f"data directory {path}: {error.strerror}") from error
        except (WrongDirectory, OSError) as error:
            text = f"data directory {path}: {error}"
            if isinstance(error, OSError) and error.errno in NO_WRITE_ACCESS:
                text += (
                    ". What to do: choose a directory that this user may write, or give it to it"
                )
            raise StartFailed(text) from error

    def _cluster_id(self) -> str | None:
        """Return the id of the cluster by the settings. Raises `StartFailed`."""
        given, path = self.config.cluster_id or None, self.config.log_dirs[0]
        has_others = (
            self.config.controller_quorum_voters or self.config.controller_quorum_bootstrap_servers
        )
        if given is None and has_others and not self.env.disk.exists(f"{path}/{META_FILE}"):
            raise StartFailed(
                f"data directory {path} is new, and the settings name other nodes: give "
                "cluster.id, which is the same for all nodes of a cluster"
            )
        return given

    def _open(self, progress: Progress | None) -> None:
        network = self._cluster_network()
        self._make_parts(network)
        self._listen()
        try:
            if network is not None:
                self.member = self._cluster_member(network)
            self._join_quorum()
            if self.member is None:
                self._register()
                self._follow_committed()
                self.partitions.open_all(progress)
                self._logs_opened()
                self._became_ready()
            else:
                self.member.start()
        except BaseException:
            self.sockets.close("the start failed")
            if self.member is not None:
                self.member.vanish("the start failed")
            raise

    def _cluster_network(self) -> ClusterNetwork | None:
        """Make the connections to other nodes; None for a node that is alone."""
        listener = self.config.cluster_listener()
        if listener is None:
            return None
        # Imported here, so that a node that is alone starts without these parts.
        from odradek.broker.cluster_member import ClusterNetwork

        cluster_id = self.directory.meta.cluster_id
        return ClusterNetwork(self.env, self.timer, self.config, listener, cluster_id, self._on_bug)

    def _make_parts(self, network: ClusterNetwork | None) -> None:
        """Open the quorum's log, and wire what every node has; nothing serves anybody yet."""
        config, env, directory = self.config, self.env, self.directory
        for problem in directory.take_problems():
            log.warning("%s", problem)
        self.replicas = ReplicaManager(
            env,
            self.timer,
            config.node_id,
            Durability(fsync=config.log_durability == "fsync"),
            (
                config.producer_purgatory_purge_interval_requests,
                config.fetch_purgatory_purge_interval_requests,
                config.delete_records_purgatory_purge_interval_requests,
            ),
        )
        self.replicas.verify_transactions(config.transaction_partition_verification_enable)
        self.metadata = self._open_metadata(network)
        self.groups = self._group_coordinator()
        self.broker = Broker(
            config,
            env,
            self.timer,
            directory,
            self.metadata,
            self.replicas,
            self.groups,
            RequestMetrics(self._stopwatch, ((api.key, api.name) for api in APIS.values())),
        )
        self.broker.node = self
        self.partitions = Partitions(self.broker)
        self.sockets = SocketServer(
            env.network,
            env.call_soon,
            self.timer,
            Dispatcher(self.broker),
            connection_limits(config, self._most_connections),
            self._on_bug,
        )

    def _open_metadata(self, network: ClusterNetwork | None) -> MetadataLog:
        meta = self.directory.meta
        try:
            metadata, problems = open_metadata_log(
                self.env,
                self.timer,
                self.directory.path,
                meta.cluster_id,
                quorum_place(self.config, meta.directory_id),
                self.config,
                fence=self.directory.fence,
                cache=self.directory.cache,
                sender=None if network is None else network.quorum,
                failed=self._disk_failed,
            )
        except (LogDamaged, QuorumStateDamaged, WrongQuorum, OSError) as error:
            raise metadata_failure(error) from error
        for problem in problems:
            log.warning("%s", problem)
        return metadata

    def _group_coordinator(self) -> GroupCoordinator:
        """Make the coordinator, before the partitions are opened: it follows those of its topic."""
        config, env = self.config, self.env
        partitions = config.offsets_topic_num_partitions
        topic = CoordinatorTopic(self.metadata, CONSUMER_OFFSETS, partitions)
        transitions = GroupTransitions()
        runtime = CoordinatorRuntime(
            CONSUMER_OFFSETS,
            topic.partition_count,
            lambda partition: GroupShard(config, env.random, topic.id_of, transitions),
            self.replicas,
            env.clock,
            self.timer,
            env.call_soon,
            config.offsets_commit_timeout_ms,
        )
        return GroupCoordinator(config, runtime, transitions)

    def _listen(self) -> None:
        """Bind the listener of clients, which a controller alone does not have. What they are told
        is its address, unless it is set.
        """
        config = self.config
        if not config.has_broker_role:
            return
        listener = config.parsed_listeners()[0]
        buffers = SocketBuffers(config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes)
        self.address = self.sockets.listen(listener.host, listener.port, buffers).address
        advertised = config.effective_advertised_listeners()[0]
        port = advertised.port or self.address[1]
        host = self._own_host if advertised.is_wildcard else advertised.host
        self.endpoint = Endpoint(advertised.name, host, port, PLAINTEXT)

    def _cluster_member(self, network: ClusterNetwork) -> ClusterMember:
        """Listen to other nodes, and let clients wait until this one has joined its cluster."""
        from odradek.broker.cluster_member import ClusterMember

        self.sockets.hold_back()
        return ClusterMember(
            self.broker,
            network,
            self.sockets,
            self.endpoint,
            id_was_free=self._id_was_free,
            open_logs=self._open_in_loop,
            ready=self._became_ready,
            refused=self._cannot_join,
        )

    def _join_quorum(self) -> None:
        self.metadata.controller.on_change.append(self.broker.commit_advanced)
        try:
            self.metadata.start()
        except (LogDamaged, OSError) as error:
            raise metadata_failure(error) from error

    def _register(self) -> None:
        """Register this broker, which is alone, in the metadata with its advertised address."""
        controller = self.metadata.controller
        controller.submit(bootstrap(controller.pending, self.config))
        registration = register_broker(
            controller.pending,
            self.config.node_id,
            epoch=self.metadata.end_offset,
            incarnation_id=new_uuid(self.env.random),
            endpoints=[self.endpoint],
            rack=self.config.broker_rack,
            log_dirs=[self.directory.meta.directory_id],
            clean=self.directory.was_clean,
        )
        controller.submit(registration.records)
        try:
            controller.commit_now()
        except OSError as error:
            raise StartFailed(f"cluster metadata: {error}") from error

    def _follow_committed(self) -> None:
        """Apply the metadata from now on, and begin what is done from time to time."""
        config, env, directory = self.config, self.env, self.directory
        self._apply_broker_settings(self.metadata.committed)
        self.metadata.subscribers.append(self._committed)
        self._remove_leftovers()
        self.housekeeping = Housekeeping(
            env,
            self.timer,
            config,
            directory,
            self.replicas,
            self.metadata,
            lambda: self.config,
            self.broker.hanging_transactions.look,
        )
        self._has_opened = True

    def _remove_leftovers(self) -> None:
        self.background.submit(
            self.directory.remove_leftovers(),
            lambda _: None,
            lambda error: log.error("removing files of deleted partitions failed: %s", error),
        )

    def _open_in_loop(self, opened: Callable[[], None]) -> None:
        """Open the logs in slices, then call `opened`: the metadata is caught up."""

        def all_opened() -> None:
            self._logs_opened()
            self.partitions.when_no_damaged_one_may_lead(opened)

        self._follow_committed()
        self.partitions.open_in_loop(all_opened)

    def _logs_opened(self) -> None:
        self.housekeeping.logs_opened()
        if any(partition.failure for partition in self.replicas):
            self.housekeeping.save_durable_ends()

    def _became_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self.sockets.admit()
            self.on_start_ended()

    def _cannot_join(self, message: str, id_is_taken: bool) -> None:
        self.start_failure = IdTaken(message) if id_is_taken else StartFailed(message)
        self.on_start_ended()

    # -- while it runs -----------------------------------------------------------------------------

    def _committed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Metadata was committed: apply it, then check the responses that wait for it."""
        for deleted in delta.deleted.values():
            self.partitions.topic_deleted(deleted)
            self.groups.topic_deleted(deleted.name)
        if any(resource.type is ResourceType.BROKER for resource in delta.configs):
            self._apply_broker_settings(image)
            self.partitions.configs_changed()
        created = (image.topic_by_id(topic_id) for topic_id in delta.created)
        self.partitions.topics_created(topic for topic in created if topic is not None)
        self.partitions.partitions_changed(delta.partitions)
        changed = [r.name for r in delta.configs if r.type is ResourceType.TOPIC]
        if changed:
            self.partitions.configs_changed(changed)
        if delta.configs:
            self.housekeeping.configs_changed()
        self.broker.commit_advanced()

    def _apply_broker_settings(self, image: MetadataImage) -> None:
        cluster, own = image.broker_config(None), image.broker_config(self.config.node_id)
        try:
            config = self.config.with_dynamic(cluster, own)
        except ConfigError as error:
            log.error("dynamic broker settings are not applied: %s", error)
            return
        self.config = config
        self.broker.configure(config)
        self.replicas.verify_transactions(config.transaction_partition_verification_enable)
        if self.member is not None:
            self.member.configure(config)
        else:
            self._cordon(config.directory_is_cordoned)
        self.sockets.limits = connection_limits(config, self._most_connections)
        self.on_configured(config)

    def _cordon(self, cordoned: bool) -> None:
        """Register that the directory of this broker, which is alone, takes no new partitions, or
        takes them again.
        """
        controller = self.metadata.controller
        directories = (self.directory.meta.directory_id,) if cordoned else ()
        try:
            controller.submit(
                cordon_directories(controller.pending, self.config.node_id, directories)
            )
        except OSError as error:
            log.error("cordoned.log.dirs is not in force: %s", error)

    def _disk_failed(self, error: OSError) -> None:
        self.replicas.fail_directory(
            error if isinstance(error, LogDirFailure) else self.directory.fence.fail(error)
        )

    # -- the end -----------------------------------------------------------------------------------

    def stop(self, stopped: Callable[[], None], progress: Progress | None = None) -> None:
        """Shut down cleanly: everything appended is on disk when `stopped` is called.

        A node of several first lets others lead its partitions, and is served meanwhile. `progress`
        is called every second with the number of logs flushed, and of all logs.
        """
        self.is_stopping = True
        if self.member is None:
            self._stop(stopped, progress)
        else:
            self.member.shut_down(lambda: self._stop(stopped, progress))

    def vanish(self) -> None:
        """End as a killed process does, after the loop and its workers have ended: connections
        close, nothing is flushed, and the directory is left as it is.
        """
        self.is_stopping = True
        self.sockets.close("killed")
        if self.member is not None:
            self.member.vanish("killed")
        self.directory.release()

    def give_up(self, stopped: Callable[[], None]) -> None:
        """Stop after a start that failed in the loop; its directory is released then."""
        self.is_stopping = True
        self._stop(stopped, None)

    def _stop(self, stopped: Callable[[], None], progress: Progress | None) -> None:
        self.sockets.close()
        if self.member is not None:
            self.member.stop()
        self.groups.runtime.close()
        transactions = self.broker.transactions_in_use
        if transactions is not None:
            transactions.runtime.close()
        if self._has_opened:
            self.housekeeping.stop()
        self.partitions.stop()
        self.replicas.flusher.stop()

        def ended() -> None:
            if self.member is not None:
                self.member.disconnect()
            stopped()

        CleanShutdown(
            self.timer,
            self.background,
            self.directory,
            self.metadata,
            NO_BROKER_EPOCH if self.member is None else self.member.epoch,
            ended,
            progress,
        ).begin()


def connection_limits(config: BrokerConfig, most_connections: int) -> ConnectionLimits:
    """The limits of connections from the settings."""
    return ConnectionLimits(
        max_request_bytes=config.socket_request_max_bytes,
        max_first_request_bytes=config.first_request_max_bytes,
        first_request_timeout_ms=config.first_request_timeout_ms,
        stalled_timeout_ms=config.stalled_connection_timeout_ms,
        max_in_progress=config.max_requests_per_connection,
        max_idle_ms=config.connections_max_idle_ms,
        max_connections=min(config.max_connections, most_connections),
        max_connections_per_ip=config.max_connections_per_ip,
    )


def metadata_failure(error: Exception) -> StartFailed:
    """Return why the metadata cannot be used; of damage also what to do: other nodes have it."""
    if not isinstance(error, LogDamaged):
        return StartFailed(f"cluster metadata: {error}")
    return StartFailed(
        f"cluster metadata: {error.path}: {error.what}. What to do: if the node is one of several, "
        "move all of the data directory away, and let the node join again with --join and its "
        "node.id; if it is alone, restore the directory from a backup"
    )


def quorum_place(config: BrokerConfig, directory_id: UUID) -> QuorumPlace:
    """The place of a node in the quorum, from its settings."""
    advertised = config.advertised_cluster_listener()
    endpoints: tuple[QuorumEndpoint, ...] = ()
    if advertised is not None:
        endpoints = (QuorumEndpoint(CLUSTER, advertised.host, advertised.port),)
    return QuorumPlace(
        ReplicaKey(config.node_id, directory_id),
        RaftConfig(
            config.controller_quorum_election_timeout_ms,
            config.controller_quorum_election_backoff_max_ms,
            config.controller_quorum_fetch_timeout_ms,
            retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        ),
        endpoints,
        VoterSet(
            Voter(ReplicaKey(node_id), (QuorumEndpoint(CLUSTER, host, port),))
            for node_id, host, port in config.quorum_voters()
        ),
        tuple(QuorumEndpoint(CLUSTER, host, port) for host, port in config.quorum_bootstrap()),
        may_vote=config.has_controller_role,
        moved={
            node_id: QuorumEndpoint(CLUSTER, host, port)
            for node_id, host, port in config.moved_voters()
        },
    )
