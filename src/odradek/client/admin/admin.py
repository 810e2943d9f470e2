"""`AdminCalls`: all administrative calls as one class, with those about the cluster's brokers.

The clients make methods of them: see `client.api_methods`.
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.client.admin.calls import Calls, raise_for_code
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.groups import GroupCalls
from odradek.client.admin.observation import ObservationCalls
from odradek.client.admin.quorum import QuorumCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.replicas import ReplicaCalls
from odradek.client.admin.results import Cluster, LogDirectory
from odradek.client.admin.topics import TopicCalls
from odradek.client.admin.transactions import TransactionCalls
from odradek.model.node import Node
from odradek.model.topics import TopicPartition
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.api.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


class ClusterCalls(Calls):
    """The calls about the cluster's brokers."""

    async def cluster(self, *, include_fenced: bool = False) -> Cluster:
        """Return the cluster's id, its controller and its brokers. `include_fenced`: also those
        that are registered and do not run, which a broker of Kafka 4 can tell (KIP-1073).
        """
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=include_fenced
        )

        async def attempt() -> Cluster:
            answer = await self.ask_any(request, DescribeClusterResponse)
            raise_for_code(answer.error_code, "describing the cluster", answer.error_message)
            nodes = (Node(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers)
            return Cluster(answer.cluster_id, answer.controller_id, tuple(sorted(nodes)))

        return await self.retry(attempt)

    async def log_dirs(
        self, broker_ids: int | Collection[int] | None = None
    ) -> dict[int, list[LogDirectory]]:
        """Return the data directories of one or several brokers (None: all), by broker."""
        request = DescribeLogDirsRequest(topics=None)

        async def attempt() -> dict[int, list[LogDirectory]]:
            requested = await self.named_brokers(broker_ids, "data directories")
            requests = dict.fromkeys(requested, request)
            answers = await self.ask_each(requests, DescribeLogDirsResponse)
            found = {}
            for node_id, answer in answers:
                raise_for_code(answer.error_code, f"data directories of broker {node_id}")
                found[node_id] = [directory_of(result) for result in answer.results]
            return found

        return await self.retry(attempt)


def directory_of(result: DescribeLogDirsResult) -> LogDirectory:
    """Return one directory of a response."""
    raise_for_code(result.error_code, f"data directory {result.log_dir}")
    replicas = {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }
    return LogDirectory(
        result.log_dir,
        result.total_bytes,
        result.usable_bytes,
        dict(sorted(replicas.items())),
        result.is_cordoned,
    )


class AdminCalls(
    TopicCalls,
    ConfigCalls,
    GroupCalls,
    RecordCalls,
    TransactionCalls,
    ClusterCalls,
    ReplicaCalls,
    QuorumCalls,
    ObservationCalls,
):
    """All administrative calls: topics, records, settings, groups, transactions, brokers, replicas,
    quorum."""
