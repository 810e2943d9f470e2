"""What the application wants to be told of rebalances.

    on_assign    partitions that it has now, beside those it had
    on_revoke    partitions that are about to be taken: finish and commit what was read of them
    on_lost      partitions that somebody else may have by now; without it, on_revoke is told

Called inside polls (and closing) of the application's, with the consumer and the partitions.
They may do with it what they like but unsubscribe; one that closes it has on_revoke called at once,
with what there is left to revoke, and a poll around it raises `ClientClosed`.

Turns: the parts of a rebalance in which the application's listener is called, as in Java.

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

Rebalance: when a member joins, and how it brings an assignment home.

    rejoin needed ─► [commit] ─► turn: prepare ─► join ─► sync ─► turn: complete ─► stable
                     └── when the application polls ──┘         └─ when it polls ─┘

As in Java it is the application's poll that drives a rebalance: partitions are given up, and an
assignment is taken, only in its turn, with its listener called inside its poll. What needs no turn
- finding the coordinator, the exchange of JoinGroup and SyncGroup, retries - goes on in the
background, but not when the application has stayed away for max.poll.interval.ms.

Before partitions are given up, what was read of them is committed, if automatic commits are on, and
nothing goes on before that commit is over. The application gets no more of them meanwhile, or it
would get ahead of the commit. Cooperative members go on with theirs until they learn which ones
they lose; so (beyond what Java does) there is another commit then, ahead of the JoinGroup by which
others come to have them.

A member joins again when the coordinator says so, when the application subscribed to something
else, when the topics of the group changed under the leader, when a cooperative member has revoked
something, and when an attempt failed.
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
    """The functions that an application wants called in rebalances.

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
        """Whom to tell."""
        if event is RebalanceEvent.ASSIGNED:
            return self.on_assign
        if event is RebalanceEvent.LOST and self.on_lost is not None:
            return self.on_lost
        return self.on_revoke


CallSequence = Generator[CallListener, BaseException | None, BaseException | None]


class ListenerCalls:
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

    def prepare(self) -> CallSequence:
        """Give up what may not be kept while the member joins."""
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
            wanted = self.subscriptions.subscription
            gone = [partition for partition in assigned if partition.topic not in wanted]
            if gone:
                error = yield CallListener(RebalanceEvent.REVOKED, gone)
                self._keep([partition for partition in assigned if partition.topic in wanted])
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
        """Give up everything for good."""
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
    """In the same order."""
    away = set(others)
    return [partition for partition in partitions if partition not in away]


OnSequenceEnd = Callable[[BaseException | None], None]


def no_action(error: BaseException | None) -> None:
    """Where no turn is."""


class Rebalance:
    """One consumer's way through rebalances."""

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
        """What the coordinator was last told that this member wants."""
        self._calls: CallSequence | None = None
        self._on_calls_end: OnSequenceEnd = no_action
        self._current_call: CallListener | None = None
        """The call of the turn that is waited for."""
        self._revocation_commit: Commit | None = None
        """Of what was read of partitions that are about to be given up."""

    # Turns of the application.

    @property
    def is_calling_listener(self) -> bool:
        """Whether a callback of the application is waited for."""
        return self._calls is not None

    def call_listener(self, calls: CallSequence, on_end: OnSequenceEnd) -> None:
        """Make the listener's calls; `ended` is told the first error."""
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
        """Whether this is the call that is waited for."""
        return callback is not None and self._current_call is callback

    def abandon_calls(self) -> None:
        """Nothing comes of the turn any more, if there is one: the consumer closes. What its last
        call was to take away, it has taken: the listener is not told of that once more.
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

    # The way.

    def advance(self, *, in_poll: bool = False) -> None:
        """Go on as far as it goes now. `present`: the application waits."""
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
        """Whether the application is there; if not, it is called for."""
        if not in_poll:
            self.member.request_poll()
        return in_poll

    def _needs_rebalance(self) -> bool:
        """Whether there is something to do about the assignment."""
        if not self.subscriptions.is_auto_assigned:
            return False
        member = self.member
        if self.topics.changed_since_assigned():
            member.request_rejoin_if_necessary("cached metadata has changed since the assignment")
        elif self.joined_subscription not in (None, self.subscriptions.subscription):
            member.request_rejoin_if_necessary("subscription has changed since the last join")
        return self.membership.rejoin_needed_or_pending

    def _may_join(self, in_poll: bool) -> bool:
        """Whether nothing stands in the way of joining; what can be done about it is begun."""
        joining, member = self.joining, self.member
        if joining.in_progress or joining.halted or member.now_ms < joining.retry_ms:
            return False
        stayed_away = self.membership.heartbeat.poll_expired(member.now_ms)
        if (self.joined_subscription is None or stayed_away) and not self._require_poll(in_poll):
            return False  # Only the application's poll brings a member in, or in again.
        if member.coordinator is None:
            self.membership.lookup.start(self._lookup_done)
            return False
        by_pattern = self.subscriptions.type is SubscriptionType.AUTO_PATTERN
        return self.topics.pattern_is_known or not by_pattern

    def _lookup_done(self, error: KafkaError | None) -> None:
        """The coordinator was looked for in order to join."""
        if error is not None and not error.retriable:
            self.joining.halted = True
            self.member.fail(error)

    def _commit_done(self, revoked: Collection[TopicPartition]) -> bool:
        """Whether what was read has been committed, or cannot be. `parting`: of these the
        application gets no more."""
        config = self.member.config
        if not config.enable_auto_commit:
            return True
        if self._revocation_commit is None:
            self.subscriptions.mark_pending_revocation(revoked)
            deadline_ms = self.member.now_ms + config.max_poll_interval_ms
            self._revocation_commit = self.commits.auto_commit(deadline_ms)
        return self._revocation_commit not in self.commits.requests

    def _prepared(self, error: BaseException | None) -> None:
        """The listener knows what it loses."""
        self._revocation_commit = None
        if self.joining.leader.is_leader:
            self.joining.leader.is_leader = False
            self.subscriptions.reset_group_subscription()
            self.topics.watch()
        if error is not None:
            self.member.effects.append(Raise(error))
        self.advance(in_poll=True)

    def _join(self) -> None:
        wanted = self.joined_subscription = self.subscriptions.subscription
        topics = sorted(wanted)
        owned = self.subscriptions.assigned_partitions
        generation_id = self.member.generation.generation_id
        rack = self.member.config.client_rack
        protocols = []
        for assignor in self.assignors.values():
            user_data = assignor.subscription_user_data(wanted)
            subscription = Subscription(topics, user_data, owned, generation_id, rack)
            protocols.append((assignor.name, encode_subscription(subscription)))
        self.joining.join(protocols)

    # Taking an assignment.

    def _read_assignment(self, data: bytes) -> Assignment | None:
        """What was assigned; None if it is void, and why that is has been seen to."""
        member, generation = self.member, self.member.generation
        if member.state is not MemberState.STABLE or generation.is_reset:
            # A heartbeat was told in the meantime that the member is out.
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
        """Whether it is kept how far partitions were read that this cooperative member has to give
        up now."""
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
        """The leader may have seen topics that match the pattern before this member did."""
        if self.subscriptions.type is not SubscriptionType.AUTO_PATTERN:
            return
        joined = self.joined_subscription or frozenset()
        added = {partition.topic for partition in partitions} - joined
        if added:
            self.joined_subscription = joined | added
            if self.subscriptions.subscribe_from_pattern(self.subscriptions.subscription | added):
                self.topics.watch()

    def _completed(self, error: BaseException | None) -> None:
        """The listener knows what it has. If it raised, the assignment is taken once more at the
        next poll, as in Java: it is called again, with nothing new."""
        if error is not None:
            self.member.effects.append(Raise(error))
            self.member.request_poll()
            return
        self.joining.assignment = None
        self.member.needs_prepare = True
        self.advance(in_poll=True)
