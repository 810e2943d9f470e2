"""AlterConfigs"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i8, message, struct


@struct
class AlterableConfig:
    """The configurations."""

    name: str
    value: str | None


@struct
class AlterConfigsResource:
    """The updates for each resource."""

    resource_type: i8
    resource_name: str
    configs: list[AlterableConfig]


@message(api=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    """"""

    resources: list[AlterConfigsResource]
    validate_only: bool


@struct
class AlterConfigsResourceResponse:
    """The responses for each resource."""

    error_code: i16
    error_message: str | None
    resource_type: i8
    resource_name: str


@message(api=33, versions=(0, 2), flexible=2)
class AlterConfigsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    responses: list[AlterConfigsResourceResponse]
