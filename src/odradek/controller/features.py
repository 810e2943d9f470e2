"""Decisions of UpdateFeatures: finalized levels of features (KIP-584).

A level must be supported by this node and by every registered broker. A request changes all its
features or none. The level of `metadata.version` decides which versions of records are written
(`records`), so it goes down only where that loses nothing, which no two levels of this version are.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from odradek.controller.decision import ApiError, ControllerResult
from odradek.controller.image import ELIGIBLE_LEADER_REPLICAS_FEATURE, MetadataImage
from odradek.controller.records import METADATA_VERSION, METADATA_VERSION_FEATURE
from odradek.model.errors import ErrorCode
from odradek.protocol.api.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.protocol.metadata_records import FeatureLevelRecord

TRANSACTION_VERSION_FEATURE = "transaction.version"
TRANSACTION_VERSION = 2
"""The level of new clusters: each transaction has an epoch of its own (KIP-890)."""
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION_FEATURE: (METADATA_VERSION, METADATA_VERSION),
    ELIGIBLE_LEADER_REPLICAS_FEATURE: (0, 1),
    TRANSACTION_VERSION_FEATURE: (0, TRANSACTION_VERSION),
}
"""The lowest and highest level of each feature that this version has."""
UPGRADE_TYPES_SINCE = 1
RESULTS_UNTIL = 1
NOT_SUPPORTED = (0, 0)


class UpgradeType(IntEnum):
    """The ways in which a level may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    version: int,
    supported: Mapping[str, tuple[int, int]],
    node_id: int,
) -> ControllerResult[UpdateFeaturesResponse]:
    """Return records for the levels, and one result for the request.

    `version`: of the request. `supported`: lowest and highest level of each feature of this node.
    """
    updates = {each.feature: each for each in request.feature_updates}
    records: list[object] = []
    for update in updates.values():
        try:
            _check(image, update, _upgrade_type(update, version), supported, node_id)
        except ApiError as error:
            return ControllerResult([], refused(error.error, error.message))
        records.append(
            FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        )
    results = [
        UpdatableFeatureResult(
            feature=each.feature, error_code=ErrorCode.NONE, error_message=ErrorCode.NONE.text
        )
        for each in (request.feature_updates if version <= RESULTS_UNTIL else ())
    ]
    response = UpdateFeaturesResponse(
        error_code=ErrorCode.NONE, error_message=None, results=results
    )
    return ControllerResult([] if request.validate_only else records, response)


def _upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    if version >= UPGRADE_TYPES_SINCE:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def _check(
    image: MetadataImage,
    update: FeatureUpdateKey,
    upgrade_type: int,
    supported: Mapping[str, tuple[int, int]],
    node_id: int,
) -> None:
    """Raise `ApiError` unless the feature may have this level."""
    name, level = update.feature, update.max_version_level
    if upgrade_type not in UpgradeType.__members__.values():
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    if level == 0 and name not in supported:
        raise _invalid(update, f"Feature {name[:249]} not found.")
    ranges = {f"Local controller {node_id}": supported.get(name, NOT_SUPPORTED)}
    for broker in image.brokers.values():
        levels = {feature: (low, high) for feature, low, high in broker.features}
        ranges[f"Broker {broker.id}"] = levels.get(name, NOT_SUPPORTED)
    for who, (low, high) in ranges.items():
        if high == 0 and level > 0:
            raise _invalid(update, f"{who} does not support this feature.")
        if not low <= level <= high:
            raise _invalid(update, f"{who} only supports versions {low}-{high}")
    present = image.features.get(name, 0)
    if level < present and upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > present and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if level < present and name == METADATA_VERSION_FEATURE:
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {present} to {level}. Refusing to "
            "perform the requested downgrade because it might delete metadata information.",
        )


def _invalid(update: FeatureUpdateKey, message: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature[:249]}. "
        f"{message}",
    )


def refused(error: ErrorCode, message: str | None = None) -> UpdateFeaturesResponse:
    """Return the response that refuses all changes of a request."""
    return UpdateFeaturesResponse(
        error_code=error,
        error_message="The update failed for all features since the following feature had an "
        f"error: {message or error.text}",
    )
