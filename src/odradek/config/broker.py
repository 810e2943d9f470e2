"""The settings of a broker.

`BrokerConfig.load` takes what was given from outside, `with_dynamic` adds what AlterConfigs said
later. Names are Kafka's where they mean the same; the few of ours are marked so. There is no
setting here that nothing looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.config.broker_cleaner import CleanerSettings
from odradek.config.broker_groups import GroupSettings
from odradek.config.broker_log import LogSettings
from odradek.config.broker_network import NetworkSettings
from odradek.config.checks import at_least, one_of
from odradek.config.listeners import Listener, parse_listener
from odradek.config.setting import (
    HOUR_MS,
    MIB,
    ConfigError,
    Setting,
    Update,
    boolean,
    integer,
    long,
    optional_string,
    strings,
)
from odradek.config.settings import ConfigSource, Described, Layer, Settings


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


class MetadataSettings(Settings):
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
    GroupSettings,
    MetadataSettings,
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
            if host and parse_listener(text).is_everywhere:
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

    def describe_cluster_defaults(self, names: Sequence[str] | None = None) -> list[Described]:
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
        if setting.update is Update.READ_ONLY:
            raise ConfigError(f"Cannot update {name} dynamically: it takes a restart of the broker")
        setting.parse(text)

    def listening(self) -> tuple[Listener, ...]:
        """`listeners`, in parts."""
        return tuple(parse_listener(text) for text in self.listeners)

    def advertised(self) -> tuple[Listener, ...]:
        """What clients are told: `advertised.listeners`, or `listeners`."""
        return tuple(parse_listener(text) for text in self.advertised_listeners) or self.listening()
