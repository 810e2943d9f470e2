"""DescribeCluster: v0-2. The brokers of the cluster and its controller (KIP-700).

Versions: 2 may ask for fenced brokers, too, which are registered and do not run (KIP-1073).

The listener of clients describes brokers only: a request for controllers (version 1, KIP-919) gets
MISMATCHED_ENDPOINT_TYPE. The one of other nodes describes the voters of the quorum too, which tools
ask for with `--bootstrap-controller`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.acl_operations import CLUSTER_OPERATIONS, NOT_REQUESTED
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

BROKERS, CONTROLLERS = 1, 2


def handle(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS and context.from_node:
        return voters_of(broker)
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            ),
            error_message="This listener tells of brokers (endpoint type 1) only.",
            cluster_id="",
            brokers=[],
        )
    with_fenced = request.include_fenced_brokers
    found = broker.registered_brokers() if with_fenced else broker.alive_brokers()
    return DescribeClusterResponse(
        error_code=0,
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node,
                host=host,
                port=port,
                rack=rack,
                is_fenced=broker.image.brokers[node].fenced,
            )
            for node, host, port, rack in found
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )


def voters_of(broker: Broker) -> DescribeClusterResponse:
    """Describe the voters of the quorum, at the listeners of other nodes."""
    core = broker.metadata.raft.core
    return DescribeClusterResponse(
        error_code=0,
        endpoint_type=CONTROLLERS,
        cluster_id=broker.image.cluster_id,
        controller_id=-1 if core.leader_id is None else core.leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=voter.key.id, host=each.host, port=each.port)
            for voter in core.log.voters
            for each in voter.endpoints[:1]
        ],
        cluster_authorized_operations=NOT_REQUESTED,
    )
