"""Broken parts of the active controller: what it decides on replicas and brokers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from odradek.controller import alter_partition, cluster_control
from odradek.controller.broker_sessions import BrokerSessions
from odradek.controller.image import PartitionRegistration
from odradek.controller.partition_change import Election, ElectionRules, PartitionChange
from odradek.model.errors import ErrorCode


def elects_anyone(patch: pytest.MonkeyPatch) -> None:
    """Any live replica may lead when nobody in sync is left."""
    patch.setattr(ElectionRules, "election", lambda self, topic: Election.UNCLEAN)


def elects_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ElectionRules, "is_online", lambda self, partition, replica: True)


def elects_whom_it_prefers(patch: pytest.MonkeyPatch) -> None:
    """The first replica leads again as soon as it is there, in sync or not."""
    elect = PartitionChange._elect

    def elected(self: PartitionChange, rules: ElectionRules, elr: Any) -> tuple[int, bool]:
        first = self.replicas[0]
        if first in self.partition.replicas and rules.is_online(self.partition, first):
            return first, False
        return elect(self, rules, elr)

    patch.setattr(PartitionChange, "_elect", elected)


def takes_any_isr(patch: pytest.MonkeyPatch) -> None:
    """Proposals of old leaders and from old epochs are taken."""
    patch.setattr(alter_partition, "_problem", lambda *_: ErrorCode.NONE)


def leaves_epochs_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """An election does not begin a new leader epoch."""
    merge = PartitionRegistration.merge

    def merged(self: PartitionRegistration, change: Any) -> PartitionRegistration:
        after = merge(self, change)
        object.__setattr__(after, "leader_epoch", self.leader_epoch)
        return after

    patch.setattr(PartitionRegistration, "merge", merged)


def completes_reassignments_at_once(patch: pytest.MonkeyPatch) -> None:
    """New replicas are in sync as soon as they are assigned."""

    def completed(self: PartitionChange) -> PartitionChange:
        if not self.adding_replicas and not self.removing_replicas:
            return self
        replicas = tuple(each for each in self.replicas if each not in self.removing_replicas)
        return replace(
            self, replicas=replicas, isr=replicas, adding_replicas=(), removing_replicas=()
        )

    patch.setattr(PartitionChange, "_completed", completed)


def keeps_the_isr_of_a_lost_disk(patch: pytest.MonkeyPatch) -> None:
    """A broker that comes back is still in sync, whatever it has."""

    def departed(*_: Any) -> Any:
        yield from ()

    patch.setattr(cluster_control, "departed", departed)


def fences_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerSessions, "pop_expired", lambda self, now_ms: None)
    patch.setattr(BrokerSessions, "next_end_ms", lambda self: None)


def repairs_nothing(patch: pytest.MonkeyPatch) -> None:
    """Partitions keep their leaders, fenced or not."""

    def pass_over(*_: Any) -> Any:
        yield from ()

    patch.setattr(cluster_control, "pass_over", pass_over)
