"""ListConfigResources (key 74, versions 0 to 1): the resources that have settings (KIP-1142).

Version 0, ListClientMetricsResources, lists client metrics resources only (KIP-714).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@message(api=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest:
    """List resources of these types; empty for all."""

    resource_types: list[i8] = field(
        factory=list, since=1, doc="2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group"
    )


@struct
class ListedConfigResource:
    """One resource."""

    resource_name: str
    resource_type: i8 = field(default=16, since=1, ignorable=True)


@message(api=74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse:
    """The resources."""

    throttle_time_ms: i32 = 0
    error_code: i16
    config_resources: list[ListedConfigResource]
