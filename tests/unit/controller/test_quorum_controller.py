"""The decisions' side of the metadata log: active with the leadership, dropped with it."""

from __future__ import annotations

import errno

import pytest

from odradek.controller.quorum_controller import NotController
from odradek.log.fence import LogDirFailure
from odradek.model.errors import ErrorCode
from odradek.raft.log_state import OffsetAndEpoch
from odradek.raft.messages import RaftError, RaftResponse, VoteRequest, VoteResponse
from odradek.raft.replicas import ReplicaKey
from unit.controller.metadata_node import MetadataNode


def test_a_node_that_is_alone_decides_from_its_start() -> None:
    node = MetadataNode().begin()
    assert node.controller.is_active
    assert node.controller.epoch == node.log.epoch
    assert node.create("t") == ErrorCode.NONE


def deposed(node: MetadataNode) -> None:
    """Let a candidate of a later epoch take the vote of this node."""
    answers: list[RaftResponse] = []
    me = node.log.raft.core.me
    request = VoteRequest(
        node.log.epoch + 1, ReplicaKey(2), me, OffsetAndEpoch(1_000, node.log.epoch), False
    )
    node.log.raft.receive(request, lambda response, _: answers.append(response))
    node.steps.run_until_idle()
    (answer,) = answers
    assert isinstance(answer, VoteResponse)
    assert answer.granted, answer.error is RaftError.NONE


def test_the_decisions_are_dropped_when_another_epoch_begins() -> None:
    node = MetadataNode().begin()
    told: list[bool] = []
    node.controller.on_change.append(lambda: told.append(node.controller.is_active))
    deposed(node)
    assert told == [False]
    with pytest.raises(NotController):
        _ = node.controller.pending
    with pytest.raises(NotController):
        node.controller.submit([])


def test_records_that_were_not_committed_are_not_published_when_the_epoch_ends() -> None:
    node = MetadataNode().begin()
    before = node.log.committed_offset
    node.create("t")
    deposed(node)
    assert "t" not in node.log.committed.topics
    assert node.log.committed_offset == before


def test_a_failed_disk_refuses_decisions_with_its_error() -> None:
    node = MetadataNode().begin()
    failure = node.log.raft.log.fence.fail(OSError(errno.EIO, "input/output error"))
    node.log.raft.fail(failure)
    assert node.failures == [failure]
    with pytest.raises(LogDirFailure):
        node.controller.submit([])
