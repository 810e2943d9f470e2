"""Kafka's broker settings without effect here, since this broker has nothing that they configure.

AlterConfigs accepts and keeps them by Kafka's types and rules, and DescribeConfigs shows them, so
that tools and scripts made for Kafka need no special case. They cannot be given at the start: a
broker that accepted `ssl.client.auth` there, for example, would promise what it does not do.

Left out are those that Kafka accepts with a listener's prefix only (keys and certificates).
"""

from __future__ import annotations

from odradek.config.setting import (
    GIB,
    INT_MAX,
    LONG_MAX,
    MIB,
    ConfigType,
    Setting,
    UpdateMode,
    Validator,
    at_least,
    between,
    boolean,
    choice,
    double,
    integer,
    long,
    matching,
    optional_string,
    short,
    string,
    strings,
)
from odradek.config.settings import Settings

CLUSTER_WIDE, PER_BROKER = UpdateMode.CLUSTER_WIDE, UpdateMode.PER_BROKER
NEVER_MORE = "The broker has one thread for this, whatever the value."
PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
NO_TIERS = "Of tiered storage, which this broker does not have."
NO_SASL = "Of SASL, which this broker does not have."
NO_TLS = "Of TLS, which this broker does not have."
NO_SECOND_DIRECTORY = "Of several data directories: a broker has one."
NO_CONSUMER_PROTOCOL = "Of groups by the protocol of KIP-848, which this broker does not have."
NO_SHARE_GROUPS = "Of share groups (KIP-932), which this broker does not have."
NO_STREAMS_GROUPS = "Of streams groups (KIP-1071), which this broker does not have."


def of_clusters(name: str, default: int, doc: str, *rules: Validator[int]) -> Setting[int]:
    """Declare 32 bits that may be changed for all brokers or for one."""
    return integer(name, default, *rules, update=CLUSTER_WIDE, doc=doc)


class ThreadSettings(Settings):
    """Numbers of threads, which are fixed here."""

    log_cleaner_threads = of_clusters("log.cleaner.threads", 1, NEVER_MORE, at_least(1))
    num_io_threads = of_clusters("num.io.threads", 8, NEVER_MORE, at_least(1))
    num_network_threads = of_clusters("num.network.threads", 3, NEVER_MORE, at_least(1))
    num_recovery_threads_per_data_dir = of_clusters(
        "num.recovery.threads.per.data.dir", 2, NEVER_MORE, at_least(1)
    )
    num_replica_fetchers = of_clusters(
        "num.replica.fetchers",
        1,
        "A leader has one fetcher for replicas that are in sync and one for those that catch up, "
        "whatever the value.",
        at_least(1),
    )


class ForeignNetworkSettings(Settings):
    """Connections and plug-ins of Kafka."""

    max_connection_creation_rate = of_clusters(
        "max.connection.creation.rate",
        INT_MAX,
        "The rate of new connections is not limited; max.connections is.",
        at_least(1),
    )
    max_connections_per_ip_overrides = string(
        "max.connections.per.ip.overrides",
        "",
        matching(
            r"([^,]*:\s*[0-9]+\s*(,[^,]*:\s*[0-9]+\s*)*)?",
            "expected ADDRESS:COUNT,...",
            "`ADDRESS:COUNT,...`",
        ),
        update=CLUSTER_WIDE,
        doc="All addresses have the same limit here: max.connections.per.ip.",
    )
    metric_reporters = strings(
        "metric.reporters",
        ("org.apache.kafka.common.metrics.JmxReporter",),
        update=CLUSTER_WIDE,
        doc="Java classes, which this broker does not load.",
    )
    principal_builder_class = Setting[str](
        "principal.builder.class",
        ConfigType.CLASS,
        PRINCIPAL_BUILDER,
        (
            Validator(
                "Kafka's own class",
                lambda name: (
                    None if name == PRINCIPAL_BUILDER else f"Class {name} could not be found."
                ),
            ),
        ),
        update=PER_BROKER,
        doc="A Java class, which this broker does not load: its clients have no names.",
    )
    config_providers = strings(
        "config.providers",
        (),
        update=CLUSTER_WIDE,
        doc="Java classes, which this broker does not load.",
    )
    group_coordinator_cached_buffer_max_bytes = of_clusters(
        "group.coordinator.cached.buffer.max.bytes",
        MIB + 12,
        "The coordinator of groups keeps no buffers here.",
        at_least(512 * 1024),
    )
    share_coordinator_cached_buffer_max_bytes = of_clusters(
        "share.coordinator.cached.buffer.max.bytes", MIB + 12, NO_SHARE_GROUPS, at_least(512 * 1024)
    )


class TieredStorageSettings(Settings):
    """Tiered storage and several data directories."""

    follower_fetch_last_tiered_offset_enable = boolean(
        "follower.fetch.last.tiered.offset.enable", False, update=CLUSTER_WIDE, doc=NO_TIERS
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG_MAX,
        at_least(0),
        update=CLUSTER_WIDE,
        hidden_unless_set=True,
        doc=NO_SECOND_DIRECTORY,
    )
    remote_fetch_max_wait_ms = of_clusters("remote.fetch.max.wait.ms", 500, NO_TIERS, at_least(1))
    remote_list_offsets_request_timeout_ms = long(
        "remote.list.offsets.request.timeout.ms",
        30_000,
        at_least(1),
        update=CLUSTER_WIDE,
        doc=NO_TIERS,
    )
    remote_log_index_file_cache_total_size_bytes = long(
        "remote.log.index.file.cache.total.size.bytes",
        GIB,
        at_least(1),
        update=CLUSTER_WIDE,
        doc=NO_TIERS,
    )
    remote_log_manager_copier_thread_pool_size = of_clusters(
        "remote.log.manager.copier.thread.pool.size", 10, NO_TIERS, at_least(1)
    )
    remote_log_manager_copy_max_bytes_per_second = long(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG_MAX,
        at_least(1),
        update=CLUSTER_WIDE,
        doc=NO_TIERS,
    )
    remote_log_manager_expiration_thread_pool_size = of_clusters(
        "remote.log.manager.expiration.thread.pool.size", 10, NO_TIERS, at_least(1)
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        "remote.log.manager.fetch.max.bytes.per.second",
        LONG_MAX,
        at_least(1),
        update=CLUSTER_WIDE,
        doc=NO_TIERS,
    )
    remote_log_manager_follower_thread_pool_size = of_clusters(
        "remote.log.manager.follower.thread.pool.size", 2, NO_TIERS, at_least(1)
    )
    remote_log_reader_threads = of_clusters("remote.log.reader.threads", 10, NO_TIERS, at_least(1))


def of_sasl(name: str, default: str) -> Setting[str]:
    """Declare a text of SASL."""
    return string(name, default, update=PER_BROKER, doc=NO_SASL)


def of_tls(name: str, default: str) -> Setting[str]:
    """Declare a text of TLS."""
    return string(name, default, update=PER_BROKER, doc=NO_TLS)


class SecuritySettings(Settings):
    """SASL and TLS."""

    sasl_enabled_mechanisms = strings(
        "sasl.enabled.mechanisms", ("GSSAPI",), update=PER_BROKER, doc=NO_SASL
    )
    sasl_jaas_config = Setting[str | None](
        "sasl.jaas.config",
        ConfigType.PASSWORD,
        None,
        (),
        sensitive=True,
        update=PER_BROKER,
        doc=NO_SASL,
    )
    sasl_kerberos_kinit_cmd = of_sasl("sasl.kerberos.kinit.cmd", "/usr/bin/kinit")
    sasl_kerberos_min_time_before_relogin = long(
        "sasl.kerberos.min.time.before.relogin", 60_000, update=PER_BROKER, doc=NO_SASL
    )
    sasl_kerberos_principal_to_local_rules = strings(
        "sasl.kerberos.principal.to.local.rules", ("DEFAULT",), update=PER_BROKER, doc=NO_SASL
    )
    sasl_kerberos_service_name = optional_string(
        "sasl.kerberos.service.name", update=PER_BROKER, doc=NO_SASL
    )
    sasl_kerberos_ticket_renew_jitter = double(
        "sasl.kerberos.ticket.renew.jitter", 0.05, update=PER_BROKER, doc=NO_SASL
    )
    sasl_kerberos_ticket_renew_window_factor = double(
        "sasl.kerberos.ticket.renew.window.factor", 0.8, update=PER_BROKER, doc=NO_SASL
    )
    sasl_login_refresh_buffer_seconds = short(
        "sasl.login.refresh.buffer.seconds", 300, update=PER_BROKER, doc=NO_SASL
    )
    sasl_login_refresh_min_period_seconds = short(
        "sasl.login.refresh.min.period.seconds", 60, update=PER_BROKER, doc=NO_SASL
    )
    sasl_login_refresh_window_factor = double(
        "sasl.login.refresh.window.factor", 0.8, update=PER_BROKER, doc=NO_SASL
    )
    sasl_login_refresh_window_jitter = double(
        "sasl.login.refresh.window.jitter", 0.05, update=PER_BROKER, doc=NO_SASL
    )
    sasl_mechanism_inter_broker_protocol = of_sasl("sasl.mechanism.inter.broker.protocol", "GSSAPI")
    ssl_cipher_suites = strings("ssl.cipher.suites", (), update=PER_BROKER, doc=NO_TLS)
    ssl_client_auth = choice(
        "ssl.client.auth",
        "none",
        ("required", "requested", "none"),
        update=PER_BROKER,
        doc=NO_TLS,
    )
    ssl_enabled_protocols = strings(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), update=PER_BROKER, doc=NO_TLS
    )
    ssl_endpoint_identification_algorithm = of_tls("ssl.endpoint.identification.algorithm", "https")
    ssl_keymanager_algorithm = of_tls("ssl.keymanager.algorithm", "SunX509")
    ssl_protocol = of_tls("ssl.protocol", "TLSv1.3")
    ssl_provider = optional_string("ssl.provider", update=PER_BROKER, doc=NO_TLS)
    ssl_secure_random_implementation = optional_string(
        "ssl.secure.random.implementation", update=PER_BROKER, doc=NO_TLS
    )
    ssl_trustmanager_algorithm = of_tls("ssl.trustmanager.algorithm", "PKIX")


class NewerGroupSettings(Settings):
    """Defaults of the settings of groups (`config.group`) whose protocols are not here."""

    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms", 45_000, at_least(1), doc=NO_CONSUMER_PROTOCOL
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms", 5_000, at_least(1), doc=NO_CONSUMER_PROTOCOL
    )
    group_consumer_assignment_interval_ms = of_clusters(
        "group.consumer.assignment.interval.ms", 1_000, NO_CONSUMER_PROTOCOL, at_least(0)
    )
    group_share_session_timeout_ms = integer(
        "group.share.session.timeout.ms", 45_000, at_least(1), doc=NO_SHARE_GROUPS
    )
    group_share_heartbeat_interval_ms = integer(
        "group.share.heartbeat.interval.ms", 5_000, at_least(1), doc=NO_SHARE_GROUPS
    )
    group_share_record_lock_duration_ms = integer(
        "group.share.record.lock.duration.ms",
        30_000,
        between(1_000, 3_600_000),
        doc=NO_SHARE_GROUPS,
    )
    group_share_delivery_count_limit = integer(
        "group.share.delivery.count.limit", 5, between(2, 10), doc=NO_SHARE_GROUPS
    )
    group_share_partition_max_record_locks = integer(
        "group.share.partition.max.record.locks", 2_000, between(100, 10_000), doc=NO_SHARE_GROUPS
    )
    group_share_assignment_interval_ms = of_clusters(
        "group.share.assignment.interval.ms", 1_000, NO_SHARE_GROUPS, at_least(0)
    )
    group_streams_session_timeout_ms = integer(
        "group.streams.session.timeout.ms", 45_000, at_least(1), doc=NO_STREAMS_GROUPS
    )
    group_streams_heartbeat_interval_ms = integer(
        "group.streams.heartbeat.interval.ms", 5_000, at_least(1), doc=NO_STREAMS_GROUPS
    )
    group_streams_num_standby_replicas = integer(
        "group.streams.num.standby.replicas", 0, at_least(0), doc=NO_STREAMS_GROUPS
    )
    group_streams_initial_rebalance_delay_ms = integer(
        "group.streams.initial.rebalance.delay.ms", 3_000, at_least(0), doc=NO_STREAMS_GROUPS
    )
    group_streams_assignment_interval_ms = of_clusters(
        "group.streams.assignment.interval.ms", 1_000, NO_STREAMS_GROUPS, at_least(0)
    )


class SettingsWithoutEffect(
    ThreadSettings,
    ForeignNetworkSettings,
    TieredStorageSettings,
    SecuritySettings,
    NewerGroupSettings,
):
    """All broker settings without effect."""
