"""DescribeConfigs (key 32, versions 1 to 4): settings with their sources.

- 1 is the floor: synonyms, source. 3: type and documentation (KIP-569). 4: flexible.

Sources: 1 topic, 2 dynamic broker, 3 dynamic default broker, 4 static broker, 5 default, 6 dynamic
broker logger, 7 client metrics, 8 group. Types: 0 unknown, 1 boolean, 2 string, 3 int, 4 short,
5 long, 6 double, 7 list, 8 class, 9 password.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@struct
class DescribeConfigsResource:
    """A resource and the names of its settings to describe; null for all."""

    resource_type: i8 = field(doc="2 topic, 4 broker, 8 broker logger.")
    resource_name: str
    configuration_keys: list[str] | None


@message(api=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest:
    """Describe settings of resources."""

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: bool = field(default=False, since=3)


@struct
class DescribeConfigsSynonym:
    """Another name that the value may come from, the most specific first."""

    name: str
    value: str | None
    source: i8


@struct
class DescribeConfigsResourceResult:
    """One setting."""

    name: str
    value: str | None
    read_only: bool
    config_source: i8 = -1
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: i8 = field(default=0, since=3, ignorable=True)
    documentation: str | None = field(default="", since=3, ignorable=True)


@struct
class DescribeConfigsResult:
    """One resource."""

    error_code: i16
    error_message: str | None
    resource_type: i8 = field(doc="2 topic, 4 broker, 8 broker logger.")
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


@message(api=32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse:
    """Per resource, its settings."""

    throttle_time_ms: i32 = 0
    results: list[DescribeConfigsResult]
