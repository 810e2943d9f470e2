"""DescribeCluster"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i8, message, struct


@message(api=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    """"""

    include_cluster_authorized_operations: bool
    endpoint_type: i8 = field(default=1, since=1)
    include_fenced_brokers: bool = field(default=False, since=2)


@struct
class DescribeClusterBroker:
    """Each broker in the response."""

    broker_id: i32
    host: str
    port: i32
    rack: str | None = field(default=None)
    is_fenced: bool = field(default=False, since=2)


@message(api=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    error_code: i16
    error_message: str | None = field(default=None)
    endpoint_type: i8 = field(default=1, since=1)
    cluster_id: str
    controller_id: i32 = field(default=-1)
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: i32 = field(default=-(2**31))
