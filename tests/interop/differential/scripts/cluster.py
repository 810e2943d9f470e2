"""ApiVersions, Metadata, descriptions of cluster, partitions and log dirs, InitProducerId."""

from __future__ import annotations

from uuid import UUID

from interop.differential.batches import good
from interop.differential.peer import Peer
from interop.differential.scripts.produce import producing
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from odradek.protocol.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic

UNKNOWN_ID = UUID(int=0x55)
NULLABLE_SINCE, AUTO_CREATION_SINCE, OPERATIONS_SINCE, IDS_SINCE = 1, 4, 8, 10


def api_versions(peer: Peer) -> None:
    """The served versions; invalid client names."""
    for version in peer.each_version(ApiVersionsRequest):
        peer.call(f"v{version}", ApiVersionsRequest(), version)
        for name, number in (
            ("apache-kafka-python", "1.0.0"),
            ("-dash", "1"),
            ("dash-", "1"),
            ("a b", "1"),
            ("a", "1 0"),
            ("a", ""),
            ("\u00e4", "1"),
            ("a.b-c", "v1.0-rc.1"),
        ):
            request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
            peer.call(f"v{version} {name!r} {number!r}", request, version)


def metadata(peer: Peer) -> None:
    """Topics by name, by id, all, none; automatic creation; authorized operations."""
    ids = [peer.new_topic(f"meta-{letter}", count) for letter, count in (("a", 1), ("b", 3))]
    for version in peer.each_version(MetadataRequest):
        if version >= NULLABLE_SINCE:
            peer.call(f"v{version} all", MetadataRequest(topics=None), version)
        for names in (
            [],
            ["meta-a"],
            ["meta-b", "meta-a"],
            ["meta-a", "meta-a"],
            ["bad name", "meta-a"],
            ["."],
            ["x" * 250],
        ):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
            peer.call(f"v{version} {[name[:20] for name in names]}", request, version)
        creating(peer, version)
        if version >= OPERATIONS_SINCE:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name="meta-a"), MetadataRequestTopic(name="bad name")],
                include_topic_authorized_operations=True,
            )
            if version <= IDS_SINCE:
                request.include_cluster_authorized_operations = True
            peer.call(f"v{version} operations", request, version)
        if version >= IDS_SINCE:
            by_id(peer, version, ids)


def creating(peer: Peer, version: int) -> None:
    """Unknown topics, with and without automatic creation."""
    refused = MetadataRequest(topics=[MetadataRequestTopic(name=f"meta-none-v{version}")])
    if version >= AUTO_CREATION_SINCE:
        refused.allow_auto_topic_creation = False
        peer.call(f"v{version} not to be made", refused, version)
    name = f"meta-made-v{version}"
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=each) for each in (name, "bad name", "meta-a", "")]
    )
    peer.call(f"v{version} to be made", request, version)
    peer.until_partition(name, 0, 0)
    peer.call(f"v{version} made", request, version)


def by_id(peer: Peer, version: int, ids: list[UUID]) -> None:
    """The fields exist from version 10 and are allowed from version 12."""
    for label, topics in (
        ("null names", [(None, topic_id) for topic_id in ids]),
        ("null name of an unknown id", [(None, UNKNOWN_ID)]),
        ("name and id", [("meta-a", ids[0])]),
        ("name and another's id", [("meta-a", ids[1])]),
        ("name and unknown id", [("meta-a", UNKNOWN_ID)]),
        ("null name and no id", [(None, ZERO_UUID)]),
        ("one by id, one by name", [(None, ids[0]), ("meta-b", ZERO_UUID)]),
        ("the same by id and name", [(None, ids[0]), ("meta-a", ZERO_UUID)]),
        ("the same id twice", [(None, ids[0]), (None, ids[0])]),
        ("known and unknown ids", [(None, ids[0]), (None, UNKNOWN_ID)]),
    ):
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in topics]
        )
        peer.call(f"v{version} {label}", request, version)


def describe_cluster(peer: Peer) -> None:
    """Brokers, controllers, and an unknown endpoint type."""
    for version in peer.each_version(DescribeClusterRequest):
        for operations in (False, True):
            for kind in (1, 2, 0, 9) if version >= 1 else (1,):
                request = DescribeClusterRequest(
                    include_cluster_authorized_operations=operations, endpoint_type=kind
                )
                peer.call(f"v{version} type {kind}, {operations}", request, version)


def topic_partitions(peer: Peer) -> None:
    """Pages, cursors, unknown names."""
    for letter, count in (("a", 3), ("b", 1), ("c", 5)):
        peer.new_topic(f"page-{letter}", count)
    names = ["page-a", "page-b", "page-c"]
    for limit in (-1, 0, 1, 2, 3, 4, 5, 9, 100_000):
        for cursor in (None, *((name, index) for name in names for index in (-1, 0, 1, 4, 5, 9))):
            for asked in (names, ["page-c", "page-a"], ["page-b", "page-none", "bad name"]):
                request = DescribeTopicPartitionsRequest(
                    topics=[TopicRequest(name=name) for name in asked],
                    response_partition_limit=limit,
                    cursor=None
                    if cursor is None
                    else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
                )
                peer.call(f"{asked} limit {limit} from {cursor}", request, 0)
    for label, request in (
        ("all", DescribeTopicPartitionsRequest(topics=[])),
        (
            "all, two at a time",
            DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2),
        ),
        ("twice", DescribeTopicPartitionsRequest(topics=[TopicRequest(name="page-a")] * 2)),
        (
            "from one that is gone",
            DescribeTopicPartitionsRequest(
                topics=[], cursor=Cursor(topic_name="page-aa", partition_index=1)
            ),
        ),
        (
            "from the end",
            DescribeTopicPartitionsRequest(
                topics=[], cursor=Cursor(topic_name="zzz", partition_index=0)
            ),
        ),
    ):
        peer.call(label, request, 0)


def log_dirs(peer: Peer) -> None:
    """Sizes of all partitions, of some, of none."""
    topic_id = peer.new_topic("sized", 2)
    peer.ask(producing("sized", topic_id, [(0, good()), (1, good(1))], acks=-1), 13)
    for version in peer.each_version(DescribeLogDirsRequest):
        for label, asked in (
            ("both", [("sized", [0, 1])]),
            ("one", [("sized", [1])]),
            ("partition 9", [("sized", [9])]),
            ("one of two", [("sized", [9, 0])]),
            ("unknown", [("sized-none", [0])]),
            ("twice", [("sized", [0, 0])]),
            ("no partitions", [("sized", [])]),
            ("nothing", []),
        ):
            request = DescribeLogDirsRequest(
                topics=[DescribableLogDirTopic(topic=name, partitions=each) for name, each in asked]
            )
            peer.call(f"v{version} {label}", request, version)
        peer.call(f"v{version} all", DescribeLogDirsRequest(topics=None), version)


def init_producer_id(peer: Peer) -> None:
    """Without a transactional id; with ids and epochs that do not match."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
    peer.until(lambda: peer.ask(request, 0).error_code == 0)
    for version in peer.each_version(InitProducerIdRequest):
        for timeout_ms in (60000, 0, -1):
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=timeout_ms
            )
            peer.call(f"v{version} timeout {timeout_ms}", request, version)
        empty = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60000)
        peer.call(f"v{version} empty transactional id", empty, version)
        if version >= 3:
            for producer_id, epoch in ((5, 0), (5, -1), (-1, 0), (-1, -1), (5, 32767), (-7, -7)):
                request = InitProducerIdRequest(
                    transactional_id=None,
                    transaction_timeout_ms=60000,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                )
                peer.call(f"v{version} {producer_id} epoch {epoch}", request, version)
