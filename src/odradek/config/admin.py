"""The settings of an admin client."""

from __future__ import annotations

from odradek.config.checks import at_least
from odradek.config.client import ClientConfig
from odradek.config.setting import MINUTE_MS, integer, long


class AdminConfig(ClientConfig):
    """All settings of an admin client, with values: a snapshot."""

    kind = "admin client"

    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        5 * MINUTE_MS,
        at_least(1),
        doc="A connection that nothing was asked over for so long is closed.",
    )
    default_api_timeout_ms = integer(
        "default.api.timeout.ms",
        60_000,
        at_least(0),
        doc="How long a call may take that was given no time of its own.",
    )
