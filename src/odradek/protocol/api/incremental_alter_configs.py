"""IncrementalAlterConfigs (key 44, versions 0 and 1): change settings one by one (KIP-339).

- 1: flexible.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@struct
class AlterableConfig:
    """A setting and its new value."""

    name: str
    config_operation: i8 = field(doc="0 set, 1 delete, 2 append, 3 subtract.")
    value: str | None


@struct
class AlterConfigsResource:
    """One resource."""

    resource_type: i8 = field(doc="2 topic, 4 broker, 8 broker logger.")
    resource_name: str
    configs: list[AlterableConfig]


@message(api=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    """Change settings of resources."""

    resources: list[AlterConfigsResource]
    validate_only: bool


@struct
class AlterConfigsResourceResponse:
    """One resource."""

    error_code: i16
    error_message: str | None
    resource_type: i8
    resource_name: str


@message(api=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse:
    """Per resource, the error or none."""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse]
