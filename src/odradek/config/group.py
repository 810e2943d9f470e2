"""The settings of a group by Kafka's newer protocols: resource type 32 of the APIs of settings.

They are kept and shown. They have no effect: groups here follow the classic protocol, whose
members bring their own timeouts.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.broker import BrokerConfig
from odradek.config.offset_reset import NONE, valid_offset_reset
from odradek.config.setting import (
    Setting,
    UpdateMode,
    Validator,
    at_least,
    between,
    boolean,
    choice,
    refused,
    string,
)
from odradek.config.settings import ConfigSource, ResourceConfig, Synonym

ASSIGNMENT_INTERVAL_MS = between(0, 15_000)
HEARTBEAT_INTERVAL_MS = between(5_000, 15_000)
SESSION_TIMEOUT_MS = between(45_000, 60_000)


def of_broker(name: str, broker: Setting[int], *rules: Validator[int]) -> Setting[int]:
    """Declare a setting that falls back to a setting of the broker. Kafka's own limits of it cannot
    be changed here.
    """
    return Setting(
        name,
        broker.kind,
        broker.default,
        rules,
        doc=broker.doc,
        broker=broker,
        update=UpdateMode.CLUSTER_WIDE,
    )


class GroupConfig(ResourceConfig):
    """A snapshot of the values of all settings of a group."""

    unknown = "Unknown group config name"
    own_source = ConfigSource.GROUP_CONFIG

    consumer_session_timeout_ms = of_broker(
        "consumer.session.timeout.ms",
        BrokerConfig.group_consumer_session_timeout_ms,
        SESSION_TIMEOUT_MS,
    )
    consumer_heartbeat_interval_ms = of_broker(
        "consumer.heartbeat.interval.ms",
        BrokerConfig.group_consumer_heartbeat_interval_ms,
        HEARTBEAT_INTERVAL_MS,
    )
    consumer_assignment_interval_ms = of_broker(
        "consumer.assignment.interval.ms",
        BrokerConfig.group_consumer_assignment_interval_ms,
        ASSIGNMENT_INTERVAL_MS,
    )
    share_session_timeout_ms = of_broker(
        "share.session.timeout.ms", BrokerConfig.group_share_session_timeout_ms, SESSION_TIMEOUT_MS
    )
    share_heartbeat_interval_ms = of_broker(
        "share.heartbeat.interval.ms",
        BrokerConfig.group_share_heartbeat_interval_ms,
        HEARTBEAT_INTERVAL_MS,
    )
    share_record_lock_duration_ms = of_broker(
        "share.record.lock.duration.ms",
        BrokerConfig.group_share_record_lock_duration_ms,
        between(15_000, 60_000),
    )
    share_delivery_count_limit = of_broker(
        "share.delivery.count.limit", BrokerConfig.group_share_delivery_count_limit, between(2, 10)
    )
    share_partition_max_record_locks = of_broker(
        "share.partition.max.record.locks",
        BrokerConfig.group_share_partition_max_record_locks,
        between(100, 4_000),
    )
    share_auto_offset_reset = string(
        "share.auto.offset.reset",
        "latest",
        valid_offset_reset(),
        refused({str(NONE): "A share group begins somewhere."}),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Where a share group begins to read. Share groups (KIP-932) are not here.",
    )
    share_isolation_level = choice(
        "share.isolation.level",
        "read_uncommitted",
        ("read_committed", "read_uncommitted"),
        update=UpdateMode.CLUSTER_WIDE,
        doc="How a share group reads transactions. Share groups (KIP-932) are not here.",
    )
    share_renew_acknowledge_enable = boolean(
        "share.renew.acknowledge.enable",
        True,
        update=UpdateMode.CLUSTER_WIDE,
        doc="Whether members renew their locks. Share groups (KIP-932) are not here.",
    )
    share_assignment_interval_ms = of_broker(
        "share.assignment.interval.ms",
        BrokerConfig.group_share_assignment_interval_ms,
        ASSIGNMENT_INTERVAL_MS,
    )
    streams_session_timeout_ms = of_broker(
        "streams.session.timeout.ms",
        BrokerConfig.group_streams_session_timeout_ms,
        SESSION_TIMEOUT_MS,
    )
    streams_heartbeat_interval_ms = of_broker(
        "streams.heartbeat.interval.ms",
        BrokerConfig.group_streams_heartbeat_interval_ms,
        HEARTBEAT_INTERVAL_MS,
    )
    streams_num_standby_replicas = of_broker(
        "streams.num.standby.replicas",
        BrokerConfig.group_streams_num_standby_replicas,
        between(0, 2),
    )
    streams_initial_rebalance_delay_ms = of_broker(
        "streams.initial.rebalance.delay.ms",
        BrokerConfig.group_streams_initial_rebalance_delay_ms,
        at_least(0),
    )
    streams_assignment_interval_ms = of_broker(
        "streams.assignment.interval.ms",
        BrokerConfig.group_streams_assignment_interval_ms,
        ASSIGNMENT_INTERVAL_MS,
    )

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        """Raises `ConfigError` for unknown names and invalid values."""
        super().__init__(broker, overrides)

    def inherited(self, setting: Setting[object]) -> tuple[Synonym, ...]:
        if setting.broker is not None:
            return super().inherited(setting)
        default = setting.text(setting.default)
        return (Synonym(setting.name, default, ConfigSource.DEFAULT_CONFIG),)
