"""ApiVersions"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@message(api=18, versions=(0, 5), flexible=3)
class ApiVersionsRequest:
    """"""

    client_software_name: str = field(default="", since=3, ignorable=True)
    client_software_version: str = field(default="", since=3, ignorable=True)
    cluster_id: str | None = field(default=None, since=5, ignorable=True)
    node_id: i32 = field(default=-1, since=5, ignorable=True)


@struct
class ApiVersion:
    """The APIs supported by the broker."""

    api_key: i16
    min_version: i16
    max_version: i16


@struct
class SupportedFeatureKey:
    """Features supported by the broker. Note: in v0-v3, features with MinSupportedVersion = 0 are omitted."""

    name: str
    min_version: i16
    max_version: i16


@struct
class FinalizedFeatureKey:
    """List of cluster-wide finalized features. The information is valid only if FinalizedFeaturesEpoch >= 0."""

    name: str
    max_version_level: i16
    min_version_level: i16


@message(api=18, versions=(0, 5), flexible=3)
class ApiVersionsResponse:
    """"""

    error_code: i16
    api_keys: list[ApiVersion]
    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(
        factory=list, tag=0, since=3, ignorable=True
    )
    finalized_features_epoch: i64 = field(default=-1, tag=1, since=3, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(
        factory=list, tag=2, since=3, ignorable=True
    )
    zk_migration_ready: bool = field(default=False, tag=3, since=3, ignorable=True)
