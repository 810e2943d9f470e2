"""ApiVersions (key 18, versions 0 to 5): the versions of each API that the broker serves.

It is the first request on a connection, when neither side knows the other's versions: a broker
answers a version that it does not know with a version 0 body, UNSUPPORTED_VERSION and the version
range of this API; and the response has header v0 in every version (KIP-511).

- 3: flexible; name and version of the client; features of the cluster (KIP-584).
- 4: a feature's lowest supported level may be 0 (KAFKA-17011).
- 5: the cluster and node that the client expects; REBOOTSTRAP_REQUIRED if the broker is another
  one (KIP-1242).
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.schema import field, i16, i32, i64, message, struct

SOFTWARE_NAME: Final = "odradek-python"
"""The software name of our own clients (KIP-511)."""


@message(api=18, versions=(0, 5), flexible=3)
class ApiVersionsRequest:
    """Requests the versions that the broker serves."""

    client_software_name: str = field(default="", since=3, ignorable=True)
    client_software_version: str = field(default="", since=3, ignorable=True)
    cluster_id: str | None = field(
        default=None, since=5, ignorable=True, doc="Together with `node_id`, or neither."
    )
    node_id: i32 = field(default=-1, since=5, ignorable=True)


@struct
class ApiVersion:
    """The versions of one API."""

    api_key: i16
    min_version: i16
    max_version: i16


@struct
class SupportedFeatureKey:
    """The levels of a feature that the broker supports. Up to version 3, none lower than 1."""

    name: str
    min_version: i16
    max_version: i16


@struct
class FinalizedFeatureKey:
    """The level of a feature that the cluster has agreed on."""

    name: str
    max_version_level: i16
    min_version_level: i16


@message(api=18, versions=(0, 5), flexible=3)
class ApiVersionsResponse:
    """The APIs and features that the broker serves."""

    error_code: i16
    api_keys: list[ApiVersion]
    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(
        factory=list, tag=0, since=3, ignorable=True
    )
    finalized_features_epoch: i64 = field(
        default=-1, tag=1, since=3, ignorable=True, doc="-1 unknown: the features are not valid."
    )
    finalized_features: list[FinalizedFeatureKey] = field(
        factory=list, tag=2, since=3, ignorable=True
    )
    zk_migration_ready: bool = field(default=False, tag=3, since=3, ignorable=True)
