"""Broken parts of replicas, outside the compiled leaves: of followers and proposals."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.partitions import Partitions
from odradek.replication.alter_partition_manager import AlterPartitionManager
from odradek.replication.partition import NO_EPOCH
from odradek.replication.replica_fetcher import ReplicaFetcher, ReplicaFetchState
from odradek.replication.replica_fetcher_manager import FollowedPartition


def tells_its_end_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """A follower tells the end of its log as its durable end."""
    patch.setattr(FollowedPartition, "durable_end", FollowedPartition.log_end_offset)


def tells_no_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower does not tell the epoch of its last record, so its leader sees no divergence."""
    patch.setattr(FollowedPartition, "latest_epoch", NO_EPOCH)


def truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A new follower drops what it does not know to be committed, as before KIP-101."""
    add = ReplicaFetcher.add

    def added(self: ReplicaFetcher, followed: Any) -> None:
        known = self.partitions.get(followed.key)
        fresh = known is None or known.leader_epoch != followed.leader_epoch
        add(self, followed)
        state = self.partitions[followed.key]
        if fresh and state.state is ReplicaFetchState.FETCHING:
            self._truncate(followed.key, state, followed.partition.high_watermark, restart=False)

    patch.setattr(ReplicaFetcher, "add", added)


def proposes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AlterPartitionManager, "submit", lambda self, key, proposal, listener: None)


def opens_no_log_of_a_follower(patch: pytest.MonkeyPatch) -> None:
    changed = Partitions._partition_changed

    def partition_changed(
        self: Partitions, topic: Any, number: int, registration: Any, config: Any
    ) -> None:
        if registration.leader == self._broker.node_id:
            changed(self, topic, number, registration, config)

    patch.setattr(Partitions, "_partition_changed", partition_changed)
