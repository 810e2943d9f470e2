"""The settings that all clients have: where the cluster is, and how connections are made and kept.

Names, defaults and bounds are Kafka's. There is no setting here that nothing looks at.
"""

from __future__ import annotations

from odradek.config.checks import at_least, at_most_bytes, refused
from odradek.config.client_loading import ClientSettings
from odradek.config.setting import MINUTE_MS, choice, integer, long, string, strings

SECURITY = dict.fromkeys(
    ("SSL", "SASL_PLAINTEXT", "SASL_SSL"), "this client speaks PLAINTEXT only, so far"
)


PROTOCOL_TEXT_MAX = 32_767
"""As long as a text in a request may be, in bytes."""


class ConnectionSettings(ClientSettings):
    """Finding the cluster and talking to its nodes."""

    bootstrap_servers = strings(
        "bootstrap.servers",
        (),
        doc="Where to find the cluster, as host:port. Some of its brokers will do: they name the "
        "others.",
    )
    client_id = string(
        "client.id",
        "odradek",
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="What brokers are told about who asks, for their logs.",
    )
    security_protocol = choice(
        "security.protocol",
        "PLAINTEXT",
        ("PLAINTEXT", *SECURITY),
        refused(SECURITY),
        doc="How connections are secured.",
    )
    request_timeout_ms = integer(
        "request.timeout.ms",
        30_000,
        at_least(0),
        doc="How long an answer may take. Then the connection is given up, and the request counts "
        "as failed.",
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        9 * MINUTE_MS,
        at_least(1),
        doc="A connection that nothing was asked over for so long is closed.",
    )
    reconnect_backoff_ms = long(
        "reconnect.backoff.ms",
        50,
        at_least(0),
        doc="Pause before connecting again to a broker that could not be reached or went away. It "
        "doubles with each failure, give or take 20 %.",
    )
    reconnect_backoff_max_ms = long(
        "reconnect.backoff.max.ms", 1000, at_least(0), doc="The longest such pause."
    )
    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        at_least(1),
        doc="How long connecting may take. It doubles with each attempt that came to nothing.",
    )
    socket_connection_setup_timeout_max_ms = long(
        "socket.connection.setup.timeout.max.ms", 30_000, at_least(1), doc="The longest such time."
    )


class MetadataSettings(ClientSettings):
    """Knowing who leads what."""

    metadata_max_age_ms = long(
        "metadata.max.age.ms",
        5 * MINUTE_MS,
        at_least(0),
        doc="What is known of the cluster is asked for again after this time, even if nothing "
        "seems to have changed.",
    )
    metadata_recovery_strategy = choice(
        "metadata.recovery.strategy",
        "rebootstrap",
        ("none", "rebootstrap"),
        doc="What to do when none of the known brokers can be reached: go on trying (`none`), or "
        "begin again with bootstrap.servers.",
    )
    metadata_recovery_rebootstrap_trigger_ms = long(
        "metadata.recovery.rebootstrap.trigger.ms",
        5 * MINUTE_MS,
        at_least(0),
        doc="Begin again with bootstrap.servers also when brokers are reached, and do not answer "
        "what the cluster looks like for so long.",
    )
    retry_backoff_ms = long(
        "retry.backoff.ms",
        100,
        at_least(0),
        doc="Pause before a request that failed is tried again. It doubles with each failure, give "
        "or take 20 %.",
    )
    retry_backoff_max_ms = long(
        "retry.backoff.max.ms", 1000, at_least(0), doc="The longest such pause."
    )


class ClientConfig(ConnectionSettings, MetadataSettings):
    """What every client has, with values: a snapshot."""
