"""Turns: the parts of a rebalance in which the application's listener is called, as in Java.

    prepare    before the member joins    EAGER: on_revoke(everything), also if that is nothing;
                                          COOPERATIVE: on_revoke(what is subscribed to no more);
                                          the generation is lost: on_lost(everything)
    complete   after it was synced        COOPERATIVE: on_revoke(what it keeps no longer), and the
                                          member joins again so that others may have it;
                                          on_assign(what it did not have), also if that is nothing
    leave      unsubscribe, close         on_revoke(everything), or on_lost where the member is in
                                          no generation or in the midst of a rebalance

The first call of prepare, before a member was in any generation, finds nothing to lose and is
silent. What is revoked or lost is taken away after the call, so that the listener may still commit;
what is assigned is there before it.

A turn is a generator: it yields the calls to make, is sent what they raised (or None), and returns
the first error. It runs only while the application waits in a call of its own: nothing else changes
the assignment.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
    RebalanceProtocol,
)
from odradek.client.consumer.group_effects import Callback, Occasion
from odradek.client.consumer.group_member import GroupMember
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import Assignment

Turn = Generator[Callback, BaseException | None, BaseException | None]


class RebalanceTurns:
    """The turns of one consumer."""

    def __init__(
        self,
        member: GroupMember,
        subscriptions: SubscriptionState,
        protocol: RebalanceProtocol,
    ) -> None:
        self.member = member
        self.subscriptions = subscriptions
        self.protocol = protocol

    def prepare(self) -> Turn:
        """Give up what may not be kept while the member joins."""
        assigned = self._assigned()
        error = None
        if self.member.generation.is_reset:
            if assigned:
                error = yield Callback(Occasion.LOST, assigned)
                self._keep([])
        elif self.protocol is RebalanceProtocol.EAGER:
            error = yield Callback(Occasion.REVOKED, assigned)
            self._keep([])
        else:
            wanted = self.subscriptions.subscription
            gone = [partition for partition in assigned if partition.topic not in wanted]
            if gone:
                error = yield Callback(Occasion.REVOKED, gone)
                self._keep([partition for partition in assigned if partition.topic in wanted])
        return error

    def complete(
        self,
        assignment: Assignment,
        assignor: PartitionAssignor,
        metadata: ConsumerGroupMetadata,
    ) -> Turn:
        """Take the assignment."""
        owned = self._assigned()
        assigned = sorted(set(assignment.partitions))
        first: BaseException | None = None
        if self.protocol is RebalanceProtocol.COOPERATIVE:
            revoked = without(owned, assigned)
            if revoked:
                first = yield Callback(Occasion.REVOKED, revoked)
                self.member.request_rejoin("need to revoke partitions and re-join")
        try:
            assignor.on_assignment(assignment, metadata)
        except Exception as error:
            first = first or error
        self.subscriptions.assign_from_subscribed(assigned)
        error_of_assigned = yield Callback(Occasion.ASSIGNED, without(assigned, owned))
        return first or error_of_assigned

    def leave(self) -> Turn:
        """Give up everything for good."""
        assigned = self._assigned()
        error = None
        if self.subscriptions.is_auto_assigned and assigned:
            member = self.member
            lost = member.generation.is_reset or member.rebalance_in_progress
            error = yield Callback(Occasion.LOST if lost else Occasion.REVOKED, assigned)
            self._keep([])
        return error

    def _assigned(self) -> list[TopicPartition]:
        return sorted(self.subscriptions.assigned_partitions)

    def _keep(self, partitions: Sequence[TopicPartition]) -> None:
        self.subscriptions.assign_from_subscribed(partitions)


def without(
    partitions: Sequence[TopicPartition], others: Collection[TopicPartition]
) -> list[TopicPartition]:
    """In the same order."""
    away = set(others)
    return [partition for partition in partitions if partition not in away]
