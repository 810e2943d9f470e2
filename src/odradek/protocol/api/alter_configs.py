"""AlterConfigs (key 33, versions 0 to 2): replace all settings of a resource.

- 2: flexible. A setting that is not named gets its default again: see IncrementalAlterConfigs.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@struct
class AlterableConfig:
    """A setting and its new value."""

    name: str
    value: str | None


@struct
class AlterConfigsResource:
    """One resource."""

    resource_type: i8 = field(doc="2 topic, 4 broker, 8 broker logger.")
    resource_name: str
    configs: list[AlterableConfig]


@message(api=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    """Replace the settings of resources."""

    resources: list[AlterConfigsResource]
    validate_only: bool


@struct
class AlterConfigsResourceResponse:
    """One resource."""

    error_code: i16
    error_message: str | None
    resource_type: i8
    resource_name: str


@message(api=33, versions=(0, 2), flexible=2)
class AlterConfigsResponse:
    """Per resource, the error or none."""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse]
