"""UpdateFeatures where this version and the brokers support several levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.controller.features import SUPPORTED_FEATURES, update_features
from odradek.controller.image import MetadataImage
from odradek.model.errors import ErrorCode
from odradek.protocol.api.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from unit.controller.cluster_making import an_image, replay_all

UPGRADE, SAFE, UNSAFE = 1, 2, 3
SUPPORTED = {"metadata.version": (30, 31), "other.version": (0, 2)}


@pytest.fixture
def image() -> MetadataImage:
    image = an_image(1, 2)
    del image.features["transaction.version"]
    supported = tuple((name, *levels) for name, levels in SUPPORTED.items())
    for number, broker in list(image.brokers.items()):
        image.brokers[number] = replace(broker, features=supported)
    return image


def update(
    image: MetadataImage, *changes: tuple[str, int, int], version: int = 2, check: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in changes
        ],
        validate_only=check,
    )
    decision = update_features(image, request, version, SUPPORTED, 1)
    replay_all(image, decision.records)
    return decision.response


def test_a_supported_level_is_finalized(image: MetadataImage) -> None:
    response = update(image, ("other.version", 2, UPGRADE))
    assert (response.error_code, response.error_message) == (0, None)
    assert image.features == {"metadata.version": 30, "other.version": 2}


def test_level_0_removes_a_feature(image: MetadataImage) -> None:
    update(image, ("other.version", 2, UPGRADE))
    assert update(image, ("other.version", 0, SAFE)).error_code == 0
    assert image.features == {"metadata.version": 30}


def test_validation_only_changes_nothing(image: MetadataImage) -> None:
    assert update(image, ("other.version", 1, UPGRADE), check=True).error_code == 0
    assert "other.version" not in image.features


def test_one_wrong_feature_refuses_all(image: MetadataImage) -> None:
    response = update(image, ("other.version", 1, UPGRADE), ("none", 1, UPGRADE))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "does not support this feature" in (response.error_message or "")
    assert image.features == {"metadata.version": 30}


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        ("other.version", 3, UPGRADE, "only supports versions 0-2"),
        ("other.version", -1, SAFE, "less than 0"),
        ("other.version", 1, SAFE, "downgrade to a newer version"),
        ("other.version", 1, 9, "upgrade type"),
        ("metadata.version", 0, SAFE, "only supports versions 30-31"),
    ],
)
def test_wrong_levels_are_refused(
    image: MetadataImage, name: str, level: int, kind: int, reason: str
) -> None:
    response = update(image, (name, level, kind))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert reason in (response.error_message or "")


def test_a_lower_level_needs_a_downgrade(image: MetadataImage) -> None:
    update(image, ("other.version", 2, UPGRADE))
    refused = update(image, ("other.version", 1, UPGRADE))
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(image, ("other.version", 1, SAFE)).error_code == 0
    assert image.features["other.version"] == 1


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_the_metadata_version_never_goes_down(image: MetadataImage, kind: int) -> None:
    assert update(image, ("metadata.version", 31, UPGRADE)).error_code == 0
    refused = update(image, ("metadata.version", 30, kind))
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert image.features["metadata.version"] == 31


def test_a_level_that_a_broker_does_not_support_is_refused(image: MetadataImage) -> None:
    image.brokers[2] = replace(image.brokers[2], features=(("other.version", 0, 1),))
    response = update(image, ("other.version", 2, UPGRADE))
    assert "Broker 2 only supports versions 0-1" in (response.error_message or "")


def test_version_0_says_by_a_flag_that_a_downgrade_is_allowed(image: MetadataImage) -> None:
    update(image, ("other.version", 2, UPGRADE))
    key = FeatureUpdateKey(feature="other.version", max_version_level=1)
    request = UpdateFeaturesRequest(feature_updates=[key])
    refused = update_features(image, request, 0, SUPPORTED, 1).response
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    key.allow_downgrade = True
    accepted = update_features(image, request, 0, SUPPORTED, 1).response
    assert [(each.feature, each.error_code) for each in accepted.results] == [("other.version", 0)]


def test_the_level_of_eligible_leader_replicas_may_go_up_and_down() -> None:
    image = an_image(1, 2)
    name = "eligible.leader.replicas.version"

    def finalize(level: int, kind: int) -> int:
        request = UpdateFeaturesRequest(
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            ]
        )
        decision = update_features(image, request, 2, SUPPORTED_FEATURES, 1)
        replay_all(image, decision.records)
        return decision.response.error_code

    assert finalize(2, UPGRADE) == ErrorCode.INVALID_UPDATE_VERSION
    assert finalize(1, UPGRADE) == 0
    assert image.keeps_eligible_leader_replicas
    assert finalize(0, SAFE) == 0
    assert not image.keeps_eligible_leader_replicas
    image.brokers[2] = replace(image.brokers[2], features=(("metadata.version", 30, 30),))
    assert finalize(1, UPGRADE) == ErrorCode.INVALID_UPDATE_VERSION, "broker 2 does not support it"
