"""The wiring of one broker, from an environment and settings. The only place that knows all parts.

    start   lock the data directory, replay the metadata, bind the port, register the broker, open
            and recover the logs: when it returns, requests are answered as soon as the loop runs
    stop    close the connections, wait for workers, flush the logs, write checkpoints and the
            clean-shutdown marker, call `stopped`: see `shutdown`

It runs unchanged over the real environment (`server`) and over the simulated one
(`odradek.testing`).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.broker.apis import APIS
from odradek.broker.background import TrackedOffload
from odradek.broker.broker import Broker
from odradek.broker.dispatch import Dispatcher
from odradek.broker.housekeeping import Housekeeping
from odradek.broker.offsets_topic import OffsetsTopic
from odradek.broker.partitions import Partitions
from odradek.broker.request_metrics import RequestMetrics
from odradek.broker.shutdown import CleanShutdown, Progress
from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.controller.brokers import bootstrap, register_broker
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import Endpoint, MetadataImage, ResourceType
from odradek.controller.metadata_log import MetadataLog, open_metadata_log
from odradek.coordinator.group.coordinator import GroupCoordinator
from odradek.coordinator.group.group_shard import GroupShard
from odradek.coordinator.group.transitions import GroupTransitions
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.log.fence import LogDamaged, LogDirFailure
from odradek.log.log_directory import LogDirectory, WrongDirectory
from odradek.model.env import Env, SocketBuffers
from odradek.model.stopwatch import Stopwatch
from odradek.model.topics import CONSUMER_OFFSETS, new_uuid
from odradek.network.connection import ConnectionLimits
from odradek.network.loop_load import LoopLoad
from odradek.network.process_usage import ProcessUsage
from odradek.network.server import BugHook, SocketServer
from odradek.raft.quorum_state import QuorumStateDamaged
from odradek.raft.raft_log import QuorumPlace, WrongQuorum
from odradek.raft.replicas import ReplicaKey
from odradek.replication.partition import Durability
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import SystemTimer

if TYPE_CHECKING:
    from odradek.network.http_server import HttpServer

log = logging.getLogger(__name__)

PLAINTEXT = 0


NO_WRITE_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)


class StartFailed(Exception):
    """The broker cannot start; the message has the cause and the next step."""


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
        stopwatch: Stopwatch | None = None,
        loop_load: LoopLoad | None = None,
        usage: Callable[[], ProcessUsage] | None = None,
    ) -> None:
        """`most_connections`: the limit by the process's descriptors, which settings cannot raise.
        `own_host`: the advertised host of a listener on every interface. For metrics: the loop's
        `stopwatch` and `loop_load`, and what the process uses; a simulation has none of them.
        """
        self.config = config
        self.timer = timer
        self.background = TrackedOffload(env.offload)
        self.env = replace(env, offload=self.background)
        self.address = ("", 0)
        """The address of the listener, after `start`."""
        self.endpoint = Endpoint("", "", 0, PLAINTEXT)
        """The advertised address, after `start`."""
        self.is_stopping = False
        """True from the call of `stop`."""
        self.http: HttpServer | None = None
        """The HTTP server, if there is one: it has counters for the metrics."""
        self.loop_load = loop_load
        self.usage = usage
        self._stopwatch = stopwatch or Stopwatch(env.clock.monotonic_ns)
        self._own_host = own_host
        self._on_bug = on_bug
        self._most_connections = most_connections

    def start(self) -> None:
        """Block until the broker can serve. Raises `StartFailed`, and `OSError` for the port."""
        self.directory = self._open_directory()
        try:
            self._open()
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
                cluster_id=None,
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

    def _open(self) -> None:
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
        self.metadata = self._open_metadata()
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
        self.partitions = Partitions(self.broker)
        self.sockets = SocketServer(
            env.network,
            env.call_soon,
            self.timer,
            Dispatcher(self.broker),
            connection_limits(config, self._most_connections),
            self._on_bug,
        )
        self.broker.node = self
        listener = config.parsed_listeners()[0]
        buffers = SocketBuffers(config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes)
        self.address = self.sockets.listen(listener.host, listener.port, buffers).address
        try:
            self._join_quorum()
            self._register()
            self._apply_broker_settings(self.metadata.committed)
            self.partitions.open_all()
        except BaseException:
            self.sockets.close("the start failed")
            raise
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
        )
        if any(partition.failure for partition in self.replicas):
            self.housekeeping.save_durable_ends()

    def _open_metadata(self) -> MetadataLog:
        meta = self.directory.meta
        try:
            metadata, problems = open_metadata_log(
                self.env,
                self.timer,
                self.directory.path,
                meta.cluster_id,
                QuorumPlace(ReplicaKey(self.config.node_id, meta.directory_id)),
                self.config,
                fence=self.directory.fence,
                cache=self.directory.cache,
                failed=self._disk_failed,
            )
        except (LogDamaged, QuorumStateDamaged, WrongQuorum, OSError) as error:
            raise StartFailed(f"cluster metadata: {error}") from error
        for problem in problems:
            log.warning("%s", problem)
        return metadata

    def _group_coordinator(self) -> GroupCoordinator:
        """Make the coordinator, before the partitions are opened: it follows those of its topic."""
        config, env = self.config, self.env
        topic = OffsetsTopic(self.metadata, config)
        transitions = GroupTransitions()
        runtime = CoordinatorRuntime(
            CONSUMER_OFFSETS,
            topic.partition_count,
            lambda: GroupShard(config, env.random, topic.id_of, transitions),
            self.replicas,
            env.clock,
            self.timer,
            env.call_soon,
            config.offsets_commit_timeout_ms,
        )
        return GroupCoordinator(config, runtime, transitions)

    def _join_quorum(self) -> None:
        self.metadata.controller.on_change.append(self.broker.commit_advanced)
        try:
            self.metadata.start()
        except (LogDamaged, OSError) as error:
            raise StartFailed(f"cluster metadata: {error}") from error

    def _register(self) -> None:
        """Register this broker in the metadata with its advertised address."""
        advertised = self.config.effective_advertised_listeners()[0]
        port = advertised.port or self.address[1]
        host = self._own_host if advertised.is_wildcard else advertised.host
        self.endpoint = Endpoint(advertised.name, host, port, PLAINTEXT)
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

    def _remove_leftovers(self) -> None:
        self.background.submit(
            self.directory.remove_leftovers(),
            lambda _: None,
            lambda error: log.error("removing files of deleted partitions failed: %s", error),
        )

    # -- while it runs -----------------------------------------------------------------------------

    def _committed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Metadata was committed: apply it, then check the responses that wait for it."""
        for deleted in delta.deleted.values():
            self.partitions.topic_deleted(deleted)
            self.groups.topic_deleted(deleted.name)
        if any(resource.type is ResourceType.BROKER for resource in delta.configs):
            self._apply_broker_settings(image)
            self.partitions.configs_changed()
        changed_ids = dict.fromkeys(topic_id for topic_id, _ in delta.partitions)
        for topic_id in [*delta.created, *changed_ids]:
            topic = image.topic_by_id(topic_id)
            if topic is not None:
                self.partitions.topic_changed(topic)
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
        self.sockets.limits = connection_limits(config, self._most_connections)

    def _disk_failed(self, error: OSError) -> None:
        self.replicas.fail_directory(
            error if isinstance(error, LogDirFailure) else self.directory.fence.fail(error)
        )

    # -- the end -----------------------------------------------------------------------------------

    def stop(self, stopped: Callable[[], None], progress: Progress | None = None) -> None:
        """Shut down cleanly: everything appended is on disk when `stopped` is called.

        `progress` is called every second with the number of logs flushed, and of all logs.
        """
        self.is_stopping = True
        self.sockets.close()
        self.groups.runtime.close()
        self.housekeeping.stop()
        self.partitions.stop()
        self.replicas.flusher.stop()
        CleanShutdown(
            self.timer, self.background, self.directory, self.metadata, stopped, progress
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
