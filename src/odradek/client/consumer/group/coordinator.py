"""ConsumerCoordinator: a consumer's side of its group, one state machine without I/O.

    inputs                                          effects (`member`), in order
    polled, callback_returned, answered, ticked, ─► Send, CallListener, Raise, Resolve, WatchTopics,
    cluster_seen, subscription_changed, commit,     RequestPoll
    committed, unsubscribe, close                   and `next_ms`: when to call `ticked`

Its parts:

    GroupMember              state, generation, coordinator; collects the effects
    CoordinatorLookup        FindCoordinator
    Membership, Heartbeat    Heartbeat, LeaveGroup
    GroupJoin, GroupLeader   JoinGroup, the leader's assignment, SyncGroup
    GroupTopics              the topics of interest, and whether they changed
    Rebalance, ListenerCalls when to join; the calls of the application's listener
    Commits                  OffsetCommit, on demand and automatic
    CommittedOffsetsRequest  OffsetFetch
    CloseProcedure           the last commit, the last listener call, LeaveGroup

The same inputs give the same effects: time and randomness are arguments. Runs on the engine's
thread.

Closing (`CloseProcedure`):

    commit ─► all commits ended ─► the listener's last call ─► LeaveGroup ─► answered ─► done
    └────────────── at the deadline the next step is taken anyway ───────────────┘

Close waits for a listener call that is being made, and its rebalance ends there. It does not wait
if the listener itself called close, or beyond the deadline; the listener is then not called again.
With automatic commits, close commits once more. A static member sends no LeaveGroup: its place is
kept for the session timeout in case it comes back (`MembershipOperation` can change that,
KIP-1092). An exception of the listener is raised by close, after everything has been done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any

from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
)
from odradek.client.consumer.assignor.registry import rebalance_protocol
from odradek.client.consumer.group.commits import (
    Commits,
    CommittedOffsets,
    CommittedOffsetsRequest,
    CoordinatorRequests,
    Offsets,
)
from odradek.client.consumer.group.leader import GroupTopics, LeaderParts
from odradek.client.consumer.group.member import (
    CallListener,
    Effect,
    GroupCall,
    GroupMember,
    GroupRebalanceConfig,
    Raise,
    Resolve,
)
from odradek.client.consumer.group.membership import CoordinatorLookup, Membership
from odradek.client.consumer.group.rebalance import Rebalance
from odradek.client.consumer.position.subscription_state import SubscriptionState
from odradek.client.errors import ClientClosed, IllegalState, KafkaError
from odradek.client.waiter import Waiter
from odradek.model.env import Random
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import NEVER_MS


class MembershipOperation(Enum):
    """The effect of a close on the membership: leave, stay, or by the kind of member (KIP-1092)."""

    DEFAULT = "default"
    """Dynamic members leave; static members keep their place for the session timeout."""
    LEAVE_GROUP = "leave"
    REMAIN_IN_GROUP = "remain"


class ClosePhase(Enum):
    """The steps of closing."""

    COMMITTING = "committing"
    CALLING = "calling"
    LEAVING = "leaving"
    CLOSED = "closed"


class CloseProcedure:
    """One close. `waiter` is done when it has ended."""

    def __init__(
        self,
        rebalance: Rebalance,
        membership: Membership,
        commits: Commits,
        offset_requests: CoordinatorRequests,
        deadline_ms: int,
        operation: MembershipOperation,
    ) -> None:
        self.rebalance = rebalance
        self.membership = membership
        self.member = membership.member
        self.commits = commits
        self.offset_requests = offset_requests
        self.deadline_ms = deadline_ms
        self.operation = operation
        self.waiter: Waiter[None] = Waiter()
        self.phase = ClosePhase.COMMITTING
        self._error: BaseException | None = None
        if self.member.config.enable_auto_commit and commits.subscriptions.consumed:
            commits.auto_commit(deadline_ms)

    @property
    def next_ms(self) -> int:
        waits_for_time = self.phase in (ClosePhase.COMMITTING, ClosePhase.LEAVING)
        return self.deadline_ms if waits_for_time else NEVER_MS

    def advance(self) -> None:
        """Take every step that is possible now."""
        late, rebalance = self.member.now_ms >= self.deadline_ms, self.rebalance
        if self.phase is ClosePhase.COMMITTING and rebalance.is_calling_listener:
            if late:
                rebalance.abandon_calls()
                self._listener_called(None)
        elif self.phase is ClosePhase.COMMITTING and (late or not self.commits.requests):
            self.phase = ClosePhase.CALLING
            rebalance.call_listener(rebalance.listener_calls.leave(), self._listener_called)
        elif self.phase is ClosePhase.LEAVING and (late or self.membership.leave_call is None):
            self.phase = ClosePhase.CLOSED
            closed = ClientClosed("the consumer was closed")
            self.commits.requests.abandon(closed)
            self.offset_requests.abandon(closed)
            self.member.effects.append(Resolve(self.waiter, error=self._error))

    def callback_returned(self, error: BaseException | None) -> None:
        """The listener returned, or raised."""
        if self.phase is ClosePhase.CALLING:
            self.rebalance.callback_returned(error)
            return
        self.rebalance.abandon_calls()
        if error is not None:
            self.member.effects.append(Raise(error))

    def _listener_called(self, error: BaseException | None) -> None:
        self._error = error
        self.phase = ClosePhase.LEAVING
        if self.operation is not MembershipOperation.REMAIN_IN_GROUP:
            self.membership.leave(
                "the consumer is being closed",
                even_static=self.operation is MembershipOperation.LEAVE_GROUP,
            )
        self.advance()


class ConsumerCoordinator:
    """One consumer's coordinator. Every input takes the time; `take_effects` returns the effects.

    Raises `ValueError` if the assignors have no rebalance protocol in common.
    """

    def __init__(
        self,
        config: GroupRebalanceConfig,
        subscriptions: SubscriptionState,
        assignors: Sequence[PartitionAssignor],
        random: Random,
        now_ms: int,
    ) -> None:
        protocol = rebalance_protocol(assignors)
        member = GroupMember(config, random, now_ms)
        self.config = config
        self.subscriptions = subscriptions
        self.member = member
        self.lookup = CoordinatorLookup(member, self._found_coordinator)
        self.topics = GroupTopics(member, subscriptions)
        parts = LeaderParts(self.topics, assignors, protocol)
        self.membership = Membership(member, self.lookup, parts)
        self.commits = Commits(member, self.lookup, subscriptions)
        self.offset_requests = CoordinatorRequests(member, self.lookup)
        self.rebalance = Rebalance(
            member, self.membership, self.commits, subscriptions, assignors, protocol
        )
        self.closing: CloseProcedure | None = None

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's group metadata as of its last assignment."""
        return self.rebalance.group_metadata

    # Inputs.

    def polled(self, now_ms: int) -> None:
        """The application polls, and waits until the effects are carried out."""
        member = self.member
        member.now_ms = now_ms
        self.membership.heartbeat.polled(now_ms)
        if self.rebalance.is_calling_listener:
            return
        member.poll_requested = False
        if member.raise_failure():
            member.request_poll()
            return
        self.membership.joining.halted = False
        self._advance(in_poll=True)

    def callback_returned(self, error: BaseException | None, now_ms: int) -> None:
        """The application's listener returned, or raised."""
        self.member.now_ms = now_ms
        self.membership.heartbeat.polled(now_ms)
        if self.closing is None:
            self.rebalance.callback_returned(error)
        else:
            self.closing.callback_returned(error)
            self._advance()

    def answered(
        self, call: GroupCall, response: Any, error: KafkaError | None, now_ms: int
    ) -> None:
        """The outcome of a `SendGroupRequest`."""
        self.member.now_ms = now_ms
        call.answered(call, response, error)
        self._advance()

    def ticked(self, now_ms: int) -> None:
        """Handle the passing of time: `next_ms` is reached."""
        self.member.now_ms = now_ms
        self.lookup.ticked()
        self.membership.ticked()
        self.commits.ticked()
        self.offset_requests.ticked()
        self._advance()

    def cluster_seen(
        self,
        counts: Mapping[str, int],
        internal: Collection[str],
        now_ms: int,
        *,
        up_to_date: bool,
    ) -> None:
        """The topics that exist, with their partition counts.

        `up_to_date` unless newer metadata was requested, or some topics of interest are not known
        yet.
        """
        self.member.now_ms = now_ms
        self.topics.update(counts, internal, up_to_date=up_to_date)
        self.membership.joining.leader.cluster_seen(up_to_date=up_to_date)
        self._advance()

    def subscription_changed(self, now_ms: int) -> None:
        """The application subscribed."""
        self.member.now_ms = now_ms
        self.topics.pattern_is_known = False
        self.topics.watch()
        self.member.request_poll()

    def commit(self, offsets: Offsets, now_ms: int, deadline_ms: int | None = None) -> Waiter[None]:
        """Commit offsets, trying until the deadline; without one, once."""
        self.member.now_ms = now_ms
        return self.commits.commit(offsets, deadline_ms).waiter

    def committed(
        self, partitions: Collection[TopicPartition], now_ms: int, deadline_ms: int
    ) -> Waiter[CommittedOffsets]:
        """Return the committed offsets by partition; None where nothing is committed."""
        self.member.now_ms = now_ms
        question = CommittedOffsetsRequest(self.member, partitions, deadline_ms)
        if partitions:
            self.offset_requests.start(question)
        else:
            self.offset_requests.end(question, {})
        return question.waiter

    def unsubscribe(self, now_ms: int) -> Waiter[None]:
        """Leave the group and drop the subscription. An exception of the listener becomes the
        waiter's error.
        """
        self.member.now_ms = now_ms
        done: Waiter[None] = Waiter()
        if self.rebalance.is_calling_listener:
            wrong = IllegalState("unsubscribe() may not be called by a rebalance listener")
            self.member.effects.append(Resolve(done, error=wrong))
            return done

        def left(error: BaseException | None) -> None:
            if self.subscriptions.is_auto_assigned:
                self.membership.leave("the consumer unsubscribed from all topics")
            self.subscriptions.unsubscribe()
            self.rebalance.joined_subscription = None
            self.topics.assigned = None
            self.topics.watch()
            self.member.effects.append(Resolve(done, error=error))

        self.rebalance.call_listener(self.rebalance.listener_calls.leave(), left)
        return done

    def close(
        self,
        now_ms: int,
        deadline_ms: int,
        operation: MembershipOperation = MembershipOperation.DEFAULT,
        inside: CallListener | None = None,
    ) -> Waiter[None]:
        """Commit, call the listener and leave, at the latest at the deadline.

        `inside` is the listener call in which the application closes; it counts as returned.
        """
        self.member.now_ms = now_ms
        if self.closing is None:
            parts = self.rebalance, self.membership, self.commits, self.offset_requests
            self.closing = CloseProcedure(*parts, deadline_ms, operation)
            if self.rebalance.is_current_call(inside):
                self.rebalance.abandon_calls()
        self._advance()
        return self.closing.waiter

    # Outputs.

    def take_effects(self) -> list[Effect]:
        """Return the effects to carry out, in order."""
        effects, self.member.effects = self.member.effects, []
        return effects

    @property
    def next_ms(self) -> int:
        """The time to call `ticked`, if no other input comes."""
        parts = (self.lookup, self.membership, self.commits, self.offset_requests)
        due_ms = min(part.next_ms for part in parts)
        return due_ms if self.closing is None else min(due_ms, self.closing.next_ms)

    def _advance(self, *, in_poll: bool = False) -> None:
        self.membership.find_coordinator()
        if self.closing is None:
            self.rebalance.advance(in_poll=in_poll)
        else:
            self.closing.advance()

    def _found_coordinator(self) -> None:
        self.membership.found_coordinator()
