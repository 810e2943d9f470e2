"""Broken parts of brokers that are compiled leaves; only their sources can be patched."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.log.producer_state import ProducerState
from odradek.model.errors import ErrorCode
from odradek.replication import produce
from odradek.replication.follower_fetch import FollowerFetches
from odradek.replication.leadership import NO_OFFSET, IsrProposal, Leadership, Replica
from odradek.replication.partition import Isolation, Partition
from odradek.replication.produce import ProduceStatus
from odradek.replication.replica_manager import ReplicaManager


def counts_the_log_end_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the leader's end, whatever its followers have."""
    patch.setattr(Leadership, "committed_end", lambda self, leader_end: leader_end)


def counts_what_followers_have_not_flushed(patch: pytest.MonkeyPatch) -> None:
    told = Replica.update

    def update(self: Replica, fetch_offset: int, durable_end: int, *rest: int) -> None:
        told(self, fetch_offset, fetch_offset, *rest)

    patch.setattr(Replica, "update", update)


def counts_what_the_leader_has_not_flushed(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Partition) -> bool:
        end = self.log.log_end_offset
        if self.leadership is not None:
            end = self.leadership.committed_end(end)
        if end <= self.high_watermark:
            return False
        self.high_watermark = self.log.high_watermark = end
        return True

    patch.setattr(Partition, "advance_high_watermark", advance)


def counts_the_fastest_follower(patch: pytest.MonkeyPatch) -> None:
    """One of the in-sync followers is enough."""

    def end(self: Leadership, leader_end: int) -> int:
        ends = [each.durable_end for each in self.replicas.values() if each.broker_id in self.isr]
        return min(leader_end, max(ends, default=leader_end))

    patch.setattr(Leadership, "committed_end", end)


def ignores_the_minimum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "effective_min_isr", property(lambda self: 1))


def serves_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    def end(self: Partition, isolation: Isolation) -> int:
        return self.log.log_end_offset

    patch.setattr(Partition, "readable_end", end)


def shrinks_the_isr_alone(patch: pytest.MonkeyPatch) -> None:
    """The leader does not count a follower any more from the proposal on to remove it."""
    propose = Leadership.propose_shrinkage

    def shrink(self: Leadership, leader_end: int) -> IsrProposal | None:
        proposal = propose(self, leader_end)
        if proposal is not None:
            self.maximal_isr = frozenset(broker_id for broker_id, _ in proposal.isr)
        return proposal

    patch.setattr(Leadership, "propose_shrinkage", shrink)


def goes_on_as_the_leader(patch: pytest.MonkeyPatch) -> None:
    """A leader does not take note of its successor."""
    follow = ReplicaManager._make_follower

    def make_follower(self: ReplicaManager, partition: Partition, registration: Any) -> None:
        if not partition.is_leader:
            follow(self, partition, registration)

    patch.setattr(ReplicaManager, "_make_follower", make_follower)


def sees_no_divergence(patch: pytest.MonkeyPatch) -> None:
    """The leader sends what follows an offset, whatever the follower has before it."""
    refusal = FollowerFetches._refusal

    def refused(self: FollowerFetches, position: Any, partition: Partition) -> Any:
        position.last_fetched_epoch = NO_OFFSET
        return refusal(self, position, partition)

    patch.setattr(FollowerFetches, "_refusal", refused)


def answers_before_the_followers(patch: pytest.MonkeyPatch) -> None:
    def update(status: ProduceStatus) -> None:
        status.pending = False
        status.response.error_code = status.partition.availability()

    patch.setattr(produce, "update_produce_status", update)


def takes_lost_leadership_for_success(patch: pytest.MonkeyPatch) -> None:
    """A producer that waits for an acknowledgement gets it when this broker stops leading."""
    updated = produce.update_produce_status

    def update(status: ProduceStatus) -> None:
        updated(status)
        if status.response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            status.response.error_code = ErrorCode.NONE

    patch.setattr(produce, "update_produce_status", update)


def forgets_producers_when_it_leads(patch: pytest.MonkeyPatch) -> None:
    lead = Partition.make_leader

    def make_leader(self: Partition, *arguments: Any) -> bool:
        self.log.producers = ProducerState()
        return lead(self, *arguments)

    patch.setattr(Partition, "make_leader", make_leader)


def looks_at_no_isr(patch: pytest.MonkeyPatch) -> None:
    """Nobody checks who may be in sync again after a broker was unfenced."""
    patch.setattr(ReplicaManager, "check_isrs", lambda self: None)


def forgets_producers_as_a_follower(patch: pytest.MonkeyPatch) -> None:
    append = ReplicaManager.append_as_follower

    def appended(self: ReplicaManager, partition: Partition, records: Any) -> Any:
        info = append(self, partition, records)
        partition.log.producers = ProducerState()
        return info

    patch.setattr(ReplicaManager, "append_as_follower", appended)


def joins_the_isr_behind(patch: pytest.MonkeyPatch) -> None:
    """A replica is proposed for the ISR at its first fetch, and counts later."""
    propose = Leadership.propose_expansion

    def expand(
        self: Leadership, replica: Replica, leader_end: int, high_watermark: int, log_start: int
    ) -> IsrProposal | None:
        return propose(self, replica, NO_OFFSET, NO_OFFSET, NO_OFFSET)

    def end(self: Leadership, leader_end: int) -> int:
        first = [each for each in self.isr[:2] if each in self.replicas]
        return min([leader_end, *(self.replicas[each].durable_end for each in first)])

    patch.setattr(Leadership, "propose_expansion", expand)
    patch.setattr(Leadership, "committed_end", end)
