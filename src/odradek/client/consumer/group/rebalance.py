"""Rebalance: drives a member through rebalances and calls the application's listener.

    rejoin needed ─► [commit] ─► prepare ─► join ─► sync ─► complete ─► stable
                     └─ in the application's poll ─┘        └─ in its poll

As in Java, the application's poll drives a rebalance: partitions are revoked and assignments are
taken only in a poll, which calls the listener. Steps that need no poll go on in the background:
finding the coordinator, JoinGroup and SyncGroup, retries. They stop when the application has not
polled for max.poll.interval.ms.

With automatic commits, the consumed offsets of partitions are committed before these partitions are
revoked, and the rebalance waits for that commit. The application receives no more records of them
meanwhile, because it would get ahead of the commit. Cooperative members go on with their partitions
until they know which ones they lose; they then commit once more (Java does not), before the
JoinGroup that lets others have them.

A member rejoins when the coordinator says so, when the subscription changed, when the topics of the
group changed under the leader, when a cooperative member has revoked partitions, and when an
attempt failed.

The calls of the listener, as in Java (`ListenerCalls`):

    prepare    before JoinGroup           EAGER: on_revoke(all), also if there are none;
                                          COOPERATIVE: on_revoke(of topics no longer subscribed to);
                                          generation lost: on_lost(all)
    complete   after SyncGroup            COOPERATIVE: on_revoke(those not assigned any more), and
                                          the member rejoins so that others may have them;
                                          on_assign(those added), also if there are none
    leave      unsubscribe, close         on_revoke(all), or on_lost if the member is in no
                                          generation or in a rebalance

The first prepare, before a member was in any generation, has nothing to lose and makes no call.
Revoked and lost partitions are removed after the call, so that the listener can still commit;
assigned partitions are there before it.

The calls are a generator (`CallSequence`): it yields each call, is sent the exception that the
listener raised (or None), and returns the first one. It runs only while the application waits in a
call of the consumer; nothing else changes the assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
    RebalanceProtocol,
)
from odradek.client.consumer.group.commits import Commit, Commits
from odradek.client.consumer.group.member import (
    CallListener,
    GroupMember,
    MemberState,
    Raise,
    RebalanceEvent,
)
from odradek.client.consumer.group.membership import Membership
from odradek.client.consumer.position.subscription_state import SubscriptionState, SubscriptionType
from odradek.client.errors import KafkaError
from odradek.model.errors import ProtocolError
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_subscription,
)

RebalanceCallback = Callable[[Any, list[TopicPartition]], Any]


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """The application's callbacks in rebalances.

        on_assign    with partitions that are assigned to the consumer, beside those it had
        on_revoke    with partitions that will be revoked: commit what was read of them
        on_lost      with partitions that another member may own by now; on_revoke if not given

    The consumer calls them inside the application's polls and inside `close`, with itself and the
    partitions. They may call every method of it but `unsubscribe`. If one calls `close`, on_revoke
    is called at once with the partitions that are left, and the poll around it raises
    `ClientClosed`.
    """

    on_assign: RebalanceCallback | None = None
    on_revoke: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None

    def callback(self, event: RebalanceEvent) -> RebalanceCallback | None:
        """Return the function to call for an event; None if there is none."""
        if event is RebalanceEvent.ASSIGNED:
            return self.on_assign
        if event is RebalanceEvent.LOST and self.on_lost is not None:
            return self.on_lost
        return self.on_revoke


CallSequence = Generator[CallListener, BaseException | None, BaseException | None]


class ListenerCalls:
    """The listener calls of one consumer."""

    def __init__(
        self,
        member: GroupMember,
        subscriptions: SubscriptionState,
        protocol: RebalanceProtocol,
    ) -> None:
        self.member = member
        self.subscriptions = subscriptions
        self.protocol = protocol

    def prepare(self) -> CallSequence:
        """Revoke the partitions that the member may not keep while it joins."""
        assigned = self._assigned()
        error = None
        if self.member.generation.is_reset:
            if assigned:
                error = yield CallListener(RebalanceEvent.LOST, assigned)
                self._keep([])
        elif self.protocol is RebalanceProtocol.EAGER:
            error = yield CallListener(RebalanceEvent.REVOKED, assigned)
            self._keep([])
        else:
            subscribed = self.subscriptions.subscription
            unsubscribed = [
                partition for partition in assigned if partition.topic not in subscribed
            ]
            if unsubscribed:
                error = yield CallListener(RebalanceEvent.REVOKED, unsubscribed)
                self._keep([partition for partition in assigned if partition.topic in subscribed])
        return error

    def complete(
        self,
        assignment: Assignment,
        assignor: PartitionAssignor,
        metadata: ConsumerGroupMetadata,
    ) -> CallSequence:
        """Take the assignment."""
        owned = self._assigned()
        assigned = sorted(set(assignment.partitions))
        first: BaseException | None = None
        if self.protocol is RebalanceProtocol.COOPERATIVE:
            revoked = without(owned, assigned)
            if revoked:
                first = yield CallListener(RebalanceEvent.REVOKED, revoked)
                self.member.request_rejoin("need to revoke partitions and re-join")
        try:
            assignor.on_assignment(assignment, metadata)
        except Exception as error:
            first = first or error
        self.subscriptions.assign_from_subscribed(assigned)
        error_of_assigned = yield CallListener(RebalanceEvent.ASSIGNED, without(assigned, owned))
        return first or error_of_assigned

    def leave(self) -> CallSequence:
        """Give up all partitions when the member leaves."""
        assigned = self._assigned()
        error = None
        if self.subscriptions.is_auto_assigned and assigned:
            member = self.member
            lost = member.generation.is_reset or member.rebalance_in_progress
            error = yield CallListener(
                RebalanceEvent.LOST if lost else RebalanceEvent.REVOKED, assigned
            )
            self._keep([])
        return error

    def _assigned(self) -> list[TopicPartition]:
        return sorted(self.subscriptions.assigned_partitions)

    def _keep(self, partitions: Sequence[TopicPartition]) -> None:
        self.subscriptions.assign_from_subscribed(partitions)


def without(
    partitions: Sequence[TopicPartition], others: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions that are not in `others`, in the same order."""
    away = set(others)
    return [partition for partition in partitions if partition not in away]


OnSequenceEnd = Callable[[BaseException | None], None]


def no_action(error: BaseException | None) -> None:
    """Ignore the end of a call sequence."""


class Rebalance:
    """One consumer's rebalances."""

    def __init__(
        self,
        member: GroupMember,
        membership: Membership,
        commits: Commits,
        subscriptions: SubscriptionState,
        assignors: Sequence[PartitionAssignor],
        protocol: RebalanceProtocol,
    ) -> None:
        self.member = member
        self.membership = membership
        self.joining = membership.joining
        self.topics = membership.joining.leader.topics
        self.commits = commits
        self.subscriptions = subscriptions
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = protocol
        self.listener_calls = ListenerCalls(member, subscriptions, protocol)
        self.group_metadata = ConsumerGroupMetadata(
            member.config.group_id, group_instance_id=member.config.group_instance_id
        )
        self.joined_subscription: frozenset[str] | None = None
        """The topics in the last JoinGroup."""
        self._calls: CallSequence | None = None
        self._on_calls_end: OnSequenceEnd = no_action
        self._current_call: CallListener | None = None
        """The call that the application is making."""
        self._revocation_commit: Commit | None = None
        """The commit of partitions that are about to be revoked."""

    # Listener calls.

    @property
    def is_calling_listener(self) -> bool:
        """True if a listener call has not returned yet."""
        return self._calls is not None

    def call_listener(self, calls: CallSequence, on_end: OnSequenceEnd) -> None:
        """Make the listener calls; `on_end` receives the first exception."""
        assert self._calls is None
        self._calls, self._on_calls_end = calls, on_end
        self.callback_returned(None)

    def callback_returned(self, error: BaseException | None) -> None:
        """The listener returned, or raised."""
        assert self._calls is not None, "no callback is waited for"
        try:
            self._current_call = self._calls.send(error)
            self.member.effects.append(self._current_call)
        except StopIteration as end:
            on_end, self._calls, self._current_call = self._on_calls_end, None, None
            on_end(end.value)

    def is_current_call(self, callback: CallListener | None) -> bool:
        """True if `callback` is the call that is being made."""
        return callback is not None and self._current_call is callback

    def abandon_calls(self) -> None:
        """Drop the calls that are left: the consumer closes. The partitions of the call being made
        are removed, so that the listener is not called for them again.
        """
        if self._calls is None or self._current_call is None:
            return
        call = self._current_call
        self._calls.close()
        self._calls, self._current_call, self._on_calls_end = None, None, no_action
        is_loss = call.event is not RebalanceEvent.ASSIGNED
        if is_loss and self.subscriptions.is_auto_assigned:
            assigned = sorted(self.subscriptions.assigned_partitions)
            self.subscriptions.assign_from_subscribed(without(assigned, call.partitions))

    # Steps.

    def advance(self, *, in_poll: bool = False) -> None:
        """Do every step that is possible now. `in_poll`: the application waits in a poll."""
        while self._calls is None and self._needs_rebalance():
            if self.joining.assignment is not None:
                if not self._require_poll(in_poll or self._revocation_commit is not None):
                    return
                assignment = self._read_assignment(self.joining.assignment)
                if assignment is None:
                    continue
                if not self._revocation_committed(assignment) or not self._require_poll(in_poll):
                    return
                self._take_assignment(assignment)
            elif not self._may_join(in_poll):
                return
            elif self.member.needs_prepare:
                if not self._require_poll(in_poll or self._revocation_commit is not None):
                    return
                eager = self.protocol is RebalanceProtocol.EAGER
                revoked = self.subscriptions.assigned_partitions if eager else []
                if not self._commit_done(revoked) or not self._require_poll(in_poll):
                    return
                self.member.needs_prepare = False
                self.call_listener(self.listener_calls.prepare(), self._prepared)
            else:
                self._join()
                return

    def _require_poll(self, in_poll: bool) -> bool:
        """Return `in_poll`; request a poll if it is False."""
        if not in_poll:
            self.member.request_poll()
        return in_poll

    def _needs_rebalance(self) -> bool:
        """True if the member has to join or has an assignment to take."""
        if not self.subscriptions.is_auto_assigned:
            return False
        member = self.member
        if self.topics.changed_since_assigned():
            member.request_rejoin_if_necessary("cached metadata has changed since the assignment")
        elif self.joined_subscription not in (None, self.subscriptions.subscription):
            member.request_rejoin_if_necessary("subscription has changed since the last join")
        return self.membership.rejoin_needed_or_pending

    def _may_join(self, in_poll: bool) -> bool:
        """True if the member can join; else start the missing step."""
        joining, member = self.joining, self.member
        if joining.in_progress or joining.halted or member.now_ms < joining.retry_ms:
            return False
        stayed_away = self.membership.heartbeat.poll_expired(member.now_ms)
        if (self.joined_subscription is None or stayed_away) and not self._require_poll(in_poll):
            return False  # Only a poll lets a member join, or rejoin after it stayed away.
        if member.coordinator is None:
            self.membership.lookup.start(self._lookup_done)
            return False
        by_pattern = self.subscriptions.type is SubscriptionType.AUTO_PATTERN
        return self.topics.pattern_is_known or not by_pattern

    def _lookup_done(self, error: KafkaError | None) -> None:
        """Raise a fatal error of the lookup in the application's poll."""
        if error is not None and not error.retriable:
            self.joining.halted = True
            self.member.fail(error)

    def _commit_done(self, revoked: Collection[TopicPartition]) -> bool:
        """True if the consumed offsets are committed, or cannot be. Records of `revoked` are held
        back meanwhile.
        """
        config = self.member.config
        if not config.enable_auto_commit:
            return True
        if self._revocation_commit is None:
            self.subscriptions.mark_pending_revocation(revoked)
            deadline_ms = self.member.now_ms + config.max_poll_interval_ms
            self._revocation_commit = self.commits.auto_commit(deadline_ms)
        return self._revocation_commit not in self.commits.requests

    def _prepared(self, error: BaseException | None) -> None:
        """Continue with the join after the call of the listener."""
        self._revocation_commit = None
        if self.joining.leader.is_leader:
            self.joining.leader.is_leader = False
            self.subscriptions.reset_group_subscription()
            self.topics.watch()
        if error is not None:
            self.member.effects.append(Raise(error))
        self.advance(in_poll=True)

    def _join(self) -> None:
        subscribed = self.joined_subscription = self.subscriptions.subscription
        topics = sorted(subscribed)
        owned = self.subscriptions.assigned_partitions
        generation_id = self.member.generation.generation_id
        rack = self.member.config.client_rack
        protocols = []
        for assignor in self.assignors.values():
            user_data = assignor.subscription_user_data(subscribed)
            subscription = Subscription(topics, user_data, owned, generation_id, rack)
            protocols.append((assignor.name, encode_subscription(subscription)))
        self.joining.join(protocols)

    # The assignment.

    def _read_assignment(self, data: bytes) -> Assignment | None:
        """Return the assignment; None if it is invalid: then the member rejoins or fails."""
        member, generation = self.member, self.member.generation
        if member.state is not MemberState.STABLE or generation.is_reset:
            # A heartbeat response in between ended the generation.
            self.joining.assignment = None
            return None
        try:
            assignment = decode_assignment(data)
            self.assignors[generation.protocol_name or ""]
        except (ProtocolError, KeyError) as error:
            self.joining.assignment = None
            self.joining.halted = True
            member.request_rejoin("received an assignment that cannot be used")
            member.fail(error)
            return None
        if not self.subscriptions.matches_subscription(assignment.partitions):
            self.joining.assignment = None
            member.needs_prepare = True
            member.request_rejoin("received assignment does not match the current subscription")
            return None
        return assignment

    def _revocation_committed(self, assignment: Assignment) -> bool:
        """True if the offsets of partitions that this cooperative member has to give up are
        committed.
        """
        if self.protocol is RebalanceProtocol.EAGER:
            return True
        lost = without(self.subscriptions.assigned_partitions, assignment.partitions)
        return not lost or self._commit_done(lost)

    def _take_assignment(self, assignment: Assignment) -> None:
        member, generation = self.member, self.member.generation
        self._revocation_commit = None
        if not self.joining.leader.is_leader:
            self.topics.assigned = None
        self.group_metadata = ConsumerGroupMetadata(
            member.config.group_id,
            generation.generation_id,
            generation.member_id,
            member.config.group_instance_id,
        )
        self._follow_leader(assignment.partitions)
        self.commits.restart_interval()
        assignor = self.assignors[generation.protocol_name or ""]
        calls = self.listener_calls.complete(assignment, assignor, self.group_metadata)
        self.call_listener(calls, self._completed)

    def _follow_leader(self, partitions: Collection[TopicPartition]) -> None:
        """Take topics from the leader, which may have seen a match of the pattern earlier."""
        if self.subscriptions.type is not SubscriptionType.AUTO_PATTERN:
            return
        joined = self.joined_subscription or frozenset()
        added = {partition.topic for partition in partitions} - joined
        if added:
            self.joined_subscription = joined | added
            if self.subscriptions.subscribe_from_pattern(self.subscriptions.subscription | added):
                self.topics.watch()

    def _completed(self, error: BaseException | None) -> None:
        """Complete the assignment after the call of the listener. If that raised, the next poll
        repeats it, as in Java: the listener is called again, with no new partitions.
        """
        if error is not None:
            self.member.effects.append(Raise(error))
            self.member.request_poll()
            return
        self.joining.assignment = None
        self.member.needs_prepare = True
        self.advance(in_poll=True)
