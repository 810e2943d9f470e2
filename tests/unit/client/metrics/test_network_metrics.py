"""Connections, requests and bytes as they are counted, of each node and of all together."""

from __future__ import annotations

from odradek.client.engine import Engine
from odradek.client.metrics.metric import Metrics
from odradek.client.metrics.network_table import admin_metrics, node_name
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.testing.scripted import ClientSide, ScriptedCluster


def running() -> tuple[ScriptedCluster, ClientSide, Engine]:
    """A cluster of two nodes, and a client that has its metadata."""
    cluster = ScriptedCluster(brokers=2)
    cluster.answers[ListGroupsRequest] = lambda request, version: ListGroupsResponse(
        error_code=0, groups=[]
    )
    side = cluster.client()
    engine = side.engine(bootstrap_servers="broker1:9092", client_id="c1")
    side.wait(lambda: engine.metadata.newer_than(0))
    return cluster, side, engine


def ask(cluster: ScriptedCluster, side: ClientSide, engine: Engine, node_id: int) -> None:
    ended: list[object] = []
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    side.do(lambda: engine.client.send(node_id, request, ended.append))
    cluster.until(lambda: bool(ended))


def test_requests_responses_and_connections_are_counted_with_those_of_the_handshake() -> None:
    cluster, side, engine = running()
    before = admin_metrics(engine)
    ask(cluster, side, engine, 2)
    found = admin_metrics(engine)
    assert before["connection-creation-total"] == 1
    assert before["connection-count"] == 0, "that to the bootstrap server is not needed any more"
    assert before["request-total"] == 2, "ApiVersions and Metadata"
    assert (found["connection-creation-total"], found["connection-count"]) == (2, 1)
    assert found["request-total"] == found["response-total"] == 4
    assert found["node-2.request-total"] == found["node-2.response-total"] == 2
    assert 0 < found["request-rate"] <= 4 / 30
    assert "node-2.request-total" not in before or before["node-2.request-total"] == 0


def test_the_bytes_of_requests_are_the_outgoing_bytes() -> None:
    cluster, side, engine = running()
    for _ in range(3):
        ask(cluster, side, engine, 1)
    found = admin_metrics(engine)
    sizes = found["request-size-avg"] * found["request-total"]
    assert round(sizes) == found["outgoing-byte-total"] > 0
    assert found["request-size-max"] >= found["request-size-avg"]
    assert found["incoming-byte-total"] > 0
    assert found["network-io-total"] == found["request-total"] + found["response-total"]


def test_a_closed_connection_is_counted_once() -> None:
    cluster, side, engine = running()
    ask(cluster, side, engine, 2)
    side.do(lambda: engine.client.disconnect(2, "as the test wishes"))
    cluster.run(10)
    found = admin_metrics(engine)
    assert found["connection-close-total"] == 2, "with that of the bootstrap server"
    assert found["connection-count"] == found["connection-creation-total"] - 2


def test_the_whole_keeps_what_was_exchanged_with_nodes_that_left() -> None:
    cluster, side, engine = running()
    ask(cluster, side, engine, 2)
    before = admin_metrics(engine)
    cluster.listed.remove(2)
    side.do(engine.metadata.request_update)
    cluster.until(lambda: 2 not in engine.metadata.image.nodes)
    found = admin_metrics(engine)
    assert "node-2.request-total" in before
    assert "node-2.request-total" not in found
    assert found["outgoing-byte-total"] > before["outgoing-byte-total"]


def test_entries_have_kafkas_groups_and_tags() -> None:
    cluster, side, engine = running()
    ask(cluster, side, engine, 2)
    found: Metrics = admin_metrics(engine)
    of_node = [each for each in found.entries if each.tags.get("node-id") == "node-2"]
    assert {each.group for each in of_node} == {"admin-client-node-metrics"}
    assert {each.tags["client-id"] for each in found.entries} == {"c1"}
    assert len(found.entries) == len(found)
    assert found["node-2.request-total"] == next(
        each.value for each in of_node if each.name == "request-total"
    )


def test_a_client_that_writes_nothing_has_no_rate_after_a_minute() -> None:
    cluster, _, engine = running()
    assert admin_metrics(engine)["outgoing-byte-rate"] > 0
    cluster.run(61_000)
    assert admin_metrics(engine)["outgoing-byte-rate"] == 0


def test_connections_are_named_as_in_kafka() -> None:
    _, _, engine = running()
    assert node_name(1) == "node-1"
    assert node_name(-1) == "node--1"
    coordinator = engine.client.coordinator(engine.metadata.image.nodes[1])
    assert node_name(coordinator) == "node-2147483646"
