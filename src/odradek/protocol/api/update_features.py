"""UpdateFeatures (key 57, versions 0 to 2): change finalized feature levels (KIP-584).

- 1: the type of the change, validation only. 2: no results per feature in the response.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@struct
class FeatureUpdateKey:
    """One feature and its new level; 0 removes it."""

    feature: str
    max_version_level: i16
    allow_downgrade: bool = field(default=False, until=0)
    upgrade_type: i8 = field(
        default=1, since=1, doc="1 upgrade, 2 downgrade without loss, 3 with loss."
    )


@message(api=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest:
    """Change levels of features, all or none."""

    timeout_ms: i32 = 60_000
    feature_updates: list[FeatureUpdateKey]
    validate_only: bool = field(default=False, since=1)


@struct
class UpdatableFeatureResult:
    """One feature."""

    feature: str
    error_code: i16
    error_message: str | None


@message(api=57, versions=(0, 2), flexible=0)
class UpdateFeaturesResponse:
    """The error or none, before version 2 also per feature."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None
    results: list[UpdatableFeatureResult] = field(factory=list, until=1, ignorable=True)
