"""The settings of a broker: `BrokerConfig`, which includes those of its logs (`broker_log`).

`BrokerConfig.load` takes the values given at the start; `with_dynamic` adds those set later by
AlterConfigs. Names are Kafka's where they mean the same; settings that Kafka does not have are
marked `ours`. Settings that Kafka has and that have no effect here are `without_effect`; they are
only set later, never at the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from odradek.config.addresses import (
    CLUSTER,
    LISTENER_PATTERN,
    NAMES_BETWEEN_NODES,
    Listener,
    parse_listener,
)
from odradek.config.broker_connections import BrokerConnectionSettings
from odradek.config.broker_log import CleanerSettings, LogSettings
from odradek.config.quorum import QuorumSettings
from odradek.config.replication import ReplicationSettings
from odradek.config.setting import (
    HOUR_MS,
    INT_MAX,
    MIB,
    ConfigError,
    Setting,
    UpdateMode,
    at_least,
    between,
    boolean,
    integer,
    long,
    matching,
    one_of,
    optional_string,
    short,
    string,
    strings,
)
from odradek.config.settings import ConfigSource, DescribedConfig, Layer, Settings
from odradek.config.transactions import TransactionCoordinatorSettings
from odradek.config.without_effect import SettingsWithoutEffect, ThreadSettings

PLAINTEXT = "PLAINTEXT"
ALL_DIRECTORIES = ("*",)
"""The value of `cordoned.log.dirs` for every directory of a broker."""


class NetworkSettings(Settings):
    """Listeners, connections and requests."""

    listeners = strings(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        matching(
            LISTENER_PATTERN,
            "expected PLAINTEXT://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092 or "
            "PLAINTEXT://[::1]:9092",
            "`PLAINTEXT://HOST:PORT`",
        ),
        doc="The addresses that the broker listens on; by default the loopback interface. No host "
        "and `0.0.0.0` mean every IPv4 interface, `[::]` means every interface. Port 0 takes "
        "any free port.",
    )
    listener_security_protocol_map = string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        matching(
            r"([A-Z_]+:(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)(,|$))*",
            "expected NAME:PROTOCOL,..., such as PLAINTEXT:PLAINTEXT",
            "`NAME:PROTOCOL,...`",
        ),
        update=UpdateMode.PER_BROKER,
        doc="The security protocol of each listener, by name. This broker has PLAINTEXT only: its "
        "own listeners can have no other. CLUSTER needs no entry.",
    )
    advertised_listeners = strings(
        "advertised.listeners",
        (),
        matching(
            LISTENER_PATTERN,
            "expected PLAINTEXT://HOST:PORT as clients reach it",
            "`PLAINTEXT://HOST:PORT`",
        ),
        doc="The addresses that clients are told to connect to, if they differ from those of "
        "listeners: behind a port mapping or a proxy, or on a machine with several addresses. "
        "Empty: the addresses of listeners; for a listener on every interface, the address of "
        "this machine by which it reaches other machines. Port 0 stands for the port that the "
        "broker listens on.",
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        -1,
        at_least(-1),
        doc="The size of the send buffer of connections (SO_SNDBUF); -1: the operating system "
        "adapts it. Kafka's default is 102400. Linux doubles a given size, up to "
        "net.core.wmem_max, and then no longer adapts it.",
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        at_least(-1),
        doc="The size of the receive buffer of connections (SO_RCVBUF); -1: the operating system "
        "adapts it. Kafka's default is 102400. Linux doubles a given size, up to "
        "net.core.rmem_max, and then no longer adapts it.",
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * MIB,
        at_least(1),
        doc="The largest request. The broker closes a connection that announces a larger one.",
    )
    first_request_max_bytes = integer(
        "first.request.max.bytes",
        64 * 1024,
        between(1024, INT_MAX),
        ours=True,
        doc="The largest first request of a connection. It limits what an unknown client can "
        "announce.",
    )
    first_request_timeout_ms = long(
        "first.request.timeout.ms",
        10_000,
        at_least(1),
        ours=True,
        doc="The time within which the first request of a connection must arrive as a whole. Then "
        "the broker closes the connection.",
    )
    stalled_connection_timeout_ms = long(
        "stalled.connection.timeout.ms",
        30_000,
        at_least(1),
        ours=True,
        doc="The broker disconnects a client that accepts no byte of its response for this long.",
    )
    max_requests_per_connection = integer(
        "max.requests.per.connection",
        64,
        at_least(1),
        ours=True,
        doc="The number of requests of one connection that may be in progress. At this number the "
        "broker stops reading from the connection.",
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        600_000,
        doc="The broker closes a connection without traffic after this time; -1 for never.",
    )
    max_connections = integer(
        "max.connections",
        INT_MAX,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The number of connections at one time. The broker closes further ones at once.",
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        INT_MAX,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The number of connections at one time from one address.",
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * MIB,
        at_least(1024),
        doc="The size limit of a fetch response, whatever its request asks for. A first batch "
        "that is larger is sent whole.",
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least(0),
        doc="The number of incremental fetch sessions that the broker keeps (KIP-227).",
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        at_least(1),
        doc="The number of partitions in one DescribeTopicPartitions response. Its cursor leads "
        "to the others.",
    )
    producer_purgatory_purge_interval_requests = integer(
        "producer.purgatory.purge.interval.requests",
        1000,
        doc="The number of completed produce requests after which they are removed from the watch "
        "lists.",
    )
    fetch_purgatory_purge_interval_requests = integer(
        "fetch.purgatory.purge.interval.requests",
        1000,
        doc="The number of completed fetch requests after which they are removed from the watch "
        "lists.",
    )
    delete_records_purgatory_purge_interval_requests = integer(
        "delete.records.purgatory.purge.interval.requests",
        1,
        doc="The number of completed delete-records requests after which they are removed from "
        "the watch lists.",
    )


class GroupCoordinatorSettings(Settings):
    """Consumer groups and committed offsets."""

    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6_000,
        at_least(1),
        doc="The shortest session timeout that a member may ask for. A shorter timeout detects "
        "failures sooner and needs more heartbeats.",
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        1_800_000,
        at_least(1),
        doc="The longest session timeout that a member may ask for.",
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        at_least(0),
        doc="The time for which an empty group waits for more members before its first "
        "generation. Each further member during this time starts it again.",
    )
    group_max_size = integer(
        "group.max.size",
        INT_MAX,
        at_least(1),
        doc="The number of members that a group may have.",
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        at_least(1),
        doc="The number of partitions of __consumer_offsets, which is created when a client first "
        "looks for a group's coordinator. Do not change it afterwards: groups would be looked "
        "up in other partitions.",
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor",
        3,
        at_least(1),
        doc="The number of replicas of __consumer_offsets. With fewer brokers, each has one.",
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * MIB,
        at_least(1),
        doc="The size at which a segment of __consumer_offsets is closed. Only closed segments "
        "are compacted, and the broker reads all segments when it starts.",
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5_000,
        at_least(1),
        doc="How long the group coordinator waits until the records of an operation are committed. "
        "After that its client gets COORDINATOR_NOT_AVAILABLE and asks again; the records may be "
        "committed later.",
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes",
        4096,
        doc="The length limit of the text that a client may store with a committed offset.",
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        at_least(1),
        doc="The time for which offsets are kept after their group lost its last member or, in "
        "groups that never had members, after the commit.",
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        at_least(1),
        doc="The time between two searches for expired offsets.",
    )


class IdentitySettings(Settings):
    """Id, rack and roles of the broker."""

    node_id = integer(
        "node.id", 1, at_least(0), doc="The id of this node. It is unique in the cluster."
    )
    broker_id = integer("broker.id", 1, at_least(0), doc="The older name of node.id.")
    broker_rack = optional_string(
        "broker.rack",
        doc="The rack of this broker. The replicas of a partition are spread over racks. Several "
        "broker processes on one machine have the same rack.",
    )
    process_roles = strings(
        "process.roles",
        ("broker", "controller"),
        one_of("broker", "controller"),
        doc="The roles of this process. A `broker` alone never votes in the quorum: it follows the "
        "one that controller.quorum.bootstrap.servers or controller.quorum.voters name. A "
        "`controller` alone has no partitions and serves no clients: its only listener is CLUSTER.",
    )


class TopicSettings(Settings):
    """Creation and deletion of topics."""

    num_partitions = integer(
        "num.partitions",
        1,
        at_least(1),
        doc="The number of partitions of a new topic, if the request to create it does not say.",
    )
    default_replication_factor = integer(
        "default.replication.factor",
        1,
        at_least(1),
        doc="The number of replicas of a new partition, if the request to create it does not say.",
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        doc="Whether a metadata request for a missing topic creates it, if the client allows that.",
    )
    delete_topic_enable = boolean(
        "delete.topic.enable", True, doc="Whether clients may delete topics."
    )


class MetadataLogSettings(Settings):
    """The log of the cluster metadata."""

    metadata_log_segment_bytes = integer(
        "metadata.log.segment.bytes",
        1024 * MIB,
        at_least(8 * MIB),
        doc="The size at which a segment of the metadata log is closed.",
    )
    metadata_log_segment_ms = long(
        "metadata.log.segment.ms",
        168 * HOUR_MS,
        at_least(1),
        doc="The age at which a segment of the metadata log is closed.",
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MIB,
        at_least(1),
        doc="The bytes of metadata records after which a snapshot is written. A broker replays "
        "the records behind the last snapshot when it starts.",
    )
    metadata_log_max_snapshot_interval_ms = long(
        "metadata.log.max.snapshot.interval.ms",
        HOUR_MS,
        at_least(0),
        doc="The time after which a snapshot is written if there are new metadata records; 0 for "
        "never.",
    )


class ClusterSettings(Settings):
    """Settings of the active controller, for the brokers of a cluster."""

    broker_session_timeout_ms = integer(
        "broker.session.timeout.ms",
        9_000,
        doc="The controller fences a broker from which it heard nothing for this long. A broker "
        "whose connection has ended is fenced half a second later.",
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        doc="Whether the controller gives partitions back to their preferred leaders.",
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        at_least(1),
        doc="The time between two looks for partitions without their preferred leader.",
    )


class BrokerConfig(
    IdentitySettings,
    TopicSettings,
    LogSettings,
    CleanerSettings,
    NetworkSettings,
    BrokerConnectionSettings,
    QuorumSettings,
    ReplicationSettings,
    GroupCoordinatorSettings,
    TransactionCoordinatorSettings,
    MetadataLogSettings,
    ClusterSettings,
    SettingsWithoutEffect,
):
    """A snapshot of the values of all settings of a broker."""

    def __init__(self, layers: Sequence[Layer] = ()) -> None:
        super().__init__(layers)
        self._check_listeners()
        least, most = self.log_cleaner_min_compaction_lag_ms, self.log_cleaner_max_compaction_lag_ms
        if least > most:
            raise ConfigError(
                f"log.cleaner.min.compaction.lag.ms ({least}) > "
                f"log.cleaner.max.compaction.lag.ms ({most})"
            )
        shortest, longest = self.group_min_session_timeout_ms, self.group_max_session_timeout_ms
        if shortest > longest:
            raise ConfigError(
                f"group.min.session.timeout.ms ({shortest}) > "
                f"group.max.session.timeout.ms ({longest})"
            )
        self._check_replication()
        if self.broker_id != self.node_id:
            raise ConfigError(
                f"node.id is {self.node_id} and broker.id is {self.broker_id}, but both are the id "
                f"of this node: give one of them"
            )

    def _check_replication(self) -> None:
        wait_ms = self.replica_fetch_wait_max_ms
        if wait_ms > self.replica_socket_timeout_ms:
            raise ConfigError(
                "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to "
                "prevent unnecessary socket timeouts"
            )
        if wait_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms should always be less than or equal to "
                "replica.lag.time.max.ms to prevent frequent changes in ISR"
            )

    def _check_listeners(self) -> None:
        for name, texts in (
            ("listeners", self.listeners),
            ("advertised.listeners", self.advertised_listeners),
        ):
            names = [parse_listener(text).name for text in texts]
            if len(set(names)) < len(names):
                raise ConfigError(
                    f"Each listener must have a different name, {name}: {','.join(texts)}. The "
                    f"names are PLAINTEXT, for clients, and CLUSTER, for other nodes: give one "
                    f"address of each"
                )
        self._check_security_protocols()
        self._check_quorum()
        self._check_roles()
        for text in self.advertised_listeners:
            host = parse_listener(text).host
            if host and parse_listener(text).is_wildcard:
                raise ConfigError(
                    f"advertised.listeners cannot use the nonroutable meta-address {host}: no "
                    f"client can connect to it. Give the name or address by which clients reach "
                    f"this machine, such as PLAINTEXT://broker.example.com:9092"
                )

    def _listener_names(self) -> list[str]:
        """The names as they are given: Kafka's for the listener between nodes stays."""
        return [text.strip().partition("://")[0] for text in self.listeners]

    def _check_security_protocols(self) -> None:
        entries = self.listener_security_protocol_map.split(",")
        protocols = dict(entry.split(":") for entry in entries if entry)
        if self.layer_of("listener.security.protocol.map") is None:
            protocols |= dict.fromkeys(NAMES_BETWEEN_NODES, PLAINTEXT)
        for name in self._listener_names():
            protocol = protocols.get(name)
            if protocol is None and name != CLUSTER:
                raise ConfigError(
                    f"listener.security.protocol.map: No security protocol defined for listener "
                    f"{name}: add {name}:PLAINTEXT"
                )
            if protocol not in (None, PLAINTEXT):
                raise ConfigError(
                    f"listener.security.protocol.map: listener {name} cannot have the protocol "
                    f"{protocol}: this broker has PLAINTEXT only"
                )

    def _check_quorum(self) -> None:
        named = self.controller_listener_names
        if named and not set(named).intersection(self._listener_names()):
            raise ConfigError(
                f"controller.listener.names={','.join(named)} is the listener for other nodes, and "
                f"listeners has no address for it: add {named[0]}://HOST:PORT"
            )
        has_others = bool(self.controller_quorum_voters or self.controller_quorum_bootstrap_servers)
        if has_others and self.cluster_listener() is None:
            raise ConfigError(
                "controller.quorum.voters and controller.quorum.bootstrap.servers name other "
                "nodes, but listeners has no address for them: add CLUSTER://HOST:PORT"
            )
        if self.cluster_listener() is not None:
            advertised = self.advertised_cluster_listener()
            if advertised is not None and advertised.is_wildcard:
                raise ConfigError(
                    f"other nodes cannot connect to {advertised}: give advertised.listeners a "
                    f"CLUSTER address with the name or address by which they reach this machine"
                )

    def _check_roles(self) -> None:
        if not self.process_roles:
            raise ConfigError("process.roles is empty: give broker, controller or both")
        of_clients = self.parsed_listeners()
        if self.has_broker_role:
            if not of_clients:
                raise ConfigError(
                    "listeners has no address for clients: give one, such as "
                    "PLAINTEXT://127.0.0.1:9092"
                )
            return
        if of_clients:
            raise ConfigError(
                f"process.roles=controller serves no clients: leave {of_clients[0]} out of "
                "listeners, or give process.roles=broker,controller"
            )
        if self.cluster_listener() is None:
            raise ConfigError(
                "process.roles=controller serves other nodes, and listeners has no address for "
                "them: add CLUSTER://HOST:PORT"
            )

    @classmethod
    def load(cls, given: Mapping[str, str], where: Mapping[str, str] | str = "") -> BrokerConfig:
        """Make a configuration from text by name.

        `where` says where the values were written, for messages and `origin`. Raises `ConfigError`
        for unknown names (with the most similar name), names without effect and invalid values.
        """
        layer = Layer(ConfigSource.STATIC_BROKER_CONFIG, dict(given), where)
        for name in given:
            try:
                if name in SettingsWithoutEffect.declared:
                    raise ConfigError(f"{name} has no effect on this broker: {cls.find(name).doc}")
                cls.find(name)
            except ConfigError as error:
                place = layer.place(name)
                raise (ConfigError(f"{place}: {error}") if place else error) from None
        values = dict(given)
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name in given:
                values.setdefault(other, given[name])
        config = cls([Layer(layer.source, values, where)])
        config.check_cordoned_directories()
        return config

    def documentation(self, setting: Setting[Any]) -> str:
        """What DescribeConfigs says about a setting."""
        without = setting.name in SettingsWithoutEffect.declared
        return f"Without effect on this broker. {setting.doc}" if without else setting.doc

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """This configuration with these dynamic values for all brokers and for this one.

        Raises `ConfigError`.
        """
        static = [
            layer for layer in self.layers if layer.source is ConfigSource.STATIC_BROKER_CONFIG
        ]
        return BrokerConfig(
            [
                Layer(ConfigSource.DYNAMIC_BROKER_CONFIG, dict(broker)),
                Layer(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, dict(cluster)),
                *static,
            ]
        )

    def describe_cluster_defaults(
        self, names: Sequence[str] | None = None
    ) -> list[DescribedConfig]:
        """Rows of DescribeConfigs for the broker resource without a name.

        They are the dynamic values for all brokers, and have no other synonyms.
        """
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        only = [layer for layer in self.layers if layer.source is source]
        given = [name for layer in only for name in layer.values if names is None or name in names]
        return [
            replace(row, synonyms=tuple(each for each in row.synonyms if each.source is source))
            for row in BrokerConfig(only).describe(given)
        ]

    @classmethod
    def check_dynamic(cls, name: str, text: str, *, for_all: bool) -> None:
        """Raise `ConfigError` if AlterConfigs may not give `name` this value, for one broker or
        `for_all`.
        """
        setting: Setting[object] = cls.find(name)
        if setting.update is UpdateMode.READ_ONLY:
            raise ConfigError(f"Cannot update {name} dynamically: set it and restart the broker")
        setting.parse(text)
        if for_all and setting.update is UpdateMode.PER_BROKER:
            raise ConfigError(
                f"Cannot update {name} at default cluster level, broker id must be specified"
            )

    def check_cordoned_directories(self) -> None:
        """Raise `ConfigError` unless `cordoned.log.dirs` names directories of this node."""
        named = self.cordoned_log_dirs
        if named == ALL_DIRECTORIES:
            return
        if set(ALL_DIRECTORIES) <= set(named):
            raise ConfigError(
                "When cordoned.log.dirs is set to *, it must not contain other values"
            )
        missing = [each for each in named if each not in self.log_dirs]
        if missing:
            raise ConfigError(
                "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
                f"Missing entries : {','.join(missing)}"
            )

    @property
    def directory_is_cordoned(self) -> bool:
        """True if the data directory takes no new partitions."""
        return bool(self.cordoned_log_dirs)

    def check_changed_threads(self, after: BrokerConfig) -> None:
        """Raise `ConfigError` unless each count of threads stays between the half and the double of
        what it is now, as Kafka requires of a pool at work.
        """
        for setting in (*ThreadSettings.declared.values(), BrokerConfig.background_threads):
            now, then = self.value(setting), after.value(setting)
            if not now // 2 <= then <= now * 2:
                raise ConfigError(
                    f"Dynamic thread count update validation failed for {setting.name}={then}: "
                    f"value should be between half and double the current value {now}"
                )

    def parsed_listeners(self) -> tuple[Listener, ...]:
        """The listeners of clients."""
        return _of_clients(self.listeners)

    @property
    def has_broker_role(self) -> bool:
        """True if this node has partitions and serves clients."""
        return "broker" in self.process_roles

    @property
    def has_controller_role(self) -> bool:
        """True if this node may be a voter of the quorum, and so the active controller."""
        return "controller" in self.process_roles

    def cluster_listener(self) -> Listener | None:
        """The listener of other nodes; None for a node that is alone."""
        found = [each for each in map(parse_listener, self.listeners) if each.name == CLUSTER]
        return found[0] if found else None

    def main_listener(self) -> Listener:
        """The listener of clients; of a controller alone, which has none, that of other nodes."""
        found = self.parsed_listeners() or (self.cluster_listener(),)
        assert found[0] is not None, "checked by `_check_roles`"
        return found[0]

    def effective_advertised_listeners(self) -> tuple[Listener, ...]:
        """Return where clients reach it: by `advertised.listeners`, or else by `listeners`."""
        return _of_clients(self.advertised_listeners) or self.parsed_listeners()

    def advertised_cluster_listener(self) -> Listener | None:
        """Where other nodes reach this one: in `advertised.listeners`, or else in `listeners`."""
        found = map(parse_listener, self.advertised_listeners)
        return next((each for each in found if each.name == CLUSTER), self.cluster_listener())


def _of_clients(texts: Sequence[str]) -> tuple[Listener, ...]:
    return tuple(each for each in map(parse_listener, texts) if each.name != CLUSTER)
