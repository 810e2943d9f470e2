"""The settings of a broker, without those of its logs (`broker_log`), and `BrokerConfig`.

`BrokerConfig` has all settings, those of `broker_log` included.

`BrokerConfig.load` takes the values given at the start; `with_dynamic` adds those set later by
AlterConfigs. Names are Kafka's where they mean the same; settings that Kafka does not have are
marked `ours`. Every setting here is used by some part of the broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.config.addresses import LISTENER_PATTERN, Listener, parse_listener
from odradek.config.broker_log import CleanerSettings, LogSettings
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
    strings,
)
from odradek.config.settings import ConfigSource, DescribedConfig, Layer, Settings


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
        doc="Where to listen. Loopback unless told otherwise. No host and `0.0.0.0` mean every "
        "IPv4 interface, `[::]` every interface; port 0 takes any free one.",
    )
    advertised_listeners = strings(
        "advertised.listeners",
        (),
        matching(
            LISTENER_PATTERN,
            "expected PLAINTEXT://HOST:PORT as clients reach it",
            "`PLAINTEXT://HOST:PORT`",
        ),
        doc="What clients are told to connect to, where that is not the address of listeners: "
        "behind a port mapping or a proxy, or if this machine has several addresses. Empty: the "
        "listeners themselves; where those are every interface, the address of this machine by "
        "which it reaches others. Port 0 stands for the port that is listened on.",
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * MIB,
        at_least(1),
        doc="The largest request. A connection that announces a larger one is closed.",
    )
    first_request_max_bytes = integer(
        "first.request.max.bytes",
        64 * 1024,
        between(1024, INT_MAX),
        ours=True,
        doc="The largest first request of a connection: strangers announce what they like.",
    )
    first_request_timeout_ms = long(
        "first.request.timeout.ms",
        10_000,
        at_least(1),
        ours=True,
        doc="Time for the first whole request of a connection to arrive; then it is closed.",
    )
    stalled_connection_timeout_ms = long(
        "stalled.connection.timeout.ms",
        30_000,
        at_least(1),
        ours=True,
        doc="A client that takes none of its answer for this long is disconnected.",
    )
    max_requests_per_connection = integer(
        "max.requests.per.connection",
        64,
        at_least(1),
        ours=True,
        doc="Requests of one connection that may wait for their answers; then it is not read from.",
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        600_000,
        doc="A connection on which nothing happens for this long is closed; -1 for never.",
    )
    max_connections = integer(
        "max.connections",
        INT_MAX,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Connections at one time. Above it new ones are closed at once.",
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        INT_MAX,
        at_least(1),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Connections at one time from one address.",
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * MIB,
        at_least(1024),
        doc="The most a fetch response carries, whatever its request asks for; its first batch is "
        "sent whole.",
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least(0),
        doc="Incremental fetch sessions that are remembered (KIP-227).",
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        at_least(1),
        doc="Partitions in one DescribeTopicPartitions response; the rest follow with its cursor.",
    )
    producer_purgatory_purge_interval_requests = integer(
        "producer.purgatory.purge.interval.requests",
        1000,
        doc="Completed produce requests after which their watchers are swept out.",
    )
    fetch_purgatory_purge_interval_requests = integer(
        "fetch.purgatory.purge.interval.requests",
        1000,
        doc="Completed fetch requests after which their watchers are swept out.",
    )
    delete_records_purgatory_purge_interval_requests = integer(
        "delete.records.purgatory.purge.interval.requests",
        1,
        doc="Completed delete-records requests after which their watchers are swept out.",
    )


class GroupCoordinatorSettings(Settings):
    """Consumer groups and their offsets."""

    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6_000,
        at_least(1),
        doc="The shortest session that a member may ask for. A shorter one finds failures sooner "
        "and takes more heartbeats.",
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        1_800_000,
        at_least(1),
        doc="The longest session that a member may ask for.",
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        at_least(0),
        doc="How long a group that was empty waits for more members before its first generation, "
        "and again after each that comes meanwhile.",
    )
    group_max_size = integer(
        "group.max.size",
        INT_MAX,
        at_least(1),
        doc="The most members that a group may have.",
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        at_least(1),
        doc="Partitions of __consumer_offsets, which is made when the first group asks for its "
        "coordinator. Not to be changed afterwards: groups would be looked for elsewhere.",
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor",
        3,
        at_least(1),
        doc="Replicas of __consumer_offsets; as many as there are brokers, if these are fewer.",
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * MIB,
        at_least(1),
        doc="Size at which a segment of __consumer_offsets is closed. Only closed segments are "
        "compacted, and a start reads all of them.",
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes",
        4096,
        doc="The longest text that a client may keep with a committed offset.",
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        at_least(1),
        doc="How long offsets are kept after their group lost its last member, or, of groups "
        "without members, after they were committed.",
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        at_least(1),
        doc="Time between two looks for offsets that have been kept long enough.",
    )


class IdentitySettings(Settings):
    """Who this broker is."""

    node_id = integer(
        "node.id", 1, at_least(0), doc="The id of this node, unlike any other's in the cluster."
    )
    broker_id = integer("broker.id", 1, at_least(0), doc="The same as node.id, by its older name.")
    broker_rack = optional_string(
        "broker.rack",
        doc="Where this broker stands. Replicas of a partition are spread over racks. Processes on "
        "one machine share one.",
    )
    process_roles = strings(
        "process.roles",
        ("broker", "controller"),
        one_of("broker", "controller"),
        doc="What this process does. Both, as long as the cluster is one node.",
    )


class TopicSettings(Settings):
    """Topics: making and deleting them."""

    num_partitions = integer(
        "num.partitions",
        1,
        at_least(1),
        doc="Partitions of a new topic whose creator does not say how many.",
    )
    default_replication_factor = integer(
        "default.replication.factor",
        1,
        at_least(1),
        doc="Replicas of a new partition whose creator does not say how many.",
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        doc="Whether asking for the metadata of a topic that does not exist makes it, if the "
        "client allows that.",
    )
    delete_topic_enable = boolean(
        "delete.topic.enable", True, doc="Whether topics can be deleted at all."
    )


class MetadataLogSettings(Settings):
    """The log of the cluster's metadata."""

    metadata_log_segment_bytes = integer(
        "metadata.log.segment.bytes",
        1024 * MIB,
        at_least(8 * MIB),
        doc="Size at which a segment of the metadata log is closed.",
    )
    metadata_log_segment_ms = long(
        "metadata.log.segment.ms",
        168 * HOUR_MS,
        at_least(1),
        doc="Age at which a segment of the metadata log is closed.",
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MIB,
        at_least(1),
        doc="Bytes of metadata records after which a snapshot is taken, so that a start has little "
        "to replay.",
    )
    metadata_log_max_snapshot_interval_ms = long(
        "metadata.log.max.snapshot.interval.ms",
        HOUR_MS,
        at_least(0),
        doc="Time after which a snapshot is taken if there are records it would save replaying; 0 "
        "for never.",
    )


class BrokerConfig(
    IdentitySettings,
    TopicSettings,
    LogSettings,
    CleanerSettings,
    NetworkSettings,
    GroupCoordinatorSettings,
    MetadataLogSettings,
):
    """All settings of a broker, with values: a snapshot."""

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
        if self.broker_id != self.node_id:
            raise ConfigError(
                f"node.id is {self.node_id} and broker.id is {self.broker_id}; they name the same: "
                f"give one"
            )

    def _check_listeners(self) -> None:
        for name, texts in (
            ("listeners", self.listeners),
            ("advertised.listeners", self.advertised_listeners),
        ):
            names = [parse_listener(text).name for text in texts]
            if len(set(names)) < len(names):
                raise ConfigError(
                    f"Each listener must have a different name, {name}: {','.join(texts)}. There "
                    f"is PLAINTEXT only so far: give one address"
                )
        if not self.listeners:
            raise ConfigError("listeners is empty: give an address, as PLAINTEXT://127.0.0.1:9092")
        for text in self.advertised_listeners:
            host = parse_listener(text).host
            if host and parse_listener(text).is_wildcard:
                raise ConfigError(
                    f"advertised.listeners cannot use the nonroutable meta-address {host}: it is "
                    f"what clients are told to connect to. Give the name or address by which they "
                    f"reach this machine, as PLAINTEXT://broker.example.com:9092"
                )

    @classmethod
    def load(cls, given: Mapping[str, str], where: Mapping[str, str] | str = "") -> BrokerConfig:
        """The configuration from outside: text by name. `where` says where it was written, for
        errors and `origin`.

        Raises `ConfigError` for unknown names (with the nearest known one) and for values that
        cannot stand.
        """
        layer = Layer(ConfigSource.STATIC_BROKER_CONFIG, dict(given), where)
        for name in given:
            try:
                cls.find(name)
            except ConfigError as error:
                place = layer.place(name)
                raise (ConfigError(f"{place}: {error}") if place else error) from None
        values = dict(given)
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name in given:
                values.setdefault(other, given[name])
        return cls([Layer(layer.source, values, where)])

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """This configuration under the dynamic values for all brokers and for this one. Raises
        `ConfigError`.
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
        """DescribeConfigs for the broker resource without a name: only what was set for all
        brokers.
        """
        only = [
            layer
            for layer in self.layers
            if layer.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        ]
        given = [name for layer in only for name in layer.values if names is None or name in names]
        return BrokerConfig(only).describe(given)

    @classmethod
    def check_dynamic(cls, name: str, text: str) -> None:
        """Whether AlterConfigs may give `name` this value. Raises `ConfigError`."""
        setting: Setting[object] = cls.find(name)
        if setting.update is UpdateMode.READ_ONLY:
            raise ConfigError(f"Cannot update {name} dynamically: it takes a restart of the broker")
        setting.parse(text)

    def parsed_listeners(self) -> tuple[Listener, ...]:
        """`listeners`, in parts."""
        return tuple(parse_listener(text) for text in self.listeners)

    def effective_advertised_listeners(self) -> tuple[Listener, ...]:
        """What clients are told: `advertised.listeners`, or `listeners`."""
        return (
            tuple(parse_listener(text) for text in self.advertised_listeners)
            or self.parsed_listeners()
        )
