"""UpdateFeatures and DescribeQuorum: the levels of features and the quorum of the metadata log."""

from __future__ import annotations

from interop.differential.peer import Peer
from odradek.protocol.api.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest
from odradek.protocol.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TYPE_SINCE = 1
UPGRADE, SAFE, UNSAFE = 1, 2, 3
VERSION = "metadata.version"
LEVEL = 30
UPDATES: tuple[tuple[tuple[str, int, int], ...], ...] = (
    (),
    ((VERSION, LEVEL, UPGRADE),),
    ((VERSION, LEVEL, SAFE),),
    ((VERSION, LEVEL, UNSAFE),),
    ((VERSION, LEVEL + 1, UPGRADE),),
    ((VERSION, LEVEL + 100, UPGRADE),),
    ((VERSION, 0, SAFE),),
    ((VERSION, 0, UNSAFE),),
    ((VERSION, -1, SAFE),),
    ((VERSION, 1, UPGRADE),),
    ((VERSION, 1, SAFE),),
    ((VERSION, LEVEL, 0),),
    ((VERSION, LEVEL, 4),),
    (("no.such.feature", 1, UPGRADE),),
    (("no.such.feature", 0, UPGRADE),),
    (("no.such.feature", 0, SAFE),),
    (("no.such.feature", -1, UPGRADE),),
    (("", 1, UPGRADE),),
    ((VERSION, LEVEL, UPGRADE), ("no.such.feature", 1, UPGRADE)),
    ((VERSION, LEVEL, UPGRADE), (VERSION, LEVEL, UPGRADE)),
)


def updates(peer: Peer) -> None:
    """The level that there is, higher, lower and unknown ones; checked only and done."""
    for version in peer.each_version(UpdateFeaturesRequest):
        for changes in UPDATES:
            for validate_only in (True, False) if version >= TYPE_SINCE else (False,):
                request = UpdateFeaturesRequest(
                    feature_updates=[updating(version, *change) for change in changes],
                    validate_only=validate_only,
                )
                told = "checked" if validate_only else "done"
                peer.call(f"v{version} {changes}, {told}", request, version)


def unregistering(peer: Peer) -> None:
    """Brokers that are not in the cluster: its only one would be removed by a real Kafka."""
    for version in peer.each_version(UnregisterBrokerRequest):
        for broker_id in (77, -1):
            request = UnregisterBrokerRequest(broker_id=broker_id)
            peer.call(f"v{version} {broker_id}", request, version)


def updating(version: int, feature: str, level: int, kind: int) -> FeatureUpdateKey:
    if version >= TYPE_SINCE:
        return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    return FeatureUpdateKey(
        feature=feature, max_version_level=level, allow_downgrade=kind != UPGRADE
    )


LOG = "__cluster_metadata"


def quorum(peer: Peer) -> None:
    """The metadata log; other partitions; nothing."""
    for version in peer.each_version(DescribeQuorumRequest):
        for topics in (
            ((LOG, [0]),),
            ((LOG, [1]),),
            ((LOG, [0, 1]),),
            ((LOG, [0]), ("other", [0])),
            (("other", [0, 3]),),
            ((LOG, []),),
            (),
        ):
            request = DescribeQuorumRequest(
                topics=[
                    DescribeQuorumTopic(
                        topic_name=name,
                        partitions=[DescribeQuorumPartition(partition_index=i) for i in indexes],
                    )
                    for name, indexes in topics
                ]
            )
            peer.call(f"v{version} {topics}", request, version)
