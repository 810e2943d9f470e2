"""DescribeCluster (key 60, versions 0 to 2): brokers, controller and cluster id (KIP-700).

- 1: `endpoint_type`, to ask for controllers (KIP-919). 2: fenced brokers (KIP-1073).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@message(api=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    """Describe the cluster."""

    include_cluster_authorized_operations: bool
    endpoint_type: i8 = field(default=1, since=1, doc="1 brokers, 2 controllers.")
    include_fenced_brokers: bool = field(default=False, since=2)


@struct
class DescribeClusterBroker:
    """One broker."""

    broker_id: i32
    host: str
    port: i32
    rack: str | None = None
    is_fenced: bool = field(default=False, since=2)


@message(api=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse:
    """The cluster as this broker sees it."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    endpoint_type: i8 = field(default=1, since=1, doc="1 brokers, 2 controllers.")
    cluster_id: str
    controller_id: i32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: i32 = -(2**31)
