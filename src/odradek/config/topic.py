"""The settings of a topic. Kafka 4 has the same; most of them fall back to a setting of the broker.

`TopicConfigs` makes the configuration of a topic from the values set for it and the current
settings of the broker. Topics with the same values share one configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from weakref import WeakValueDictionary

from odradek.config.broker import BrokerConfig
from odradek.config.setting import (
    ConfigError,
    Setting,
    UpdateMode,
    Validator,
    at_least,
    boolean,
    matching,
    optional_integer,
    refused,
    strings,
)
from odradek.config.settings import ConfigSource, ResourceConfig

T = TypeVar("T")
NO_TIERS = {
    True: "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with "
    "remote log storage."
}


def of_broker(name: str, broker: Setting[T], *validators: Validator[T]) -> Setting[T]:
    """Declare a topic's setting that falls back to a broker setting, of the same type and rules."""
    return Setting(
        name,
        broker.kind,
        broker.default,
        (*broker.validators, *validators),
        doc=broker.doc,
        broker=broker,
        update=UpdateMode.CLUSTER_WIDE,
    )


def ms_of_broker(name: str, broker: Setting[int | None]) -> Setting[int]:
    """Like `of_broker`, for a broker setting with coarser fallbacks, in milliseconds."""
    default = next(
        int(member.default * factor)
        for member, factor in broker.family()
        if member.default is not None
    )
    return Setting(
        name,
        broker.kind,
        default,
        broker.validators,
        doc=broker.doc,
        broker=broker,
        update=UpdateMode.CLUSTER_WIDE,
    )


def throttled_replicas(name: str, side: str) -> Setting[tuple[str, ...]]:
    """Declare a list of replicas whose replication is throttled."""
    return strings(
        name,
        (),
        matching(
            r"\*|[0-9]{1,9}:[0-9]{1,9}",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            "`*` or `PARTITION:BROKER,...`",
        ),
        update=UpdateMode.CLUSTER_WIDE,
        doc=f"Replicas whose replication is throttled on the {side}'s side while a reassignment "
        f"runs.",
    )


class TopicConfig(ResourceConfig):
    """A snapshot of the values of all settings of a topic."""

    unknown = "Unknown topic config name"
    own_source = ConfigSource.TOPIC_CONFIG

    cleanup_policy = of_broker("cleanup.policy", BrokerConfig.log_cleanup_policy)
    compression_type = of_broker("compression.type", BrokerConfig.compression_type)
    compression_gzip_level = of_broker(
        "compression.gzip.level", BrokerConfig.compression_gzip_level
    )
    compression_lz4_level = of_broker("compression.lz4.level", BrokerConfig.compression_lz4_level)
    compression_zstd_level = of_broker(
        "compression.zstd.level", BrokerConfig.compression_zstd_level
    )
    delete_retention_ms = of_broker(
        "delete.retention.ms", BrokerConfig.log_cleaner_delete_retention_ms
    )
    file_delete_delay_ms = of_broker(
        "file.delete.delay.ms", BrokerConfig.log_segment_delete_delay_ms
    )
    flush_messages = of_broker("flush.messages", BrokerConfig.log_flush_interval_messages)
    flush_ms = ms_of_broker("flush.ms", BrokerConfig.log_flush_interval_ms)
    follower_replication_throttled_replicas = throttled_replicas(
        "follower.replication.throttled.replicas", "follower"
    )
    index_interval_bytes = of_broker("index.interval.bytes", BrokerConfig.log_index_interval_bytes)
    leader_replication_throttled_replicas = throttled_replicas(
        "leader.replication.throttled.replicas", "leader"
    )
    local_retention_bytes = of_broker(
        "local.retention.bytes", BrokerConfig.log_local_retention_bytes
    )
    local_retention_ms = of_broker("local.retention.ms", BrokerConfig.log_local_retention_ms)
    max_compaction_lag_ms = of_broker(
        "max.compaction.lag.ms", BrokerConfig.log_cleaner_max_compaction_lag_ms
    )
    max_message_bytes = of_broker("max.message.bytes", BrokerConfig.message_max_bytes)
    message_timestamp_after_max_ms = of_broker(
        "message.timestamp.after.max.ms", BrokerConfig.log_message_timestamp_after_max_ms
    )
    message_timestamp_before_max_ms = of_broker(
        "message.timestamp.before.max.ms", BrokerConfig.log_message_timestamp_before_max_ms
    )
    message_timestamp_type = of_broker(
        "message.timestamp.type", BrokerConfig.log_message_timestamp_type
    )
    min_cleanable_dirty_ratio = of_broker(
        "min.cleanable.dirty.ratio", BrokerConfig.log_cleaner_min_cleanable_ratio
    )
    min_compaction_lag_ms = of_broker(
        "min.compaction.lag.ms", BrokerConfig.log_cleaner_min_compaction_lag_ms
    )
    min_insync_replicas = of_broker("min.insync.replicas", BrokerConfig.min_insync_replicas)
    preallocate = of_broker("preallocate", BrokerConfig.log_preallocate)
    remote_log_copy_disable = boolean(
        "remote.log.copy.disable",
        False,
        update=UpdateMode.CLUSTER_WIDE,
        doc="For tiered topics: stop copying segments to remote storage.",
    )
    remote_log_delete_on_disable = boolean(
        "remote.log.delete.on.disable",
        False,
        update=UpdateMode.CLUSTER_WIDE,
        doc="For tiered topics: delete the remote copies when tiering is disabled.",
    )
    remote_storage_enable = boolean(
        "remote.storage.enable",
        False,
        refused(NO_TIERS),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Whether closed segments are copied to remote storage. This broker does not support "
        "it.",
    )
    retention_bytes = of_broker("retention.bytes", BrokerConfig.log_retention_bytes)
    retention_ms = ms_of_broker("retention.ms", BrokerConfig.log_retention_ms)
    segment_bytes = of_broker("segment.bytes", BrokerConfig.log_segment_bytes)
    segment_index_bytes = of_broker("segment.index.bytes", BrokerConfig.log_index_size_max_bytes)
    segment_jitter_ms = ms_of_broker("segment.jitter.ms", BrokerConfig.log_roll_jitter_ms)
    segment_ms = ms_of_broker("segment.ms", BrokerConfig.log_roll_ms)
    unclean_leader_election_enable = of_broker(
        "unclean.leader.election.enable", BrokerConfig.unclean_leader_election_enable
    )
    internal_segment_bytes = optional_integer(
        "internal.segment.bytes",
        at_least(1),
        hidden=True,
        update=UpdateMode.CLUSTER_WIDE,
        doc="segment.bytes without its lower bound: for tests that need many small segments.",
    )

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        """Raises `ConfigError` for unknown names, invalid values and contradictions."""
        super().__init__(broker, overrides)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                "conflict topic config setting min.compaction.lag.ms "
                f"({self.min_compaction_lag_ms}) > max.compaction.lag.ms "
                f"({self.max_compaction_lag_ms})"
            )

    @property
    def roll_bytes(self) -> int:
        """The size at which a segment is closed: `segment.bytes`, or a test's own."""
        return self.internal_segment_bytes or self.segment_bytes


class TopicConfigs:
    """The configurations of topics under one broker configuration. Equal ones are shared."""

    def __init__(self, broker: BrokerConfig) -> None:
        self.broker = broker
        self._shared: WeakValueDictionary[frozenset[tuple[str, str]], TopicConfig] = (
            WeakValueDictionary()
        )

    def of(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The configuration of a topic with these values of its own. Raises `ConfigError`."""
        key = frozenset(overrides.items())
        config = self._shared.get(key)
        if config is None:
            config = self._shared[key] = TopicConfig(self.broker, overrides)
        return config

    def usable(self, overrides: Mapping[str, str]) -> tuple[TopicConfig, list[str]]:
        """The configuration of a topic with the valid ones of these values, and the errors.

        A value that was valid when it was set may be invalid in another version, or contradict a
        default that has changed since.
        """
        try:
            return self.of(overrides), []
        except ConfigError:
            kept: dict[str, str] = {}
            problems = []
            for name, value in sorted(overrides.items()):
                try:
                    self.of({**kept, name: value})
                except ConfigError as error:
                    problems.append(str(error))
                else:
                    kept[name] = value
            return self.of(kept), problems
