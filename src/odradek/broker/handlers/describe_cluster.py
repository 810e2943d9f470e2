"""DescribeCluster: v0-2. The brokers of the cluster and its controller (KIP-700).

Versions: 2 may ask for fenced brokers, too, which are registered and do not run (KIP-1073).

A broker listener describes brokers only: a request for controllers (version 1, KIP-919) gets
MISMATCHED_ENDPOINT_TYPE.
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
