"""Brokers with which a handshake fails, and the client's messages."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.errors import Disconnected
from odradek.model.errors import ErrorCode
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.testing.scripted import CLOSE, SILENT, Answer, ClientSide, ScriptedCluster

SECOND = 1000


def refusing(code: ErrorCode) -> Answer:
    return lambda request, version: ApiVersionsResponse(error_code=code, api_keys=[])


def asked_in_vain(cluster: ScriptedCluster, **settings: Any) -> str:
    """Return why a request to broker 2, which is no proper broker, failed."""
    side: ClientSide = cluster.client()
    engine = side.engine(bootstrap_servers="broker1:9092", **settings)
    side.wait(lambda: engine.metadata.newer_than(0))
    ended: list[ClientRequest] = []
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    side.do(lambda: engine.client.send(2, request, ended.append, timeout_ms=60 * SECOND))
    cluster.until(lambda: bool(ended))
    assert isinstance(ended[0].error, Disconnected)
    return str(ended[0].error)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda request, version: CLOSE, "the broker closed the connection"),
        (lambda request, version: SILENT, "no answer to ApiVersions within 2000 ms"),
        (
            refusing(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            "refused ApiVersions v5: CLUSTER_AUTHORIZATION_FAILED",
        ),
        (refusing(ErrorCode.INVALID_REQUEST), "refused ApiVersions v0: INVALID_REQUEST"),
        (refusing(ErrorCode.UNSUPPORTED_VERSION), "refused ApiVersions v0: UNSUPPORTED_VERSION"),
    ],
    ids=["closes", "is silent", "forbids", "understands nothing", "has no version"],
)
def test_an_unusable_broker_fails_with_the_reason(answer: Answer, reason: str) -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster[2].answers[ApiVersionsRequest] = answer
    text = asked_in_vain(cluster, request_timeout_ms=2 * SECOND)
    assert "broker 2 (broker2:9092) cannot be used" in text and reason in text
    assert "advertised.listeners" in text, "what to do"


def test_a_broker_without_common_versions_fails_with_the_reason() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster[2].answers[ApiVersionsRequest] = lambda request, version: ApiVersionsResponse(
        error_code=0, api_keys=[]
    )
    side = cluster.client()
    engine = side.engine(bootstrap_servers="broker1:9092")
    side.wait(lambda: engine.metadata.newer_than(0))
    ended: list[ClientRequest] = []
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    side.do(lambda: engine.client.send(2, request, ended.append))
    cluster.until(lambda: bool(ended))
    assert "does not know DescribeCluster requests" in str(ended[0].error)
    versions = engine.client.versions(2)
    assert versions is not None and not versions.supports(DescribeClusterRequest)
    assert engine.client.versions(77) is None
