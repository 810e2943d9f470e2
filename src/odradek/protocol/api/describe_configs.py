"""DescribeConfigs"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i8, message, struct


@struct
class DescribeConfigsResource:
    """The resources whose configurations we want to describe."""

    resource_type: i8
    resource_name: str
    configuration_keys: list[str] | None


@message(api=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest:
    """"""

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = field(default=False)
    include_documentation: bool = field(default=False, since=3)


@struct
class DescribeConfigsSynonym:
    """The synonyms for this configuration key."""

    name: str
    value: str | None
    source: i8


@struct
class DescribeConfigsResourceResult:
    """Each listed configuration."""

    name: str
    value: str | None
    read_only: bool
    config_source: i8 = field(default=-1)
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: i8 = field(default=0, since=3, ignorable=True)
    documentation: str | None = field(default="", since=3, ignorable=True)


@struct
class DescribeConfigsResult:
    """The results for each resource."""

    error_code: i16
    error_message: str | None
    resource_type: i8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


@message(api=32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    results: list[DescribeConfigsResult]
