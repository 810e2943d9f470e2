"""Requests that change the voters of the quorum: each is answered once."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.voter_changes import TIMEOUT_MS
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.api.remove_raft_voter import RemoveRaftVoterRequest
from odradek.testing.scripted import ScriptedCluster
from unit.broker.simulated_nodes import Client, SimulatedNode


def removal(cluster_id: str | None) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=9, voter_directory_id=ZERO_UUID)


def addition(cluster_id: str | None) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=1_000,
        voter_id=9,
        voter_directory_id=ZERO_UUID,
        listeners=[],
    )


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (removal("of another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (addition("of another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (removal(None), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_refused_change_is_answered_once(request_: Any, error: ErrorCode) -> None:
    cluster = ScriptedCluster(brokers=0)
    one = SimulatedNode(cluster, 1)
    client = Client(cluster)
    assert client.ask(request_).error_code == error
    metrics = one.broker.request_metrics.by_key[80 if request_ == addition("of another") else 81]
    cluster.scheduler.run(cluster.scheduler.now_ns + 2 * TIMEOUT_MS * 1_000_000)
    assert sum(metrics.response_bytes.counts) == 1
