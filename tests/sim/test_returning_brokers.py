"""The connections of followers to brokers that were away: see also `test_broker_connections`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.controller.delta import MetadataDelta
from odradek.network_client.broker_connections import BrokerConnections
from sim.live_cluster import LiveCluster


def test_a_broker_that_ended_and_came_back_in_one_change_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = LiveCluster()
    node = cluster.node(3)
    assert node.member is not None
    left: list[int] = []
    monkeypatch.setattr(
        BrokerConnections, "leave_broker", lambda connections, node_id, why: left.append(node_id)
    )
    image = node.metadata.committed.copy()
    delta = MetadataDelta()
    delta.brokers[1] = None
    node.member._replication.brokers_changed(delta, image)
    assert left == []
    image.brokers[1] = replace(image.brokers[1], epoch=image.brokers[1].epoch + 100)
    node.member._replication.brokers_changed(delta, image)
    assert left == [1]
