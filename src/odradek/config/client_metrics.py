"""The settings of a subscription to metrics of clients (KIP-714): resource type 16.

They are kept and shown. They have no effect: the requests by which clients would send their metrics
are not served, which a Kafka without a plug-in for them does not either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odradek.config.setting import UpdateMode, Validator, integer, strings
from odradek.config.settings import ConfigSource, ResourceConfig, Settings

MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
INTERVAL_MS = range(100, 3_600_001)
MAX_PATTERN_LENGTH = 1_000


def match_problem(value: str) -> str | None:
    """Return the problem of an element of `match`: NAME=REGULAR EXPRESSION."""
    name, separator, pattern = value.partition("=")
    illegal = f"Illegal client matching pattern: {value[:249]}"
    if not separator or "=" in pattern or name.strip() not in MATCHED:
        return illegal
    if not pattern or len(pattern) > MAX_PATTERN_LENGTH:
        return illegal
    try:
        re.compile(pattern.strip())
    except (re.error, RecursionError, OverflowError):
        return illegal
    return None


class ClientMetricsConfig(ResourceConfig):
    """A snapshot of the values of all settings of a subscription."""

    unknown = "Unknown client metrics configuration"
    own_source = ConfigSource.CLIENT_METRICS_CONFIG

    metrics = strings(
        "metrics",
        (),
        update=UpdateMode.CLUSTER_WIDE,
        doc="Prefixes of the names of the metrics that clients send; `*` for all.",
    )
    interval_ms = integer(
        "interval.ms",
        300_000,
        update=UpdateMode.CLUSTER_WIDE,
        doc="The time between two transmissions of a client.",
    )
    match = strings(
        "match",
        (),
        Validator("`NAME=REGULAR EXPRESSION,...`", match_problem),
        update=UpdateMode.CLUSTER_WIDE,
        doc="The clients that send metrics, by properties such as `client_id`.",
    )

    def __init__(self, broker: Settings, overrides: Mapping[str, str]) -> None:
        """Raises `ConfigError` for unknown names and invalid values."""
        super().__init__(broker, overrides)
