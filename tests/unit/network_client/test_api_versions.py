"""Common versions of requests, and their negotiation."""

from __future__ import annotations

import pytest

from odradek.client.errors import UnsupportedVersion
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.network_client.api_versions import (
    NEWEST,
    NodeApiVersions,
    RequestBuilder,
    decode_api_versions,
    next_version,
)
from odradek.protocol.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.describe_waiting import DescribeWaitingRequest
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.codec import encode_bytes
from odradek.protocol.schema import declaration
from odradek.testing.scripted import ScriptedCluster


def versions(**ranges: tuple[int, int]) -> NodeApiVersions:
    keys = {"produce": 0, "fetch": 1, "metadata": 3}
    return NodeApiVersions(
        ApiVersion(api_key=keys[name], min_version=low, max_version=high)
        for name, (low, high) in ranges.items()
    )


def test_the_highest_common_version_is_used() -> None:
    assert versions(fetch=(0, 11)).codec(FetchRequest).version == 11
    newest = declaration(FetchRequest).versions[1]
    assert versions(fetch=(0, 99)).codec(FetchRequest).version == newest


def test_a_request_without_a_common_version_raises() -> None:
    with pytest.raises(UnsupportedVersion, match="does not know Fetch"):
        versions(metadata=(0, 9)).codec(FetchRequest)
    with pytest.raises(UnsupportedVersion, match=r"Produce in versions 0 to 2, .* needs 3 to"):
        versions(produce=(0, 2)).codec(ProduceRequest)


def test_an_own_request_to_another_broker_says_that_only_ours_answer() -> None:
    with pytest.raises(
        UnsupportedVersion, match=r"only Odradek brokers answer DescribeWaiting.*do:"
    ):
        versions(metadata=(0, 9)).codec(DescribeWaitingRequest)


def test_a_builder_limits_the_version() -> None:
    node = versions(produce=(0, 13))
    by_name = RequestBuilder(ProduceRequest, lambda version: None, max_version=12)
    assert node.codec_within(by_name).version == 12
    later = RequestBuilder(ProduceRequest, lambda version: None, min_version=14)
    with pytest.raises(UnsupportedVersion):
        node.codec_within(later)


def test_supports_is_true_for_a_common_version() -> None:
    node = versions(fetch=(0, 11))
    assert node.supports(FetchRequest) and node.supports(FetchRequest, 11)
    assert not node.supports(FetchRequest, 12)
    assert not node.supports(MetadataRequest)


def refusal(code: ErrorCode, listed: tuple[int, int] | None) -> ApiVersionsResponse:
    keys = [] if listed is None else [ApiVersion(api_key=18, min_version=0, max_version=listed[1])]
    return ApiVersionsResponse(error_code=code, api_keys=keys)


def test_after_a_refusal_the_version_that_the_broker_lists_is_tried() -> None:
    assert next_version(refusal(ErrorCode.UNSUPPORTED_VERSION, (0, 2)), NEWEST) == 2
    assert next_version(refusal(ErrorCode.UNSUPPORTED_VERSION, None), NEWEST) == 0
    assert next_version(refusal(ErrorCode.INVALID_REQUEST, (0, 4)), 4) == 0


def test_after_a_refusal_only_lower_versions_are_tried() -> None:
    assert next_version(refusal(ErrorCode.UNSUPPORTED_VERSION, (0, 99)), NEWEST) is None
    assert next_version(refusal(ErrorCode.INVALID_REQUEST, None), 0) is None


def test_a_refusal_is_read_as_version_0() -> None:
    frame = bytes(4) + encode_bytes(refusal(ErrorCode.UNSUPPORTED_VERSION, (0, 2)), 0)
    answer = decode_api_versions(frame, NEWEST)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.api_keys[0].max_version == 2


def test_an_unreadable_refusal_lists_no_versions() -> None:
    """librdkafka's mock cluster sends such a refusal."""
    frame = bytes.fromhex("00000007 0023 01 0012 0000 0002 00000000")
    assert decode_api_versions(frame, NEWEST) == refusal(ErrorCode.UNSUPPORTED_VERSION, None)
    with pytest.raises(ProtocolError):
        decode_api_versions(bytes.fromhex("00000007 0000 01 0012 0000 0002 0000"), NEWEST)


@pytest.mark.parametrize("highest", range(NEWEST + 1))
def test_negotiation_ends_with_a_broker_of_any_version(highest: int) -> None:
    cluster = ScriptedCluster()
    cluster[1].versions[18] = (0, highest)
    side = cluster.client()
    engine = side.engine()
    side.wait(lambda: engine.metadata.newer_than(0))
    asked = [a.version for a in cluster[1].asked if isinstance(a.request, ApiVersionsRequest)]
    assert asked == [highest] * len(asked)
    before = cluster[1].connections
    cluster[1].close_connections()
    cluster.until(lambda: cluster[1].connections > before)
    assert engine.client.api_versions_version == highest, "what worked is tried first next time"


def test_a_refusal_without_versions_is_followed_by_version_0() -> None:
    cluster = ScriptedCluster()
    cluster[1].versions[18] = (0, 0)
    cluster[1].refuses_bare = True
    side = cluster.client()
    engine = side.engine()
    side.wait(lambda: engine.metadata.newer_than(0))
    assert engine.client.api_versions_version == 0


def test_the_request_names_the_client_and_the_expected_node() -> None:
    cluster = ScriptedCluster()
    side = cluster.client()
    engine = side.engine(client_id="tests")
    side.wait(lambda: engine.metadata.newer_than(0))
    side.do(lambda: engine.client.ready(1))
    cluster.until(lambda: engine.client.is_ready(1))
    first, second = cluster[1].of(ApiVersionsRequest)
    assert first.client_software_name == "odradek-python" and first.client_software_version
    assert (first.cluster_id, first.node_id) == (None, -1), "a bootstrap server is nobody yet"
    assert (second.cluster_id, second.node_id) == ("scripted-cluster", 1)
    assert {asked.client_id for asked in cluster[1].asked} == {"tests"}
